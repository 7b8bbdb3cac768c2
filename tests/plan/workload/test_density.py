"""Densities of a network's tensors, from a capture, a file or a curve."""

import json
from pathlib import Path

import pytest

from cdma.plan.workload import load_capture
from cdma.plan.workload.builder import Builder
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.networks import NETWORKS


def _densities(graph: Graph) -> dict[str, float]:
    return {tensor.name: tensor.density for tensor in graph.tensors}


@pytest.fixture
def mixed() -> Graph:
    """ReLUs of two sizes joined, normalized, pooled and dropped."""
    net = Builder(2)
    x = net.input("data", 3, 8, 8)
    small = net.relu("small", net.conv("a", x, 4, 3, pad=1))
    large = net.relu("large", net.conv("b", x, 12, 3, pad=1))
    x = net.lrn("norm", net.concat("joined", small, large))
    x = net.max_pool("pool", x, 2, 2)
    x = net.dropout("drop", x)
    x = net.softmax("prob", net.fc("fc", x, 10))
    table = net.table()
    return Graph(name="mixed", batch=2, tensors=table.tensors, layers=table.layers)


# A capture.


@pytest.mark.parametrize(("epoch", "captured"), [(0, 0), (15, 2), (90, 12)])
def test_the_captured_network_has_the_captured_densities(epoch: int, captured: int) -> None:
    graph = density.apply(Graph.from_table("digits_cnn"), "digits-cnn", epoch, 91)
    found = _densities(graph)
    arrays = [a for a in load_capture("digits-cnn").activations if a.epoch == captured]
    assert len(arrays) == 7
    for array in arrays:
        assert found[array.layer] == pytest.approx(array.density)


def test_epochs_between_captured_ones_are_between() -> None:
    graph = Graph.from_table("digits_cnn")
    early, between, late = (
        _densities(density.apply(graph, "digits-cnn", epoch, 13))["conv2.relu"]
        for epoch in (2, 7, 12)
    )
    assert between == pytest.approx((early + late) / 2)
    assert late < early


def test_other_networks_are_interpolated_by_kind_and_depth() -> None:
    found = _densities(density.apply(Graph.from_table("vgg16"), "digits-cnn", 89, 90))
    captured = {a.layer: a.density for a in load_capture("digits-cnn").activations if a.epoch == 12}
    # The first and the last ReLU and pooling of the capture.
    assert found["relu1_1"] == pytest.approx(captured["conv0.relu"])
    assert found["pool1"] == pytest.approx(captured["pool0"])
    assert found["pool5"] == pytest.approx(captured["pool2"])
    assert captured["conv1.relu"] < found["relu2_1"] < captured["conv0.relu"]
    for block in "12345":
        assert found[f"pool{block}"] > found[f"relu{block}_2"]
    assert found["prob"] == found["data"] == 1
    # Dropout behind the last ReLU, in place.
    assert found["drop7"] == pytest.approx(0.5 * captured["fc0.relu"])


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_gets_a_density_for_every_tensor(name: str) -> None:
    for source in ("digits-cnn", "curve"):
        graph = density.apply(Graph.from_table(name), source, 30)
        assert all(0 < tensor.density <= 1 for tensor in graph.tensors)
        sparse = {tensor.kind for tensor in graph.tensors if tensor.density < 1}
        assert sparse <= {"relu", "pool", "dropout", "concat", "lrn"}
        assert ("relu" in sparse) == any(tensor.kind == "relu" for tensor in graph.tensors)


@pytest.mark.parametrize(("p", "keeps"), [(0.0, 1.0), (0.1, 0.9), (0.5, 0.5), (1.0, 0.0)])
def test_dropout_zeroes_what_it_drops(p: float, keeps: float) -> None:
    net = Builder(2)
    x = net.relu("relu", net.conv("conv", net.input("data", 3, 8, 8), 4, 3, pad=1))
    net.softmax("prob", net.fc("fc", net.dropout("drop", x, p, in_place=False), 10))
    table = net.table()
    graph = Graph(name="one", batch=2, tensors=table.tensors, layers=table.layers)
    found = _densities(density.apply(graph, density.Declared({"relu": 0.4})))
    assert found["drop"] == pytest.approx(0.4 * keeps)


def test_googlenet_drops_as_much_as_it_publishes() -> None:
    """40 % before the classifier, 70 % in the auxiliary ones (Szegedy et al. 2015, §5)."""
    keeps = {
        layer.name: layer.keeps
        for layer in Graph.from_table("googlenet").layers
        if layer.kind == "dropout"
    }
    assert keeps == pytest.approx(
        {"pool5/drop_7x7_s1": 0.6, "loss1/drop_fc": 0.3, "loss2/drop_fc": 0.3}
    )


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_a_dropout_of_no_probability_is_refused(p: float) -> None:
    net = Builder(2)
    with pytest.raises(GraphError, match=f"layer drop: p must be 0 to 1, not {p}"):
        net.dropout("drop", net.input("data", 3, 8, 8), p)


def test_leaky_relus_and_their_poolings_are_dense() -> None:
    for name in ("vgg16", "digits_cnn", "squeezenet"):
        graph = density.apply(Graph.from_table(name, activation="leaky_relu"))
        for tensor in graph.tensors:
            assert tensor.density == (0.5 if tensor.kind == "dropout" else 1)


def test_a_capture_from_a_path_and_one_without_activations(tmp_path: Path) -> None:
    graph = Graph.from_table("alexnet")
    capture = load_capture("digits-cnn")
    path = capture.save(tmp_path)
    shipped = density.apply(graph)
    for source in (path, str(path.with_suffix(".npz")), density.Captured(capture)):
        assert density.apply(graph, source) == shipped
    # Weights and gradients are no activations.
    training = density.apply(graph, "digits-cnn-training")
    assert 0.3 < _densities(training)["relu1"] < 0.6


# A file.


def test_a_file_declares_by_name_before_kind(mixed: Graph, tmp_path: Path) -> None:
    path = tmp_path / "densities.json"
    path.write_text(json.dumps({"relu": 0.25, "large": 0.5, "pool": 0.75}))
    assert _densities(density.apply(mixed, path)) == {
        "data": 1,
        "small": 0.25,
        "large": 0.5,
        "joined": (4 * 0.25 + 12 * 0.5) / 16,
        "norm": (4 * 0.25 + 12 * 0.5) / 16,
        "pool": 0.75,
        "drop": 0.375,
        "fc": 1,
        "prob": 1,
    }


def test_what_follows_may_be_declared_too(mixed: Graph) -> None:
    source = density.Declared({"relu": 0.25, "norm": 0.3, "dropout": 0.1, "input": 0.9, "fc": 0})
    found = _densities(density.apply(mixed, source))
    assert found["joined"] == 0.25
    assert (found["norm"], found["drop"], found["data"], found["fc"]) == (0.3, 0.1, 0.9, 0)
    # Nobody has declared what pooling makes of it.
    assert found["pool"] == 1


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ('{"relu": 1.5}', r"density of relu must be 0 to 1, not 1.5"),
        ('{"small": -0.1}', r"density of small must be 0 to 1, not -0.1"),
        ('{"relu": NaN}', r"density of relu must be 0 to 1, not nan"),
        ('{"relu": "half"}', r"density of relu must be a number, not 'half'"),
        ('{"relu": true}', r"density of relu must be a number, not True"),
        ('{"relu9": 0.5}', r"mixed has no tensor 'relu9', nor is it a kind; its tensors are data,"),
        ("[0.5]", r"has no densities by name; write them as \{\"relu\": 0.4\}"),
        ("{", r"is not JSON; write densities as \{\"relu\": 0.4\}"),
        ('{"schema": "capture"}', r"has version None of the schema"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(
    mixed: Graph, tmp_path: Path, content: str, cause: str
) -> None:
    path = tmp_path / "densities.json"
    path.write_text(content)
    with pytest.raises(GraphError, match=cause):
        density.apply(mixed, path)


def test_unknown_sources_list_what_there_is(mixed: Graph, tmp_path: Path) -> None:
    with pytest.raises(
        GraphError, match="unknown densities 'mnist'; name one of curve, digits-cnn"
    ):
        density.apply(mixed, "mnist")
    with pytest.raises(GraphError, match=r"cannot read .*none.json: No such file"):
        density.apply(mixed, tmp_path / "none.json")
    with pytest.raises(GraphError, match=r"cannot read .*none"):
        density.apply(mixed, tmp_path / "none.npz")
    with pytest.raises(GraphError, match="epoch must be 0 to 89, not 90"):
        density.apply(mixed, epoch=90)


# A curve.


def test_the_curve_falls_and_rises_the_more_the_deeper() -> None:
    graph = Graph.from_table("vgg16")
    courses = {
        name: [_densities(density.apply(graph, "curve", epoch, 11))[name] for epoch in range(11)]
        for name in ("relu1_1", "relu3_1", "relu5_3")
    }
    assert courses["relu1_1"] == [0.5] * 11
    for name in ("relu3_1", "relu5_3"):
        course = courses[name]
        assert course.index(min(course)) == 4
        assert course[:5] == sorted(course[:5], reverse=True)
        assert course[4:] == sorted(course[4:])
    assert all(
        deep <= flat for deep, flat in zip(courses["relu5_3"], courses["relu3_1"], strict=True)
    )


def test_the_curves_parameters_are_its_values() -> None:
    net = Builder(1)
    x = net.relu("first", net.conv("a", net.input("data", 1, 8, 8), 4, 3))
    x = net.relu("last", net.conv("b", net.max_pool("pool", x, 2, 2), 4, 3))
    table = net.table()
    graph = Graph(name="three", batch=1, tensors=table.tensors, layers=table.layers)
    curve = density.Curve(first=0.6, start=0.4, low=0.2, end=0.3, turn=0.5, window=3)

    def course(name: str) -> list[float]:
        return [_densities(density.apply(graph, curve, epoch, 5))[name] for epoch in range(5)]

    assert course("first") == [0.6] * 5
    assert course("last") == pytest.approx([0.4, 0.3, 0.2, 0.25, 0.3])
    assert course("pool")[2] == pytest.approx(1 - (1 - 0.4) ** 3)
    assert density.Curve(turn=1).density(graph.tensors[1], "relu", 1, 1, 1) == density.Curve().low


@pytest.mark.parametrize(
    ("parameters", "cause"),
    [
        ({"low": -0.1}, "curve: low must be 0 to 1, not -0.1"),
        ({"turn": 1.5}, r"curve: turn must be 0 to 1, not 1.5"),
        ({"window": 0.5}, r"curve: window must be at least 1, not 0.5"),
    ],
)
def test_a_wrong_curve_names_its_parameter(parameters: dict, cause: str) -> None:
    with pytest.raises(GraphError, match=cause):
        density.Curve(**parameters)
