"""Host memory that changes between a write and its verification."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.stream import crc32
from cdma.golden.formats.zvc import decode
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status
from tests.sim.machine.engine.bench import EngineBench, in_parts
from tests.sim.machine.engine.cases import ELEMENT, Job, Shape

PLACES = ((0, 0), (0xFCC, 0xFE4))


@dataclass(frozen=True)
class Cell:
    """Bits of a stream that flip once they have been written."""

    shape: Shape
    bits: tuple[int, ...]

    def __str__(self) -> str:
        return f"bits {self.bits} flip: {self.shape}"


def cells(lengths: tuple[int, ...], count: int) -> Iterator[Cell]:
    rng = np.random.default_rng(3)
    for length in lengths:
        for src, dst in PLACES:
            shape = Shape(
                opcode=Opcode.COMPRESS_OUT,
                length=length,
                src=src,
                dst=dst,
                flags=Flag.VERIFY,
                seed=length,
            )
            bits = 8 * Job(shape, 2, src, dst).wanted.size
            for turn in range(count):
                chosen = rng.choice(bits, turn % 3 + 1, replace=False)
                yield Cell(shape, tuple(sorted(int(bit) for bit in chosen)))


def carry_out(bench: EngineBench, cell: Cell) -> None:
    job = bench.job(cell.shape)
    with bench.cell(str(cell)):
        transfers = bench.submit([job])
        target = bench.target(job)
        last_word = job.dst + job.wanted.size - ELEMENT
        before = int(target[-ELEMENT:].view("<u4")[0])
        bench.engine.doorbell()
        bench.machine.run_until_word(last_word, 5000, unlike=before)
        for bit in cell.bits:
            target[bit // 8] ^= 1 << bit % 8
        seen = decode(target, cell.shape.length, ELEMENT)
        [record] = bench.engine.wait_all()
        bench.settle()
        if seen.status == StreamStatus.OK:
            assert crc32(seen.data) != job.crc
        ending = replace(
            job.good(),
            status=Status.VERIFY_MISMATCH,
            detail=seen.status,
            fault_address=seen.offset,
        )
        bench.check_record(record, ending)
        for bit in cell.bits:
            target[bit // 8] ^= 1 << bit % 8
        bench.check_target(job, record)
        bench.check_memory([job], transfers)
        bench.check_registers(transfers)


FEW = tuple(cells((4, 404), 20))
MANY = tuple(cells((128, 640, 1500), 150))


@in_parts(2)
def test_flipped_bits(bench, part):
    for cell in FEW[part::2]:
        carry_out(bench, cell)


@pytest.mark.verify
@in_parts(2)
def test_more_flipped_bits(bench, part):
    for cell in MANY[part::2]:
        carry_out(bench, cell)


def test_bits_beside_the_stream_do_not_matter(bench):
    shape = Shape(opcode=Opcode.COMPRESS_OUT, length=404, dst=0x104, flags=Flag.VERIFY)
    job = bench.job(shape)
    with bench.cell("bits beside the stream flip"):
        bench.submit([job])
        last_word = job.dst + job.wanted.size - ELEMENT
        before = int(bench.target(job)[-ELEMENT:].view("<u4")[0])
        bench.engine.doorbell()
        bench.machine.run_until_word(last_word, 5000, unlike=before)
        start = job.dst - bench.machine.host_base
        bench.machine.host[start - 1] ^= 0xFF
        bench.machine.host[start + job.wanted.size] ^= 0xFF
        [record] = bench.engine.wait_all()
        bench.settle()
        bench.check_record(record, job.good())
