"""Transfers of some megabytes, as most tests have so few lines that upper bits of counts stay 0."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.formats.zvc import Zvc
from cdma.sim.driver import CopyKind, Engine
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import ELEMENT, SMALL
from tests.sim.machine.pipeline.zvc_cases import sparse

NBYTES = (2 << 20) + 4 * 37
"""16,385 lines, and a part of one."""
MEMORY_BYTES = 8 << 20


@pytest.fixture
def engine() -> Iterator[Engine]:
    machine = Machine(
        generated_engine(SMALL),
        replace(NEAR, channels=SMALL.units),
        device_bytes=MEMORY_BYTES,
        host_bytes=MEMORY_BYTES,
    )
    with machine:
        made = Engine(machine)
        yield made
        made.close()


@pytest.mark.parametrize("density", [0.4, 1.0])
@pytest.mark.parametrize("codec", ["zvc", None])
def test_megabytes_go_out_and_come_back(engine: Engine, codec: str | None, density: float) -> None:
    data = sparse(np.random.default_rng(9), NBYTES, ELEMENT, density)
    stream = data if codec is None else Zvc(ELEMENT).compress(data)
    device, back = engine.device.alloc(NBYTES), engine.device.alloc(NBYTES)
    host = engine.host.alloc(stream.size)
    device.array[:] = data
    out = engine.memcpy_compressed(host, device, NBYTES, CopyKind.DEVICE_TO_HOST, codec).check()
    assert out.out_size == stream.size
    assert out.src_done == NBYTES
    np.testing.assert_array_equal(host.array, stream)
    stream_bytes = None if codec is None else stream.size
    returned = engine.memcpy_compressed(
        back, host, NBYTES, CopyKind.HOST_TO_DEVICE, codec, stream_bytes=stream_bytes
    ).check()
    assert returned.out_size == NBYTES
    np.testing.assert_array_equal(back.array, data)
