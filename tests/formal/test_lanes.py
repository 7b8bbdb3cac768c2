"""The gather and scatter networks, for every mask, at all widths that are shipped.

An element's bits all take the same way, so that one bit per element shows it for any width. The
networks have no state: the first cycle is all there is.
"""

import pytest
from amaranth.hdl import Array, Cat, Signal
from amaranth.hdl._ast import AnyConst

from hw.codec.lanes import compact, expand, routes, zeros_before
from tests.formal.bench import Bench
from tests.formal.lines import widths
from tests.formal.sby import check


def count_proof(lanes: int, places: range) -> Bench:
    """At these places, each lane counts one more than the one below it if that one is absent."""
    bench = Bench()
    present = Signal(lanes)
    bench.m.d.comb += present.eq(AnyConst(lanes))
    zeros, total = zeros_before(bench.m, present, name="zeros")
    zeros = [*zeros, total]
    bench.require(zeros[0] == 0)
    for i in places:
        bench.require(zeros[i + 1] == zeros[i] + ~present[i])
    bench.cover(total == 0, total == lanes, total == lanes // 2)
    return bench


def network_proof(lanes: int) -> Bench:
    """With the counts that `count_proof` shows, whatever makes them."""
    bench = Bench()
    m = bench.m
    bits = (lanes - 1).bit_length()
    present, elements, picked = Signal(lanes), Signal(lanes), Signal(bits)
    zeros = [Signal(bits, name=f"zeros_{i}") for i in range(lanes)]
    for free in (present, elements, picked, *zeros):
        m.d.comb += free.eq(AnyConst(len(free)))
    bench.assume(zeros[0] == 0)
    for i in range(lanes - 1):
        bench.assume(zeros[i + 1] == zeros[i] + ~present[i])
    moves = routes(m, present, zeros, name="route")
    low_lanes = compact(m, list(elements), moves, name="compact")
    spread = expand(m, low_lanes, moves, name="expand")

    # Whichever present element is picked: it moves down past the absent ones, and back.
    is_present = present.bit_select(picked, 1)
    element = elements.bit_select(picked, 1)
    place = Signal(bits)
    m.d.comb += place.eq(picked - Array(zeros)[picked])
    bench.implies(is_present, Cat(low_lanes).bit_select(place, 1) == element)
    bench.implies(is_present, Cat(spread).bit_select(picked, 1) == element)
    bench.cover(present.all() & elements.all(), is_present & (place == lanes // 2))
    return bench


LANES = widths(2, 4, 8, 16, 32, 64, 128, quick=[8, 16])


@pytest.mark.parametrize("lanes", LANES)
def test_absent_lanes_are_counted(lanes, tmp_path):
    # The solver is quick to decide a few places at a time, and slow to decide all at once.
    for first in range(0, lanes, 8):
        places = range(first, min(first + 8, lanes))
        check(count_proof(lanes, places), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("lanes", LANES)
def test_networks_move_every_element_there_and_back(lanes, tmp_path):
    check(network_proof(lanes), tmp_path, depth=1, cover_depth=1, timeout_s=1500)
