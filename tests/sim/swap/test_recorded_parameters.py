"""Steps in which each tensor goes out with what the record of its last transfer recommended."""

from itertools import pairwise
from typing import Any

import pytest

from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.sim.driver import CopyKind, Engine, TensorParameters
from cdma.sim.swap import SwapPlan, swap_to
from tests.sim.machine.engine.model import ModelMachine

pytestmark = pytest.mark.torch

XC = line_codec("xc")
CODECS = ("xc", "zvc", "raw")
PLAN = SwapPlan.everything("xc")


@pytest.fixture
def torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


@pytest.fixture
def engine() -> Engine:
    config = EngineConfig(codec=CodecConfig(element_bytes=1, codecs=CODECS))
    return Engine(ModelMachine(config, memory_bytes=4 << 20), codecs=CODECS)


@pytest.fixture
def sent(engine, monkeypatch) -> list[tuple[bytes, dict[str, int]]]:
    """The bytes and the parameters of what was compressed."""
    seen = []
    submit = engine.submit

    def watched(dst, src, nbytes, kind, codec, **options):
        if kind is CopyKind.DEVICE_TO_HOST:
            seen.append((src.array.copy(), dict(options["parameters"])))
        return submit(dst, src, nbytes, kind, codec, **options)

    monkeypatch.setattr(engine, "submit", watched)
    return seen


def network(torch: Any) -> Any:
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)]
    return torch.nn.Sequential(*layers).bfloat16()


def step(torch: Any, model: Any, scale: float) -> list[Any]:
    model.zero_grad()
    inputs = (torch.randn(32, 64, generator=torch.Generator().manual_seed(1)) * scale).bfloat16()
    model(inputs).float().square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def recommended(data):
    return XC.parameters_from_result(XC.recorded_result(data))


def test_parameters_are_those_of_the_record_of_the_step_before(torch, engine, sent):
    model, tensors = network(torch), TensorParameters("xc")
    steps = []
    for scale in (1.0, 64.0, 64.0):
        with swap_to(engine, PLAN, module=model, tensors=tensors):
            gradients = step(torch, model, scale)
        plain = step(torch, model, scale)
        assert all(torch.equal(one, other) for one, other in zip(gradients, plain, strict=True))
        steps.append(list(sent))
        sent.clear()
    known = [len(each) for each in steps]
    assert known[0] == known[1] == known[2] > 1
    learned = [
        (recommended(before), parameters)
        for earlier, later in pairwise(steps)
        for (before, _), (_, parameters) in zip(earlier, later, strict=True)
    ]
    matching = [wanted == parameters for wanted, parameters in learned]
    # Inputs have no names, and are looked at before they go.
    assert sum(matching) >= 2 * (known[0] - 1)
    # The scale moved the centres with a step's delay.
    moved = [a[1] != b[1] for a, b in zip(steps[1], steps[2], strict=True)]
    assert any(moved)


def test_without_names_the_data_are_looked_at(torch, engine, sent):
    tensors = TensorParameters("xc")
    with swap_to(engine, PLAN, tensors=tensors):
        step(torch, network(torch), 1.0)
    assert sent
    assert all(parameters == XC.fitted_parameters(data, 2) for data, parameters in sent)


def test_those_of_another_codec_are_not_used(torch, engine, sent):
    model, tensors = network(torch), TensorParameters("zvc")
    for _ in range(2):
        with swap_to(engine, PLAN, module=model, tensors=tensors):
            step(torch, model, 1.0)
    assert all(parameters == XC.fitted_parameters(data, 2) for data, parameters in sent)
