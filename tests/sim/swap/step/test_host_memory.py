"""Tensors of a planned step in an engine's host memory."""

from typing import Any

import numpy as np
import pytest

from cdma import golden
from cdma.golden.formats.sample import sample
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.sim.driver import Engine
from cdma.sim.swap import EngineHost, Stash
from tests.sim.machine.engine.model import ModelMachine

pytestmark = pytest.mark.torch

CODECS = ("zvc", "raw", "xc")


@pytest.fixture
def torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


@pytest.fixture
def host(torch) -> EngineHost:
    config = EngineConfig(codec=CodecConfig(element_bytes=1, codecs=CODECS))
    return EngineHost(torch, Stash(Engine(ModelMachine(config), codecs=CODECS)))


def test_a_codec_gets_the_parameters_that_suit_the_tensor(torch, host):
    # Far from the usual exponents.
    data = (torch.randn(8192) * 1e-6).bfloat16().view(torch.uint8)
    out = host.put(data, "xc")
    array = data.numpy()
    fitted = line_codec("xc").fitted_parameters(sample(array), 2)
    assert out.stream_bytes == golden.codec("xc", 2, **fitted).compress(array).size
    assert out.stream_bytes < 0.8 * golden.codec("xc", 2).compress(array).size
    back = torch.empty_like(data)
    host.get(out, None, back)
    assert torch.equal(back, data)


@pytest.mark.parametrize("codec", [None, "zvc", "xc"])
def test_tensors_come_back_whether_they_were_sent_for_or_not(torch, host, codec):
    data = torch.randn(4096).relu().view(torch.uint8)
    out = host.put(data, codec)
    free = host.stash.engine.device.free_bytes
    for arriving in (None, host.prefetch(out)):
        back = torch.empty_like(data)
        host.get(out, arriving, back)
        assert torch.equal(back, data)
    host.drop(out, None)
    assert host.stash.nbytes == 0
    assert host.stash.engine.device.free_bytes == free
    assert np.array_equal(back.numpy(), data.numpy())
