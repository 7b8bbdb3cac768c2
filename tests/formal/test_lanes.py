"""The gather and scatter networks, for every mask, at all widths that are shipped.

An element's bits all take the same way, so that one bit per element shows it for any width. The
networks have no state: the first cycle is all there is.
"""

import pytest
from amaranth.hdl import Array, Cat, Signal
from amaranth.hdl._ast import AnyConst

from hw.codec.lanes import compact, count_ones, expand, routes, zeros_before
from tests.formal.bench import Bench
from tests.formal.sby import check


def lanes_proof(lanes: int) -> Bench:
    bench = Bench()
    m = bench.m
    present, elements = Signal(lanes), Signal(lanes)
    picked = Signal(range(lanes))
    m.d.comb += [
        present.eq(AnyConst(lanes)),
        elements.eq(AnyConst(lanes)),
        picked.eq(AnyConst((lanes - 1).bit_length())),
    ]
    zeros, total = zeros_before(m, present, name="zeros")
    moves = routes(m, present, zeros, name="route")
    low_lanes = compact(m, list(elements), moves, name="compact")
    spread = expand(m, low_lanes, moves, name="expand")

    bench.require(total == count_ones(~present))
    # Whichever present element is picked: it moves to its rank, and back to its lane.
    is_present = present.bit_select(picked, 1)
    element = elements.bit_select(picked, 1)
    below = Signal(lanes)
    m.d.comb += below.eq((1 << picked) - 1)
    rank = Signal(range(lanes))
    m.d.comb += rank.eq(count_ones(present & below))
    bench.implies(is_present, Array(zeros)[picked] == picked - rank)
    bench.implies(is_present, Cat(low_lanes).bit_select(rank, 1) == element)
    bench.implies(is_present, Cat(spread).bit_select(picked, 1) == element)
    bench.cover(present.all() & elements.all(), is_present & (rank == lanes // 2))
    return bench


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_networks_move_every_element_there_and_back(lanes, tmp_path):
    check(lanes_proof(lanes), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
@pytest.mark.parametrize("lanes", [32, 64, 128])
def test_wide_networks_move_every_element_there_and_back(lanes, tmp_path):
    check(lanes_proof(lanes), tmp_path, depth=1, cover_depth=1, timeout_s=1500)
