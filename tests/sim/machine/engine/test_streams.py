"""Streams that were never written by the engine: each ends as the golden decoder says."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest

from cdma.golden import LINE_BYTES, StreamStatus
from cdma.golden.formats.stream import ByteArray, crc32
from cdma.golden.formats.zvc import Zvc, decode
from cdma.hw.dma.control.descriptor import Opcode, Status
from tests.sim.machine.engine.bench import EngineBench, in_parts
from tests.sim.machine.engine.cases import ELEMENT, Ending, Job, Shape
from tests.sim.machine.pipeline.malformed import Corruption, damaged_streams
from tests.sim.machine.pipeline.zvc_cases import sparse

AT_ONCE = 4
MOST_SPACE = 8192

TRUNCATED = (StreamStatus.MASK_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED)


@dataclass(frozen=True)
class Cell:
    """A stream, and what the descriptor says about it."""

    name: str
    stream: ByteArray
    length: int
    space_left: int
    crc: int | None
    src: int = 0
    dst: int = 0

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.stream.size} B of stream at {self.src:#x} for {self.length} B at "
            f"{self.dst:#x}, room for {self.space_left}, CRC {self.crc}: "
            f"{self.stream.tobytes().hex()}"
        )


def damaged(count: int, seed: int) -> Iterator[Cell]:
    """Streams with all kinds of damage, and good ones."""
    rng = np.random.default_rng(seed)
    streams = damaged_streams(rng, count, ELEMENT)
    for index in range(count):
        length = int(streams.lengths[index])
        stream = streams.packets.packet(index)
        if not length or not stream.size:
            continue
        space_left = min(length, MOST_SPACE)
        if rng.random() < 0.1:
            space_left = int(rng.integers(0, space_left))
        src, dst = (int(place) * ELEMENT for place in rng.integers(0, 1100, 2))
        crc = int(streams.crcs[index]) if streams.check_crc[index] else None
        name = Corruption(streams.damage[index]).name
        yield Cell(name, stream, length, space_left, crc, src, dst)


def every_cut_and_bit(nbytes: int, step: int) -> Iterator[Cell]:
    """Damages of one stream: every length that it may be cut to, every `step`th bit flipped."""
    data = sparse(np.random.default_rng(7), nbytes, ELEMENT, 0.4)
    stream = Zvc(ELEMENT).compress(data)
    for size in range(1, stream.size + 1):
        yield Cell(f"cut to {size}", stream[:size], nbytes, nbytes, crc32(data), 0x1C, 0xFEC)
    for bit in range(0, 8 * stream.size, step):
        other = stream.copy()
        other[bit // 8] ^= 1 << bit % 8
        yield Cell(f"bit {bit} flipped", other, nbytes, nbytes, crc32(data), 0xFDC, 0x24)
    for more in (1, 2, 3, 4, 31, 33, 600):
        longer = np.concatenate([stream, np.full(more, 0x55, np.uint8)])
        yield Cell(f"{more} bytes more", longer, nbytes, nbytes, crc32(data), 0x4, 0x8)


def made(bench: EngineBench, cell: Cell, area: int) -> tuple[Job, Ending]:
    decoded = decode(cell.stream, cell.length, ELEMENT, cell.crc)
    job = bench.job(
        Shape(opcode=Opcode.DECOMPRESS_IN, length=ELEMENT, src=cell.src, dst=cell.dst), area
    ).with_stream(cell.stream, cell.length, cell.space_left, decoded.data, cell.crc)
    # More than the longest stream is not read.
    longest = -(-cell.length // LINE_BYTES) * (LINE_BYTES + LINE_BYTES // ELEMENT // 8) + ELEMENT
    status = decoded.status
    # Lines are left out behind the first one that has no room, and are not looked at then.
    seen = min(cell.length, (cell.space_left // LINE_BYTES + 1) * LINE_BYTES)
    if cell.space_left and seen < cell.length:
        before = decode(cell.stream, seen, ELEMENT)
        if before.status in (StreamStatus.OK, StreamStatus.TRAILING_BYTES):
            return job, Ending(
                status=Status.DESTINATION_OVERFLOW,
                src_done=min(cell.stream.size, longest),
                least_src_done=before.offset if before.status else cell.stream.size,
                out_size=cell.space_left,
                fault_address=cell.space_left,
            )
    counts = {
        "src_done": min(cell.stream.size, longest),
        "out_size": min(decoded.valid_bytes, cell.space_left),
    }
    if status not in (StreamStatus.OK, StreamStatus.CRC_MISMATCH):
        counts["least_src_done"] = min(decoded.offset, counts["src_done"])
        kind = Status.STREAM_TRUNCATED if status in TRUNCATED else Status.STREAM_CORRUPT
        return job, Ending(status=kind, detail=status, fault_address=decoded.offset, **counts)
    counts["crc32"] = crc32(decoded.data)
    if status == StreamStatus.CRC_MISMATCH:
        return job, Ending(status=Status.CRC_MISMATCH, **counts)
    if cell.space_left < cell.length:
        return job, Ending(
            status=Status.DESTINATION_OVERFLOW, fault_address=cell.space_left, **counts
        )
    return job, Ending(status=Status.OK, **counts)


def carry_out(bench: EngineBench, batch: tuple[Cell, ...]) -> None:
    """Several streams are under way at once."""
    with bench.cell("; ".join(map(str, batch))):
        jobs, endings = zip(*(made(bench, cell, k) for k, cell in enumerate(batch)), strict=True)
        bench.carry_out(jobs, endings)


def batches(cells: tuple[Cell, ...]) -> Iterator[tuple[Cell, ...]]:
    rest = iter(cells)
    while batch := tuple(islice(rest, AT_ONCE)):
        yield batch


FEW = (*damaged(500, 1), *every_cut_and_bit(140, 7))
MANY = (*damaged(4000, 2), *every_cut_and_bit(300, 1))


@in_parts(2)
def test_damaged_streams(bench, part):
    for batch in list(batches(FEW))[part::2]:
        carry_out(bench, batch)


@pytest.mark.verify
@in_parts(2)
def test_more_damaged_streams(bench, part):
    for batch in list(batches(MANY))[part::2]:
        carry_out(bench, batch)
