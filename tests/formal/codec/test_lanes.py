"""The gather and scatter networks, for every mask, at all widths that are shipped.

An element's bits all take the same way, so that one bit per element shows it for any width. The
networks have no state: the first cycle is all there is.
"""

from collections.abc import Sequence

import pytest
from amaranth.hdl import Array, C, Cat, Signal, Value
from amaranth.hdl._ast import AnyConst

from cdma.hw.lib.count import count_ones
from cdma.hw.lib.lanes import BlockCounts, gather, ones_before, scatter, swaps
from cdma.hw.lib.places import turned_up
from tests.formal.bench import Bench
from tests.formal.broken import find_fault
from tests.formal.codec.lane_theorems import (
    LaneCounts,
    at,
    blocks_are_of,
    bounds,
    gathers,
    joined_are_of,
    scatters,
    turns,
)
from tests.formal.smtbmc import check
from tests.lib.shares import configs, widths


def count_proof(lanes: int, places: range) -> Bench:
    """At these places, each lane has the count of those below it, as far as it needs it."""
    bench = Bench()
    present = Signal(lanes)
    bench.m.d.comb += present.eq(AnyConst(lanes))
    ones, count = ones_before(bench.m, present, name="ones")
    bench.require(count == count_ones(present))
    for i in places:
        if i:
            bench.require(ones[i] == count_ones(present[:i])[: (i & -i).bit_length()])
    bench.cover(count == 0, count == lanes, count == lanes // 2)
    return bench


def block_proof(lanes: int) -> Bench:
    """In blocks, the same counts as `ones_before` has; joined, each with what is before its block.

    What `count_proof` shows of a block's width then holds of all lanes.
    """
    bench = Bench()
    m = bench.m
    blocks = BlockCounts(lanes)
    width = blocks.block
    present = Signal(lanes)
    m.d.comb += present.eq(AnyConst(lanes))
    counted = blocks.count(m, present, name="blocks")
    free = Signal(blocks)
    m.d.comb += free.as_value().eq(AnyConst(blocks.size))
    ones, count = blocks.join(m, free, name="joined")
    so_far = Signal(range(lanes + 1))
    for b in range(lanes // width):
        first = b * width
        within, of_block = ones_before(m, present[first : first + width], name=f"block_{b}")
        bench.require(counted.counts[b] == of_block)
        bench.assume(free.counts[b] <= width)
        for i in range(first, first + width):
            bits = (i & -i).bit_length()
            if i > first:
                bench.require(counted.ones[str(i)] == within[i - first])
            if i:
                own = free.ones[str(i)] if i > first else 0
                bench.require(ones[i] == (so_far + own)[:bits])
        behind = Signal(range(lanes + 1), name=f"behind_{b}")
        m.d.comb += behind.eq(so_far + free.counts[b])
        so_far = behind
    bench.require(count == so_far)
    bench.cover(count == lanes, count == 0)
    return bench


def any_counts(bench: Bench, lanes: int, present: Signal, name: str) -> LaneCounts:
    """The counts of any lanes."""
    counts = LaneCounts(lanes, name)
    for number in (present, *counts.below):
        bench.m.d.comb += number.eq(AnyConst(len(number)))
    bench.assume(counts.are_of(present))
    return counts


class Rows:
    """Any lanes with the counts that `count_proof` shows, whatever makes them, and any start.

    Attributes
    ----------
    present, start, picked : Signal
        `picked` is a lane.
    counts : LaneCounts
    """

    def __init__(self, bench: Bench, lanes: int, *, from_first: bool) -> None:
        self.bench, self.lanes, self.from_first = bench, lanes, from_first
        self.bits = bits = (lanes - 1).bit_length()
        self.present = Signal(lanes)
        self.counts = any_counts(bench, lanes, self.present, "counts")
        self.picked = self.any_of(bits, "picked")
        self.start = self.any_of(bits, "start")
        if from_first:
            bench.assume(self.start == 0)
        self.is_present = self.present.bit_select(self.picked, 1)

    def any_of(self, bits: int, name: str) -> Signal:
        signal = Signal(bits, name=name)
        self.bench.m.d.comb += signal.eq(AnyConst(bits))
        return signal

    def swaps(self) -> list[Signal]:
        start = None if self.from_first else self.start
        return swaps(self.bench.m, self.counts.ones(), start, name="swap")

    def only(self, level: int) -> list[Value]:
        """The ways of a level; at others nothing swaps."""
        others: list[Value] = [C(0, self.lanes // 2)] * self.bits
        return [*others[:level], self.swaps()[level], *others[level + 1 :]]

    def gathered(self, elements: Value, levels: Sequence[Value]) -> Value:
        m, from_first = self.bench.m, self.from_first
        return Cat(gather(m, list(elements), levels, from_first=from_first, name="gather"))

    def spread(self, row: Value, levels: Sequence[Value]) -> Value:
        m, from_first = self.bench.m, self.from_first
        return Cat(scatter(m, list(row), levels, from_first=from_first, name="scatter"))

    def place(self, level: int) -> Signal:
        """The place of the picked lane's element in front of a level, if it is present.

        A block of 2^level lanes has its own elements there, at their places in the row.
        """
        place = Signal(self.bits, name=f"place_{level}")
        low = (self.start + Array(self.counts.below)[self.picked])[:level]
        self.bench.m.d.comb += place.eq(Cat(low, self.picked[level:]))
        return place

    def is_behind(self, lane: Value, level: int, name: str) -> Value:
        """Condition that a lane is behind the row of its block of 2^level lanes."""
        numbers = (Signal(self.bits + 1, name=f"{name}_{own}") for own in ("first", "end", "below"))
        first, end, below = numbers
        self.bench.m.d.comb += [
            first.eq(Cat(C(0, level), lane[level:])),
            end.eq(first + (1 << level)),
            below.eq(Array(self.counts.below)[first]),
        ]
        return (lane - below - self.start)[:level] >= Array(self.counts.below)[end] - below


def network_proof(lanes: int, *, from_first: bool) -> Bench:
    """Elements move to their places in the row, and back; behind the row there is nothing."""
    bench = Bench()
    rows = Rows(bench, lanes, from_first=from_first)
    elements, row = rows.any_of(lanes, "elements"), rows.any_of(lanes, "row")
    bench.assume((elements & ~rows.present) == 0)
    levels = rows.swaps()
    gathered, spread = rows.gathered(elements, levels), rows.spread(row, levels)
    place = rows.place(rows.bits)
    bench.implies(
        rows.is_present,
        gathered.bit_select(place, 1) == elements.bit_select(rows.picked, 1),
        spread.bit_select(rows.picked, 1) == row.bit_select(place, 1),
    )
    behind = rows.is_behind(rows.picked, rows.bits, "row")
    bench.implies(behind, ~gathered.bit_select(rows.picked, 1))
    bench.cover(rows.present.all() & elements.all(), rows.is_present & (place == lanes // 2))
    return bench


def moving_level_proof(lanes: int, level: int, *, from_first: bool) -> Bench:
    """An element at its place in front of a level of the network is at its place behind it."""
    bench = Bench()
    rows = Rows(bench, lanes, from_first=from_first)
    elements, row = rows.any_of(lanes, "elements"), rows.any_of(lanes, "row")
    ways = rows.only(level)
    gathered, spread = rows.gathered(elements, ways), rows.spread(row, ways)
    inner, outer = rows.place(level), rows.place(level + 1)
    bench.implies(
        rows.is_present,
        gathered.bit_select(outer, 1) == elements.bit_select(inner, 1),
        spread.bit_select(inner, 1) == row.bit_select(outer, 1),
    )
    bench.cover(rows.present.all(), rows.is_present & (inner != outer))
    return bench


def empty_level_proof(lanes: int, level: int, *, from_first: bool) -> Bench:
    """If there is nothing behind rows in front of a level, there is nothing behind those after it.

    In front of the first level these are the lanes that are absent.
    """
    bench = Bench()
    rows = Rows(bench, lanes, from_first=from_first)
    elements = rows.any_of(lanes, "elements")
    gathered = rows.gathered(elements, rows.only(level))
    for half in range(2):
        # One of these two becomes the picked lane's.
        lane = Signal(rows.bits, name=f"half_{half}")
        bench.m.d.comb += lane.eq(Cat(rows.picked[:level], C(half, 1), rows.picked[level + 1 :]))
        behind = rows.is_behind(lane, level, f"half_{half}")
        bench.assume(~(behind & elements.bit_select(lane, 1)))
    behind = rows.is_behind(rows.picked, level + 1, "block")
    bench.implies(behind, ~gathered.bit_select(rows.picked, 1))
    bench.cover(behind & rows.is_present)
    return bench


def network_theorem_proof(lanes: int, network: str, *, from_first: bool) -> Bench:
    """`gather` or `scatter` moves what a stand-in is said to move, whatever is in absent lanes."""
    bench = Bench()
    m = bench.m
    bits = (lanes - 1).bit_length()
    present, start, picked, place = Signal(lanes), Signal(bits), Signal(bits), Signal(bits)
    elements = [Signal(name=f"in_{k}") for k in range(lanes)]
    for free in (start, picked, *elements):
        m.d.comb += free.eq(AnyConst(len(free)))
    counts = any_counts(bench, lanes, present, "counts")
    if from_first:
        bench.assume(start == 0)
    levels = swaps(m, counts.ones(), None if from_first else start, name="swap")
    moves, theorem = {"gather": (gather, gathers), "scatter": (scatter, scatters)}[network]
    moved = moves(m, elements, levels, from_first=from_first, name=network)
    is_present = at(list(present), picked)
    m.d.comb += place.eq(start + counts.of_lane(picked))
    bench.implies(is_present, theorem(elements, moved, counts, start, picked, place))
    bench.cover(is_present & (place == lanes // 2), is_present & (picked != place))
    return bench


def turn_proof(lanes: int) -> Bench:
    """`turned_up` turns what a stand-in is said to turn."""
    bench = Bench()
    m = bench.m
    bits = (lanes - 1).bit_length()
    amount, lane, source = Signal(bits), Signal(bits), Signal(bits)
    elements = [Signal(name=f"in_{k}") for k in range(lanes)]
    for free in (amount, lane, *elements):
        m.d.comb += free.eq(AnyConst(len(free)))
    m.d.comb += source.eq(lane - amount)
    turned = turned_up(m, elements, amount, name="turned")
    bench.require(turns(elements, turned, source, lane))
    bench.cover((lane == 0) & (source == lanes - 1) & Cat(elements)[-1])
    return bench


def bounds_proof(lanes: int) -> Bench:
    """The bounds of counts, for a lane that the solver picks."""
    bench = Bench()
    present, lane = Signal(lanes), Signal(range(lanes))
    bench.m.d.comb += lane.eq(AnyConst(len(lane)))
    counts = any_counts(bench, lanes, present, "counts")
    bench.require(*bounds(counts, present, lane))
    bench.cover(counts.all == lanes, counts.of_lane(lane) == lanes // 2)
    return bench


def block_theorem_proof(lanes: int, blocks_at: range) -> Bench:
    """`BlockCounts.count` counts what a stand-in is said to count, in these blocks."""
    bench = Bench()
    present = Signal(lanes)
    blocks = BlockCounts(lanes)
    counts = any_counts(bench, lanes, present, "counts")
    counted = blocks.count(bench.m, present, name="blocks")
    each = list(blocks_are_of(counted, blocks, counts))
    bench.require(*each[blocks_at.start * blocks.block : blocks_at.stop * blocks.block])
    bench.cover(counts.all == lanes)
    return bench


def join_theorem_proof(lanes: int) -> Bench:
    """`BlockCounts.join` makes of such counts what a stand-in is said to make."""
    bench = Bench()
    present = Signal(lanes)
    blocks = BlockCounts(lanes)
    counts = any_counts(bench, lanes, present, "counts")
    counted = Signal(blocks)
    bench.m.d.comb += counted.as_value().eq(AnyConst(blocks.size))
    bench.assume(*blocks_are_of(counted, blocks, counts))
    ones, count = blocks.join(bench.m, counted, name="joined")
    bench.require(*joined_are_of(ones, count, counts))
    bench.cover(counts.all == lanes)
    return bench


LANES = widths(2, 4, 8, 16, 32, 64, 128, quick=[8])


@pytest.mark.parametrize("lanes", LANES)
def test_present_lanes_are_counted(lanes, tmp_path):
    # The solver is quick to decide a few places at a time, and slow to decide all at once.
    for first in range(0, lanes, 8):
        places = range(first, min(first + 8, lanes))
        check(count_proof(lanes, places), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("lanes", LANES)
def test_counts_in_blocks_are_those_of_all_lanes(lanes, tmp_path):
    check(block_proof(lanes), tmp_path, depth=1, cover_depth=1)


ROWS = {
    f"{lanes}-{name}": (lanes, from_first)
    for lanes in (2, 4, 8, 16, 32, 64, 128)
    for name, from_first in (("anywhere", False), ("from_first", True))
}
"""Where rows begin: those of XC anywhere, of all elements."""
AT_ONCE = {name: case for name, case in ROWS.items() if name != "128-anywhere"}
"""Of the widest the solver says nothing in a quarter of an hour."""


@pytest.mark.parametrize("row", configs(AT_ONCE, quick=["8-anywhere", "8-from_first"]))
def test_networks_move_every_element_there_and_back(row, tmp_path):
    lanes, from_first = row
    proof = network_proof(lanes, from_first=from_first)
    check(proof, tmp_path, depth=1, cover_depth=1, timeout_s=1500)


@pytest.mark.parametrize("row", configs(ROWS, quick=["8-anywhere"]))
def test_each_level_takes_elements_on(row, tmp_path):
    lanes, from_first = row
    for level in range((lanes - 1).bit_length()):
        for proof in (moving_level_proof, empty_level_proof):
            bench = proof(lanes, level, from_first=from_first)
            check(bench, tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("lanes", LANES)
def test_counts_keep_their_bounds(lanes, tmp_path):
    check(bounds_proof(lanes), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("lanes", LANES)
def test_stand_ins_of_counts_are_right(lanes, tmp_path):
    blocks = BlockCounts(lanes)
    for b in range(lanes // blocks.block):
        check(block_theorem_proof(lanes, range(b, b + 1)), tmp_path, depth=1, cover_depth=1)
    check(join_theorem_proof(lanes), tmp_path, depth=1, cover_depth=1)


STARTS = {
    **{f"{lanes}-anywhere": (lanes, False) for lanes in (2, 4, 8, 16, 32)},
    **{f"{lanes}-from_first": (lanes, True) for lanes in (2, 8, 32, 128)},
}
"""Those of the pipelines that have stand-ins: a sector that is a line begins in the first lane."""


@pytest.mark.parametrize("network", ["gather", "scatter"])
@pytest.mark.parametrize("start", configs(STARTS, quick=()))
def test_stand_ins_of_networks_are_right(start, network, tmp_path):
    lanes, from_first = start
    proof = network_theorem_proof(lanes, network, from_first=from_first)
    check(proof, tmp_path, depth=1, cover_depth=1, timeout_s=1500)


@pytest.mark.parametrize("lanes", LANES)
def test_stand_ins_of_turns_are_right(lanes, tmp_path):
    check(turn_proof(lanes), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
def test_turns_by_half_a_ring_less_are_found(tmp_path, monkeypatch):
    real = turned_up

    def short(m, ring, amount, **options):
        return real(m, ring, amount[:-1], **options)

    monkeypatch.setattr(f"{__name__}.turned_up", short)
    find_fault(turn_proof(8), tmp_path, depth=1)


@pytest.mark.verify
def test_networks_without_their_last_level_are_found(tmp_path, monkeypatch):
    real = gather

    def short(m, elements, levels, **options):
        return real(m, elements, levels[:-1], **options)

    monkeypatch.setattr(f"{__name__}.gather", short)
    find_fault(network_theorem_proof(8, "gather", from_first=False), tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.parametrize("proof", [moving_level_proof, empty_level_proof])
def test_levels_of_rows_from_elsewhere_are_found(proof, tmp_path, monkeypatch):
    real = swaps

    def elsewhere(m, ones, start, **options):
        return real(m, ones, start + 1, **options)

    monkeypatch.setattr(f"{__name__}.swaps", elsewhere)
    find_fault(proof(8, 1, from_first=False), tmp_path, depth=1)


@pytest.mark.verify
def test_counts_that_leave_a_lane_out_are_found(tmp_path, monkeypatch):
    def short(m, present, **options):
        return ones_before(m, Cat(C(0, 1), present[1:]), **options)

    monkeypatch.setattr("cdma.hw.lib.lanes.ones_before", short)
    find_fault(block_theorem_proof(8, range(2)), tmp_path, depth=1)
