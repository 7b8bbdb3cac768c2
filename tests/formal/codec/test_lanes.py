"""The gather and scatter networks, for every mask, at all widths that are shipped.

An element's bits all take the same way, so that one bit per element shows it for any width. The
networks have no state: the first cycle is all there is.
"""

import pytest
from amaranth.hdl import Array, C, Cat, Signal
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


def network_proof(lanes: int, *, from_first: bool) -> Bench:
    """With the counts that `count_proof` shows, whatever makes them."""
    bench = Bench()
    m = bench.m
    bits = (lanes - 1).bit_length()
    present, elements, row = Signal(lanes), Signal(lanes), Signal(lanes)
    picked, start = Signal(bits), Signal(bits)
    before = [Signal(bits + 1, name=f"before_{i}") for i in range(lanes + 1)]
    for free in (present, elements, row, picked, start, *before):
        m.d.comb += free.eq(AnyConst(len(free)))
    bench.assume((elements & ~present) == 0, before[0] == 0)
    for i in range(lanes):
        bench.assume(before[i + 1] == before[i] + present[i])
    if from_first:
        bench.assume(start == 0)
    ones = [before[i][: max((i & -i).bit_length(), 1)] for i in range(lanes)]
    levels = swaps(m, ones, None if from_first else start, name="swap")
    gathered = Cat(gather(m, list(elements), levels, from_first=from_first, name="gather"))
    spread = Cat(scatter(m, list(row), levels, from_first=from_first, name="scatter"))

    # Whichever present element is picked: it moves to its place in the row, and back from there.
    is_present = present.bit_select(picked, 1)
    place = Signal(bits)
    m.d.comb += place.eq(start + Array(before)[picked])
    bench.implies(
        is_present,
        gathered.bit_select(place, 1) == elements.bit_select(picked, 1),
        spread.bit_select(picked, 1) == row.bit_select(place, 1),
    )
    # Whichever lane is picked: behind the row there is nothing.
    behind = Signal(bits)
    m.d.comb += behind.eq(picked - start)
    bench.implies(behind >= before[lanes], ~gathered.bit_select(picked, 1))
    bench.cover(present.all() & elements.all(), is_present & (place == lanes // 2))
    return bench


def any_counts(bench: Bench, lanes: int, present: Signal, name: str) -> LaneCounts:
    """The counts of any lanes."""
    counts = LaneCounts(lanes, name)
    for number in (present, *counts.below):
        bench.m.d.comb += number.eq(AnyConst(len(number)))
    bench.assume(counts.are_of(present))
    return counts


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


@pytest.mark.parametrize("from_first", [False, True], ids=["anywhere", "from_first"])
@pytest.mark.parametrize("lanes", LANES)
def test_networks_move_every_element_there_and_back(lanes, from_first, tmp_path):
    proof = network_proof(lanes, from_first=from_first)
    check(proof, tmp_path, depth=1, cover_depth=1, timeout_s=1500)


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
def test_counts_that_leave_a_lane_out_are_found(tmp_path, monkeypatch):
    def short(m, present, **options):
        return ones_before(m, Cat(C(0, 1), present[1:]), **options)

    monkeypatch.setattr("cdma.hw.lib.lanes.ones_before", short)
    find_fault(block_theorem_proof(8, range(2)), tmp_path, depth=1)
