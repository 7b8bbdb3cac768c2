"""Destinations that are too small by any number of bytes, and how to go on behind them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cdma.golden.formats.zvc import Zvc
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status
from tests.sim.machine.engine.bench import EngineBench, in_parts
from tests.sim.machine.engine.cases import ELEMENT, NO_FLAGS, Job, Shape

PLACES = ((0, 0), (0x4, 0x1C), (0xF8C, 0xFD4))


@dataclass(frozen=True)
class Cell:
    """A transfer whose room is too small, or just not."""

    shape: Shape

    def __str__(self) -> str:
        return str(self.shape)


def rooms(job: Job) -> Iterator[int]:
    """Sizes of a destination: around elements, beats, lines, bursts and the very end, and none."""
    size = job.wanted.size
    interesting = {0, 1, 2, 3, 4, 5, 31, 32, 33, size - 1, size, size + 1, size + 64}
    to_beat = -job.dst % 32
    to_burst = -job.dst % (512 if job.outward else 256)
    for near in (*job.line_ends, to_beat, to_burst, to_burst + 512, size - 4, size - 32):
        interesting |= {near - 1, near, near + 1, near + 2}
    return iter(sorted(space_left for space_left in interesting if 0 <= space_left <= size + 64))


def cells(lengths: tuple[int, ...], densities: tuple[float, ...], most: int) -> Iterator[Cell]:
    """Cells of each transfer with at most so many destination sizes."""
    count = 0
    for length in lengths:
        for density in densities:
            for src, dst in PLACES:
                for opcode in (
                    Opcode.COMPRESS_OUT,
                    Opcode.DECOMPRESS_IN,
                    Opcode.COPY_OUT,
                    Opcode.COPY_IN,
                ):
                    shape = Shape(
                        opcode=opcode, length=length, src=src, dst=dst, density=density, seed=count
                    )
                    all_spaces = list(rooms(Job(shape, 2, src, dst)))
                    step = -(-len(all_spaces) // most)
                    for space_left in all_spaces[count % step :: step]:
                        count += 1
                        flags = NO_FLAGS
                        if opcode is Opcode.COMPRESS_OUT and count % 3 == 0:
                            flags = Flag.VERIFY
                        if opcode is Opcode.DECOMPRESS_IN and count % 3 == 0:
                            flags = Flag.CHECK_CRC
                        yield Cell(replace(shape, space_left=space_left, flags=flags))


def carry_out(bench: EngineBench, cell: Cell) -> None:
    job = bench.job(cell.shape)
    with bench.cell(str(cell)):
        [record] = bench.carry_out([job], [job.good()])
        if record.status is not Status.DESTINATION_OVERFLOW or not job.outward:
            return
        # The rest, from where the first part ends.
        left = cell.shape.length - record.src_done
        if not job.compressed:
            assert left
        rest_shape = replace(cell.shape, length=left, src=cell.shape.src + record.src_done)
        if rest_shape.src % ELEMENT or not left:
            return
        rest = bench.job(replace(rest_shape, space_left=None)).with_data(
            job.data[record.src_done :]
        )
        first = bench.target(job)[: record.fault_address].copy()
        bench.carry_out([rest], [rest.good()])
        both = np.concatenate([first, bench.target(rest)])
        if job.compressed:
            both = Zvc(ELEMENT).decompress(both, cell.shape.length)
        np.testing.assert_array_equal(both, job.data)


FEW = tuple(cells((4, 300, 1156), (0.1, 0.7), 8))
MANY = tuple(cells((128, 516, 772, 2304), (0.0, 0.3, 1.0), 20))


@in_parts(2)
def test_too_little_room(bench, part):
    for cell in FEW[part::2]:
        carry_out(bench, cell)


@pytest.mark.verify
@in_parts(2)
def test_too_little_room_by_any_number_of_bytes(bench, part):
    for cell in MANY[part::2]:
        carry_out(bench, cell)
