"""Aborts and resets in every cycle of several transfers, both ways, with bursts under way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from cdma.golden import LINE_BYTES
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status
from cdma.sim.driver import CompletionRecord, Transfer
from cdma.sim.machine import BusFault
from cdma.sim.machine.bus.bus import HOST
from tests.sim.machine.engine.bench import NEAR, TIMEOUT_CYCLES, EngineBench, in_parts
from tests.sim.machine.engine.cases import Job, Shape

FAR = replace(NEAR, dram_latency_ns=150, link_latency_ns=80)
"""So far away that whole transfers are under way on the buses."""

MIXES = (
    (
        Shape(opcode=Opcode.COMPRESS_OUT, length=1500, src=0xFC4, dst=0x34, seed=1),
        Shape(opcode=Opcode.DECOMPRESS_IN, length=1400, src=0xFC4, dst=0x34, seed=2),
        Shape(opcode=Opcode.COPY_OUT, length=900, src=0xFC4, dst=0x34, seed=3),
        Shape(opcode=Opcode.COPY_IN, length=1100, src=0xFC4, dst=0x34, seed=4),
    ),
    (
        Shape(opcode=Opcode.COMPRESS_OUT, length=800, flags=Flag.VERIFY, seed=5),
        Shape(opcode=Opcode.DECOMPRESS_IN, length=600, flags=Flag.CHECK_CRC, seed=6),
        Shape(opcode=Opcode.COMPRESS_OUT, length=700, flags=Flag.VERIFY, density=1.0, seed=7),
        Shape(opcode=Opcode.COPY_IN, length=260, seed=8),
    ),
    (Shape(opcode=Opcode.COPY_OUT, length=4000, src=0xFC4, dst=0x34, seed=9),),
    (Shape(opcode=Opcode.DECOMPRESS_IN, length=3900, src=0xFC4, dst=0x34, seed=10),),
)

ABORT_CYCLES = 1500
"""An abort is over by then, if the buses answer."""

KINDS = ("abort", "abort twice", "reset", "abort and reset", "hard reset")


@dataclass(frozen=True)
class Cell:
    """The software's action, so many cycles after the doorbell."""

    kind: str
    mix: int
    cycle: int
    hang: BusFault | None = None

    def __str__(self) -> str:
        hang = f" while {self.hang}" if self.hang else ""
        return f"{self.kind} {self.cycle} cycles after the doorbell of mix {self.mix}{hang}"


def cells(step: int) -> Iterator[Cell]:
    count = 0
    for mix, cycles in enumerate((850, 1800, 750, 900)):
        for kind in KINDS:
            for cycle in range(count % step, cycles, step):
                count += 1
                yield Cell(kind, mix, cycle)
    # What hangs does not keep an abort from ending: it waits for the time-out.
    for mix, port, channel in (
        (0, 0, "ar"),
        (0, 1, "r"),
        (0, 0, "aw"),
        (0, 1, "w"),
        (0, 0, "b"),
        (3, HOST, "r"),
        (1, 0, "r"),
        (1, 1, "b"),
    ):
        for nth in (2, 5):
            hang = BusFault(port, channel, "hang", nth + 8 if port == HOST else nth)
            for kind in ("abort", "abort twice"):
                for cycle in range(count % (4 * step), 700, 4 * step):
                    yield Cell(kind, mix, cycle, hang)
            count += 1


def carry_out(bench: EngineBench, cell: Cell) -> None:
    engine, write = bench.engine, bench.engine.registers.write
    with bench.cell(str(cell)):
        jobs = [bench.job(shape, area) for area, shape in enumerate(MIXES[cell.mix])]
        transfers = bench.submit(jobs)
        if cell.hang:
            bench.machine.set_faults([cell.hang])
        engine.doorbell()
        bench.machine.run(cell.cycle)
        start = bench.machine.cycles
        if cell.kind in ("abort twice", "abort and reset"):
            write("CONTROL", abort=1, enable=1)
            bench.machine.run(cell.cycle % 7)
        if cell.kind in ("abort", "abort twice"):
            engine.abort()
        else:
            if cell.kind == "hard reset":
                bench.machine.reset()
            engine.reset()
        took = bench.machine.cycles - start
        assert took < ABORT_CYCLES + (2 * TIMEOUT_CYCLES if cell.hang else 0), f"{took} cycles"
        if cell.hang:
            bench.machine.set_faults([])
        # What was not fetched is carried out after an abort.
        engine.wait_all()
        bench.settle()
        check(bench, cell, jobs, transfers)
        engine.clear_error()
        write("IRQ_STATUS", done=1)


def check(
    bench: EngineBench, cell: Cell, jobs: Sequence[Job], transfers: Sequence[Transfer]
) -> None:
    dropped = cell.kind not in ("abort", "abort twice")
    ended = [transfer for transfer in transfers if transfer.record is not None]
    assert ended == transfers[: len(ended)]
    assert dropped or len(ended) == len(jobs)
    for job, transfer in zip(jobs, ended, strict=False):
        record = transfer.result()
        if record.status is Status.ABORTED:
            check_aborted(job, record, may_hang=cell.hang is not None)
        elif cell.hang is None or record.status is not Status.TIMEOUT:
            bench.check_record(record, job.good())
        bench.check_target(job, record)
    bench.check_memory(jobs, transfers, record_places=transfers if dropped else ())


def check_aborted(job: Job, record: CompletionRecord, *, may_hang: bool) -> None:
    """The figures of an aborted transfer's record agree with each other."""
    assert (record.detail, record.fault_address) == (0, 0)
    if job.verified and record.src_done == job.shape.length:
        assert (record.out_size, record.crc32) == (job.wanted.size, job.crc)
        return
    assert record.crc32 == 0
    if not job.outward:
        assert record.src_done <= job.source.size
        came = job.valid_bytes(record.src_done)
        # Some of it may not have been written.
        assert record.out_size == came or (may_hang and record.out_size < came)
        return
    assert record.src_done < job.shape.length
    assert record.src_done % LINE_BYTES == 0
    assert record.out_size == job.line_ends[record.src_done // LINE_BYTES]


FEW = tuple(cells(61))
MANY = tuple(cells(7))


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[EngineBench]:
    made = EngineBench(environment=FAR, stalls=request.param, seed=1)
    yield made
    made.close()


@in_parts(2)
def test_aborts_and_resets(bench, part):
    for cell in FEW[part::2]:
        carry_out(bench, cell)


@pytest.mark.verify
@in_parts(4)
def test_aborts_and_resets_in_more_cycles(bench, part):
    for cell in MANY[part::4]:
        carry_out(bench, cell)
