"""Graphs of training steps: what a plan decides about, and what no training step has."""

from dataclasses import replace

import pytest

from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import GraphError, Layer, Tensor


def _tensor(name: str, kind: str = "conv", nbytes: int = 64, **fields) -> Tensor:
    return Tensor(name=name, kind=kind, nbytes=nbytes, **fields)


def _layer(name: str, inputs: tuple[int, ...], output: int, kind: str = "conv", **fields) -> Layer:
    return Layer(name=name, kind=kind, inputs=inputs, output=output, **fields)


@pytest.fixture
def graph() -> Graph:
    """Two convolutions, a ReLU in place behind the first, and the sum of both."""
    return Graph(
        name="small",
        batch=2,
        tensors=(
            _tensor("data", "input"),
            _tensor("relu1", "relu"),
            _tensor("conv2"),
            _tensor("sum", "add"),
        ),
        layers=(
            _layer("conv1", (0,), 1, saved=(0,), parameter_bytes=12),
            _layer("relu1", (1,), 1, "relu", saved=(1,), gradients=(1,)),
            _layer("conv2", (1,), 2, saved=(1,), gradients=(1,), parameter_bytes=24),
            _layer("sum", (1, 2), 3, "add", gradients=(1, 2)),
        ),
    )


def test_who_writes_and_reads_a_tensor_with_a_layer_in_place(graph: Graph) -> None:
    assert graph.index == {"data": 0, "relu1": 1, "conv2": 2, "sum": 3}
    assert graph.first_writers == (-1, 0, 2, 3)
    assert graph.last_writers == (-1, 1, 2, 3)
    # The ReLU reads what is not final yet.
    assert graph.forward_uses == ((0,), (2, 3), (3,), ())
    assert graph.backward_uses == ((0,), (2, 1), (), ())
    assert graph.parameter_bytes == 36


def test_plans_decide_about_what_backward_reads_but_for_the_minibatch(graph: Graph) -> None:
    assert graph.managed == (1,)
    assert graph.conv_inputs == (1,)


def test_managed_tensors_ascend_by_their_final_writers() -> None:
    graph = Graph(
        name="late",
        batch=1,
        tensors=(_tensor("data", "input"), _tensor("dropout"), _tensor("b")),
        layers=(
            _layer("a", (0,), 1),
            _layer("b", (0,), 2),
            _layer("dropout", (1,), 1, "dropout"),
            _layer("c", (1, 2), 2, "add", saved=(1, 2)),
        ),
    )
    assert graph.managed == (1, 2)
    swapped = replace(graph, layers=(graph.layers[1], graph.layers[0], *graph.layers[2:]))
    assert swapped.last_writers == (-1, 2, 3)


def test_densities_are_set_by_name(graph: Graph) -> None:
    set_ = graph.with_densities({"relu1": 0.25})
    assert [tensor.density for tensor in set_.tensors] == [None, 0.25, None, None]
    assert set_.with_densities({"conv2": 1.0}).tensors[1].density == 0.25
    with pytest.raises(GraphError, match="small has no tensor 'relu9'; it has data, relu1"):
        graph.with_densities({"relu9": 0.5})
    with pytest.raises(GraphError, match=r"tensor relu1: density must be 0 to 1, not 1.5"):
        graph.with_densities({"relu1": 1.5})


@pytest.mark.parametrize(
    ("layer", "cause"),
    [
        ({"name": "conv1"}, "two layers 'conv1'; rename one"),
        ({"inputs": (7,)}, "layer conv2 names tensor 7, which does not exist"),
        ({"inputs": (3,)}, "layer conv2 reads sum, which no layer before it makes: .* a circle"),
        ({"output": 0}, "layer conv2 makes data a second time"),
        ({"saved": (0,)}, "layer conv2 saves data, which it neither reads nor makes"),
        ({"flops_forward": -1.0}, "layer conv2: flops_forward must be 0 or more, not -1.0"),
        ({"bytes_backward": float("inf")}, "layer conv2: bytes_backward must be .* not inf"),
        ({"kept_bytes": float("nan")}, "layer conv2: kept_bytes must be 0 or more, not nan"),
    ],
)
def test_a_wrong_layer_is_named(graph: Graph, layer: dict, cause: str) -> None:
    layers = list(graph.layers)
    layers[2] = replace(layers[2], **layer)
    with pytest.raises(GraphError, match=cause):
        replace(graph, layers=tuple(layers))


@pytest.mark.parametrize(
    ("tensor", "cause"),
    [
        ({"name": "relu1"}, "two tensors 'relu1'; rename one"),
        ({"nbytes": 0}, "tensor conv2: nbytes must be positive, not 0"),
        ({"density": -0.1}, "tensor conv2: density must be 0 to 1, not -0.1"),
    ],
)
def test_a_wrong_tensor_is_named(graph: Graph, tensor: dict, cause: str) -> None:
    tensors = list(graph.tensors)
    tensors[2] = replace(tensors[2], **tensor)
    with pytest.raises(GraphError, match=cause):
        replace(graph, tensors=tuple(tensors))


def test_a_tensor_that_nobody_makes_dangles(graph: Graph) -> None:
    with pytest.raises(GraphError, match="tensor spare dangles: no layer makes it; remove it"):
        replace(graph, tensors=(*graph.tensors, _tensor("spare")))


def test_a_graph_needs_layers_and_a_batch(graph: Graph) -> None:
    with pytest.raises(GraphError, match="small has no layers; add one"):
        replace(graph, layers=())
    with pytest.raises(GraphError, match="small: batch must be at least 1, not 0"):
        replace(graph, batch=0)
