"""Tables of networks: the papers' figures, and what holds for every network."""

from math import prod

import pytest

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.capture.capture import load_capture
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import KINDS, GraphError
from cdma.plan.workload.networks import NETWORKS, batches, build
from cdma.plan.workload.networks.biglstm import COLUMNS
from tests.lib.paths import ROOT

DOCUMENT = ROOT / "docs" / "guide" / "plan" / "networks.md"
MIB = 2**20
EVERY = [(name, dataset) for name, network in NETWORKS.items() for dataset in network.batches]


def _gflop(graph: Graph) -> tuple[float, float]:
    """Forward and backward, per image."""
    forward = sum(layer.flops_forward for layer in graph.layers)
    backward = sum(layer.flops_backward for layer in graph.layers)
    return forward / graph.batch / 1e9, backward / graph.batch / 1e9


def _weight_bytes(name: str) -> int:
    return 2 if NETWORKS[name].precision == "bf16" else 4


def documented_row(name: str, dataset: str) -> str:
    """The network's row in the table of the page, computed from its table."""
    graph = Graph.from_table(name, dataset=dataset)
    saved = sum(graph.tensors[t].nbytes for t in graph.managed) / graph.batch / MIB
    counts = (graph.batch, len(graph.layers), len(graph.managed), len(graph.conv_inputs))
    weights = graph.parameter_bytes / _weight_bytes(name) / 1e6
    figures = (f"{saved:.2f}", f"{_gflop(graph)[0]:.4g}", f"{weights:.2f}")
    return "| " + " | ".join(map(str, (f"`{name}`", dataset, *counts, *figures))) + " |"


# What is published.


def test_vgg16_swaps_cswaps_twelve_tensors() -> None:
    graph = Graph.from_table("vgg16", 128)
    swapped = [graph.tensors[t] for t in graph.conv_inputs]
    assert {tensor.name: tensor.nbytes / MIB for tensor in swapped} == {
        "relu1_1": 1568,
        "pool1": 392,
        "relu2_1": 784,
        "pool2": 196,
        "relu3_1": 392,
        "relu3_2": 392,
        "pool3": 98,
        "relu4_1": 196,
        "relu4_2": 196,
        "pool4": 49,
        "relu5_1": 49,
        "relu5_2": 49,
    }


def test_vgg16_computes_what_pytorch_counts() -> None:
    forward, backward = _gflop(Graph.from_table("vgg16"))
    assert round(forward, 2) == 30.94
    assert round(forward + backward, 2) == 92.65


def test_alexnets_convolutions_read_comets_bytes() -> None:
    # COMET's Table 1 prints 407 MB, twice this, for a batch of 128.
    graph = Graph.from_table("alexnet", 128)
    read = {t for layer in graph.layers if layer.kind == "conv" for t in layer.inputs}
    assert round(sum(graph.tensors[t].nbytes for t in read) / 1e6, 1) == 203.6


@pytest.mark.parametrize(
    ("name", "dataset", "parameters", "tolerance"),
    [
        ("alexnet", "imagenet", 60_965_224, 0),  # Caffe's model zoo
        ("vgg16", "imagenet", 138_357_544, 0),  # torchvision
        ("squeezenet", "imagenet", 1_248_424, 0),  # torchvision
        ("resnet50", "imagenet", 25_557_032, 0),  # torchvision
        ("inceptionv3", "imagenet", 27_161_264, 0),  # torchvision
        ("overfeat", "imagenet", 145e6, 0.01),  # Sermanet et al., Table 4
        ("mobilenet", "imagenet", 4.2e6, 0.01),  # Howard et al., Table 8
        ("plain20", "cifar", 0.27e6, 0.01),  # He et al., Table 6
        ("nin", "cifar", 0.97e6, 0.01),  # Lin et al.'s model, as counted since
        ("gpt2", "text", 124_439_808, 0),  # Hugging Face's gpt2
        ("gpt2-xl", "text", 1_557_611_200, 0),  # Hugging Face's gpt2-xl
        ("gpt3-6.7b", "text", 6.7e9, 0.01),  # Brown et al., Table 2.1
        ("llama3-8b", "text", 8_030_261_248, 0),  # Hugging Face's Meta-Llama-3-8B
        ("olmoe", "text", 6_919_161_856, 0),  # Hugging Face's OLMoE-1B-7B-0924
        ("vit-b16", "imagenet", 86_567_656, 0),  # torchvision
        ("dit-xl2", "imagenet", 675e6, 0.005),  # Peebles and Xie, Table 1
    ],
)
def test_published_parameters(name: str, dataset: str, parameters: float, tolerance: float) -> None:
    graph = Graph.from_table(name, dataset=dataset)
    weights = graph.parameter_bytes / _weight_bytes(name)
    assert weights == pytest.approx(parameters, rel=tolerance, abs=0)


@pytest.mark.parametrize(
    ("name", "multiplications", "tolerance"),
    [
        ("alexnet", 724e6, 0.001),  # Caffe's model zoo, counted
        ("overfeat", 2810e6, 0.005),  # Sermanet et al., Table 4: connections
        ("squeezenet", 819e6, 0.02),  # torchvision, at 224 pixels instead of 227
        ("resnet50", 4089e6, 0.001),  # torchvision
        ("mobilenet", 569e6, 0.001),  # Howard et al., Table 8
        ("vit-b16", 17.58e9, 0.001),  # torchvision: 17.56, and the products of attention
        ("dit-xl2", 118.6e9, 0.005),  # Peebles and Xie, Table 1: 118.64 Gflops, a multiply-add each
    ],
)
def test_published_arithmetic(name: str, multiplications: float, tolerance: float) -> None:
    forward, _ = _gflop(Graph.from_table(name, dataset="imagenet"))
    assert forward * 1e9 / 2 == pytest.approx(multiplications, rel=tolerance)


@pytest.mark.parametrize(
    ("name", "auxiliary", "multiplications", "parameters", "tolerance"),
    [
        # Szegedy et al. 2015: 1.5 billion, rounded; parameters as counted in Caffe's model zoo.
        ("googlenet", ("loss1/", "loss2/"), 1.58e9, 6_998_552, 0.005),
        # torchvision prints both without the auxiliary classifier.
        ("inceptionv3", ("aux.",), 5.713e9, 23_834_568, 0.0005),
    ],
)
def test_published_figures_leave_auxiliary_classifiers_out(
    name: str, auxiliary: tuple, multiplications: float, parameters: int, tolerance: float
) -> None:
    graph = Graph.from_table(name, dataset="imagenet")
    trunk = [layer for layer in graph.layers if not layer.name.startswith(auxiliary)]
    assert sum(layer.parameter_bytes for layer in trunk) == 4 * parameters
    found = sum(layer.flops_forward for layer in trunk) / graph.batch / 2
    assert found == pytest.approx(multiplications, rel=tolerance)


def test_biglstm_has_1_8_billion_weights_with_the_servers_tables() -> None:
    # Jozefowicz et al. 2016, Table 1.
    graph = Graph.from_table("biglstm")
    lstm = sum(layer.parameter_bytes for layer in graph.layers if layer.name.startswith("lstm"))
    tables = 793_471 * (2 * COLUMNS + 1)
    assert round((lstm / 4 + tables) / 1e9, 1) == 1.8


def test_usual_batches_are_cdmas() -> None:
    for name, batch in batches.CDMA.items():
        assert Graph.from_table(name).batch == batch


def test_papers_batches_are_of_known_networks() -> None:
    for names in (*batches.CSWAP.values(), batches.HOME, batches.CDMA):
        assert set(names) <= set(NETWORKS)
    # HOME's 2.2 and 1.97 are ratios of sums over Table 2.
    pytorch, _, home = map(sum, zip(*batches.HOME.values(), strict=True))
    assert round(home / pytorch, 3) == 2.206


def test_digits_cnn_has_the_captures_tensors() -> None:
    graph = Graph.from_table("digits_cnn")
    for activation in load_capture("digits-cnn").activations:
        tensor = graph.tensors[graph.index[activation.layer]]
        assert tensor.shape == activation.array.shape
        assert tensor.nbytes == activation.array.nbytes
        assert tensor.kind == activation.kind


def test_document_has_the_tables_figures() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    documented = [row for row in rows if row.split("`")[1] in NETWORKS]
    assert documented == [documented_row(*one) for one in EVERY]


# What holds for every network.


@pytest.mark.parametrize(("name", "dataset"), EVERY)
def test_every_tensor_is_used_and_of_its_shapes_size(name: str, dataset: str) -> None:
    graph = Graph.from_table(name, dataset=dataset)
    used = {t for layer in graph.layers for t in layer.inputs if t != layer.output}
    for t, tensor in enumerate(graph.tensors):
        assert tensor.nbytes == tensor.element_bytes * prod(tensor.shape), tensor.name
        assert tensor.kind in (*KINDS, "input")
        if tensor.kind != "softmax":
            assert t in used, tensor.name
        if graph.first_writers[t] >= 0:
            last = graph.layers[graph.last_writers[t]]
            assert (tensor.name, tensor.kind) == (last.name, last.kind)


@pytest.mark.parametrize(("name", "dataset"), EVERY)
def test_backward_is_twice_forward_but_for_the_first_layer(name: str, dataset: str) -> None:
    graph = Graph.from_table(name, dataset=dataset)
    for layer in graph.layers:
        from_images = all(graph.tensors[t].kind == "input" for t in layer.inputs)
        # Attention has not kept its products.
        passes = 2.5 if layer.kind == "attention" else 1 if from_images else 2
        assert layer.flops_backward == passes * layer.flops_forward
        assert set(layer.gradients) == {t for t in layer.inputs if graph.tensors[t].kind != "input"}
        arrays = sum(graph.tensors[t].nbytes for t in {*layer.inputs, layer.output})
        assert layer.bytes_forward >= arrays
        assert layer.bytes_backward > 0


@pytest.mark.parametrize(("name", "dataset"), EVERY)
def test_a_step_of_twice_the_batch_is_twice_the_step(name: str, dataset: str) -> None:
    one, two = (Graph.from_table(name, batch, dataset) for batch in (3, 6))
    for small, large in zip(one.tensors, two.tensors, strict=True):
        assert large.nbytes == 2 * small.nbytes
    for small, large in zip(one.layers, two.layers, strict=True):
        assert large.flops_forward == 2 * small.flops_forward
        # An embedding has as many rows as there are words.
        if large.kind != "embedding":
            assert large.parameter_bytes == small.parameter_bytes


@pytest.mark.parametrize(("name", "dataset"), EVERY)
def test_leaky_relu_changes_kinds_only(name: str, dataset: str) -> None:
    sparse = Graph.from_table(name, 2, dataset)
    dense = Graph.from_table(name, 2, dataset, activation="leaky_relu")
    assert all(layer.kind != "relu" for layer in dense.layers)
    for a, b in zip(sparse.layers, dense.layers, strict=True):
        assert (a.name, a.inputs, a.saved, a.bytes_backward) == (
            b.name,
            b.inputs,
            b.saved,
            b.bytes_backward,
        )


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(GraphError, match=r"unknown network 'vgg19'; name one of alexnet, .*vgg16"):
        build("vgg19")
    with pytest.raises(GraphError, match=r"overfeat has no shape for dataset 'cifar'; .* imagenet"):
        build("overfeat", dataset="cifar")
    with pytest.raises(GraphError, match="unknown activation 'gelu'; name one of relu, leaky_relu"):
        build("vgg16", activation="gelu")
    with pytest.raises(GraphError, match="batch must be at least 1, not 0"):
        build("vgg16", 0)


def test_unknown_precisions_and_optimizers_list_what_there_is() -> None:
    with pytest.raises(GraphError, match="unknown precision 'fp8'; name one of fp32, bf16, auto"):
        Graph.from_table("gpt2", precision="fp8")
    with pytest.raises(GraphError, match="unknown optimizer 'lion'; name one of sgd, momentum, ad"):
        Graph.from_table("gpt2", optimizer="lion")


# What training in another way changes.


def test_an_optimizers_state_is_what_zero_counts() -> None:
    """Rajbhandari et al. 2020, §3.1: Adam takes 16 B per weight; GPT-2 of 1.5 billion has 24 GB."""
    graph = Graph.from_table("gpt2-xl")
    state = graph.parameter_bytes * graph.parameter_copies
    assert state == 16 * 1_557_611_200
    # A convolutional network in float32: weights, gradients, momentum.
    for optimizer, copies in (("sgd", 2), ("momentum", 3), ("adam", 4)):
        assert Graph.from_table("vgg16", optimizer=optimizer).parameter_copies == copies
    assert Graph.from_table("vgg16").parameter_copies == 3


@pytest.mark.parametrize("name", ["resnet50", "gpt2"])
def test_narrow_values_take_half_and_their_products_are_narrow(name: str) -> None:
    wide, narrow = (Graph.from_table(name, 2, precision=each) for each in ("fp32", "bf16"))
    for a, b in zip(wide.tensors, narrow.tensors, strict=True):
        if a.element_bytes == 4:
            assert 2 * b.nbytes == a.nbytes
    for a, b in zip(wide.layers, narrow.layers, strict=True):
        assert (a.flops_forward, a.saved) == (b.flops_forward, b.saved)
        assert 2 * b.parameter_bytes == a.parameter_bytes
        assert not a.narrow
        assert b.narrow == (a.flops_forward > 0)


def test_autocast_copies_weights_and_what_is_wide() -> None:
    net = Builder(2, precision="autocast")
    x = net.layer_norm("norm", net.fc("first", net.patches("data", 4, 8), 8))
    net.fc("second", x, 16)
    tensors = {tensor.name: tensor.element_bytes for tensor in net.table().tensors}
    assert tensors == {
        "data": 4,
        "first.cast": 2,
        "first": 2,
        "norm": 4,
        "second.cast": 2,
        "second": 2,
    }
    layers = {layer.name: layer for layer in net.table().layers}
    assert layers["first"].parameter_bytes == 4 * 9 * 8
    # The minibatch needs no gradient, for which the weights' copy would be kept.
    assert (layers["first"].kept_bytes, layers["second"].kept_bytes) == (0, 2 * 9 * 16)
    assert layers["first"].gradients == ()


def test_accumulated_passes_add_up_their_gradients() -> None:
    graph = Graph.from_table("alexnet", 32)
    part = graph.accumulated(4)
    assert (part.passes, part.batch) == (4, 32)
    more = [
        b.bytes_backward - a.bytes_backward for a, b in zip(graph.layers, part.layers, strict=True)
    ]
    # Three of four passes read two arrays of gradients and write one.
    assert sum(more) == pytest.approx(3 * 3 / 4 * graph.parameter_bytes)
    assert graph.accumulated(1) == graph
    with pytest.raises(GraphError, match="passes must be at least 1, not 0"):
        graph.accumulated(0)
    with pytest.raises(GraphError, match="alexnet is one of 4 passes already"):
        part.accumulated(2)


# How a table is written.


def test_relu_and_dropout_overwrite_what_nobody_needs() -> None:
    net = Builder(1)
    x = net.input("data", 8, 4, 4)
    conv = net.conv("conv", x, 8, 3, pad=1)
    assert net.dropout("drop", net.relu("relu", conv)) == conv
    pool = net.max_pool("pool", conv, 2, 2)
    # Backward of the pooling looks for its output's values in its input.
    assert net.dropout("pool drop", pool) != pool
    assert net.relu("late", conv) != conv
    assert net.relu("of data", x) != x
    kept = {layer.name: layer.kept_bytes for layer in net.table().layers}
    assert kept["drop"] == 128
    assert kept["pool drop"] == 32


def test_rounding_up_adds_no_window_that_begins_beyond_the_image() -> None:
    net = Builder(1)
    for size, kernel, stride, pad, windows in [
        (55, 3, 2, 0, 27),
        (54, 3, 2, 0, 27),
        (6, 2, 2, 0, 3),
        (4, 2, 3, 1, 2),  # a third would begin in the padding
    ]:
        x = net.input(f"{size}", 1, size, size)
        x = net.max_pool(f"pool{size}", x, kernel, stride, pad=pad, ceil=True)
        assert net.shape(x)[2:] == (windows, windows)


def test_wrong_shapes_name_their_layer() -> None:
    net = Builder(1)
    x = net.input("data", 3, 8, 8)
    with pytest.raises(GraphError, match="layer big: a window of 11 does not fit into 8 pixels"):
        net.conv("big", x, 4, 11)
    with pytest.raises(GraphError, match="layer odd: 3 and 4 channels do not divide into 2"):
        net.conv("odd", x, 4, 3, groups=2)
    flat = net.fc("fc", x, 10)
    with pytest.raises(GraphError, match=r"layer conv needs N×C×H×W, and fc is \(1, 10\)"):
        net.conv("conv", flat, 4, 1)
    with pytest.raises(GraphError, match="layer sum adds shapes 1×3×8×8, 1×10; they must be one"):
        net.add("sum", x, flat)
    with pytest.raises(GraphError, match=r"layer join joins shapes .* differ in channels only"):
        net.concat("join", x, net.max_pool("pool", x, 2, 2))
