"""The unpacker's ring of slots does what straight slots do, of which all else is proven."""

import pytest
from amaranth.hdl import Const, Mux, Signal
from amaranth.hdl._ast import AnySeq

from cdma.hw.codec.stream.unpack import ElementSlots
from cdma.hw.lib.count import count_ones
from tests.formal.bench import Bench
from tests.formal.codec.slots import StraightSlots
from tests.formal.lines import NARROW
from tests.formal.sby import prove
from tests.lib.shares import configs

DECIDED = {name: NARROW[name] for name in ("4x2", "2x4", "8x1")}
"""Larger shapes take more than ten minutes with two beats shown."""


@pytest.mark.parametrize("chunk_beats", [1, 2])
@pytest.mark.parametrize("config", configs(DECIDED, quick=["4x2"]))
def test_ring_of_slots_does_what_straight_slots_do(config, chunk_beats, tmp_path):
    bench = Bench()
    m = bench.m
    ring = ElementSlots(config, config.mask_elements, chunk_beats=chunk_beats)
    straight = StraightSlots(config, config.mask_elements, chunk_beats=chunk_beats)
    inside, other = bench.add(ring), bench.add(straight)
    slots, lanes = ring.slots, config.lanes
    inputs = ("stores", "beat", "count", "alone", "both", "reads", "reads_both", "drop", "clear")
    for name in inputs:
        given = getattr(ring, name)
        m.d.comb += [given.eq(AnySeq(len(given))), getattr(straight, name).eq(given)]
    bench.assume(
        ~ring.stores | ring.free,
        ring.count <= lanes,
        ~ring.reads | (Mux(ring.reads_both, ring.both, ring.alone) <= ring.level),
    )

    first_is, store_is = inside["first_is"], inside["store_is"]
    held_count, start = inside["held_count"], inside["start"]
    bench.require(
        count_ones(first_is) == 1,
        inside["lane_is"] == Const(1) << start,
        held_count == other["held_count"],
        held_count <= slots,
        start == other["start"],
        start + ring.level <= held_count * lanes,
    )
    for held in range(slots + 1):
        bench.implies(held_count == held, store_is == first_is.rotate_left(held % slots))
    for first in range(slots):
        for s in range(slots):
            bench.implies(
                first_is[first] & (s < held_count),
                inside[f"slot_{(first + s) % slots}"] == other[f"slot_{s}"],
            )

    bench.require(ring.level == straight.level, ring.free == straight.free)
    bench.implies(ring.level != 0, ring.head == straight.head)
    for i in range(ring.shown):
        bench.implies(i < ring.level, ring.words[i] == straight.words[i])
    wrapped = Signal()
    m.d.comb += wrapped.eq(first_is[slots - 1] & (held_count == slots))
    bench.cover(wrapped)
    prove(bench, tmp_path, depth=1, cover_depth=12)
