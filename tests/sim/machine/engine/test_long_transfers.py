"""Transfers of some megabytes, as most tests have so few lines that upper bits of counts stay 0.

Some fail near their end: what they tell has been done is right.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cdma.golden import LINE_BYTES
from cdma.golden.formats.zvc import Zvc
from cdma.hw.bus.burst import BusError
from cdma.hw.dma.control.descriptor import Status
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.sim.driver import CopyKind, Engine
from cdma.sim.machine import BusFault, Machine
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.machine.bus.bus import HOST
from tests.sim.machine.engine.bench import NEAR, settle
from tests.sim.machine.engine.cases import ELEMENT, SMALL, WIDTH
from tests.sim.machine.pipeline.zvc_cases import sparse

NBYTES = (2 << 20) + 4 * 37
"""16,385 lines, and a part of one."""
MEMORY_BYTES = 8 << 20
FAULTY_BYTES = 3 << 19
LINES = (0x2AAA, 0x1555)
"""Numbers of the line at fault, so that each bit of a count is that of one of them."""
OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE


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
    out = engine.memcpy_compressed(host, device, NBYTES, OUT, codec).check()
    assert out.out_size == stream.size
    assert out.src_done == NBYTES
    np.testing.assert_array_equal(host.array, stream)
    stream_bytes = None if codec is None else stream.size
    returned = engine.memcpy_compressed(
        back, host, NBYTES, IN, codec, stream_bytes=stream_bytes
    ).check()
    assert returned.out_size == NBYTES
    np.testing.assert_array_equal(back.array, data)


@pytest.mark.parametrize("kind", [OUT, IN], ids=["out", "in"])
@pytest.mark.parametrize("channel", ["r", "b"])
def test_what_came_before_the_fault_is_right(engine: Engine, kind: CopyKind, channel: str) -> None:
    data = np.random.default_rng(3).integers(0, 256, FAULTY_BYTES, np.uint8)
    device, host = engine.device.alloc(FAULTY_BYTES), engine.host.alloc(FAULTY_BYTES)
    source, target = (device, host) if kind is OUT else (host, device)
    source.array[:] = data
    faulty = source if channel == "r" else target
    ports = [HOST] if faulty is host else range(SMALL.units)
    for line in (*LINES, *LINES):
        target.array[:] = ~data
        address = faulty.address + line * LINE_BYTES
        engine.machine.set_faults(
            [BusFault(port, channel, "slverr", addresses=(address, address + 1)) for port in ports]
        )
        record = engine.memcpy_compressed(target, source, FAULTY_BYTES, kind, None)
        engine.machine.set_faults([])
        failed = Status.READ_ERROR if channel == "r" else Status.WRITE_ERROR
        assert (record.status, record.detail) == (failed, BusError.SLVERR.value)
        # Of a write the address of its burst is told.
        assert 0 <= address - record.fault_address < HOST_BURST_BEATS * WIDTH
        assert record.out_size <= line * LINE_BYTES
        assert record.out_size > (line - 64) * LINE_BYTES
        assert np.array_equal(target.array[: record.out_size], data[: record.out_size])
        settle(engine)
        engine.clear_error()
