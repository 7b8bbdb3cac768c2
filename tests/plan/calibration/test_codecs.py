"""Codecs of PyTorch's operations: what they give back, and ZVC's stream beside the golden one."""

import numpy as np
import pytest

from cdma import golden
from cdma.plan.calibration.codecs import QUANTUM, TIMED_CODECS
from cdma.plan.platform.codec_rates import DEVICE_CODECS, codec_model

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def values(density: float, elements: int = 1 << 14):
    generator = torch.Generator().manual_seed(3)
    made = torch.randn(elements, generator=generator).reshape(4, -1)
    # A product with zero would make negative zeros, which are values.
    return made.masked_fill_(torch.rand(made.shape, generator=generator) >= density, 0.0)


def test_timed_codecs_are_codecs_of_devices():
    assert set(TIMED_CODECS) <= set(DEVICE_CODECS)
    assert {codec_model(name).timed_as for name in ("zfp-9", "zfp-128")} == {"zfp"}


@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", ["zvc-sm", "csr-sm"])
def test_lossless_codecs_give_every_bit_back(name, density):
    tensor = values(density)
    tensor[0, :3] = torch.tensor([-0.0, float("nan"), float("inf")])
    codec = TIMED_CODECS[name]
    back = codec.decompress(torch, codec.compress(torch, tensor))
    assert back.shape == tensor.shape
    assert torch.equal(back.view(torch.int32), tensor.view(torch.int32))


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_zvc_s_stream_is_the_golden_one(density):
    tensor = values(density)
    (stream,) = TIMED_CODECS["zvc-sm"].compress(torch, tensor).parts
    assert stream.numpy().tobytes() == golden.codec("zvc").compress(tensor.numpy()).tobytes()


@pytest.mark.parametrize("name", TIMED_CODECS)
def test_streams_are_as_long_as_the_planner_takes_them_for(name):
    tensor = values(0.4)
    density = int((tensor != 0).sum()) / tensor.numel()
    parts = TIMED_CODECS[name].compress(torch, tensor).parts
    nbytes = sum(part.numel() * part.element_size() for part in parts)
    planned = codec_model(name).stream_bytes(tensor.numel() * 4, density)
    # Quantization makes zeros of some values.
    assert nbytes == pytest.approx(planned, rel=0.03 if name == "quantize-sm" else 1e-6)


def test_quantization_keeps_its_bound_and_zeros():
    tensor = values(0.5).clamp(-3.9, 3.9)
    codec = TIMED_CODECS["quantize-sm"]
    back = codec.decompress(torch, codec.compress(torch, tensor)).numpy()
    assert np.abs(back - tensor.numpy()).max() <= QUANTUM / 2
    assert not back[tensor.numpy() == 0].any()
