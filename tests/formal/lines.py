"""The beats of a line as they must be, computed from its elements in the plainest way."""

from collections.abc import Sequence
from dataclasses import replace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from cdma.hw.codec.payloads import Truncation
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from tests.formal.order import Run

TINY = CodecConfig(element_bytes=1, sector_bytes=4, line_bytes=8)

NARROW = {
    "4x2": TINY,
    "2x4": CodecConfig(element_bytes=1, sector_bytes=2, line_bytes=8),
    "8x1": CodecConfig(element_bytes=1, sector_bytes=8, line_bytes=8),
    # Masks of more than one element.
    "4x4": CodecConfig(element_bytes=1, sector_bytes=4, line_bytes=16),
    "8x2": CodecConfig(element_bytes=1, sector_bytes=8, line_bytes=16),
    # Elements of two bytes.
    "4x4-E2": CodecConfig(element_bytes=2, sector_bytes=8, line_bytes=32),
}
"""Lanes x sectors of lines that the solver can handle as a whole."""

PIPELINES = {
    **NARROW,
    "4x2-fast": replace(TINY, latency="fast"),
    "8x1-fast": replace(NARROW["8x1"], latency="fast"),
}
"""And those that have a stage more."""

SHIPPED = {
    f"E{element_bytes}-S{sector_bytes}": CodecConfig(
        element_bytes=element_bytes, sector_bytes=sector_bytes
    )
    for sector_bytes in (32, 64, 128)
    for element_bytes in (4, 2, 1)
}
"""All lines of 128 B that can be generated."""

WITH_SHIPPED = {**NARROW, "E4-S32": SHIPPED["E4-S32"]}
"""For proofs that reach the paper's shape."""


def compacted(
    m: Module, elements: Sequence[Value], present: Sequence[Value] | Value, *, name: str
) -> list[Signal]:
    """The present elements in order, then zeros: one multiplexer input per source and place."""
    # ranks[i]: how many present elements stand before element i.
    ranks = []
    rank: Value = Const(0)
    for i in range(len(elements)):
        own = Signal(range(i + 1), name=f"{name}_rank_{i}")
        m.d.comb += own.eq(rank)
        ranks.append(own)
        rank = own + present[i]
    places = []
    for j in range(len(elements)):
        place = Signal(len(elements[0]), name=f"{name}_{j}")
        value: Value = Const(0)
        for i in range(j, len(elements)):
            value = value | Mux(present[i] & (ranks[i] == j), elements[i], 0)
        m.d.comb += place.eq(value)
        places.append(place)
    return places


class Line:
    """A line of a transfer: the ghost of what is inside a component.

    Attributes
    ----------
    elements : list of Signal
    present : Signal
        One bit per element: it is in the payload. All that are not zero are; zeros are only if the
        line is not to be compressed.
    last : Signal
        The last line of the transfer.
    empty : Signal
        No line: an empty transfer. The elements are zero.
    """

    def __init__(self, config: CodecConfig, name: str) -> None:
        bits = 8 * config.element_bytes
        self.config = config
        self.elements = [
            Signal(bits, name=f"{name}_{i}", reset_less=True) for i in range(config.elements)
        ]
        self.present = Signal(config.elements, name=f"{name}_present", reset_less=True)
        self.last = Signal(name=f"{name}_last", reset_less=True)
        self.empty = Signal(name=f"{name}_empty", reset_less=True)

    @property
    def wires(self) -> list[Signal]:
        return [*self.elements, self.present, self.last, self.empty]

    @property
    def legal(self) -> Value:
        """Condition that absent elements are zero, and that an empty transfer has none."""
        absent_is_zero = Cat(
            self.present[i] | (element == 0) for i, element in enumerate(self.elements)
        ).all()
        return absent_is_zero & (~self.empty | (self.last & (self.present == 0)))

    def announced(self, s: int) -> Value:
        """Sector s's part of the mask."""
        return self.present[s * self.config.lanes : (s + 1) * self.config.lanes]

    def sector(self, s: int) -> list[Signal]:
        lanes = self.config.lanes
        return self.elements[s * lanes : (s + 1) * lanes]

    def item(self, s: int) -> Value:
        """Sector s, as `sector_item`."""
        last = self.last & (self.empty if s == 0 and self.config.sectors > 1 else 1)
        if 0 < s < self.config.sectors - 1:
            last = Const(0)
        return Cat(*self.sector(s), last, self.empty)

    def run(self, there: Value) -> Run:
        """Its sectors, if it is there."""
        sectors = self.config.sectors
        count = Mux(there, Mux(self.empty, 1, sectors), 0)
        return Run(count, [self.item(s) for s in range(sectors)])


def sector_item(sector: object) -> Value:
    """A sector's elements (none if it is empty), `last` and `empty`, for `Order`."""
    elements = [Mux(sector.empty, 0, element) for element in sector.elements]
    return Cat(*elements, sector.last, sector.empty)


def place_after(config: CodecConfig, place: Value, last: Value) -> Value:
    """The place in its line of the sector behind one at this place, which may end its transfer."""
    return Mux(last | (place == config.sectors - 1), 0, place + 1)


def encoding(
    m: Module, config: CodecConfig, beat: object, number: Value, line: Line, *, name: str
) -> tuple[list[Value], list[Signal]]:
    """Conditions that make a `LineBeat` the beat of that number of a compressed line.

    They are asserted at a compressor's output, and assumed at a decompressor's input. Returns the
    conditions, and the compacted line.
    """
    lanes = config.lanes
    packed = compacted(m, line.elements, line.present, name=f"{name}_packed")
    total = Signal(range(config.elements + 1), name=f"{name}_total")
    done = Signal(range(config.elements + 1), name=f"{name}_done")
    left = Signal(range(config.elements + 1), name=f"{name}_beat_left")
    m.d.comb += [
        total.eq(count_ones(line.present)),
        done.eq(number * lanes),
        left.eq(total - done),
    ]
    final = left <= lanes
    conditions = [
        total >= done,
        beat.mask == Mux(number == 0, line.present, 0),
        beat.count == Mux(final, left, lanes),
        beat.sol == (number == 0),
        beat.eol == final,
        beat.last == (line.last & final),
        beat.empty == line.empty,
        beat.truncation == Truncation.NONE,
    ]
    for i in range(lanes):
        expected = Const(0)
        for b in range(config.sectors):
            expected = expected | Mux(number == b, packed[b * lanes + i], 0)
        conditions.append(beat.elements[i] == expected)
    return conditions, packed
