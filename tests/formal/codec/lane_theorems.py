"""Theorems about counts and networks of lanes, and stand-ins that keep nothing else.

`test_lanes.py` proves each theorem here of the real logic, for every mask, at all widths that are
shipped. In proofs of whole pipelines a stand-in takes the place of that logic: its outputs are
anything, and `Bench.assume` states the theorem of them. So a pipeline is proven for whatever has
been proven of its networks, and no network is in the solver's formula.

All theorems are about counts that a proof names itself (`LaneCounts`), a number for each lane.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq, Assign

from cdma.hw.lib.lanes import BlockCounts, swaps


def at(words: Sequence[Value], place: Value) -> Value:
    """The word at a place; 0 if there is none."""
    return reduce(or_, (Mux(place == k, word, 0) for k, word in enumerate(words)))


class LaneCounts:
    """Numbers that may be the counts of present lanes below each lane, and of all lanes.

    Attributes
    ----------
    lanes : int
    below : list of Signal
        One for each lane, and behind them the count of all.
    """

    def __init__(self, lanes: int, name: str) -> None:
        self.lanes = lanes
        self.below = [
            Signal(range(lanes + 1), name=f"{name}_below_{k}", reset_less=True)
            for k in range(lanes + 1)
        ]

    @property
    def all(self) -> Signal:
        return self.below[-1]

    def of_lane(self, lane: Value) -> Value:
        return at(self.below[:-1], lane)

    def are_of(self, present: Value) -> Value:
        """Condition that they are the counts of these lanes: they grow by one per present lane."""
        steps = (
            after == (before + present[k])[: len(after)]
            for k, (before, after) in enumerate(zip(self.below, self.below[1:], strict=False))
        )
        return Cat(self.below[0] == 0, *steps).all()

    def takes(
        self,
        new: "LaneCounts",
        otherwise: "LaneCounts | None" = None,
        takes_new: Value | int = 1,
        *,
        unless: Value | int = 0,
    ) -> list[Assign]:
        """Become other counts, of one of two groups of lanes, or those of none."""
        others = (otherwise or new).below
        return [
            own.eq(Mux(unless, 0, Mux(takes_new, one, other)))
            for own, one, other in zip(self.below, new.below, others, strict=True)
        ]

    def ones(self) -> list[Value]:
        """As much of them as `swaps` needs."""
        return [self.below[i][: max((i & -i).bit_length(), 1)] for i in range(self.lanes)]


def bounds(counts: LaneCounts, present: Value, lane: Value) -> Iterator[Value]:
    """The theorem of counts of present lanes: a lane adds to that of all, which are no more."""
    yield counts.of_lane(lane) + at(list(present), lane) <= counts.all
    yield counts.of_lane(lane) <= lane
    yield counts.all <= counts.lanes


def blocks_are_of(counted: Any, blocks: BlockCounts, counts: LaneCounts) -> Iterator[Value]:
    """The theorem of `BlockCounts.count`, if the counts are those of its lanes."""
    for b in range(blocks.lanes // blocks.block):
        first = b * blocks.block
        base = counts.below[first]
        for i in range(first + 1, first + blocks.block):
            ones = counted.ones[str(i)]
            yield ones == (counts.below[i] - base)[: len(ones)]
        yield counted.counts[b] == (counts.below[first + blocks.block] - base)[: len(base)]


def joined_are_of(ones: Sequence[Value], count: Value, counts: LaneCounts) -> Iterator[Value]:
    """The theorem of `BlockCounts.join`, if what is joined is of the counts."""
    for own, right in zip(ones, counts.ones(), strict=True):
        yield own[: len(right)] == right
    yield count == counts.all


def gathers(
    lanes_in: Sequence[Value],
    lanes_out: Sequence[Value],
    counts: LaneCounts,
    start: Value,
    lane: Value,
    place: Value,
) -> Value:
    """The theorem of `gather`: what is in a present lane goes to its place in the row."""
    is_its_place = (start + counts.of_lane(lane))[: len(place)] == place
    return ~is_its_place | (at(lanes_out, place) == at(lanes_in, lane))


def scatters(
    lanes_in: Sequence[Value],
    lanes_out: Sequence[Value],
    counts: LaneCounts,
    start: Value,
    lane: Value,
    place: Value,
) -> Value:
    """The theorem of `scatter`: what is at its place in the row comes to a present lane."""
    return gathers(lanes_out, lanes_in, counts, start, lane, place)


def turns(
    lanes_in: Sequence[Value], lanes_out: Sequence[Value], source: Value, lane: Value
) -> Value:
    """The theorem of `turned_up`: a lane gets what is in `source`, so many lanes before it.

    What is before the first lane is round the end.
    """
    return at(lanes_out, lane) == at(lanes_in, source)


def ways_are_of(
    m: Module, levels: Sequence[Value], counts: LaneCounts, start: Value | None, *, name: str
) -> Value:
    """Condition that these are the ways of `swaps` by the counts."""
    right = swaps(m, counts.ones(), start, name=name)
    return Cat(level == own for level, own in zip(levels, right, strict=True)).all()


@dataclass(frozen=True)
class CutNetwork:
    """A network that has been cut out: what goes in, by which ways, and whatever comes out."""

    lanes_in: Sequence[Value]
    levels: Sequence[Value]
    lanes_out: Sequence[Signal]


@dataclass(frozen=True)
class CutCount:
    """Counts within blocks that have been cut out: of which lanes, and whatever is counted."""

    blocks: BlockCounts
    present: Value
    counted: SimpleNamespace


@dataclass(frozen=True)
class CutJoin:
    """Counts of all lanes that have been cut out: of which blocks, and whatever comes of them."""

    blocks: BlockCounts
    counted: Any
    ones: Sequence[Value]
    count: Signal


def _free(m: Module, bits: int, name: str) -> Signal:
    signal = Signal(bits, name=name)
    m.d.comb += signal.eq(AnySeq(bits))
    return signal


def _free_lanes(m: Module, lanes_in: Sequence[Value], name: str) -> list[Signal]:
    """Anything, as wide as what goes in."""
    return [_free(m, len(Value.cast(lane)), f"{name}_out_{i}") for i, lane in enumerate(lanes_in)]


@dataclass(frozen=True)
class CutTurn:
    """A ring of lanes whose turning has been cut out: by how many lanes, and whatever comes out."""

    amount: Value
    lanes_out: Sequence[Signal]


def cut_turns(patch: pytest.MonkeyPatch, module: str) -> list[CutTurn]:
    """Put stand-ins in the place of `turned_up` in a module; they are listed as they are made."""
    cuts: list[CutTurn] = []

    def stand_in(m: Module, ring: Sequence[Value], amount: Value, *, name: str) -> list[Signal]:
        lanes_out = _free_lanes(m, ring, name)
        cuts.append(CutTurn(amount, lanes_out))
        return lanes_out

    patch.setattr(f"{module}.turned_up", stand_in)
    return cuts


class Cuts:
    """Stand-ins for what a component makes of its lanes, in the order in which it makes them.

    They count from when this is made. A pipeline that is elaborated then has them in the place of
    its networks and counts.

    Parameters
    ----------
    module : str
        Where the component is.
    network : str
        Its name there: "gather" or "scatter".

    Attributes
    ----------
    networks : dict of CutNetwork
    counts : dict of CutCount
    joins : dict of CutJoin
        By the names that the component gives them.
    """

    def __init__(self, patch: pytest.MonkeyPatch, module: str, network: str) -> None:
        self.networks: dict[str, CutNetwork] = {}
        self.counts: dict[str, CutCount] = {}
        self.joins: dict[str, CutJoin] = {}
        cuts = self

        def stand_in(
            m: Module,
            elements: Sequence[Value],
            levels: Sequence[Value],
            *,
            from_first: bool = False,
            name: str,
        ) -> list[Signal]:
            lanes_out = _free_lanes(m, elements, name)
            cuts.networks[name] = CutNetwork(list(elements), list(levels), lanes_out)
            return lanes_out

        class AnyCounts(BlockCounts):
            """Lays counts out as `BlockCounts` does, and lets them be anything."""

            def count(self, m: Module, present: Value, *, name: str) -> SimpleNamespace:
                counted = SimpleNamespace(
                    ones={
                        key: _free(m, field.width, f"{name}_ones_{key}")
                        for key, field in self["ones"].shape
                        if field.width
                    },
                    counts=[
                        _free(m, self.block.bit_length(), f"{name}_count_{b}")
                        for b in range(self.lanes // self.block)
                    ],
                )
                cuts.counts[name] = CutCount(self, present, counted)
                return counted

            def join(self, m: Module, counted: Any, *, name: str) -> tuple[list[Value], Signal]:
                ones: list[Value] = [
                    _free(m, max((i & -i).bit_length(), 1), f"{name}_ones_{i}")
                    for i in range(self.lanes)
                ]
                count = _free(m, self.lanes.bit_length(), f"{name}_count")
                cuts.joins[name] = CutJoin(self, counted, ones, count)
                return ones, count

        patch.setattr(f"{module}.{network}", stand_in)
        patch.setattr(f"{module}.BlockCounts", AnyCounts)
