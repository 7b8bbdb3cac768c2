"""Buses that stop in the middle of a transfer, at every channel, and come back later."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from cdma.hw.dma.control.descriptor import Flag, Opcode, Status, TimeoutDetail
from cdma.sim.machine import BusFault
from cdma.sim.machine.bus.bus import HOST
from tests.sim.machine.engine.bench import TIMEOUT_CYCLES, EngineBench, in_parts
from tests.sim.machine.engine.cases import Burst, Ending, Job, Shape

PLACES = ((0, 0), (0xF94, 0xFB8))
DESCRIPTOR_BEATS = 2

READS = ("ar", "r")
WRITES = ("aw", "w", "b")


@dataclass(frozen=True)
class Cell:
    """A port that stops.

    Attributes
    ----------
    shape : Shape
    port : int
        -1 for the host's.
    channel : str
    index : int
        At which of the transfer's beats (r, w) or bursts there.
    another : Opcode, optional
        Of a transfer behind it.
    """

    shape: Shape
    port: int
    channel: str
    index: int
    another: Opcode | None

    def __str__(self) -> str:
        port = "the host port" if self.port < 0 else f"memory port {self.port}"
        another = f", with {self.another.name} behind it" if self.another else ""
        return f"{port} stops at {self.channel} {self.index}: {self.shape}{another}"


def asked_of(job: Job, port: int, channel: str) -> list[Burst]:
    """Without what is asked for descriptors and records."""
    if port >= 0:
        asked = job.device_reads() if job.outward else job.device_writes()
        return [burst for burst in asked if burst.port == port]
    return job.reads_back() if job.outward else job.host_reads()


def hits(asked: list[Burst], channel: str) -> list[tuple[Burst, int]]:
    """Bursts that a hang hits, and their addresses: in W and R at every beat."""
    if channel in ("r", "w"):
        return [(burst, address) for burst in asked for address in burst.beat_addresses]
    return [(burst, burst.address) for burst in asked]


def cells(lengths: tuple[int, ...], most: int) -> Iterator[Cell]:
    """Cells of each transfer, port and channel, with at most so many beats or bursts."""
    count = 0
    for length in lengths:
        for src, dst in PLACES:
            for opcode in (
                Opcode.COMPRESS_OUT,
                Opcode.COPY_OUT,
                Opcode.DECOMPRESS_IN,
                Opcode.COPY_IN,
            ):
                shape = Shape(opcode=opcode, length=length, src=src, dst=dst, seed=length)
                outward = opcode in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
                at_host = shape
                if opcode is Opcode.COMPRESS_OUT:
                    at_host = replace(shape, flags=Flag.VERIFY)
                ports = [(shape, port, READS if outward else WRITES) for port in (0, 1)]
                if opcode is not Opcode.COPY_OUT:
                    ports.append((at_host, -1, READS))
                for shape_there, port, channels in ports:
                    job = Job(shape_there, 2, src, dst)
                    for channel in channels:
                        places = range(len(hits(asked_of(job, port, channel), channel)))
                        step = -(-len(places) // most) or 1
                        for index in places[count % step :: step]:
                            count += 1
                            another = None
                            if port >= 0:
                                another = (None, Opcode.COPY_IN, Opcode.COMPRESS_OUT)[count % 3]
                            yield Cell(shape_there, port, channel, index, another)


def carry_out(bench: EngineBench, cell: Cell) -> None:
    job = bench.job(cell.shape)
    burst, address = hits(asked_of(job, cell.port, cell.channel), cell.channel)[cell.index]
    ending = times_out(job, cell, burst, address)
    # The descriptor was read before.
    before = {"ar": 1, "r": DESCRIPTOR_BEATS}.get(cell.channel, 0) if cell.port < 0 else 0
    port = HOST if cell.port < 0 else cell.port
    fault = BusFault(port, cell.channel, "hang", before + cell.index)
    jobs, endings = [job], [ending]
    if cell.another:
        other = bench.job(Shape(opcode=cell.another, length=600, src=0x54, dst=0x60, seed=5), 1)
        jobs.append(other)
        asked = asked_of(other, cell.port, cell.channel)
        same_way = other.outward == job.outward
        endings.append(
            times_out(other, cell, asked[0], asked[0].address) if same_way else other.good()
        )
    with bench.cell(str(cell)):
        records = bench.carry_out(jobs, endings, [fault])
        cycles = records[0].cycles
        assert TIMEOUT_CYCLES < cycles < 2 * TIMEOUT_CYCLES, f"it took {cycles} cycles"


def times_out(job: Job, cell: Cell, burst: Burst, address: int) -> Ending:
    if cell.channel in WRITES:
        return job.destination_fails(Status.TIMEOUT, TimeoutDetail.WRITE, burst)
    if cell.port < 0 and job.outward:
        return job.reading_back_fails(Status.TIMEOUT, TimeoutDetail.READ, address)
    return job.source_fails(Status.TIMEOUT, TimeoutDetail.READ, burst, address)


FEW = tuple(cells((8, 900), 6))
MANY = tuple(cells((132, 512, 1500), 16))


@in_parts(2)
def test_ports_that_stop(bench, part):
    for cell in FEW[part::2]:
        carry_out(bench, cell)


@pytest.mark.verify
@in_parts(2)
def test_ports_that_stop_at_more_places(bench, part):
    for cell in MANY[part::2]:
        carry_out(bench, cell)
