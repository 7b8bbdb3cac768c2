"""Descriptors that must not be carried out, each bit and each limit, among good ones."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import pytest

from cdma.hw.dma.control.descriptor import (
    DESCRIPTOR_DTYPE,
    DESCRIPTOR_FIELDS,
    DEVICE_ADDRESS_BITS,
    HOST_ADDRESS_BITS,
    Opcode,
    Status,
)
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import DescriptorError
from cdma.sim.driver.ring.descriptor import FLAGS, check, packed
from tests.sim.machine.engine.bench import (
    DEVICE_BASE,
    HOST_BASE,
    RING_BYTES,
    RING_ENTRIES,
    EngineBench,
)
from tests.sim.machine.engine.cases import ELEMENT, Ending, Shape

AREA = HOST_BASE + RING_BYTES
LENGTH = 256
BATCH = RING_ENTRIES - 4

DEVICE_END = 1 << DEVICE_ADDRESS_BITS
HOST_END = 1 << HOST_ADDRESS_BITS

STREAM_BYTES = LENGTH // 128 * 4 + LENGTH // 2

GOOD: dict[Opcode, dict[str, int]] = {
    Opcode.COMPRESS_OUT: {
        "element_bytes": ELEMENT,
        "src": DEVICE_BASE,
        "dst": AREA,
        "length": LENGTH,
        "dst_capacity": LENGTH,
    },
    Opcode.DECOMPRESS_IN: {
        "element_bytes": ELEMENT,
        "src": AREA,
        "dst": DEVICE_BASE,
        "length": LENGTH,
        "dst_capacity": LENGTH,
        "src_length": STREAM_BYTES,
    },
    Opcode.COPY_OUT: {
        "src": DEVICE_BASE,
        "dst": AREA,
        "length": LENGTH,
        "dst_capacity": LENGTH,
    },
    Opcode.COPY_IN: {
        "src": AREA,
        "dst": DEVICE_BASE,
        "length": LENGTH,
        "dst_capacity": LENGTH,
    },
    Opcode.FENCE: {},
}
OUTWARD = (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
INWARD = (Opcode.DECOMPRESS_IN, Opcode.COPY_IN)


@dataclass(frozen=True)
class Cell:
    """A descriptor, and how it ends: without anything done."""

    name: str
    fields: Mapping[str, int]
    ending: Ending

    def __str__(self) -> str:
        return self.name


def bad(opcode: Opcode, status: Status, /, **changes: int) -> Cell:
    fields = {"opcode": opcode, "tag": 0xBAD, **GOOD[opcode], **changes}
    what = ", ".join(f"{name} = {value:#x}" for name, value in changes.items())
    return Cell(f"{opcode.name} with {what}", fields, Ending(status=status, src_done=0, out_size=0))


def wrong_fields() -> Iterator[Cell]:
    """Values that each field must not have."""
    for opcode in range(256):
        if opcode not in list(Opcode):
            yield bad(Opcode.COPY_IN, Status.BAD_OPCODE, opcode=opcode)
    for opcode in Opcode:
        for bit in range(8):
            # A checksum is wrong, too, without its flag.
            if not (1 << bit) & FLAGS[opcode]:
                yield bad(opcode, Status.BAD_FLAG, flags=1 << bit)
        for codec in (1, 2, 128, 255):
            yield bad(opcode, Status.BAD_FLAG, codec=codec)
        for element_bytes in (0, 1, 2, 3, 4, 5, 8, 255):
            if element_bytes != GOOD[opcode].get("element_bytes", 0):
                yield bad(opcode, Status.BAD_FLAG, element_bytes=element_bytes)
        for offset in range(1, ENTRY_BYTES):
            yield bad(opcode, Status.MISALIGNED, record=AREA + 0x2000 + offset)
    for opcode in (*OUTWARD, *INWARD):
        for offset in range(1, ELEMENT):
            for name in ("src", "dst"):
                moved = {name: GOOD[opcode][name] + offset}
                yield bad(opcode, Status.MISALIGNED, **moved)
        yield bad(opcode, Status.BAD_LENGTH, length=0)
    yield bad(Opcode.DECOMPRESS_IN, Status.BAD_LENGTH, src_length=0)
    yield bad(Opcode.DECOMPRESS_IN, Status.BAD_LENGTH, src_length=0, length=0)


def wraps() -> Iterator[Cell]:
    """Ranges that leave their address space, by little and by much."""
    for outward, opcodes in ((True, OUTWARD), (False, INWARD)):
        src_end, dst_end = (DEVICE_END, HOST_END) if outward else (HOST_END, DEVICE_END)
        for opcode in opcodes:
            read = STREAM_BYTES if opcode is Opcode.DECOMPRESS_IN else LENGTH
            for beyond in (4, 32, 128, read - 4):
                yield bad(opcode, Status.BAD_LENGTH, src=src_end - read + beyond)
                yield bad(opcode, Status.BAD_LENGTH, dst=dst_end - LENGTH + beyond)
            for end, name in ((src_end, "src"), (dst_end, "dst")):
                for address in (end, 2 * end - 4, HOST_END - 4):
                    if address < HOST_END:
                        yield bad(opcode, Status.BAD_LENGTH, **{name: address})
            space_left = dst_end - GOOD[opcode]["dst"]
            for capacity in (space_left + 1, space_left + 4, HOST_END - 1):
                yield bad(opcode, Status.BAD_LENGTH, dst_capacity=capacity)
    long = HOST_END - AREA + 1
    for size in (long, long + 3, HOST_END - 1):
        yield bad(Opcode.DECOMPRESS_IN, Status.BAD_LENGTH, src_length=size)
    src = DEVICE_END - 4096
    for opcode in OUTWARD:
        for length in (4097, 1 << 16, (1 << 32) - 1):
            yield bad(opcode, Status.BAD_LENGTH, src=src, length=length)


def overlaps() -> Iterator[Cell]:
    """Records in what is read or written, wholly, or with a few bytes at either end."""
    for opcode in (*OUTWARD, *INWARD):
        place, size = ("dst", LENGTH) if opcode in OUTWARD else ("src", LENGTH)
        if opcode is Opcode.DECOMPRESS_IN:
            size = STREAM_BYTES
        for offset in (0, 4, 32, 60):
            start = AREA + 0x400 + offset
            first = start // ENTRY_BYTES * ENTRY_BYTES
            for record in range(first, start + size, ENTRY_BYTES):
                yield bad(opcode, Status.OVERLAP, **{place: start}, record=record)


def orders() -> Iterator[Cell]:
    """The first error that is looked for, of several."""
    wrong = (
        (Status.BAD_OPCODE, {"opcode": 9}),
        (Status.BAD_FLAG, {"reserved": 1 << 31}),
        (Status.MISALIGNED, {"src": AREA + 2}),
        (Status.BAD_LENGTH, {"length": 0}),
        (Status.OVERLAP, {"record": AREA + 128}),
    )
    for opcode in (Opcode.COPY_OUT, Opcode.COMPRESS_OUT):
        for chosen in range(1, 1 << len(wrong)):
            mine = [case for k, case in enumerate(wrong) if chosen >> k & 1]
            changes = dict(chain.from_iterable(fields.items() for _, fields in mine))
            # Device addresses: where the host's memory is is beyond them.
            if "src" in changes:
                changes["src"] = DEVICE_BASE + 2
            yield bad(opcode, mine[0][0], **changes)


def flipped(opcode: Opcode, bits: tuple[int, ...]) -> Cell | None:
    """A good descriptor with these of its 512 bits flipped; None if it is still good."""
    record = AREA + 0x3000
    good = packed({"opcode": opcode, "record": record, **GOOD[opcode]}).tobytes()
    flat = np.frombuffer(good, np.uint8).copy()
    for bit in bits:
        flat[bit // 8] ^= 1 << bit % 8
    entry = flat.view(DESCRIPTOR_DTYPE)[0]
    fields = {name: int(entry[name]) for name, _ in DESCRIPTOR_FIELDS}
    # A record elsewhere may have no memory; `overlaps` and `wrong_fields` move it.
    if fields["record"] != record:
        return None
    try:
        check(fields, ELEMENT)
    except DescriptorError as refused:
        # The ring's own place is as good, but where it is what is wrong.
        if refused.status is not Status.OVERLAP:
            del fields["record"]
        ending = Ending(status=Status(refused.status), src_done=0, out_size=0)
        return Cell(f"{opcode.name} with bits {bits} flipped", fields, ending)
    return None


def flips() -> Iterator[Cell]:
    """Every single bit."""
    for opcode in Opcode:
        for bit in range(8 * ENTRY_BYTES):
            cell = flipped(opcode, (bit,))
            if cell:
                yield cell


def more_flips(count: int) -> Iterator[Cell]:
    """Errors of 2 to 4 bits."""
    rng = np.random.default_rng(17)
    opcodes = list(Opcode)
    while count:
        opcode = opcodes[rng.integers(len(opcodes))]
        bits = rng.choice(8 * ENTRY_BYTES, rng.integers(2, 5), replace=False)
        cell = flipped(opcode, tuple(sorted(int(bit) for bit in bits)))
        if cell:
            count -= 1
            yield cell


def batches(cells: tuple[Cell, ...]) -> Iterator[tuple[Cell, ...]]:
    """Those with a record of their own alone, others many at once."""
    rest = iter([cell for cell in cells if "record" not in cell.fields])
    while batch := tuple(islice(rest, BATCH)):
        yield batch
    for cell in cells:
        if "record" in cell.fields:
            yield (cell,)


def carry_out(bench: EngineBench, batch: tuple[Cell, ...]) -> None:
    engine = bench.engine
    name = "; ".join(str(cell) for cell in batch)
    good = bench.job(Shape(opcode=Opcode.COMPRESS_OUT, length=LENGTH, src=4, dst=8), 2)
    with bench.cell(name if len(batch) == 1 else f"one of: {name}"):
        # A good one is under way while they are refused.
        first = bench.submit([good])
        transfers = [engine.submit_raw(cell.fields, doorbell=False) for cell in batch]
        bench.remember()
        engine.doorbell()
        records = engine.wait_all()
        bench.settle()
        bench.check_record(records[0], good.good())
        bench.check_target(good, records[0])
        for cell, record in zip(batch, records[1:], strict=True):
            try:
                bench.check_record(record, cell.ending)
            except AssertionError as error:
                error.add_note(str(cell))
                raise
        bench.check_memory([good], first, transfers)
        bench.check_registers([*first, *transfers])


TABLE = tuple(chain(wrong_fields(), wraps(), overlaps(), orders()))
FLIPS = tuple(flips())
FEW = (*TABLE, *FLIPS)
MANY = tuple(more_flips(2400))


@pytest.mark.parametrize("part", range(2))
def test_what_a_descriptor_must_not_be(bench, part):
    for batch in list(batches(TABLE))[part::2]:
        carry_out(bench, batch)


def test_every_bit(bench):
    assert len(FLIPS) > 1000
    for batch in batches(FLIPS):
        carry_out(bench, batch)


@pytest.mark.verify
def test_several_bits(bench):
    for batch in batches(MANY):
        carry_out(bench, batch)
