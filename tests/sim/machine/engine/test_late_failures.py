"""Transfers of a megabyte that fail near their end: what they tell has been done is right."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cdma.golden import LINE_BYTES
from cdma.hw.bus.burst import BusError
from cdma.hw.dma.control.descriptor import Status
from cdma.hw.dma.limits import HOST_BURST_BEATS
from cdma.sim.driver import CopyKind, Engine
from cdma.sim.machine import BusFault, Machine
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.machine.bus.bus import HOST
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import SMALL, WIDTH

NBYTES = 3 << 19
MEMORY_BYTES = 4 << 20
OUT, IN = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
LINES = (0x2AAA, 0x1555)
"""Numbers of the line at fault, so that each bit of a count is that of one of them."""


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


@pytest.mark.parametrize("kind", [OUT, IN], ids=["out", "in"])
@pytest.mark.parametrize("channel", ["r", "b"])
def test_what_came_before_the_fault_is_right(engine: Engine, kind: CopyKind, channel: str) -> None:
    data = np.random.default_rng(3).integers(0, 256, NBYTES, np.uint8)
    device, host = engine.device.alloc(NBYTES), engine.host.alloc(NBYTES)
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
        record = engine.memcpy_compressed(target, source, NBYTES, kind, None)
        engine.machine.set_faults([])
        failed = Status.READ_ERROR if channel == "r" else Status.WRITE_ERROR
        assert (record.status, record.detail) == (failed, BusError.SLVERR.value)
        # Of a write the address of its burst is told.
        assert 0 <= address - record.fault_address < HOST_BURST_BEATS * WIDTH
        assert record.out_size <= line * LINE_BYTES
        assert record.out_size > (line - 64) * LINE_BYTES
        assert np.array_equal(target.array[: record.out_size], data[: record.out_size])
        while not engine.registers.read("STATUS")["idle"]:
            engine.machine.run(20)
        engine.clear_error()
