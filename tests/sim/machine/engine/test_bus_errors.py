"""Errors on each beat and each burst that a transfer asks for, and RLAST on the wrong beat."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status
from cdma.sim.machine import BusFault
from cdma.sim.machine.bus.bus import HOST
from tests.sim.machine.engine.bench import EngineBench, in_parts
from tests.sim.machine.engine.cases import NO_FLAGS, Burst, Job, Shape

RESPONSES = {"slverr": BusError.SLVERR, "decerr": BusError.DECERR}
LAST_KINDS = ("early-last", "late-last")

PLACES = ((0, 0), (0x1C, 0xFE4), (0xFC4, 0x38), (0xF80, 0xF20))
"""Offsets of sources and destinations: at lines, inside beats, and before a page's end."""

OPERATIONS = (
    (Opcode.COMPRESS_OUT, NO_FLAGS),
    (Opcode.DECOMPRESS_IN, NO_FLAGS),
    (Opcode.COPY_OUT, NO_FLAGS),
    (Opcode.COPY_IN, NO_FLAGS),
    (Opcode.COMPRESS_OUT, Flag.VERIFY),
)


@dataclass(frozen=True)
class Cell:
    """A fault of a transfer.

    Attributes
    ----------
    shape : Shape
    what : str
        "reads", "writes" or "reads back".
    kind : str
        A `BusFault`'s.
    index : int
        Which of the transfer's beats (reads) or bursts (writes).
    among : bool
        Others are under way.
    """

    shape: Shape
    what: str
    kind: str
    index: int
    among: bool

    def __str__(self) -> str:
        unit = "burst" if self.what == "writes" else "beat"
        among = ", among others" if self.among else ""
        return f"{self.kind} on {unit} {self.index} of what it {self.what}: {self.shape}{among}"


def shapes(lengths: tuple[int, ...], densities: tuple[float, ...]) -> Iterator[Shape]:
    for number, (length, density) in enumerate((n, d) for n in lengths for d in densities):
        for turn, (src, dst) in enumerate(PLACES):
            for opcode, flags in OPERATIONS:
                interrupt = Flag.INTERRUPT if turn % 2 else NO_FLAGS
                yield Shape(
                    opcode=opcode,
                    length=length,
                    src=src,
                    dst=dst,
                    density=density,
                    flags=flags | interrupt,
                    seed=number,
                )


def cells(lengths: tuple[int, ...], densities: tuple[float, ...], most: int) -> Iterator[Cell]:
    """Cells of each transfer and kind of fault, with at most so many beats or bursts."""
    count = 0
    for shape in shapes(lengths, densities):
        job = Job(shape, 2, shape.src, shape.dst)
        for what in ("reads", "writes", "reads back"):
            asked = asked_of(job, what)
            for kind in RESPONSES if what == "writes" else (*RESPONSES, *LAST_KINDS):
                places = range(len(hits(asked, what, kind)))
                step = -(-len(places) // most) or 1
                # Not always the same ones.
                for index in places[count % step :: step]:
                    count += 1
                    yield Cell(shape, what, kind, index, count % 3 == 0)


def asked_of(job: Job, what: str) -> list[Burst]:
    if what == "reads back":
        return job.reads_back() if job.verified else []
    if what == "reads":
        return job.device_reads() if job.outward else job.host_reads()
    return job.host_writes() if job.outward else job.device_writes()


def hits(asked: list[Burst], what: str, kind: str) -> list[tuple[Burst, int]]:
    """The bursts that a fault of that kind can hit, with the beat's address."""
    if what == "writes":
        return [(burst, burst.address) for burst in asked]
    # RLAST on the last beat is not early.
    return [
        (burst, address)
        for burst in asked
        for address in burst.beat_addresses[: -1 if kind == "early-last" else None]
    ]


def carry_out(bench: EngineBench, cell: Cell) -> None:
    job = bench.job(cell.shape)
    burst, address = hits(asked_of(job, cell.what), cell.what, cell.kind)[cell.index]
    port = HOST if burst.port < 0 else burst.port
    channel = "b" if cell.what == "writes" else "r"
    fault = BusFault(port, channel, cell.kind, addresses=(address, address + 1))
    detail = RESPONSES.get(cell.kind, BusError.FRAMING).value
    if cell.kind == "late-last":
        # It is missed on the last beat, whichever was hit.
        address = burst.beat_addresses[-1]
    if cell.what == "reads":
        ending = job.source_fails(Status.READ_ERROR, detail, burst, address)
    elif cell.what == "writes":
        ending = job.destination_fails(Status.WRITE_ERROR, detail, burst)
    else:
        ending = job.reading_back_fails(Status.READ_ERROR, detail, address)
    with bench.cell(str(cell)):
        jobs, endings = [job], [ending]
        if cell.among:
            others = [
                bench.job(Shape(opcode=opcode, length=260, src=0x34, dst=0x74, seed=9), area)
                for area, opcode in ((1, Opcode.DECOMPRESS_IN), (2, Opcode.COMPRESS_OUT))
            ]
            jobs = [others[0], job, others[1]]
            endings = [others[0].good(), ending, others[1].good()]
        bench.carry_out(jobs, endings, [fault])


FEW = tuple(cells((4, 420), (0.5,), 8))
MANY = tuple(cells((8, 260, 996, 2060), (0.1, 0.6, 1.0), 7))


@in_parts(2)
def test_errors_on_beats_and_bursts(bench, part):
    for cell in FEW[part::2]:
        carry_out(bench, cell)


@pytest.mark.verify
@in_parts(4)
def test_errors_on_more_beats_and_bursts(bench, part):
    for cell in MANY[part::4]:
        carry_out(bench, cell)
