"""The unpacker's ring of slots does what straight slots do, of which all else is proven."""

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.hdl._ast import AnySeq

from cdma.hw.codec.registry import line_codec
from cdma.hw.codec.stream.slots import ElementSlots
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from tests.formal.bench import Bench
from tests.formal.codec.slots import StraightSlots
from tests.formal.lines import NARROW
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

DECIDED = {name: NARROW[name] for name in ("4x2", "2x4", "8x1")}
"""Larger shapes take more than ten minutes with two beats shown."""
LONG_HEADS = {
    "2x8": CodecConfig(element_bytes=1, sector_bytes=2, line_bytes=16),
    "4x4": NARROW["4x4"],
}
"""Lines whose length two elements tell, which may be in two beats."""


@pytest.mark.parametrize(("chunk_beats", "shows_lengths"), [(1, False), (1, True), (2, True)])
@pytest.mark.parametrize("config", configs(DECIDED, quick=["4x2"]))
def test_ring_of_slots_does_what_straight_slots_do(config, chunk_beats, shows_lengths, tmp_path):
    bench = slots_proof(config, chunk_beats, shows_lengths=shows_lengths)
    prove(bench, tmp_path, depth=1, cover_depth=12)


@pytest.mark.parametrize("config", configs(LONG_HEADS, quick=["2x8"]))
def test_ring_of_slots_knows_lengths_of_heads_in_two_beats(config, tmp_path):
    prove(slots_proof(config, 1), tmp_path, depth=1, cover_depth=12)


def slots_proof(config, chunk_beats, *, shows_lengths=True):
    """Both kinds of slots, given the same: they show the same of what is held."""
    bench = Bench()
    m = bench.m
    codec = line_codec("zvc")
    ring, straight = (
        kind(config, codec, chunk_beats=chunk_beats, shows_lengths=shows_lengths)
        for kind in (ElementSlots, StraightSlots)
    )
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
        ring.alone <= ring.shown,
        ring.both <= ring.shown,
    )

    if not shows_lengths:
        bench.assume(~ring.reads_both)

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
    if shows_lengths:
        bench.require(inside["shows_start"] == ~start, inside["shows_first"] == ~first_is)
    for held in range(slots + 1):
        bench.implies(held_count == held, store_is == first_is.rotate_left(held % slots))
    head, element_bits = ring.length_elements, 8 * config.element_bytes
    words = [
        other[f"slot_{s}"].word_select(k, len(straight.beat[0]))
        for s in range(slots)
        for k in range(lanes)
    ]
    for first in range(slots):
        for s in range(slots):
            ring_slot = (first + s) % slots
            elements, lengths = inside[f"slot_{ring_slot}"], inside[f"announced_{ring_slot}"]
            bench.implies(
                first_is[first] & (s < held_count),
                elements == Cat(word[:element_bits] for word in words[s * lanes :][:lanes]),
            )
            for k in range(lanes):
                place = s * lanes + k
                if place + head > len(words):
                    continue
                known = held_count * lanes >= place + head
                announced = lengths.word_select(k, ring.length_bits)
                found = ring.codec.payload_elements(words[place : place + head], config)
                bench.implies(first_is[first] & known, announced == found)
    for k in range(1, head):
        # The last words that were stored.
        for held in range(1, slots + 1):
            bench.implies(held_count == held, inside[f"before_{k}"] == words[held * lanes - k])

    bench.require(ring.level == straight.level, ring.free == straight.free)
    bench.implies(ring.level >= head, ring.announced == straight.announced)
    for i in range(ring.shown):
        mine, its = ring.words[i], straight.words[i]
        bench.implies(i < ring.level, mine[:element_bits] == its[:element_bits])
        bench.implies(i + head <= ring.level, ring.announced_by(mine) == ring.announced_by(its))
    wrapped = Signal()
    m.d.comb += wrapped.eq(first_is[slots - 1] & (held_count == slots))
    bench.cover(wrapped)
    return bench
