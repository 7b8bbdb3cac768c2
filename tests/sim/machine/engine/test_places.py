"""Transfers at places whose address bits above a page are all the others, and where no memory is.

Where all tests have their memories, a bit that is always the same would not be missed.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from cdma.hw.bus.burst import PAGE_BYTES, BusError
from cdma.hw.dma.control.descriptor import (
    DESCRIPTOR_FIELDS,
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    Status,
)
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import Engine, FirstError
from tests.sim.machine.engine.bench import (
    DEVICE_BASE,
    HOST_BASE,
    OTHER_DEVICE_BASE,
    OTHER_HOST_BASE,
    EngineBench,
    ring_fails,
    settle,
)
from tests.sim.machine.engine.cases import Job, Shape
from tests.sim.machine.engine.rings import OPCODES, Owner, RingsBench, windows_of

HERE = {"device_base": DEVICE_BASE, "host_base": HOST_BASE}
PATTERNS = (0xAAAAAAAA, 0x55555555)
ELSEWHERE = {"device_base": OTHER_DEVICE_BASE, "host_base": OTHER_HOST_BASE}


@pytest.mark.parametrize("stalls", [0.0, 0.4])
def test_transfers_of_two_units_elsewhere(stalls: float) -> None:
    bench = EngineBench(stalls=stalls, seed=3, **ELSEWHERE)
    try:
        for _ in range(3):
            bench.recovers()
    finally:
        bench.close()


def test_transfers_of_four_rings_elsewhere() -> None:
    rng = Random(5)
    bench = RingsBench(4, stalls=0.2, seed=5, **ELSEWHERE)
    try:
        for _ in range(3):
            loads = [(owner, *bench.load(owner, rng.randint(1, 8))) for owner in bench.owners]
            for load in loads:
                bench.check(*load)
            bench.check_memory()
    finally:
        bench.close()


def nowhere(address: int, bits: int, boundary: int) -> int:
    """The address of which every other bit is another one."""
    return ~address & (1 << bits) - 1 & -boundary


def misplaced(job: Job) -> Iterator[tuple[dict[str, int], Status, int]]:
    """The transfer with its source or its destination where no memory is, and how that ends.

    Of those that nothing is read for, most are as long as they can be.
    """
    bits = {True: DEVICE_ADDRESS_BITS, False: HOST_ADDRESS_BITS}
    source = nowhere(job.src, bits[job.outward], 4)
    lost = Job(job.shape, job.units, source, job.dst)
    first = (lost.device_reads if job.outward else lost.host_reads)()[0].address
    yield lost.fields, Status.READ_ERROR, first
    for pattern in PATTERNS:
        longest = {"length": pattern & -4, "dst_capacity": pattern}
        if lost.fields["src_length"]:
            longest["src_length"] = pattern
        yield lost.fields | longest, Status.READ_ERROR, first
    target = nowhere(job.dst, bits[not job.outward], 4)
    lost = Job(job.shape, job.units, job.src, target)
    first = (lost.host_writes if job.outward else lost.device_writes)()[0].address
    yield lost.fields, Status.WRITE_ERROR, first


def check_misplaced(engine: Engine, job: Job) -> None:
    """Nothing but the record is written where there is memory, and the first address is told."""
    memories = engine.machine.device, engine.machine.host
    for fields, status, address in misplaced(job):
        transfer = engine.submit_raw(fields, doorbell=False)
        place = transfer.fields["record"] // ENTRY_BYTES * ENTRY_BYTES - engine.machine.host_base
        before = [memory.copy() for memory in memories]
        engine.doorbell()
        record = engine.wait(transfer)
        assert (record.status, record.detail) == (status, BusError.DECERR.value)
        assert record.fault_address == address
        before[1][place : place + ENTRY_BYTES] = memories[1][place : place + ENTRY_BYTES]
        if status is Status.WRITE_ERROR:
            assert all(map(np.array_equal, before, memories))
        else:
            assert record.out_size == 0
            assert np.array_equal(before[not job.outward], memories[not job.outward])
        settle(engine)
        error = engine.first_error()
        assert error is not None
        assert (error.status, error.fault_address) == (status, address)
        engine.clear_error()


@pytest.mark.parametrize("base", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
def test_transfers_of_two_units_from_and_to_where_no_memory_is(base: dict[str, int]) -> None:
    bench = EngineBench(stalls=0.2, seed=4, **base)
    try:
        for opcode in OPCODES:
            job = bench.job(Shape(opcode=opcode, length=600, src=0x40, dst=0x80, seed=1))
            bench.source(job)[:] = job.source
            check_misplaced(bench.engine, job)
            bench.recovers()
    finally:
        bench.close()


@pytest.mark.parametrize("base", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
def test_four_rings_where_no_memory_is(base: dict[str, int]) -> None:
    bench = RingsBench(4, stalls=0.2, seed=6, **base)
    machine = bench.machine
    try:
        owners = []
        for owner in bench.owners:
            owner.engine.close()
            windows = windows_of(owner.ring, **base)
            engine = Engine(
                machine,
                ring=owner.ring,
                ring_entries=owner.entries,
                windows=replace(windows, host=None, device=None),
                interrupts=True,
            )
            owners.append(Owner(owner.ring, engine))
        for number, owner in enumerate(owners):
            job = owner.job(Shape(opcode=OPCODES[number], length=700, src=0x44, dst=0x88, seed=2))
            bench.put(job)
            # Ring 0 has the register for all of them.
            owners[0].engine.registers.write("TIMEOUT_CYCLES", value=PATTERNS[number % 2])
            check_misplaced(owner.engine, job)
            check_unknown(owner.engine)
            check_lost_descriptors(owner)
            check_lost_record(owner.engine, job)
            # Those that have not been there yet, as well as the others, are as good as before.
            for other in owners:
                bench.check(other, *bench.load(other, 2))
        for owner in owners:
            owner.engine.registers.write("WINDOW_LOCK", lock=1)
        assert all(owner.engine.registers.read("WINDOW_LOCK")["lock"] for owner in owners)
        machine.reset()
        assert not any(owner.engine.registers.read("WINDOW_LOCK")["lock"] for owner in owners)
    finally:
        bench.close()


def check_unknown(engine: Engine) -> None:
    """Descriptors that nobody knows are refused, whatever is in them."""
    for pattern in PATTERNS:
        fields = {
            name: int.from_bytes((pattern & 0xFF).to_bytes(1, "little") * size, "little")
            for name, size in DESCRIPTOR_FIELDS
            if name != "record"
        }
        record = engine.wait(engine.submit_raw(fields))
        assert record.status is Status.BAD_OPCODE
        assert record.tag == fields["tag"]
        settle(engine)
        engine.clear_error()


def check_lost_descriptors(owner: Owner) -> None:
    """A ring where no memory is stops at its first descriptor."""
    engine = owner.engine
    registers = engine.registers
    ring = nowhere(registers.read_long("RING_BASE"), HOST_ADDRESS_BITS, PAGE_BYTES)
    registers.write("CONTROL", enable=0)
    registers.write_long("DESCRIPTOR_WINDOW_BASE", 0)
    registers.write_long("DESCRIPTOR_WINDOW_LAST", (1 << HOST_ADDRESS_BITS) - 1)
    registers.write_long("RING_BASE", ring)
    registers.write("CONTROL", enable=1)
    tail = registers.read("RING_TAIL")["index"]
    registers.write("RING_TAIL", index=tail + 1)
    first = FirstError(
        status=Status.READ_ERROR,
        detail=BusError.DECERR.value,
        tag=0,
        fault_address=ring + tail % owner.entries * ENTRY_BYTES,
    )
    ring_fails(engine, first)
    engine.clear_error()
    engine.reset()


def check_lost_record(engine: Engine, job: Job) -> None:
    """The transfer is carried out, and its ring stops as nobody can be told."""
    registers = engine.registers
    registers.write("CONTROL", enable=0)
    registers.write_long("RECORD_WINDOW_BASE", 0)
    registers.write_long("RECORD_WINDOW_LAST", (1 << HOST_ADDRESS_BITS) - 1)
    registers.write("CONTROL", enable=1)
    record = nowhere(registers.read_long("RING_BASE"), HOST_ADDRESS_BITS, ENTRY_BYTES)
    engine.submit_raw({**job.fields, "record": record})
    first = FirstError(
        status=Status.WRITE_ERROR,
        detail=BusError.DECERR.value,
        tag=0,
        fault_address=record,
    )
    ring_fails(engine, first)
    engine.clear_error()
    engine.reset()
