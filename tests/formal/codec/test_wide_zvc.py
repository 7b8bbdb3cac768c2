"""The ZVC pipelines at the shapes that ship: the same as in `test_zvc.py`, of a followed element.

Networks and counts are cut out (`lane_theorems.py`). The two halves meet at `followed_beats`, which
stands for `encoding`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from amaranth.hdl import C, Cat, Const, Fragment, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.hw.codec.payloads import LineBeat, Sector
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, anything
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.followed import (
    LINE_BEAT,
    FollowedLine,
    Picked,
    followed_beats,
    followed_item,
    seen_of,
)
from tests.formal.codec.lane_theorems import (
    CutJoin,
    Cuts,
    LaneCounts,
    at,
    blocks_are_of,
    bounds,
    gathers,
    joined_are_of,
    scatters,
    ways_are_of,
)
from tests.formal.codec.test_zvc import BeatPosition, number_of
from tests.formal.lines import SHIPPED, TINY, place_after
from tests.formal.order import Order, Run, one
from tests.formal.parts import prove_part
from tests.formal.rules import SectorRules
from tests.lib.shares import configs

COMPRESSOR, DECOMPRESSOR = ZvcCompressor.__module__, ZvcDecompressor.__module__


def state_join(bench: Bench, join: CutJoin, counts: LaneCounts) -> None:
    """State the theorem of counts of all lanes."""
    bench.assume(
        ~Cat(blocks_are_of(join.counted, join.blocks, counts)).all()
        | Cat(joined_are_of(join.ones, join.count, counts)).all()
    )


def wide_compressor_proof(bench: Bench, config: CodecConfig, patch: pytest.MonkeyPatch) -> None:
    lanes, sectors = config.lanes, config.sectors
    lane_bits = (lanes - 1).bit_length()
    m = bench.m
    cuts = Cuts(patch, COMPRESSOR, "gather")
    compressor = ZvcCompressor(config)
    inside = bench.add(compressor, ignored=True)
    picked = Picked(bench, config)
    sector_rules = SectorRules(config)

    # What is counted of the lanes that come in.
    came = LaneCounts(lanes, "came")
    counted = cuts.counts["blocks"]
    bench.m.d.comb += [number.eq(AnySeq(len(number))) for number in came.below]
    bench.assume(came.are_of(counted.present), *bounds(came, counted.present, picked.lane))
    bench.assume(*blocks_are_of(counted.counted, counted.blocks, came))
    if config.latency == "fast":
        # A `Register` is a queue, by its own proof: what is assumed of the port holds behind it.
        outside = bench.drive(compressor.i)
        seen = inside.component("seen_register").o
        i = bench.trust(BeatPosition(seen.valid, seen.ready, seen.payload.sector), sector_rules)
        before = came
        came = LaneCounts(lanes, "seen")
        with m.If(outside.moves):
            m.d.sync += came.takes(before)
        bench.implies(
            seen.valid,
            came.are_of(seen.payload.present),
            *bounds(came, seen.payload.present, picked.lane),
            *blocks_are_of(seen.payload.counted, counted.blocks, came),
        )
        present_in = seen.payload.present
    else:
        i = bench.drive(compressor.i, sector_rules)
        present_in = counted.present
    elements_in = [i.payload.elements[k] for k in range(lanes)]
    is_present = Cat(element.any() | i.payload.codec for element in elements_in)
    bench.implies(i.valid, present_in == is_present)
    state_join(bench, cuts.joins["compare"], came)

    # Ghosts: counts of the sector in stage 1, the sector in stage 2, the line being appended to,
    # the line in the window.
    compared_counts, packed_counts = LaneCounts(lanes, "compared"), LaneCounts(lanes, "packed")
    ghost_present = Signal(lanes)
    ghost_value = Signal(8 * config.element_bytes)
    growing, whole = FollowedLine(config, picked, "growing"), FollowedLine(config, picked, "whole")
    compared = data.View(Sector(config), inside["compared"])
    compared_present = inside["compared_present"]
    compared_is_there = at(list(compared_present), picked.lane)
    compared_value = Mux(
        compared_is_there, at([compared.elements[k] for k in range(lanes)], picked.lane), 0
    )
    compared_last, compared_empty = compared.last, compared.empty
    compared_valid, packed_valid = inside["compared.o_valid"], inside["packed.o_valid"]
    packed_last, packed_empty = inside["packed_last"], inside["packed_empty"]
    packed_completes, sending = inside["packed_completes"], inside["sending"]
    window_left, beat_place = inside["window_left"], inside["beat_place"]
    index, beat = Signal(range(sectors)), Signal(range(sectors))
    places = [inside["packed_place"][s] for s in range(sectors)]
    m.d.comb += [
        index.eq(Mux(packed_valid, number_of(places), inside["index"])),
        beat.eq(number_of([beat_place[s] for s in range(sectors)])),
    ]
    with m.If(inside["compared.load"]):
        m.d.sync += compared_counts.takes(came)
    with m.If(inside["packed.i_ready"]):
        m.d.sync += [
            ghost_present.eq(Mux(compared_empty, 0, compared_present)),
            ghost_value.eq(Mux(compared_empty, 0, compared_value)),
            *packed_counts.takes(compared_counts, unless=compared_empty),
        ]
    with m.If(inside["append"]):
        is_picked = index == picked.sector
        with m.If(is_picked):
            m.d.sync += growing.value.eq(ghost_value)
        with m.If(packed_completes):
            old = Mux(picked.sector < index, growing.value, 0)
            m.d.sync += [
                whole.value.eq(Mux(is_picked, ghost_value, old)),
                whole.last.eq(packed_last),
                whole.empty.eq(packed_empty),
            ]
        for s in range(sectors):
            with m.If(index == s):
                m.d.sync += [
                    growing.present[s].eq(ghost_present),
                    *growing.counts[s].takes(packed_counts),
                ]
            with m.If(packed_completes):
                m.d.sync += [
                    whole.present[s].eq(
                        Mux(index == s, ghost_present, Mux(index > s, growing.present[s], 0))
                    ),
                    *whole.counts[s].takes(
                        packed_counts, growing.counts[s], index == s, unless=index < s
                    ),
                ]

    m.d.comb += compressor.o.ready.eq(AnySeq(1))
    beats = followed_beats(config, beat, whole)
    seen_beat = seen_of(compressor.o.payload, beat, whole)
    out = BeatPosition(compressor.o.valid, compressor.o.ready, seen_beat)
    o = bench.observe(out, compressor.o.payload, beats)

    # Stage 1.
    bench.implies(
        compared_valid,
        compared_counts.are_of(compared_present),
        *bounds(compared_counts, compared_present, picked.lane),
        *joined_are_of(
            [inside[f"compared_ones_{k}"] for k in range(lanes)],
            inside["compared_count"],
            compared_counts,
        ),
    )
    # Stage 2: the sector's elements stand from the line's end on, in a ring of lanes.
    bits = config.elements.bit_length()
    offset, end = Signal(bits), Signal(bits)
    m.d.comb += [offset.eq(growing.before(index)), end.eq(offset + packed_counts.all)]
    network = cuts.networks["pack"]
    start = C(0, lane_bits) if sectors == 1 else inside["offset"][:lane_bits]
    ways = None if sectors == 1 else start
    bench.assume(
        ~(
            compared_counts.are_of(compared_present)
            & ways_are_of(m, network.levels, compared_counts, ways, name="right")
            & compared_is_there
        )
        | gathers(
            network.lanes_in, network.lanes_out, compared_counts, start, picked.lane, picked.place
        )
    )
    bench.implies(packed_valid, Cat(places) == 1 << index)
    bench.implies(
        packed_valid,
        packed_completes == ((index == sectors - 1) | packed_empty),
        inside["packed_total"] == Mux(packed_empty, 0, end),
        inside["packed_needs"] == 1 << Mux(packed_completes, sectors - 1, index),
        inside["index"] == Mux(packed_completes, 0, index + 1),
        inside["offset"] == Mux(packed_completes, 0, end),
        packed_counts.are_of(ghost_present),
        *bounds(packed_counts, ghost_present, picked.lane),
    )
    bench.implies(packed_valid & ~packed_empty, inside["packed_present"] == ghost_present)
    bench.implies(packed_valid & packed_empty, ghost_present == 0, ghost_value == 0)
    rank = picked.rank
    lands = at(list(inside["packed_lands"]), rank)
    bench.implies(packed_valid, lands == ((rank >= offset) & (rank < end) & ~packed_empty))
    ghost_is_there = at(list(ghost_present), picked.lane)
    ghost_rank = (offset + packed_counts.of_lane(picked.lane))[:bits]
    bench.implies(
        packed_valid & ghost_is_there & (ghost_rank == rank),
        at([inside[f"packed_{k}"] for k in range(lanes)], picked.place) == ghost_value,
    )

    # Stage 3: the window holds what is left of a line, and below it what has come of the next.
    window = [inside[f"window_{place}"] for place in range(config.elements)]
    word = Signal(8 * config.element_bytes)
    m.d.comb += word.eq(at(window, rank))
    bench.implies(~packed_valid, inside["offset"] == offset)
    bench.require(beat_place == 1 << beat)
    for s in range(sectors):
        part = slice(s * lanes, (s + 1) * lanes)
        grown = index > s
        bench.implies(
            grown,
            inside["window_mask"][part] == growing.present[s],
            growing.counts[s].are_of(growing.present[s]),
            *bounds(growing.counts[s], growing.present[s], picked.lane),
        )
        bench.require(inside["free"][s] == (~sending | (s < beat)))
    left = (whole.total - beat * lanes)[: len(window_left)]
    bench.implies(
        sending,
        *whole.legal(),
        index <= beat,
        whole.total >= beat * lanes,
        window_left == left,
        inside["window_final"] == (window_left <= lanes),
        inside["window_last"] == whole.last,
        inside["window_empty"] == whole.empty,
        (beat == 0) | (window_left != 0),
    )
    bench.implies(sending & (beat == 0) & ~whole.empty, inside["window_mask"] == whole.mask)
    bench.implies(~sending, beat == 0)
    growing_is_followed = (index > picked.sector) & growing.is_followed
    bench.implies(growing_is_followed, rank < offset, word == growing.value)
    bench.implies(
        sending & (rank >= beat * lanes) & (rank < whole.total),
        rank >= offset,
        ~whole.is_followed | (word == whole.value),
    )
    filled = (window_left != 0) & (((window_left - 1) % lanes) >= picked.place)
    bench.implies(sending, at(list(inside["window_tail"]), picked.place) == filled)
    bench.implies(
        o.valid & (o.payload.count <= picked.place),
        at([o.payload.elements[k] for k in range(lanes)], picked.place) == 0,
    )

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

    def item(place, empty, present, value, last):
        has_it = (place == picked.sector) & ~empty
        return followed_item(Mux(empty, 0, present), has_it, value, last, empty)

    order = Order(bench, len(whole.items(Const(1))[0]), count_bits=(2 * sectors + 2).bit_length())
    came_value = at(elements_in, picked.lane)
    order.comes(
        one(
            i.moves,
            item(sector_rules.place, i.payload.empty, is_present, came_value, i.payload.last),
        )
    )
    items = whole.items(~whole.empty)
    order.leaves(Run(whole.sectors_there(o.moves & o.payload.eol), items))
    order.on_the_way(
        Run(whole.sectors_there(sending), items),
        Run(
            index,
            [
                followed_item(present, picked.sector == s, growing.value, C(0, 1), C(0, 1))
                for s, present in enumerate(growing.present)
            ],
        ),
        one(packed_valid, item(index, packed_empty, ghost_present, ghost_value, packed_last)),
        one(
            compared_valid,
            item(inside["index"], compared_empty, compared_present, compared_value, compared_last),
        ),
    )
    # What the compressor asserts itself.
    bench.implies(
        inside["append"] & packed_completes & sending, inside["sent"], inside["window_final"]
    )
    # Whoever is outside is willing, then something moves at once.
    bench.implies(i.valid & o.ready, i.ready | o.valid)
    bench.cover(
        o.moves & o.payload.empty,
        o.moves & o.payload.last & ~o.payload.sol
        if sectors > 1
        else o.moves & o.payload.last & (o.payload.count == lanes),
        o.moves & whole.is_followed & (rank != 0) & (whole.value != 0) & (beat == picked.beat),
    )


def wide_decompressor_proof(bench: Bench, config: CodecConfig, patch: pytest.MonkeyPatch) -> None:
    lanes, sectors = config.lanes, config.sectors
    lane_bits = (lanes - 1).bit_length()
    m = bench.m
    cuts = Cuts(patch, DECOMPRESSOR, "scatter")
    decompressor = ZvcDecompressor(config)
    inside = bench.add(decompressor, ignored=True)
    picked = Picked(bench, config)
    coming, held = FollowedLine(config, picked, "coming"), FollowedLine(config, picked, "held")
    number = Signal(range(sectors + 1))
    started = Signal()

    # The beats where they are taken from, and what was counted of them.
    m.d.comb += anything(decompressor.i)
    first = cuts.counts["first_blocks"]
    if config.latency == "fast":
        outside = decompressor.i
        arriving, arrived_counts = LaneCounts(lanes, "arriving"), LaneCounts(lanes, "arrived")
        m.d.comb += [own.eq(AnySeq(len(own))) for own in arriving.below]
        bench.assume(arriving.are_of(first.present), *bounds(arriving, first.present, picked.lane))
        bench.assume(*blocks_are_of(first.counted, first.blocks, arriving))
        with m.If(outside.valid & outside.ready):
            m.d.sync += arrived_counts.takes(arriving)
        control = inside.component("counted")
        beat = data.View(LineBeat(config), inside["counted_beat"])
        stream = BeatPosition(control.o_valid, control.o_ready, beat)
        bench.implies(
            stream.valid,
            arrived_counts.are_of(beat.mask[:lanes]),
            *bounds(arrived_counts, beat.mask[:lanes], picked.lane),
            *blocks_are_of(first.blocks(inside["counted"]), first.blocks, arrived_counts),
        )
    else:
        stream = decompressor.i
        arrived_counts = None
        bench.assume(
            ~coming.counts[0].are_of(first.present)
            | Cat(blocks_are_of(first.counted, first.blocks, coming.counts[0])).all()
        )

    # The line that is coming in: any, and the same until it is through.
    for old, new in zip(held.wires, coming.wires, strict=True):
        m.d.sync += old.eq(new)
    chosen = {id(new): AnySeq(len(new)) for new in coming.wires}
    if arrived_counts is not None:
        # The counts of a mask are what they are: those that came with it may as well be chosen.
        for new, own in zip(coming.counts[0].below, arrived_counts.below, strict=True):
            chosen[id(new)] = own
    for old, new in zip(held.wires, coming.wires, strict=True):
        m.d.comb += new.eq(Mux(started, old, chosen[id(new)]))
    seen = seen_of(stream.payload, number, coming)
    i = bench.trust(stream, followed_beats(config, number, coming), seen)
    m.d.sync += started.eq(Mux(i.moves, ~i.payload.eol, i.valid | started))
    with m.If(i.moves):
        m.d.sync += number.eq(Mux(i.payload.eol, 0, number + 1))

    # Ghosts: the line being expanded, the sector in stage 2, the sector at the output.
    line = FollowedLine(config, picked, "line")
    bits = 8 * config.element_bytes
    busy, index, starts = inside["busy"], inside["index"], inside["starts"]
    used, step = inside["used"], inside["step"]
    routed_valid, sector_valid = inside["routed.o_valid"], inside["spread.o_valid"]
    beats = Signal(range(sectors + 1))
    with m.If(step):
        with m.If(starts):
            m.d.sync += [old.eq(new) for old, new in zip(line.wires, coming.wires, strict=True)]
        with m.If(inside["needs_beat"]):
            m.d.sync += beats.eq(Mux(starts, 1, beats + 1))
    routed_present, given_present = Signal(lanes), Signal(lanes)
    routed_counts, routed_start = LaneCounts(lanes, "routed"), Signal(lane_bits)
    routed_value, given_value = Signal(bits), Signal(bits)
    routed_follows, given_follows = Signal(), Signal()
    # Sector `index` of the line: its first one comes in just now.
    sources = [(coming, 0), *((line, s) for s in range(1, sectors))]
    with m.If(inside["routed.i_ready"]):
        m.d.sync += [
            routed_present.eq(at([source.present[s] for source, s in sources], index)),
            routed_start.eq(used),
            routed_value.eq(Mux(starts, coming.value, line.value)),
            routed_follows.eq(
                Mux(starts, coming.is_followed, line.is_followed) & (index == picked.sector)
            ),
        ]
        for k, own in enumerate(routed_counts.below):
            m.d.sync += own.eq(at([source.counts[s].below[k] for source, s in sources], index))
    o_ready = decompressor.o.ready
    with m.If(o_ready | ~sector_valid):
        m.d.sync += [
            given_present.eq(routed_present),
            given_value.eq(routed_value),
            given_follows.eq(routed_follows),
        ]

    # What is counted, and where it is joined.
    if sectors > 1:
        ahead = LaneCounts(lanes, "ahead")
        nexts = [coming.counts[1], *line.counts[2:], line.counts[-1]]
        for k, own in enumerate(ahead.below):
            m.d.comb += own.eq(at([counts.below[k] for counts in nexts[: sectors - 1]], index))
        ahead_cut = cuts.counts["ahead_blocks"]
        bench.assume(
            ~ahead.are_of(ahead_cut.present)
            | Cat(blocks_are_of(ahead_cut.counted, ahead_cut.blocks, ahead)).all()
        )
        state_join(bench, cuts.joins["ahead"], ahead)
    state_join(bench, cuts.joins["first"], coming.counts[0])

    # What the decompressor asserts itself.
    bench.implies(i.moves, i.payload.sol == starts)
    # Stage 1: the mask and the payload that are left.
    total, spent = line.total, line.before(index)
    arrived = Mux(beats * lanes < total, beats * lanes, total)
    is_inside = number != 0
    bench.require(busy == (index != 0), index < sectors)
    bench.implies(
        busy,
        ~line.empty,
        *line.legal(),
        beats != 0,
        beats <= sectors,
        (beats - 1)[: len(beats)] * lanes <= total,
        used <= lanes,
        spent == (beats - 1)[: len(beats)] * lanes + used,
        spent <= arrived,
        ~inside["held_damaged"],
        is_inside == (beats * lanes < total),
        inside["held_last"] == (line.last & ~is_inside),
    )
    bench.implies(~busy, ~is_inside, used == lanes)
    bench.implies(is_inside, busy, number == beats, started)
    bench.implies(is_inside, *(a == b for a, b in zip(held.wires, line.wires, strict=True)))
    bench.implies(~is_inside, started == i.waiting)
    slots = [
        [Cat(inside[f"slot_{s}_{k}"], inside[f"slot_{s}_there"][k]) for k in range(lanes)]
        for s in range(min(sectors, 2))
    ]
    latest = at(slots[0], picked.place)
    if sectors > 1:
        latest = Mux(inside["latest"], at(slots[1], picked.place), latest)
    bench.implies(
        busy & line.is_followed & (beats == picked.beat + 1), latest == Cat(line.value, C(1, 1))
    )
    if sectors > 1:
        left = Cat(inside["segment"], inside["mask"])
        for s in range(1, sectors):
            is_next = busy & (index == s)
            bench.implies(is_next, left == line.mask[s * lanes :])
            bench.implies(
                is_next,
                *joined_are_of(
                    [inside[f"segment_ones_{k}"] for k in range(lanes)],
                    inside["segment_count"],
                    line.counts[s],
                ),
            )

    # Stage 2: what the network finds in the slots.
    network = cuts.networks["spread"]
    start = C(0, lane_bits) if sectors == 1 else routed_start
    right_ways = ways_are_of(
        m, network.levels, routed_counts, None if sectors == 1 else start, name="right"
    )
    place_of_lane = (start + routed_counts.of_lane(picked.lane))[:lane_bits]
    is_routed = at(list(routed_present), picked.lane)
    bench.assume(
        ~(routed_counts.are_of(inside["routed_present"]) & right_ways & is_routed)
        | scatters(
            network.lanes_in, network.lanes_out, routed_counts, start, picked.lane, picked.place
        )
    )
    bench.implies(
        routed_valid,
        inside["routed_present"] == routed_present,
        ~inside["routed_mask_missing"],
        ~inside["short"],
        routed_counts.are_of(routed_present),
        right_ways,
    )
    bench.implies(
        routed_valid & routed_follows,
        is_routed,
        place_of_lane == picked.place,
        at(network.lanes_in, picked.place) == Cat(routed_value, C(1, 1)),
    )
    place = SectorRules(config)
    o = bench.watch(decompressor.o, place)
    for k in range(lanes):
        # So a lane that is zero and stays so need not be loaded.
        bench.implies(~o.payload.present[k], o.payload.elements[k] == 0)
    bench.implies(sector_valid, o.payload.present == given_present, ~o.payload.mask_missing)
    given = at([o.payload.elements[k] for k in range(lanes)], picked.lane)
    bench.implies(
        sector_valid & given_follows,
        at(list(o.payload.present), picked.lane),
        ~at(list(o.payload.missing), picked.lane),
        given == given_value,
    )

    # The places of the sectors on their way.
    at_stage_2, at_stage_1 = Signal(range(sectors)), Signal(range(sectors))

    m.d.comb += [
        at_stage_2.eq(
            Mux(sector_valid, place_after(config, place.place, o.payload.last), place.place)
        ),
        at_stage_1.eq(
            Mux(routed_valid, place_after(config, at_stage_2, inside["routed_last"]), at_stage_2)
        ),
    ]
    bench.require(index == at_stage_1)
    for valid, sol, last, empty, there, own in (
        (
            sector_valid,
            o.payload.sol,
            o.payload.last,
            o.payload.empty,
            given_present,
            place.place,
        ),
        (
            routed_valid,
            inside["routed_sol"],
            inside["routed_last"],
            inside["routed_empty"],
            routed_present,
            at_stage_2,
        ),
    ):
        bench.implies(valid, sol == (own == 0))
        bench.implies(valid & last, empty | (own == sectors - 1))
        bench.implies(valid & empty, last & (own == 0), there == 0)

    order = Order(bench, len(line.items(C(1, 1))[0]), count_bits=(sectors + 3).bit_length())
    order.comes(
        Run(coming.sectors_there(i.moves & i.payload.sol), coming.items(coming.is_followed))
    )
    order.leaves(
        one(
            o.moves,
            followed_item(o.payload.present, given_follows, given, o.payload.last, o.payload.empty),
        )
    )
    order.on_the_way(
        one(
            sector_valid,
            followed_item(
                given_present, given_follows, given_value, o.payload.last, o.payload.empty
            ),
        ),
        one(
            routed_valid,
            followed_item(
                routed_present,
                routed_follows,
                routed_value,
                inside["routed_last"],
                inside["routed_empty"],
            ),
        ),
        Run(Mux(busy, sectors - index, 0), line.items(line.is_followed), start=index),
    )
    bench.cover(
        o.moves & o.payload.empty,
        o.moves & given_follows & (given_value != 0) & (picked.rank != 0) & o.payload.last,
    )


@dataclass(frozen=True)
class Shape:
    """A shape that ships, and in how many parts the proofs of its pipelines are.

    In fewer parts they stay undecided for longer.
    """

    config: CodecConfig
    parts: Mapping[str, int]


IN_FOUR = {"compressor": 4, "decompressor": 4}

SHAPES = {
    **{name: Shape(SHIPPED[name], IN_FOUR) for name in ("E4-S32", "E2-S32", "E4-S64", "E4-S128")},
    "E4-S128-fast": Shape(replace(SHIPPED["E4-S128"], latency="fast"), IN_FOUR),
    "E1-S128": Shape(SHIPPED["E1-S128"], {"compressor": 6, "decompressor": 6}),
    "E1-S32": Shape(SHIPPED["E1-S32"], {"compressor": 16, "decompressor": 12}),
}

PROOFS = {"compressor": wide_compressor_proof, "decompressor": wide_decompressor_proof}


PARTS = {
    f"{name}-{pipeline}-{part}": (shape, pipeline, part)
    for name, shape in SHAPES.items()
    for pipeline, parts in shape.parts.items()
    for part in range(parts)
}
"""Each in a test, so that each has its own verdict."""


@pytest.mark.parametrize("part", configs(PARTS, quick=()))
def test_pipelines_keep_an_element_of_any_line(part, tmp_path, monkeypatch):
    shape, pipeline, number = part

    def build(bench: Bench) -> None:
        # Each part has stand-ins of its own.
        with monkeypatch.context() as patch:
            PROOFS[pipeline](bench, shape.config, patch)

    prove_part(build, tmp_path, number, parts=shape.parts[pipeline], timeout_s=900)


def stated_sides(shape: Shape) -> set[tuple[str, str]]:
    """Contracts that the proofs of a shape assert and assume."""
    sides = set()
    for proof in PROOFS.values():
        bench = Bench()
        with pytest.MonkeyPatch.context() as patch:
            proof(bench, shape.config, patch)
        # Amaranth warns of what is not elaborated.
        Fragment.get(bench, None)
        sides |= {(interface, side) for _subject, interface, side in bench.sides}
    return {side for side in sides if side[0] == LINE_BEAT}


@pytest.mark.verify
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_halves_meet_at_the_beats_of_a_followed_line(shape):
    assert stated_sides(shape) == {(LINE_BEAT, "asserted"), (LINE_BEAT, "assumed")}


FAULTS = {
    "turns a sector to the first lane": (
        *("compressor", ZvcCompressor),
        *("None if whole else offset_lane", "None"),
    ),
    "lands where the line began": (
        *("compressor", ZvcCompressor),
        *("offset.eq(Mux(completes, 0, total))", "offset.eq(0)"),
    ),
    "drops the end of a full beat": (
        *("compressor", ZvcCompressor),
        *("| fills.replicate(lanes)", ""),
    ),
    "overwrites what is not sent": (
        *("compressor", ZvcCompressor),
        *("(packed.needs & free).any()", "free.any()"),
    ),
    "takes all of a beat as used up": (
        *("decompressor", ZvcDecompressor),
        *("line.used.eq(Mux(ends_line, lanes, line.segment_end))", "line.used.eq(lanes)"),
    ),
    "begins each row in the latest slot": (
        *("decompressor", ZvcDecompressor),
        *("begins.eq(line.latest ^ line.used[lane_bits])", "begins.eq(line.latest)"),
    ),
    "turns each row from the first lane": (
        *("decompressor", ZvcDecompressor),
        *("segment_ones, line.used[:lane_bits],", "segment_ones,"),
    ),
    "forgets an element behind the first": (
        *("decompressor", ZvcDecompressor),
        *("(i < beat.count) & line.needs_beat", "(i < 1) & line.needs_beat"),
    ),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_pipelines_with_a_fault_are_found(fault, tmp_path, monkeypatch):
    name, *change = fault
    break_elaborate(monkeypatch, *change)
    bench = Bench()
    PROOFS[name](bench, TINY, monkeypatch)
    find_fault(bench, tmp_path, depth=8)
