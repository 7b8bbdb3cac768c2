"""Descriptors that cannot be read and records that cannot be written: the ring stops."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.dma.control.descriptor import Opcode, Status, TimeoutDetail
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import FirstError
from cdma.sim.driver.ring.ring import INDEXES
from cdma.sim.machine import BusFault
from cdma.sim.machine.bus.bus import HOST
from tests.sim.machine.engine.bench import RING_ENTRIES, EngineBench, in_parts
from tests.sim.machine.engine.cases import WIDTH, Job, Shape

RESPONSES = {"slverr": BusError.SLVERR, "decerr": BusError.DECERR}
BEATS = ENTRY_BYTES // WIDTH
NOWHERE = 0x7000_0000_0000_0000

MIXED = (
    Shape(opcode=Opcode.COMPRESS_OUT, length=700, src=0xFC4, dst=0x34, seed=1),
    Shape(opcode=Opcode.DECOMPRESS_IN, length=400, src=0xFC4, dst=0x34, seed=2),
    Shape(opcode=Opcode.COPY_OUT, length=130, src=0xFC4, dst=0x34, seed=3),
    Shape(opcode=Opcode.COPY_IN, length=600, src=0xFC4, dst=0x34, seed=4),
)
OUTWARD = (MIXED[0], MIXED[2], MIXED[0], MIXED[2])
"""These read nothing from the host but their descriptors."""


@dataclass(frozen=True)
class Cell:
    """Something that stops the ring.

    Attributes
    ----------
    what : str
        "descriptor", "record" or "data": of one of four transfers.
    kind : str
        Of fault.
    channel : str
    victim : int
        Which transfer.
    index : int
        Beat of it, or burst.
    lap : int
        How far the ring has come before.
    """

    what: str
    kind: str
    channel: str
    victim: int
    index: int
    lap: int

    def __str__(self) -> str:
        return (
            f"{self.kind} at {self.channel} {self.index} of the {self.what} of transfer "
            f"{self.victim}, {self.lap} after a reset"
        )


def cells(laps: Sequence[int]) -> Iterator[Cell]:
    for lap, victim in product(laps, range(4)):
        for kind in (*RESPONSES, "late-last"):
            for beat in range(BEATS):
                yield Cell("descriptor", kind, "r", victim, beat, lap)
        yield Cell("descriptor", "early-last", "r", victim, 0, lap)
        for beat in range(BEATS):
            yield Cell("descriptor", "hang", "r", victim, beat, lap)
        yield Cell("descriptor", "hang", "ar", victim, 0, lap)
        for kind in RESPONSES:
            yield Cell("record", kind, "b", victim, 0, lap)
        for beat in range(BEATS):
            yield Cell("record", "hang", "w", victim, beat, lap)
        yield Cell("record", "hang", "aw", victim, 0, lap)
        yield Cell("record", "hang", "b", victim, 0, lap)
    for lap, victim in product(laps, range(4)):
        job = Job(OUTWARD[victim], 2, OUTWARD[victim].src, OUTWARD[victim].dst)
        for burst in range(len(job.host_writes())):
            yield Cell("data", "hang", "aw", victim, burst, lap)
            yield Cell("data", "hang", "b", victim, burst, lap)
        for beat in range(sum(burst.beats for burst in job.host_writes())):
            yield Cell("data", "hang", "w", victim, beat, lap)


def carry_out(bench: EngineBench, cell: Cell) -> None:
    engine = bench.engine
    shapes = OUTWARD if cell.kind == "hang" else MIXED
    # Writes of several transfers come in an order that is the engine's affair: they are alone.
    alone = cell.kind == "hang" and cell.what != "descriptor"
    with bench.cell(str(cell)):
        engine.reset()
        for turn in range(cell.lap):
            bench.carry_out([filler := bench.job(MIXED[turn % 4], 0)], [filler.good()])
        jobs = [bench.job(shape, area) for area, shape in enumerate(shapes)]
        before = jobs[: cell.victim]
        if alone:
            for job in before:
                bench.carry_out([job], [job.good()])
            jobs, before = [jobs[cell.victim]], []
        victim = len(before)
        transfers = bench.submit(jobs)
        fault, first = stop(bench, cell, jobs[victim], transfers[victim].fields["record"])
        done = engine.registers.read("RING_DONE")["index"]
        bench.machine.set_faults([fault])
        engine.doorbell()
        bench.ring_fails(first)
        if cell.kind != "hang":
            bench.settle()
        assert engine.registers.read("RING_DONE")["index"] == done + victim
        if cell.what == "descriptor":
            assert engine.registers.read("RING_HEAD")["index"] == done + victim
        assert bench.machine.delivered_faults()[0].times == 1
        bench.machine.set_faults([])
        bench.settle()
        if not alone:
            engine.poll()
        for job, transfer in zip(before, transfers, strict=False):
            bench.check_record(transfer.result(), job.good())
            bench.check_target(job, transfer.result())
        if cell.what == "descriptor":
            assert all(transfer.record is None for transfer in transfers[victim:])
            bench.check_memory(before, transfers[:victim])
        else:
            # Whatever was fetched ends; a write whose response does not come may have arrived.
            bench.check_memory(jobs, transfers, record_places=transfers)
        if cell.what == "data":
            right = max(0, first.fault_address - jobs[0].dst)
            np.testing.assert_array_equal(bench.target(jobs[0])[:right], jobs[0].wanted[:right])
        restart(bench)


def restart(bench: EngineBench) -> None:
    bench.engine.clear_error()
    bench.engine.reset()
    status = bench.engine.registers.read("STATUS")
    assert status["idle"]
    assert not status["ring_error"]
    assert bench.engine.registers.read("RING_DONE")["index"] == 0


def stop(bench: EngineBench, cell: Cell, job: Job, record: int) -> tuple[BusFault, FirstError]:
    """The fault, and what the registers say about it."""
    base = bench.engine.registers.read_long("RING_BASE")
    slot = (cell.lap + cell.victim) % RING_ENTRIES
    descriptor = base + ENTRY_BYTES * slot
    if cell.what == "descriptor" and cell.kind == "hang":
        nth = cell.victim if cell.channel == "ar" else BEATS * cell.victim + cell.index
        return BusFault(HOST, cell.channel, "hang", nth), FirstError(
            status=Status.TIMEOUT,
            detail=TimeoutDetail.READ,
            tag=0,
            fault_address=descriptor + WIDTH * cell.index,
        )
    if cell.what == "descriptor":
        hit = descriptor + WIDTH * cell.index
        at_fault = descriptor + WIDTH * (BEATS - 1) if cell.kind == "late-last" else hit
        detail = RESPONSES.get(cell.kind, BusError.FRAMING)
        return BusFault(HOST, "r", cell.kind, addresses=(hit, hit + 1)), FirstError(
            status=Status.READ_ERROR, detail=detail.value, tag=0, fault_address=at_fault
        )
    if cell.kind != "hang":
        return BusFault(HOST, "b", cell.kind, addresses=(record, record + 1)), FirstError(
            status=Status.WRITE_ERROR,
            detail=RESPONSES[cell.kind].value,
            tag=0,
            fault_address=record,
        )
    if cell.what == "record":
        bursts = job.host_writes()
        sent = sum(burst.beats for burst in bursts) if cell.channel == "w" else len(bursts)
        return BusFault(HOST, cell.channel, "hang", sent + cell.index), FirstError(
            status=Status.TIMEOUT, detail=TimeoutDetail.WRITE, tag=0, fault_address=record
        )
    hit_bursts = [
        burst
        for burst in job.host_writes()
        for _ in range(burst.beats if cell.channel == "w" else 1)
    ]
    return BusFault(HOST, cell.channel, "hang", cell.index), FirstError(
        status=Status.TIMEOUT,
        detail=TimeoutDetail.WRITE,
        tag=job.fields["tag"],
        fault_address=hit_bursts[cell.index].address,
    )


FEW = tuple(cells((0, 3)))
MANY = tuple(cells((1, 6, 14, 15, 16, 29, 33)))


@in_parts(2)
def test_what_stops_the_ring(bench, part):
    for cell in FEW[part::2]:
        carry_out(bench, cell)


@pytest.mark.verify
@in_parts(2)
def test_what_stops_the_ring_later(bench, part):
    for cell in MANY[part::2]:
        carry_out(bench, cell)


class TestSenselessRegisters:
    """The ring's registers contradict each other."""

    def senseless(self, bench: EngineBench, name: str, *, log2_entries: int, ahead: int) -> None:
        engine = bench.engine
        with bench.cell(name):
            engine.registers.write("CONTROL", enable=0)
            engine.registers.write("RING_SIZE", log2_entries=log2_entries)
            engine.registers.write("CONTROL", enable=1)
            done = engine.registers.read("RING_DONE")["index"]
            base = engine.registers.read_long("RING_BASE")
            bench.submit([])
            engine.registers.write("RING_TAIL", index=(done + ahead) % INDEXES)
            bench.ring_fails(
                FirstError(status=Status.BAD_LENGTH, detail=0, tag=0, fault_address=base)
            )
            bench.settle()
            assert engine.registers.read("RING_HEAD")["index"] == done
            bench.check_memory([], [])
            restart(bench)

    @pytest.mark.parametrize("ahead", [1, 2, 16, 1000, 65535])
    def test_ring_of_no_size(self, bench, ahead):
        self.senseless(bench, f"no size, tail {ahead} ahead", log2_entries=0, ahead=ahead)

    def test_tail_too_far_ahead(self, bench):
        for log2_entries in (1, 2, 4, 9, 15):
            entries = 1 << log2_entries
            for ahead in {entries + 1, entries + 2, 2 * entries - 1, 40_000, 65_535}:
                if ahead > entries:
                    name = f"{entries} entries, tail {ahead} ahead"
                    self.senseless(bench, name, log2_entries=log2_entries, ahead=ahead)

    def test_tail_too_far_ahead_while_descriptors_are_under_way(self, bench):
        engine = bench.engine
        for wait in range(0, 200, 5):
            with bench.cell(f"tail too far {wait} cycles after the doorbell"):
                engine.reset()
                jobs = [bench.job(shape, area) for area, shape in enumerate(MIXED)]
                transfers = bench.submit(jobs)
                engine.doorbell()
                bench.machine.run(wait)
                engine.registers.write("RING_TAIL", index=RING_ENTRIES + 40)
                base = engine.registers.read_long("RING_BASE")
                bench.ring_fails(
                    FirstError(status=Status.BAD_LENGTH, detail=0, tag=0, fault_address=base)
                )
                bench.settle()
                engine.poll()
                # Those that were fetched have ended, in order.
                head = engine.registers.read("RING_HEAD")["index"]
                assert engine.registers.read("RING_DONE")["index"] == head
                ended = [transfer for transfer in transfers if transfer.record is not None]
                assert len(ended) == head
                for job, transfer in zip(jobs, ended, strict=False):
                    bench.check_record(transfer.result(), job.good())
                    bench.check_target(job, transfer.result())
                bench.check_memory(jobs[:head], ended)
                restart(bench)


class TestNowhere:
    """An address outside of host memory."""

    def test_ring(self, bench):
        engine = bench.engine
        with bench.cell("the ring is nowhere"):
            bench.submit([])
            base = engine.registers.read_long("RING_BASE")
            engine.registers.write("CONTROL", enable=0)
            engine.registers.write_long("RING_BASE", NOWHERE)
            engine.registers.write("CONTROL", enable=1)
            engine.registers.write("RING_TAIL", index=1)
            bench.ring_fails(
                FirstError(
                    status=Status.READ_ERROR,
                    detail=BusError.DECERR.value,
                    tag=0,
                    fault_address=NOWHERE,
                )
            )
            bench.check_memory([], [])
            restart(bench)
            assert engine.registers.read_long("RING_BASE") == base

    @pytest.mark.parametrize("offset", [0, 64])
    def test_record(self, bench, offset):
        job = bench.job(MIXED[0])
        job.fields["record"] = NOWHERE + offset
        with bench.cell(f"the record is nowhere, {offset:#x}"):
            bench.submit([job])
            bench.engine.doorbell()
            bench.ring_fails(
                FirstError(
                    status=Status.WRITE_ERROR,
                    detail=BusError.DECERR.value,
                    tag=0,
                    fault_address=NOWHERE + offset,
                )
            )
            bench.settle()
            np.testing.assert_array_equal(bench.target(job), job.wanted)
            bench.check_memory([job], [])
            restart(bench)
