"""The forms of lines: symbols of numbers, headers, and lengths.

The format is that of `cdma.golden.formats.lossy.fixed_width`. A number n has two symbols, by
whether the line has a map, which the zeros are left out by:

    n            zigzag                with a map, less one
    n >= 0       2n      = n, 0        2(n - 1) + 1 = (n - 1), 1
    n < 0        2|n| - 1 = ~n, 1      2(|n| - 1)   = ~n, 0

Numbers as they are, kind 0, are these without the lowest bit. With Lorenzo's prediction, n is the
difference to the number before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed

from cdma.golden.formats.lossy.fixed_width import RAW_HEADER
from cdma.golden.formats.stream import LINE_BYTES
from cdma.hw.codec.quantize.codec import MAP_BYTES
from cdma.hw.codec.quantize.payloads import SYMBOL_BITS, WIDTH_BITS
from cdma.hw.lib.count import total

PLAIN, ZIGZAG, LORENZO, RAW = range(4)
"""The kinds, in bits 7, 6 of the header."""
MAX_WIDTH = SYMBOL_BITS


class Header:
    """The parts of a header byte.

    Attributes
    ----------
    kind, mapped, width
        Fields of the byte.
    raw, lorenzo
        Whether it is of that kind.
    malformed
        It is none that a line can have.
    """

    def __init__(self, byte: Value) -> None:
        self.kind = byte[6:8]
        self.mapped = byte[5]
        self.width = byte[:WIDTH_BITS]
        self.raw = self.kind == RAW
        self.lorenzo = self.kind == LORENZO
        self.malformed = Mux(self.raw, byte != RAW_HEADER, self.width > MAX_WIDTH)


def payload_bytes(byte: Value, ones: Value) -> Value:
    """A line's length, from its header and the number of ones in its map; 0 of malformed ones.

    The lengths of forms that no compressor chooses are as the golden model has them: none is longer
    than a raw line.
    """
    header = Header(byte)
    mapped = MAP_BYTES + (ones * header.width + 7)[3:]
    coded = Mux(header.mapped, mapped, header.width << 2)
    return Mux(header.malformed, 0, Mux(header.raw, LINE_BYTES, coded))


def payload_elements(head: Sequence[Value]) -> Value:
    """A line's length for the unpacker, from its header and, of one with a map, its ones.

    Parameters
    ----------
    head
        Bytes, each with the number of its ones in the bits above.
    """
    return payload_bytes(head[0][:8], total([byte[8:] for byte in head[1:]]))


@dataclass(frozen=True)
class Symbols:
    """Symbols of a number: whether it is not zero, whether negative; zigzag, and that less one."""

    present: Signal
    negative: Value
    zigzag: Value
    less_one: Value


def symbols_of(m: Module, number: Value, before: Value | None = None, *, name: str) -> Symbols:
    """Both symbols of a number less the one before it, if there is one.

    Parameters
    ----------
    number, before
        Signed, of `NUMBER_BITS`.
    """
    difference = Signal(signed(SYMBOL_BITS), name=f"{name}_difference")
    below = Signal(signed(SYMBOL_BITS), name=f"{name}_below")
    present = Signal(name=f"{name}_present")
    zigzag = Signal(SYMBOL_BITS, name=f"{name}_zigzag")
    less_one = Signal(SYMBOL_BITS, name=f"{name}_less_one")
    if before is None:
        m.d.comb += [difference.eq(number), below.eq(number - 1), present.eq(number.any())]
    else:
        m.d.comb += [
            difference.eq(number - before),
            # The difference less one, beside it.
            below.eq(number + (~before).as_signed()),
            present.eq(number != before),
        ]
    negative = difference[-1]
    size = difference[:-1]
    flipped = size ^ negative.replicate(len(size))
    m.d.comb += [
        zigzag.eq(Cat(negative, flipped)),
        less_one.eq(
            Mux(negative, Cat(C(0, 1), ~size), Cat(C(1, 1), below[:-1]))
            & present.replicate(SYMBOL_BITS)
        ),
    ]
    return Symbols(present, negative, zigzag, less_one)
