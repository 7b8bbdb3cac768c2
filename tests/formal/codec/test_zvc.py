"""The ZVC pipelines: what comes out of the pair is what went in, for every line and every stall.

The two halves meet at `encoding`: the compressor is proven to give the beats that it describes, the
decompressor to make the line of them again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from amaranth.hdl import C, Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.hw.codec.payloads import LineBeat, Sector
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.lanes import BlockCounts
from tests.formal.bench import Bench, Inside, Port
from tests.formal.lines import (
    PIPELINES,
    WITH_SHIPPED,
    Line,
    compacted,
    encoding,
    place_after,
    sector_item,
)
from tests.formal.order import Order, Run, one
from tests.formal.rules import ExpandedRules, LineRules, SectorRules
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

CUT = {**PIPELINES, **WITH_SHIPPED}


@dataclass(frozen=True)
class BeatPosition:
    """A stream inside a component."""

    valid: Value
    ready: Value
    payload: Any


def coming_beats(
    bench: Bench, inside: Inside, decompressor: ZvcDecompressor, rules: LineRules
) -> Port:
    """Line beats where they are taken from, and what was counted of them."""
    config = decompressor.config
    if config.latency == "paper":
        return bench.drive(decompressor.i, rules)
    bench.drive(decompressor.i)
    beat = data.View(LineBeat(config), inside["counted_beat"])
    control = inside.component("counted")
    counted = BeatPosition(control.o_valid, control.o_ready, beat)
    blocks = BlockCounts(config.lanes)
    lanes = beat.mask[: config.lanes]
    bench.implies(counted.valid, *block_counts(blocks(inside["counted"]), lanes))
    return bench.trust(counted, rules)


def block_counts(counted: Any, present: Value) -> Iterator[Value]:
    """Conditions that counts within blocks are those of the lanes that are present."""
    blocks = counted.shape()
    for b in range(blocks.lanes // blocks.block):
        first = b * blocks.block
        for k in range(first + 1, first + blocks.block):
            ones = counted.ones[str(k)]
            yield ones == count_ones(present[first:k])[: len(ones)]
        yield counted.counts[b] == count_ones(present[first : first + blocks.block])


def number_of(one_hot: Sequence[Value]) -> Value:
    """Number of the bit that is set."""
    number: Value = C(0)
    for k, bit in enumerate(one_hot):
        number = number | Mux(bit, k, 0)
    return number


def compressor_proof(config: CodecConfig, compressor: ZvcCompressor) -> Bench:
    lanes, sectors = config.lanes, config.sectors
    bench = Bench()
    m = bench.m
    inside = bench.add(compressor)
    sector_rules, line_rules = SectorRules(config), LineRules(config, damaged=False)
    if config.latency == "fast":
        # A `Register` is a queue, by its own proof: what is assumed of the port holds behind it.
        bench.drive(compressor.i)
        seen = inside.component("seen_register").o
        i = bench.trust(BeatPosition(seen.valid, seen.ready, seen.payload.sector), sector_rules)
        elements = [i.payload.elements[k] for k in range(lanes)]
        present = Cat(e.any() | i.payload.codec for e in elements)
        bench.implies(
            seen.valid,
            seen.payload.present == present,
            *block_counts(seen.payload.counted, present),
        )
    else:
        i = bench.drive(compressor.i, sector_rules)
    o = bench.watch(compressor.o, line_rules)

    # Ghosts: the sector in stage 2, the line being appended to, the line in the window.
    ghost = [Signal(8 * config.element_bytes, name=f"ghost_{k}") for k in range(lanes)]
    growing, whole = Line(config, "growing"), Line(config, "whole")
    ghost_present = Signal(lanes)
    compared = data.View(Sector(config), inside["compared"])
    # A lane without an element keeps what it had.
    compared_present, compared_dense = inside["compared_present"], Signal()
    compared_elements = [Mux(compared_present[k], compared.elements[k], 0) for k in range(lanes)]
    with m.If(i.moves):
        m.d.sync += compared_dense.eq(i.payload.codec)
    compared_last, compared_empty = compared.last, compared.empty
    compared_valid, packed_valid = inside["compared.o_valid"], inside["packed.o_valid"]
    packed_last, packed_empty = inside["packed_last"], inside["packed_empty"]
    packed_completes, sending = inside["packed_completes"], inside["sending"]
    window_left, beat_place = inside["window_left"], inside["beat_place"]
    # Sectors of the line in the window, and beats of the line that is sent.
    index, beat = Signal(range(sectors)), Signal(range(sectors))
    places = [inside["packed_place"][s] for s in range(sectors)]
    m.d.comb += [
        index.eq(Mux(packed_valid, number_of(places), inside["index"])),
        beat.eq(number_of([beat_place[s] for s in range(sectors)])),
    ]
    with m.If(inside["packed.i_ready"]):
        m.d.sync += [
            own.eq(Mux(compared_empty, 0, new))
            for own, new in zip(ghost, compared_elements, strict=True)
        ]
        m.d.sync += ghost_present.eq(Mux(compared_empty, 0, compared_present))
    with m.If(inside["append"]):
        for s in range(sectors):
            parts = [(growing.announced(s), whole.announced(s), ghost_present)]
            parts += zip(growing.sector(s), whole.sector(s), ghost, strict=True)
            for old, final, new in parts:
                with m.If(index == s):
                    m.d.sync += old.eq(new)
                with m.If(packed_completes):
                    m.d.sync += final.eq(Mux(index == s, new, Mux(index > s, old, 0)))
        with m.If(packed_completes):
            m.d.sync += [whole.last.eq(packed_last), whole.empty.eq(packed_empty)]

    # Stage 1.
    for k in range(1, lanes):
        counted = inside[f"compared_ones_{k}"]
        bench.implies(compared_valid, counted == count_ones(compared_present[:k])[: len(counted)])
    bench.implies(
        compared_valid,
        compared_present == Cat(e.any() | compared_dense for e in compared_elements),
        inside["compared_count"] == count_ones(compared_present),
    )
    # Stage 2: the sector's elements stand from the line's end on, in a ring of lanes.
    offset, end = Signal(range(config.elements + 1)), Signal(range(config.elements + 1))
    low_lanes = compacted(m, ghost, ghost_present, name="stage_2")
    m.d.comb += end.eq(offset + count_ones(ghost_present))
    bench.implies(packed_valid, Cat(places) == 1 << index)
    bench.implies(
        packed_valid,
        packed_completes == ((index == sectors - 1) | packed_empty),
        inside["packed_total"] == Mux(packed_empty, 0, end),
        inside["packed_needs"] == 1 << Mux(packed_completes, sectors - 1, index),
        inside["index"] == Mux(packed_completes, 0, index + 1),
        inside["offset"] == Mux(packed_completes, 0, end),
    )
    bench.implies(packed_valid & ~packed_empty, inside["packed_present"] == ghost_present)
    for place in range(config.elements):
        lands = (place >= offset) & (place < end) & ~packed_empty
        bench.implies(packed_valid, inside["packed_lands"][place] == lands)
    for k in range(lanes):
        turned = low_lanes[k]
        for by in range(1, lanes):
            turned = Mux(
                offset[: (lanes - 1).bit_length()] == by, low_lanes[(k - by) % lanes], turned
            )
        lands = Cat(inside["packed_lands"][place] for place in range(k, config.elements, lanes))
        bench.implies(packed_valid & lands.any(), inside[f"packed_{k}"] == turned)
    bench.implies(packed_valid & packed_empty, ghost_present == 0)
    for k in range(lanes):
        bench.implies(packed_valid & ~ghost_present[k], ghost[k] == 0)

    # Stage 3: the window holds what is left of a line, and below it what has come of the next.
    grown = Signal(config.elements)
    m.d.comb += grown.eq(
        Cat((index > place // lanes) & growing.present[place] for place in range(config.elements))
    )
    conditions, sent_line = encoding(m, config, o.payload, beat, whole, name="sent")
    bench.implies(o.valid, *conditions)
    next_line = compacted(m, growing.elements, grown, name="next")
    m.d.comb += offset.eq(count_ones(grown))
    bench.implies(~packed_valid, inside["offset"] == offset)
    bench.require(beat_place == 1 << beat)
    for s in range(sectors):
        part = slice(s * lanes, (s + 1) * lanes)
        bench.implies(index > s, inside["window_mask"][part] == growing.announced(s))
    bench.implies(
        sending,
        index <= beat,
        window_left == count_ones(whole.present) - beat * lanes,
        inside["window_final"] == (window_left <= lanes),
        inside["window_last"] == whole.last,
        inside["window_empty"] == whole.empty,
        (beat == 0) | (window_left != 0),
        window_left <= config.elements,
    )
    bench.implies(
        sending & (beat == 0),
        inside["window_mask"] == Mux(whole.empty, inside["window_mask"], whole.present),
    )
    bench.implies(sending, whole.legal)
    for place, element in enumerate(growing.elements):
        bench.implies((index > place // lanes) & ~grown[place], element == 0)
    bench.implies(~sending, beat == 0)
    for s in range(sectors):
        bench.require(inside["free"][s] == (~sending | (s < beat)))
    for place in range(config.elements):
        word = inside[f"window_{place}"]
        bench.implies(place < offset, word == next_line[place])
        unsent = sending & (place >= beat * lanes) & (place - beat * lanes < window_left)
        bench.implies(unsent, word == sent_line[place], place >= offset)

    for k in range(lanes):
        filled = (window_left != 0) & (((window_left - 1) % lanes) >= k)
        bench.implies(sending, inside["window_tail"][k] == filled)

    # The neighbors' places agree with the component's.
    at_input = Signal(range(sectors))

    m.d.comb += at_input.eq(
        Mux(compared_valid, place_after(config, inside["index"], compared_last), inside["index"])
    )
    for valid, last, empty, place in (
        (packed_valid, packed_last, packed_empty, index),
        (compared_valid, compared_last, compared_empty, inside["index"]),
    ):
        bench.implies(valid & empty, last & (place == 0))
        bench.implies(valid & last, empty | (place == sectors - 1))
    bench.require(sector_rules.place == at_input)
    bench.require(line_rules.inside == (beat != 0))
    bench.implies(line_rules.inside, line_rules.left == window_left)

    order = Order(bench, len(whole.item(0)), count_bits=(2 * sectors + 2).bit_length())
    order.comes(one(i.moves, sector_item(i.payload)))
    order.leaves(whole.run(o.moves & o.payload.eol))
    order.on_the_way(
        whole.run(sending),
        Run(index, [Cat(*growing.sector(s), C(0, 2)) for s in range(sectors)]),
        one(packed_valid, Cat(*ghost, packed_last, packed_empty)),
        one(
            compared_valid,
            Cat(
                *(Mux(compared_empty, 0, e) for e in compared_elements),
                compared_last,
                compared_empty,
            ),
        ),
    )
    # Whoever is outside is willing, then something moves at once.
    bench.implies(i.valid & o.ready, i.ready | o.valid)
    bench.cover(
        o.moves & o.payload.empty,
        o.moves & o.payload.last & ~o.payload.sol
        if sectors > 1
        else o.moves & o.payload.last & (o.payload.count == lanes),
    )
    return bench


@pytest.mark.parametrize("config", configs(PIPELINES, quick=()))
def test_compressor_encodes_every_line(config, tmp_path):
    prove(compressor_proof(config, ZvcCompressor(config)), tmp_path, depth=1)


def inside_slot(inside: Inside, lanes: int, number: int) -> Value:
    """The elements of a slot, each with the bit that says that it is there."""
    return Cat(
        Cat(inside[f"slot_{number}_{k}"], inside[f"slot_{number}_there"][k]) for k in range(lanes)
    )


def decompressor_proof(config: CodecConfig, decompressor: ZvcDecompressor) -> Bench:
    lanes, sectors = config.lanes, config.sectors
    bench = Bench()
    m = bench.m
    inside = bench.add(decompressor)
    line_rules, expanded_rules = LineRules(config, damaged=False), ExpandedRules(config)
    i = coming_beats(bench, inside, decompressor, line_rules)
    o = bench.watch(decompressor.o, expanded_rules)

    # The line that is coming in: any, and the same until it is through.
    coming, held = Line(config, "coming"), Line(config, "coming_held")
    number = Signal(range(sectors + 1))
    started = Signal()
    m.d.sync += [
        started.eq(Mux(i.moves, ~i.payload.eol, i.valid | started)),
        *(old.eq(new) for old, new in zip(held.wires, coming.wires, strict=True)),
    ]
    with m.If(i.moves):
        m.d.sync += number.eq(Mux(i.payload.eol, 0, number + 1))
    for old, new in zip(held.wires, coming.wires, strict=True):
        m.d.comb += new.eq(Mux(started, old, AnySeq(len(new))))
    bench.assume(coming.legal)
    conditions, _ = encoding(m, config, i.payload, number, coming, name="coming")
    for condition in conditions:
        bench.assume(~i.valid | condition)

    # Ghosts: the line being expanded, the sector in stage 2, the sector at the output.
    line = Line(config, "line")
    bits = 8 * config.element_bytes
    routed = [Signal(bits, name=f"ghost_routed_{k}") for k in range(lanes)]
    given = [Signal(bits, name=f"ghost_given_{k}") for k in range(lanes)]
    routed_present, given_present = Signal(lanes), Signal(lanes)
    busy, index, starts = inside["busy"], inside["index"], inside["starts"]
    routed_valid, sector_valid = inside["routed.o_valid"], inside["spread.o_valid"]
    beats = Signal(range(sectors + 1))
    with m.If(inside["step"]):
        with m.If(starts):
            m.d.sync += [
                *(old.eq(new) for old, new in zip(line.wires, coming.wires, strict=True)),
            ]
        with m.If(inside["needs_beat"]):
            m.d.sync += beats.eq(Mux(starts, 1, beats + 1))
    with m.If(inside["routed.i_ready"]):
        for new, first, *others in (
            (
                routed_present,
                coming.announced(0),
                *(line.announced(s) for s in range(1, sectors)),
            ),
            *(
                (new, *(source.sector(s)[k] for s, source in enumerate(sources)))
                for k, new in enumerate(routed)
                for sources in [(coming, *[line] * (sectors - 1))]
            ),
        ):
            choice = first
            for s, other in enumerate(others, 1):
                choice = Mux(index == s, other, choice)
            m.d.sync += new.eq(choice)
    with m.If(o.ready | ~sector_valid):
        m.d.sync += [new.eq(old) for new, old in zip(given, routed, strict=True)]
        m.d.sync += given_present.eq(routed_present)

    # Stage 1: the mask and the payload that are left.
    packed = compacted(m, line.elements, line.present, name="line_packed")
    spent = Signal(range(config.elements + 1))
    m.d.comb += spent.eq(
        count_ones(
            Cat((index > place // lanes) & line.present[place] for place in range(config.elements))
        )
    )
    total = count_ones(line.present)
    arrived = Mux(beats * lanes < total, beats * lanes, total)
    bench.require(busy == (index != 0), index < sectors)
    bench.implies(
        busy,
        ~line.empty,
        line.legal,
        beats != 0,
        (beats - 1) * lanes <= total,
        inside["used"] <= lanes,
        spent == (beats - 1) * lanes + inside["used"],
        spent <= arrived,
        ~inside["held_damaged"],
        line_rules.inside == (beats * lanes < total),
        inside["held_last"] == (line.last & ~line_rules.inside),
    )
    bench.implies(~busy, ~line_rules.inside, inside["used"] == lanes)
    bench.implies(line_rules.inside, busy, number == beats, line_rules.left == total - arrived)
    bench.implies(line_rules.inside, Cat(held.wires) == Cat(line.wires), started)
    bench.implies(~line_rules.inside, number == 0, started == i.waiting)
    latest = inside_slot(inside, lanes, 0)
    if sectors > 1:
        latest = Mux(inside["latest"], inside_slot(inside, lanes, 1), latest)
    for k in range(lanes):
        for b in range(sectors):
            place = b * lanes + k
            bench.implies(
                busy & (beats == b + 1) & (place < total),
                latest.word_select(k, bits + 1) == Cat(packed[place], C(1, 1)),
            )
    if sectors > 1:
        left = Cat(inside["segment"], inside["mask"])
        for s in range(1, sectors):
            bench.implies(busy & (index == s), left == line.present[s * lanes :])
        bench.implies(busy, inside["segment_count"] == count_ones(inside["segment"]))
        for k in range(1, lanes):
            counted = inside[f"segment_ones_{k}"]
            ones = count_ones(inside["segment"][:k])
            bench.implies(busy, counted == ones[: len(counted)])

    # Stage 2: what the network finds in the slots.
    bench.implies(
        routed_valid,
        inside["routed_present"] == routed_present,
        ~inside["routed_mask_missing"],
        ~inside["short"],
    )
    for k in range(lanes):
        found = inside["row_0"] if sectors == 1 and k == 0 else inside[f"spread_1_{k}"]
        bench.implies(routed_valid & routed_present[k], found == Cat(routed[k], C(1, 1)))
    for k in range(lanes):
        # So a lane that is zero and stays so need not be loaded.
        bench.implies(~o.payload.present[k], o.payload.elements[k] == 0)
    bench.implies(
        sector_valid,
        *(o.payload.elements[k] == given[k] for k in range(lanes)),
        o.payload.present == given_present,
        o.payload.missing == 0,
        ~o.payload.mask_missing,
    )

    # The places of the sectors on their way.
    at_stage_2, at_stage_1 = Signal(range(sectors)), Signal(range(sectors))

    m.d.comb += [
        at_stage_2.eq(
            Mux(
                sector_valid,
                place_after(config, expanded_rules.place, o.payload.last),
                expanded_rules.place,
            )
        ),
        at_stage_1.eq(
            Mux(routed_valid, place_after(config, at_stage_2, inside["routed_last"]), at_stage_2)
        ),
    ]
    bench.require(index == at_stage_1)
    for valid, sol, last, empty, elements, there, place in (
        (
            sector_valid,
            o.payload.sol,
            o.payload.last,
            o.payload.empty,
            given,
            given_present,
            expanded_rules.place,
        ),
        (
            routed_valid,
            inside["routed_sol"],
            inside["routed_last"],
            inside["routed_empty"],
            routed,
            routed_present,
            at_stage_2,
        ),
    ):
        bench.implies(valid, sol == (place == 0))
        bench.implies(valid & last, empty | (place == sectors - 1))
        bench.implies(valid & empty, last & (place == 0), there == 0)
        for k in range(lanes):
            bench.implies(valid & ~there[k], elements[k] == 0)

    order = Order(bench, len(line.item(0)), count_bits=(sectors + 3).bit_length())
    order.comes(coming.run(i.moves & i.payload.sol))
    order.leaves(one(o.moves, sector_item(o.payload)))
    order.on_the_way(
        one(sector_valid, Cat(*given, o.payload.last, o.payload.empty)),
        one(routed_valid, Cat(*routed, inside["routed_last"], inside["routed_empty"])),
        Run(
            Mux(busy, sectors - index, 0),
            [line.item(s) for s in range(sectors)],
            start=index,
        ),
    )
    bench.cover(o.moves & o.payload.empty, o.moves & o.payload.present.all() & o.payload.last)
    return bench


@pytest.mark.parametrize("config", configs(PIPELINES, quick=()))
def test_decompressor_restores_every_encoded_line(config, tmp_path):
    prove(decompressor_proof(config, ZvcDecompressor(config)), tmp_path, depth=1)


def cut_decompressor_proof(config: CodecConfig, decompressor: ZvcDecompressor) -> Bench:
    lanes, sectors = config.lanes, config.sectors
    bench = Bench()
    inside = bench.add(decompressor)
    line_rules, expanded_rules = LineRules(config, damaged=True), ExpandedRules(config)
    i = coming_beats(bench, inside, decompressor, line_rules)
    o = bench.watch(decompressor.o, expanded_rules)
    busy, index, damaged = inside["busy"], inside["index"], inside["held_damaged"]
    routed_valid, sector_valid = inside["routed.o_valid"], inside["spread.o_valid"]
    used, count, short = inside["used"], inside["held_count"], inside["short"]
    cut_off = Signal()
    bench.m.d.comb += cut_off.eq(short & busy)

    # What is left of the line's mask announces what is left of its payload.
    left = Cat(inside["segment"], inside["mask"]) if sectors > 1 else C(0, 1)
    rest = count_ones(left)
    bench.implies(line_rules.inside, line_rules.left != 0, busy, ~damaged, ~inside["held_last"])
    bench.implies(line_rules.inside, count == lanes)
    bench.implies(
        busy & ~cut_off,
        used <= count,
        count <= lanes,
        Mux(
            damaged,
            (rest > count - used) & inside["held_last"],
            rest == count - used + Mux(line_rules.inside, line_rules.left, 0),
        ),
    )
    for s in range(1, sectors):
        bench.implies(busy & (index == s), ~left[(sectors - s) * lanes :].any())
    bench.implies(busy, count <= lanes)
    bench.implies(~busy, used == lanes)
    bench.implies(cut_off, damaged, ~line_rules.inside)
    # Elements are said to be there as far as they are.
    there = inside["slot_0_there"]
    if sectors > 1:
        there = Mux(inside["latest"], inside["slot_1_there"], there)
        bench.implies(busy, inside["segment_count"] == count_ones(inside["segment"]))
        for k in range(1, lanes):
            counted = inside[f"segment_ones_{k}"]
            ones = count_ones(inside["segment"][:k])
            bench.implies(busy, counted == ones[: len(counted)])
    for k in range(lanes):
        bench.implies(busy, there[k] == (k < count))
        bench.implies(~o.payload.present[k], o.payload.elements[k] == 0)
    bench.implies(routed_valid, inside["missing"].any() == short)

    at_stage_2, at_stage_1 = Signal(range(sectors)), Signal(range(sectors))

    bench.m.d.comb += [
        at_stage_2.eq(
            Mux(
                sector_valid,
                place_after(config, expanded_rules.place, o.payload.last),
                expanded_rules.place,
            )
        ),
        at_stage_1.eq(
            Mux(
                routed_valid,
                place_after(config, at_stage_2, inside["routed_last"] | short),
                at_stage_2,
            )
        ),
    ]
    bench.require(busy == (index != 0), index < sectors)
    bench.require(index == Mux(cut_off, at_stage_2 + 1, at_stage_1))
    cut = short | inside["routed_mask_missing"]
    empty, last = inside["routed_empty"], inside["routed_last"] | short
    nothing = last & (at_stage_2 == 0) & (inside["routed_present"] == 0)
    bench.implies(
        routed_valid,
        inside["routed_sol"] == (at_stage_2 == 0),
        ~last | (at_stage_2 == sectors - 1) | cut | empty,
        ~cut | last,
        ~inside["routed_mask_missing"] | nothing,
        ~empty | (nothing & ~inside["routed_mask_missing"]),
    )
    # A line that is cut short ends: whoever is outside is willing, then something moves in time.
    bench.progress(i.valid & o.ready, i.moves | o.moves, cycles=2)
    bench.cover(
        o.moves & o.payload.mask_missing,
        o.moves & o.payload.missing.any() & ~o.payload.sol
        if sectors > 1
        else o.moves & o.payload.missing.any(),
        o.moves & o.payload.last & (o.payload.missing == 0) & ~o.payload.empty,
    )
    return bench


@pytest.mark.parametrize("config", configs(CUT, quick=()))
def test_decompressor_ends_with_the_stream(config, tmp_path):
    prove(cut_decompressor_proof(config, ZvcDecompressor(config)), tmp_path, depth=3)
