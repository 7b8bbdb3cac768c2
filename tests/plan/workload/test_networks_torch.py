"""Tables of networks against PyTorch, and modules traced: without values."""

import pytest

from cdma.plan.workload.capture import digits_cnn
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.networks import NETWORKS

pytestmark = pytest.mark.torch

BATCH = 4
TRANSFORMERS = ("gpt2", "gpt2-xl", "gpt3-6.7b", "llama3-8b", "olmoe", "vit-b16", "dit-xl2")
"""Their twins are held to them in `test_transformers_torch`."""
CONVOLUTIONAL = [
    (name, dataset)
    for name, network in NETWORKS.items()
    for dataset in network.batches
    if name != "biglstm" and name not in TRANSFORMERS
]


def _module(name: str, dataset: str):
    """The module and a minibatch, on the meta device."""
    import torch

    from tests.plan.workload import torch_networks

    shape = Graph.from_table(name, BATCH, dataset).tensors[0].shape
    with torch.device("meta"):
        if name == "digits_cnn":
            module = digits_cnn.network(
                torch.nn, digits_cnn.CHANNELS, digits_cnn.NEURONS, torch.nn.ReLU
            )
            return module, torch.empty(shape)
        return getattr(torch_networks, name)(dataset), torch.empty(shape)


def _outputs(module, images) -> list[tuple[str, int]]:
    """Kind and elements of what each leaf module puts out, as they run."""
    from torch import nn

    kinds = {
        nn.Conv2d: "conv",
        nn.Linear: "fc",
        nn.ReLU: "relu",
        nn.MaxPool2d: "pool",
        nn.AvgPool2d: "pool",
        nn.AdaptiveAvgPool2d: "pool",
        nn.BatchNorm2d: "bn",
        nn.LocalResponseNorm: "lrn",
        nn.Dropout: "dropout",
    }
    seen = []
    for child in module.modules():
        if type(child) in kinds:
            child.register_forward_hook(
                lambda child, _inputs, output: seen.append((kinds[type(child)], output.numel()))
            )
    module(images)
    return seen


@pytest.mark.parametrize(("name", "dataset"), CONVOLUTIONAL)
def test_layers_and_sizes_are_those_of_the_module(name: str, dataset: str) -> None:
    graph = Graph.from_table(name, BATCH, dataset)
    ours = [
        (layer.kind.replace("dwconv", "conv"), graph.tensors[layer.output].nbytes // 4)
        for layer in graph.layers
        if layer.kind not in ("concat", "add", "softmax")
    ]
    assert ours == _outputs(*_module(name, dataset))


@pytest.mark.parametrize(("name", "dataset"), CONVOLUTIONAL)
def test_arithmetic_is_what_pytorch_counts(name: str, dataset: str) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    graph = Graph.from_table(name, BATCH, dataset)
    module, images = _module(name, dataset)
    with FlopCounterMode(display=False) as counter:
        outputs = module(images)
        forward = counter.get_total_flops()
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        torch.autograd.backward(outputs, [torch.empty_like(output) for output in outputs])
    assert sum(layer.flops_forward for layer in graph.layers) == forward
    # Its count of a convolution's backward pass forgets that there are groups.
    if name not in ("alexnet", "mobilenet"):
        backward = counter.get_total_flops() - forward
        assert sum(layer.flops_backward for layer in graph.layers) == backward
    assert graph.parameter_bytes == 4 * sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", ["vgg16", "squeezenet", "resnet50", "mobilenet", "plain20"])
def test_traced_module_swaps_what_its_table_swaps(name: str) -> None:
    table = Graph.from_table(name, BATCH, "imagenet")
    traced = Graph.from_module(*_module(name, "imagenet"))
    for graph in (table, traced):
        assert graph.batch == BATCH
    assert [traced.tensors[t].nbytes for t in traced.conv_inputs] == [
        table.tensors[t].nbytes for t in table.conv_inputs
    ]
    for field in ("flops_forward", "flops_backward", "parameter_bytes"):
        assert sum(getattr(layer, field) for layer in traced.layers) == sum(
            getattr(layer, field) for layer in table.layers
        )


def test_traced_vgg16_is_its_table_layer_by_layer() -> None:
    table = Graph.from_table("vgg16", BATCH)
    traced = Graph.from_module(*_module("vgg16", "imagenet"))
    # The table ends with a loss.
    for ours, theirs in zip(table.layers[:-1], traced.layers, strict=True):
        assert theirs.kind == ours.kind
        assert theirs.flops_forward == ours.flops_forward
        assert theirs.flops_backward == ours.flops_backward
        assert theirs.bytes_forward == pytest.approx(
            # Indices of 8 B per output.
            ours.bytes_forward + 2 * (ours.kind == "pool") * table.tensors[ours.output].nbytes
        )
        if ours.kind in ("conv", "relu", "fc"):
            assert theirs.bytes_backward == pytest.approx(ours.bytes_backward, rel=0.03)
            assert len(theirs.saved) == len(ours.saved) == 1
        if ours.kind == "dropout":
            assert theirs.kept_bytes == ours.kept_bytes


def test_lstm_is_pytorchs_but_for_the_first_states_of_zeros() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    graph = Graph.from_table("biglstm", BATCH)
    with torch.device("meta"):
        lstm = torch.nn.LSTM(1024, 8192, 2, proj_size=1024)
        words = torch.empty(20, BATCH, 1024)
    with FlopCounterMode(display=False) as counter:
        lstm(words)
    layers = [layer for layer in graph.layers if layer.name.startswith("lstm")]
    zeros = 2 * (2 * BATCH * 1024 * 4 * 8192)
    assert sum(layer.flops_forward for layer in layers) + zeros == counter.get_total_flops()
    # PyTorch adds two biases where one does.
    parameters = sum(p.numel() for p in lstm.parameters()) - 2 * 4 * 8192
    assert sum(layer.parameter_bytes for layer in layers) == 4 * parameters


# Modules of all sorts.


def test_views_share_a_tensor_and_work_in_place_renames_it() -> None:
    import torch
    from torch import nn

    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True)
            self.last = nn.Conv2d(4, 4, 1)

        def forward(self, x):
            left, right = self.relu(self.conv(x)).chunk(2, 1)
            return self.last(left) + right

    graph = Graph.from_module(Halves(), torch.randn(2, 3, 8, 8))
    assert [tensor.name for tensor in graph.tensors] == ["input0", "relu", "last", "add"]
    assert [graph.tensors[t].name for t in graph.managed] == ["relu"]
    assert graph.tensors[1].kind == "relu"
    assert graph.tensors[1].nbytes == 4 * 2 * 8 * 64
    assert graph.layers[2].gradients == (1,)
    assert graph.layers[0].gradients == ()


def test_unknown_operation_is_other_with_its_real_size() -> None:
    import torch
    from torch import nn

    graph = Graph.from_module(nn.Sequential(nn.Linear(8, 16), nn.Softplus()), torch.randn(4, 8))
    assert graph.layers[1].kind == "other"
    assert graph.layers[1].saved == (1,)
    assert graph.tensors[2].nbytes == 4 * 4 * 16


def test_a_function_of_the_users_saves_what_it_says() -> None:
    import torch
    from torch import nn

    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weights):
            y = (x @ weights).exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            x, y = ctx.saved_tensors
            return None, x.t() @ (gradient * y)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.randn(8, 8))

        def forward(self, x):
            return Exponential.apply(x, self.weights)

    graph = Graph.from_module(Model(), torch.randn(4, 8))
    saved = {graph.tensors[t].name for layer in graph.layers for t in layer.saved}
    assert saved == {"input0", "exp"}
    assert sum(layer.flops_backward for layer in graph.layers) == 2 * 4 * 8 * 8


def test_masks_and_indices_are_kept_and_parameters_counted_once() -> None:
    import torch
    from torch import nn

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.dropout = nn.Linear(8, 8, bias=False), nn.Dropout()

        def forward(self, x):
            return self.linear(self.dropout(self.linear(x)))

    graph = Graph.from_module(Tied(), torch.randn(4, 8))
    assert graph.parameter_bytes == 4 * 64
    assert [layer.kept_bytes for layer in graph.layers] == [0, 32, 0]
    # Evaluation has no dropout.
    assert len(Graph.from_module(Tied().eval(), torch.randn(4, 8)).layers) == 2


def _attention(**options):
    """A module that is attention of one projected tensor with itself: batch × heads × length."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, heads: int, groups: int, elements: int) -> None:
            super().__init__()
            self.query = nn.Linear(8, heads * elements)
            self.both = nn.ModuleList(nn.Linear(8, groups * elements) for _ in "kv")
            self.shape = (-1, elements)

        def forward(self, x, mask=None):
            split = [
                layer(x).unflatten(-1, self.shape).transpose(1, 2)
                for layer in (self.query, *self.both)
            ]
            return torch.nn.functional.scaled_dot_product_attention(
                *split, **({} if mask is None else {"attn_mask": mask}), **options
            )

    return Attention


def test_a_transformers_attention_keeps_no_matrix_of_its_products() -> None:
    """One layer of 16 heads at T = 8192 kept 17 GB where a GPU keeps none of it."""
    import torch
    from torch import nn

    batch, heads, length, width = 4, 16, 8192, 1024
    for dtype in (torch.float32, torch.bfloat16):
        with torch.device("meta"):
            encoder = nn.TransformerEncoderLayer(
                width, heads, 4 * width, batch_first=True, dtype=dtype
            )
            graph = Graph.from_module(encoder, torch.empty(batch, length, width, dtype=dtype))
        unit = batch * length * width * dtype.itemsize
        # The feed-forward part has four times as many.
        assert max(tensor.nbytes for tensor in graph.tensors) == 4 * unit
        (attention,) = (layer for layer in graph.layers if "attention" in layer.name)
        # Query, key and value in one, and the output; a number for each query is kept.
        assert sum(graph.tensors[t].nbytes for t in attention.saved) == 4 * unit
        assert attention.kept_bytes == pytest.approx(4 * batch * heads * length, abs=64)
        products = 2 * 2 * batch * heads * length * length * (width // heads)
        assert attention.flops_forward == products
        # It multiplies once more, as it has kept no products, and four times for gradients.
        assert attention.flops_backward == 2.5 * products
        assert not any("to_copy" in layer.name for layer in graph.layers)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_saves_what_pytorch_saves_on_a_cpu(masked: bool) -> None:
    """A CPU's fused attention runs, with values; the trace is held to the bytes it saves."""
    import torch

    module = _attention()(4, 4, 16)
    x = torch.randn(2, 32, 8)
    arguments = (x, torch.randn(32, 32)) if masked else (x,)
    saved: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    parameters = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(*arguments)
    real = sum(nbytes for pointer, nbytes in saved.items() if pointer not in parameters)
    graph = Graph.from_module(module, arguments)
    kept = sum(layer.kept_bytes for layer in graph.layers)
    once = {t for layer in graph.layers for t in layer.saved}
    # A GPU's operation also keeps the state of its random numbers.
    assert sum(graph.tensors[t].nbytes for t in once) + kept == pytest.approx(real, abs=32)


def test_attention_is_the_operation_that_a_gpu_would_take() -> None:
    import torch

    def taken(module, dtype, *arguments) -> str:
        with torch.device("meta"):
            made = module.to(dtype)
            graph = Graph.from_module(made, (torch.empty(2, 64, 8, dtype=dtype), *arguments))
        (layer,) = (layer for layer in graph.layers if "attention" in layer.name)
        return layer.name.removeprefix("scaled_dot_product_").removesuffix("_attention")

    half = torch.bfloat16
    assert taken(_attention()(4, 4, 16), half) == "flash"
    assert taken(_attention(is_causal=True)(4, 4, 16), half) == "flash"
    # Heads of 12 are padded to 16.
    assert taken(_attention()(4, 4, 12), half) == "flash"
    assert taken(_attention(enable_gqa=True)(4, 2, 16), half) == "flash"
    assert taken(_attention()(4, 4, 16), torch.float32) == "efficient"
    mask = torch.ones(64, 64, dtype=torch.bool)
    assert taken(_attention()(4, 4, 16), half, mask) == "efficient"
    assert taken(_attention()(4, 4, 264), half) == "efficient"


@pytest.mark.parametrize(
    ("options", "heads", "dtype", "message"),
    [
        ({}, (4, 4, 16), "float64", "no fused attention has these types.*make query, key and"),
        ({}, (4, 4, 13), "float32", "heads of 13 elements are not aligned.*a multiple of 4$"),
        ({"enable_gqa": True}, (4, 2, 16), "float32", "grouped queries are flash.*or repeat key"),
        ({"enable_gqa": True}, (4, 3, 16), "bfloat16", "heads of query, key and value are 4, 3, 3"),
    ],
)
def test_attention_that_would_keep_its_products_is_refused(
    options: dict, heads: tuple[int, int, int], dtype: str, message: str
) -> None:
    import torch

    module = _attention(**options)(*heads).to(getattr(torch, dtype))
    with pytest.raises(GraphError, match=message) as refused:
        Graph.from_module(module, torch.randn(2, 64, 8, dtype=getattr(torch, dtype)))
    assert refused.match("^cannot trace scaled_dot_product_attention of 2×4×64×")
    assert refused.match("so PyTorch computes and keeps its T × T matrices")


def test_the_math_fallback_is_refused_however_it_is_reached() -> None:
    import torch
    from torch import nn

    class Direct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            y = self.linear(x)
            return torch.ops.aten.scaled_dot_product_attention(y, y, y, dropout_p=0.1)

    with pytest.raises(GraphError, match=r"^cannot trace attention that PyTorch computes by its"):
        Graph.from_module(Direct(), torch.randn(2, 4, 8, 16))


def test_attention_written_out_keeps_its_products() -> None:
    """With its weights asked for, PyTorch's own layer makes them, on a GPU too."""
    import torch
    from torch import nn

    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=True)

    graph = Graph.from_module(Asks(), torch.randn(8, 16, 64))
    assert sum(layer.kind == "softmax" for layer in graph.layers) == 1
    assert 4 * 8 * 4 * 16 * 16 in {graph.tensors[t].nbytes for t in graph.managed}
    # The dropout inside is one operation, too.
    assert [layer.keeps for layer in graph.layers if layer.kind == "dropout"] == [0.9]


def test_tracing_leaves_pytorchs_functions_as_they_were() -> None:
    import torch
    from torch import nn

    functional = torch.nn.functional
    before = functional.dropout, functional.scaled_dot_product_attention
    Graph.from_module(nn.Linear(8, 8), torch.randn(4, 8))
    with pytest.raises(GraphError):
        Graph.from_module(nn.Linear(8, 8), torch.randn(4, 9))
    assert (functional.dropout, functional.scaled_dot_product_attention) == before


def test_a_dropout_keeps_what_it_does_not_drop() -> None:
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 8))
    graph = Graph.from_module(module, torch.randn(4, 8))
    assert [layer.keeps for layer in graph.layers] == [1, 1, 0.9, 1]
    found = density.apply(graph, density.Declared({"relu": 0.5}))
    assert found.tensors[found.index["2"]].density == pytest.approx(0.45)


def test_tracing_leaves_the_module_as_it_was() -> None:
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    Graph.from_module(module, torch.randn(4, 8))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert not module[0]._forward_hooks


def test_arguments_by_position_and_by_name() -> None:
    import torch
    from torch import nn

    module, x = nn.Bilinear(4, 5, 6), (torch.randn(3, 4), torch.randn(3, 5))
    by_position = Graph.from_module(module, x)
    by_name = Graph.from_module(module, {"input1": x[0], "input2": x[1]})
    assert by_position.layers == by_name.layers
    assert by_position.batch == 3


def test_what_cannot_be_traced_says_why() -> None:
    import torch
    from torch import nn

    class Peeks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            y = self.linear(x)
            return y if y.sum() > 0 else -y

    x = torch.randn(4, 8)
    for module, example, cause in [
        (Peeks(), x, "cannot trace Peeks: .*without reading values of tensors"),
        (nn.ReLU(), x, "cannot trace ReLU: no output has a gradient"),
        (nn.Linear(8, 8), 3, "cannot trace Linear without a tensor for input"),
        (nn.Linear(8, 8), torch.randn(4, 9), "cannot trace Linear: RuntimeError: .*must fit"),
        ("vgg16", x, r"cannot trace a str; give a torch.nn.Module"),
    ]:
        with pytest.raises(GraphError, match=cause):
            Graph.from_module(module, example)
