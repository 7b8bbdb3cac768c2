"""One element of a line, followed through the pipelines: for lines of any width.

The solver picks an element of the line, and a place of the payload. If the element is present and
as many present ones stand before it as places before that one, the place holds it: that is what
`followed_beats` says of a line. As any element and place may have been picked, it says of all of
them what `encoding` says; proofs see the mask alone of the others. The counts of the mask go with
the line as numbers (`LaneCounts`), which move like everything else, so that nothing is counted
again.
"""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.hw.codec.payloads import Truncation
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, Condition, Contract, Port
from tests.formal.codec.lane_theorems import LaneCounts, at, bounds
from tests.formal.rules import ALWAYS

LINE_BEAT = "LineBeat of a followed line"


class Picked:
    """The element that is followed, and the place of the payload that is looked at.

    Attributes
    ----------
    sector, lane : Signal
        Of the element.
    beat, place : Signal
        The beat of the place, and its lane in the beat.
    """

    def __init__(self, bench: Bench, config: CodecConfig) -> None:
        self.config = config
        self.sector = Signal(range(config.sectors), name="picked_sector")
        self.lane = Signal(range(config.lanes), name="picked_lane")
        self.beat = Signal(range(config.sectors), name="picked_beat")
        self.place = Signal(range(config.lanes), name="picked_place")
        for number in (self.sector, self.lane, self.beat, self.place):
            if len(number):
                bench.m.d.comb += number.eq(AnyConst(len(number)))

    @property
    def rank(self) -> Value:
        """Elements of the payload before the place; lanes are a power of two."""
        return Cat(self.place, self.beat)


class FollowedLine:
    """A line of which the mask, its counts and one element are known.

    Attributes
    ----------
    present : list of Signal
        Each sector's part of the mask.
    counts : list of LaneCounts
        Of each sector.
    value : Signal
        The picked element.
    last, empty : Signal
        As of `Line`.
    """

    def __init__(self, config: CodecConfig, picked: Picked, name: str) -> None:
        self.config = config
        self.picked = picked
        self.present = [
            Signal(config.lanes, name=f"{name}_present_{s}", reset_less=True)
            for s in range(config.sectors)
        ]
        self.counts = [LaneCounts(config.lanes, f"{name}_{s}") for s in range(config.sectors)]
        self.value = Signal(8 * config.element_bytes, name=f"{name}_value", reset_less=True)
        self.last = Signal(name=f"{name}_last", reset_less=True)
        self.empty = Signal(name=f"{name}_empty", reset_less=True)

    @property
    def wires(self) -> list[Signal]:
        numbers = [number for counts in self.counts for number in counts.below]
        return [*self.present, *numbers, self.value, self.last, self.empty]

    @property
    def mask(self) -> Value:
        return Cat(self.present)

    def before(self, sectors: Value | int) -> Value:
        """Present elements of so many sectors."""
        bits = self.config.elements.bit_length()
        return sum(
            (Mux(s < sectors, own.all, 0) for s, own in enumerate(self.counts)), Const(0, bits)
        )[:bits]

    @property
    def total(self) -> Value:
        return self.before(self.config.sectors)

    @property
    def is_followed(self) -> Value:
        """The picked element is present, and has the picked place."""
        sector, lane = self.picked.sector, self.picked.lane
        is_present = at([at(list(own), lane) for own in self.present], sector)
        below = at([own.of_lane(lane) for own in self.counts], sector)
        return is_present & (self.before(sector) + below == self.picked.rank)

    def legal(self) -> Iterator[Value]:
        """Conditions that it is a line, whose counts are those of its mask."""
        yield ~self.empty | (self.last & (self.mask == 0))
        for present, counts in zip(self.present, self.counts, strict=True):
            yield counts.are_of(present)
            yield from bounds(counts, present, self.picked.lane)

    def sectors_there(self, there: Value) -> Value:
        """Number of its sectors, if it is there."""
        return Mux(there, Mux(self.empty, 1, self.config.sectors), 0)

    def items(self, is_followed: Value) -> list[Value]:
        """Its sectors as `followed_item`."""
        sectors = self.config.sectors
        items = []
        for s, present in enumerate(self.present):
            last = self.last & (self.empty if s == 0 and sectors > 1 else 1)
            if 0 < s < sectors - 1:
                last = Const(0)
            has_it = is_followed & (self.picked.sector == s)
            items.append(followed_item(present, has_it, self.value, last, self.empty))
        return items


def followed_item(
    present: Value, is_followed: Value, value: Value, last: Value, empty: Value
) -> Value:
    """A sector's part of the mask, its followed element if it has it, and its ends, for `Order`."""
    return Cat(present, is_followed, Mux(is_followed, value, 0), last, empty)


def seen_of(beat: Any, number: Value, line: FollowedLine) -> Value:
    """Bits of what is known of the beat of that number of a line.

    Of its elements that is the one that is followed, if it is in this beat.
    """
    picked = line.picked
    elements = [beat.elements[i] for i in range(line.config.lanes)]
    is_here = line.is_followed & (number == picked.beat)
    ends = (beat.sol, beat.eol, beat.last, beat.empty, beat.truncation)
    return Cat(beat.mask, beat.count, *ends, is_here, Mux(is_here, at(elements, picked.place), 0))


def followed_beats(config: CodecConfig, number: Value, line: FollowedLine) -> Contract:
    """`LineBeat`: the beat of that number of a line."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        beat: Any = port.payload
        lanes, picked = config.lanes, line.picked
        bits = config.elements.bit_length() + 1
        done = (number * lanes)[:bits]
        left = (line.total - done)[:bits]
        final = left <= lanes
        elements = [beat.elements[i] for i in range(lanes)]
        return [
            *((ALWAYS, condition) for condition in line.legal()),
            (ALWAYS, line.total >= done),
            (ALWAYS, beat.mask == Mux(number == 0, line.mask, 0)),
            (ALWAYS, beat.count == Mux(final, left, lanes)),
            (ALWAYS, beat.sol == (number == 0)),
            (ALWAYS, beat.eol == final),
            (ALWAYS, beat.last == (line.last & final)),
            (ALWAYS, beat.empty == line.empty),
            (ALWAYS, beat.truncation == Truncation.NONE),
            (
                line.is_followed & (number == picked.beat),
                at(elements, picked.place) == line.value,
            ),
        ]

    return Contract(LINE_BEAT, rules)
