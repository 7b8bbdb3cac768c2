"""Engines whose buses have other widths of address and ID: what they cannot reach is refused."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cdma.hw.dma.control.descriptor import Opcode, Status, WindowDetail
from cdma.sim.driver import CopyKind, Engine, FirstError
from cdma.sim.machine import Machine
from cdma.sim.machine.build.rtl import generated_engine
from tests.sim.machine.engine.bench import NEAR, TIMEOUT_CYCLES, ring_fails
from tests.sim.machine.engine.cases import SMALL

HOST_BITS, DEVICE_BITS = 48, 36
CONFIG = replace(
    SMALL,
    host_address_bits=HOST_BITS,
    device_address_bits=DEVICE_BITS,
    host_id_bits=6,
    device_id_bits=4,
)
MEMORY_BYTES = 1 << 16
NBYTES = 3000
HOST_BASE = (1 << HOST_BITS) - MEMORY_BYTES
DEVICE_BASE = (1 << DEVICE_BITS) - MEMORY_BYTES
"""Both memories end where their buses' addresses do."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    machine = Machine(
        generated_engine(CONFIG),
        replace(NEAR, channels=CONFIG.units),
        device_bytes=MEMORY_BYTES,
        host_bytes=MEMORY_BYTES,
        device_base=DEVICE_BASE,
        host_base=HOST_BASE,
        stalls=0.3,
        seed=7,
    )
    with machine:
        made = Engine(machine, timeout_cycles=TIMEOUT_CYCLES)
        yield made
        made.close()


def test_bytes_come_back_from_the_end_of_the_address_spaces(engine):
    data = np.random.default_rng(3).integers(0, 2, NBYTES, np.uint8)
    source, back = engine.device.alloc(NBYTES), engine.device.alloc(NBYTES)
    stream = engine.host.alloc(engine.shape.worst_stream_bytes(NBYTES))
    source.array[:] = data
    out = engine.memcpy_compressed(stream, source, NBYTES, CopyKind.DEVICE_TO_HOST, "zvc")
    record = engine.memcpy_compressed(
        back, stream, NBYTES, CopyKind.HOST_TO_DEVICE, "zvc", stream_bytes=out.out_size
    )
    assert (out.status, record.status) == (Status.OK, Status.OK)
    np.testing.assert_array_equal(back.array, data)


@pytest.mark.parametrize("opcode", [Opcode.COPY_OUT, Opcode.COPY_IN])
@pytest.mark.parametrize("far", ["src", "dst"])
def test_addresses_beyond_the_bus_are_refused_and_not_cut_off(engine, opcode, far):
    """Without its upper bits, each of them is an address that would do."""
    outward = opcode is Opcode.COPY_OUT
    device, host = DEVICE_BASE + MEMORY_BYTES // 2, HOST_BASE + MEMORY_BYTES // 2
    fields = {
        "opcode": opcode,
        "src": device if outward else host,
        "dst": host if outward else device,
        "length": NBYTES,
        "dst_capacity": NBYTES,
    }
    before = [memory.copy() for memory in (engine.machine.device, engine.machine.host)]
    bits = DEVICE_BITS if outward is (far == "src") else HOST_BITS
    record = engine.wait(engine.submit_raw({**fields, far: fields[far] + (1 << bits)}))
    detail = WindowDetail.SOURCE if far == "src" else WindowDetail.DESTINATION
    assert (record.status, record.detail) == (Status.OUTSIDE_WINDOW, detail)
    np.testing.assert_array_equal(engine.machine.device, before[0])
    half = MEMORY_BYTES // 2
    np.testing.assert_array_equal(engine.machine.host[half:], before[1][half:])
    assert engine.wait(engine.submit_raw(fields)).status == Status.OK


@pytest.mark.parametrize("last", [(1 << HOST_BITS) - 1, (1 << 64) - 1])
def test_windows_may_end_beyond_the_bus(engine, last):
    """As after reset, and of the same effect as one that ends with it."""
    registers = engine.registers
    registers.write("CONTROL", enable=0)
    registers.write_long("HOST_WINDOW_LAST", last)
    registers.write("CONTROL", enable=1)
    fields = {
        "opcode": Opcode.COPY_OUT,
        "src": DEVICE_BASE,
        "dst": HOST_BASE + MEMORY_BYTES // 2,
        "length": NBYTES,
        "dst_capacity": NBYTES,
    }
    assert engine.wait(engine.submit_raw(fields)).status == Status.OK
    beyond = engine.wait(engine.submit_raw({**fields, "dst": fields["dst"] + (1 << HOST_BITS)}))
    assert (beyond.status, beyond.detail) == (Status.OUTSIDE_WINDOW, WindowDetail.DESTINATION)


def test_record_beyond_the_bus_stops_the_ring(engine):
    nowhere = HOST_BASE + MEMORY_BYTES // 2 + (1 << HOST_BITS)
    engine.submit_raw({"opcode": Opcode.FENCE, "record": nowhere})
    ring_fails(
        engine,
        FirstError(
            status=Status.OUTSIDE_WINDOW, detail=WindowDetail.RECORD, tag=0, fault_address=nowhere
        ),
    )


def test_ring_beyond_the_bus_is_not_read(engine):
    registers = engine.registers
    base = registers.read_long("RING_BASE") + (1 << HOST_BITS)
    registers.write("CONTROL", enable=0)
    registers.write_long("RING_BASE", base)
    registers.write("CONTROL", enable=1)
    registers.write("RING_TAIL", index=1)
    ring_fails(
        engine,
        FirstError(
            status=Status.OUTSIDE_WINDOW, detail=WindowDetail.RING, tag=0, fault_address=base
        ),
    )
    assert registers.read("RING_HEAD")["index"] == 0
