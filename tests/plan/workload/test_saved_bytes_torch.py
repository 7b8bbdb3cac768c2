"""Traces against real steps on a CPU: what `saved_tensors_hooks` counts there, with values."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cdma.plan.calibration.networks import saved_bytes
from cdma.plan.training.subject import Subject
from cdma.plan.workload.graph import Graph

pytestmark = pytest.mark.torch

TOKENS = (4, 64)
VOCABULARY = 100


def _tokens():
    import torch

    return torch.randint(VOCABULARY, TOKENS)


def _gpt(dropout: float = 0.0):
    from cdma.plan.workload.networks.transformers.gpt import Shape
    from tests.plan.workload.torch_transformers import GPT

    shape = Shape(layers=2, columns=64, heads=4, length=TOKENS[1])
    return GPT(shape, vocabulary=VOCABULARY, dropout=dropout), _tokens()


def _decoder(**more: int):
    from tests.plan.workload.torch_transformers import Decoder

    shape = SimpleNamespace(LAYERS=2, COLUMNS=64, HEADS=4, HIDDEN=128, **more)
    return Decoder(shape, length=TOKENS[1], vocabulary=VOCABULARY), _tokens()


def _llama():
    return _decoder(KEY_HEADS=4)


def _mixture():
    return _decoder(EXPERTS=4, ACTIVE=2)


def _vit(monkeypatch):
    import torch

    from cdma.plan.workload.networks.transformers import vit
    from tests.plan.workload.torch_transformers import ViT

    for name, value in (("LAYERS", 2), ("COLUMNS", 64), ("HEADS", 4)):
        monkeypatch.setattr(vit, name, value)
    return ViT(), torch.randn(4, vit.PATCHES, vit.PIXELS)


def _dit(monkeypatch):
    import torch

    from cdma.plan.workload.networks.transformers import dit
    from tests.plan.workload.torch_transformers import DiT

    for name, value in (("LAYERS", 2), ("COLUMNS", 64), ("HEADS", 4)):
        monkeypatch.setattr(dit, name, value)
    return DiT(), (torch.randn(4, dit.LENGTH, dit.PATCH), torch.randn(4, dit.FREQUENCIES))


def _encoder(dropout: float = 0.0):
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=dropout, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(4, 48, 64)


def _convolutional(*, in_place: bool):
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
            self.relu = nn.ReLU(inplace=in_place)

        def forward(self, x):
            return self.relu(self.norm(self.conv(x)) + x)

    module = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=in_place),
        nn.MaxPool2d(2),
        Residual(),
        Residual(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    return module, torch.randn(4, 3, 32, 32)


def _perceptron():
    import torch
    from torch import nn

    layers = (nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 8))
    return nn.Sequential(*layers), torch.randn(64, 64)


MODELS: dict[str, Callable[..., Any]] = {
    "gpt": _gpt,
    "llama": _llama,
    "mixture": _mixture,
    "vit": _vit,
    "dit": _dit,
    "encoder": _encoder,
    "convolutional": lambda: _convolutional(in_place=False),
    "in place": lambda: _convolutional(in_place=True),
    "perceptron": _perceptron,
}
DROPPING: dict[str, Callable[..., Any]] = {
    "gpt": lambda: _gpt(dropout=0.1),
    "encoder": lambda: _encoder(dropout=0.1),
}


def _made(make: Callable[..., Any], monkeypatch):
    return make(monkeypatch) if make in (_vit, _dit) else make()


def _saved_by_hooks(module, example, autocast=None) -> int:
    import torch

    return saved_bytes(torch, Subject(module, example), autocast)


def _saved_by_trace(module, example, **options) -> int:
    return Graph.from_module(module, example, **options).saved_bytes


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "autocast"])
@pytest.mark.parametrize("name", MODELS)
def test_a_trace_for_a_cpu_saves_the_bytes_of_a_real_step(
    name: str, precision: str, monkeypatch
) -> None:
    import torch

    module, example = _made(MODELS[name], monkeypatch)
    autocast = torch.bfloat16 if precision == "autocast" else None
    if precision == "bf16":
        module = module.bfloat16()
        example = torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda x: x.bfloat16() if x.is_floating_point() else x, example
        )
    real = _saved_by_hooks(module, example, autocast)
    # Fake statistics of a batch normalization are as narrow as its input, a CPU's are not.
    slack = 256 if precision != "fp32" and name in ("convolutional", "in place") else 0
    traced = _saved_by_trace(module, example, target="cpu", autocast=autocast)
    assert abs(traced - real) <= slack


@pytest.mark.parametrize("name", DROPPING)
def test_a_cpus_dropout_and_attention_with_one_are_traced_as_they_run(name: str) -> None:
    module, example = DROPPING[name]()
    assert _saved_by_trace(module, example, target="cpu") == _saved_by_hooks(module, example)


WRITTEN_OUT = ("llama", "mixture")
"""A CPU writes out their RMS normalization."""

COPIED = ("encoder",)
"""It copies the attention's output, which a GPU lays out in another order than a CPU."""


@pytest.mark.parametrize("name", [n for n in MODELS if n not in (*WRITTEN_OUT, *COPIED)])
def test_a_trace_for_a_gpu_saves_what_a_cpu_does_where_the_operators_are_the_same(
    name: str, monkeypatch
) -> None:
    module, example = _made(MODELS[name], monkeypatch)
    real = _saved_by_hooks(module, example)
    assert _saved_by_trace(module, example) == pytest.approx(real, rel=0.01)


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_gpus_normalization_saves_its_input_once(name: str) -> None:
    module, example = MODELS[name]()
    cpu, gpu = (_saved_by_trace(module, example, target=target) for target in ("cpu", "gpu"))
    assert gpu < 0.9 * cpu


def test_a_checkpointed_block_saves_its_input_only() -> None:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self, blocks: nn.ModuleList) -> None:
            super().__init__()
            self.blocks = blocks

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    from tests.plan.workload.torch_transformers import Block

    blocks = nn.ModuleList(Block(64, 4) for _ in range(3))
    example = torch.randn(4, 64, 64)
    plain = Graph.from_module(nn.Sequential(*blocks), example)
    graph = Graph.from_module(Checkpointed(blocks), example)
    assert _saved_by_trace(Checkpointed(blocks), example) == 3 * 4 * 4 * 64 * 64
    # Backward runs each block's forward pass again.
    forward, backward = (
        [sum(getattr(layer, way) for layer in each.layers) for each in (plain, graph)]
        for way in ("flops_forward", "flops_backward")
    )
    assert forward[0] == forward[1]
    assert backward[1] == pytest.approx(backward[0] + forward[0], rel=0.2)


def test_an_unknown_target_is_refused() -> None:
    import torch

    from cdma.plan.workload.layers import GraphError

    with pytest.raises(GraphError, match="unknown target 'tpu'; choose gpu or cpu"):
        Graph.from_module(torch.nn.Linear(2, 2), torch.randn(2, 2), target="tpu")
