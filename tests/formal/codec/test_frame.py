"""Framing, checks and sums around the pipelines: stream rules, bounds and nothing made up."""

from types import SimpleNamespace

import pytest
from amaranth.hdl import C, Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.codec.stream.checker import LineError, StreamChecker
from cdma.hw.codec.stream.frame import LinePadder, PacketTrimmer
from cdma.hw.codec.stream.status import ByteMeter, CompressorStatus, DecompressorStatus
from cdma.hw.config import CodecConfig
from cdma.hw.lib.codes.crc import Crc32
from tests.formal.bench import Bench
from tests.formal.lines import WITH_SHIPPED
from tests.formal.rules import (
    ExpandedRules,
    SectorRules,
    beat_rules,
    beat_sizes,
    received_rules,
)
from tests.formal.smtbmc import prove
from tests.lib.shares import configs, widths

WIDTHS = widths(2, 4, 8, 32, quick=())
JOINERS = {joiner.__name__: joiner for joiner in (CompressorStatus, DecompressorStatus)}


def trimmer_proof(width: int) -> Bench:
    bench = Bench()
    m = bench.m
    trimmer = PacketTrimmer(width)
    inside = bench.add(trimmer)
    length = bench.drive(trimmer.length)
    i = bench.drive(trimmer.i, received_rules(width))
    o = bench.watch(trimmer.o, beat_rules(width))
    taken = bench.watch(trimmer.taken)

    announced, given = Signal(32), Signal(32)
    sizes, wrong = Signal(32), Signal()
    open_, dropping = Signal(), Signal()
    with m.If(o.moves):
        m.d.sync += given.eq(Mux(o.payload.last, 0, given + o.payload.size))
        with m.If(o.payload.last):
            m.d.sync += [
                sizes.eq(given + o.payload.size),
                wrong.eq(i.payload.framing_error | (given + i.payload.size != announced)),
            ]
    with m.If(i.moves):
        m.d.sync += dropping.eq((dropping | o.payload.last) & ~i.payload.last)
        # Behind the announced bytes a beat without any may end the packet.
        with m.If(dropping & (i.payload.framing_error | (i.payload.size != 0))):
            m.d.sync += wrong.eq(1)
        with m.If(i.payload.last):
            m.d.sync += open_.eq(0)
    with m.If(length.moves):
        m.d.sync += [open_.eq(1), announced.eq(length.payload)]

    bench.implies(o.valid, given + o.payload.size <= announced, open_ & ~dropping)
    bench.implies(o.valid, o.payload.size <= i.payload.size)
    for j in range(width):
        bench.implies(
            o.valid & (o.payload.size > j),
            o.payload.data.word_select(j, 8) == i.payload.data.word_select(j, 8),
        )
    bench.implies(o.moves, i.moves)
    bench.implies(i.moves & ~dropping, o.moves)
    bench.implies(taken.valid, ~dropping, taken.payload.size == sizes)
    bench.implies(taken.valid, taken.payload.mismatch == wrong)

    left = inside["left"]
    bench.require(
        inside["passing"] == (open_ & ~dropping),
        inside["dropping"] == dropping,
        inside["packet_state"] != 3,
    )
    bench.implies(dropping, open_, given == 0, inside["taken_valid"])
    bench.implies(inside["taken_valid"], inside["taken"] == Cat(wrong, sizes))
    bench.implies(open_ & ~dropping, inside["beats_given"] * width == given)
    bench.implies(
        open_ & ~dropping,
        inside["beat_fits"] == (left > width),
        inside["covers"] == (left >= width),
    )
    bench.implies(open_ & ~dropping, given + left == announced, given <= announced)
    bench.implies(open_ & ~dropping & (given != 0), left != 0)
    bench.implies(~open_, given == 0)
    willing = length.valid & i.valid & o.ready & taken.ready
    bench.implies(willing, length.ready | i.ready | o.valid | taken.valid)
    bench.cover(
        dropping & taken.ready, taken.moves & taken.payload.mismatch, o.moves & (given > width)
    )
    return bench


@pytest.mark.parametrize("width", WIDTHS)
def test_trimmer_passes_no_more_than_announced(width, tmp_path):
    prove(trimmer_proof(width), tmp_path, depth=1)


def padder_proof(config: CodecConfig) -> Bench:
    bench = Bench()
    padder = LinePadder(config)
    inside = bench.add(padder)
    sector_rules = SectorRules(config)
    i = bench.drive(padder.i, beat_rules(config.sector_bytes))
    o = bench.watch(padder.o, sector_rules)
    padding = Signal()
    with bench.m.If(o.moves):
        bench.m.d.sync += padding.eq((padding | i.payload.last) & ~o.payload.last)
    elements = Cat(*(o.payload.elements[k] for k in range(config.lanes)))
    bench.implies(o.valid & padding, elements == 0, ~o.payload.empty)
    bench.implies(o.valid & ~padding, i.valid, elements == i.payload.data)
    bench.require((o.moves & ~padding) == i.moves)
    bench.implies(o.moves & o.payload.last, padding | i.payload.last)
    bench.implies(o.moves & o.payload.empty, i.payload.size == 0)
    bench.require(inside["padding"] == padding)
    bench.require(sector_rules.place == (inside["index"] if config.sectors > 1 else 0))
    bench.implies(padding, sector_rules.place != 0)
    if config.sectors > 1:
        bench.cover(padding & o.moves)
    bench.cover(o.moves & o.payload.empty)
    return bench


@pytest.mark.parametrize("config", configs(WITH_SHIPPED, quick=()))
def test_padder_adds_nothing_but_zeros_to_whole_lines(config, tmp_path):
    prove(padder_proof(config), tmp_path, depth=1)


def undo_cycles(zero_bytes: int, strides: tuple[int, ...]) -> int:
    cycles = 0
    for stride in strides:
        cycles += zero_bytes // stride
        zero_bytes %= stride
    return cycles


@pytest.mark.verify
@pytest.mark.parametrize("width", WIDTHS)
def test_crc_gives_a_result_for_each_packet(width, tmp_path):
    bench = Bench()
    m = bench.m
    crc = Crc32(width)
    inside = bench.add(crc)
    m.d.comb += [crc.beat.eq(AnySeq(len(crc.beat.as_value()))), crc.fires.eq(AnySeq(1))]
    for premise, conclusion in beat_sizes(width)(bench, SimpleNamespace(payload=crc.beat)):
        bench.assume(~premise | conclusion)
    passes = crc.fires & ~crc.stalls
    result = bench.watch(crc.result)
    # One result per packet, and in time.
    owed = Signal(2)
    m.d.sync += owed.eq(owed + (passes & crc.beat.last) - result.moves)
    closing, finishing, zero_bytes = (
        inside[name] for name in ("closing", "finishing", "zero_bytes")
    )
    bench.require(owed == closing + finishing, owed <= 1)
    bench.implies(result.valid, owed == 1)
    cycles = crc.result_latency - 1
    waited = bench.progress(owed != 0, result.valid, cycles=cycles)
    left: Value = C(0, 4)
    for zeros in range(1, width):
        left = Mux(zero_bytes == zeros, undo_cycles(zeros, crc.strides), left)
    bench.implies(closing, waited == 0)
    bench.implies(zero_bytes != 0, finishing | closing)
    bench.implies(finishing & (zero_bytes != 0), waited + left <= cycles)
    bench.implies(~crc.beat.last | (~closing & ~finishing), ~crc.stalls)
    bench.cover(result.moves & (owed == 1), passes & result.waiting)
    prove(bench, tmp_path, depth=1)


def meter_proof(width: int) -> Bench:
    bench = Bench()
    m = bench.m
    meter = ByteMeter(width)
    inside = bench.add(meter)
    i = bench.drive(meter.i, beat_rules(width))
    o = bench.watch(meter.o, beat_rules(width))
    size = bench.watch(meter.size)
    bench.require(i.moves == o.moves)
    bench.implies(
        o.valid,
        Cat(i.payload.data, i.payload.size, i.payload.last)
        == Cat(o.payload.data, o.payload.size, o.payload.last),
    )
    count, total, told = Signal(33), Signal(33), Signal()
    with m.If(size.moves):
        m.d.sync += told.eq(0)
    with m.If(o.moves):
        m.d.sync += count.eq(Mux(o.payload.last, 0, count + o.payload.size))
        with m.If(o.payload.last):
            m.d.sync += [total.eq(count + o.payload.size), told.eq(1)]
    bench.implies(size.valid, told, size.payload == total)
    bench.implies(told, size.valid)
    bench.implies(o.moves & o.payload.last, ~told)
    bench.require(inside["count"] * width == count)
    bench.implies(i.valid & o.ready & size.ready, i.ready | size.valid)
    bench.cover(size.moves & (size.payload > width))
    return bench


@pytest.mark.verify
@pytest.mark.parametrize("width", WIDTHS)
def test_meter_counts_the_bytes_of_each_packet(width, tmp_path):
    prove(meter_proof(width), tmp_path, depth=1)


@pytest.mark.parametrize("joiner", configs(JOINERS, quick=()))
def test_joiner_tells_once_all_are_in(joiner, tmp_path):
    bench = Bench()
    component = joiner()
    bench.add(component)
    inputs = [
        bench.drive(getattr(component, name)) for name in component.signature.members if name != "o"
    ]
    o = bench.watch(component.o)
    for i in inputs:
        bench.require(i.moves == o.moves)
    bench.require(o.valid == Cat(i.valid for i in inputs).all())
    prove(bench, tmp_path, depth=1)


def checker_proof(config: CodecConfig, checker: StreamChecker) -> Bench:
    bench = Bench()
    m = bench.m
    inside = bench.add(checker)
    width = config.sector_bytes
    expanded = ExpandedRules(config)
    length = bench.drive(checker.length)
    i = bench.drive(checker.i, expanded)
    o = bench.watch(checker.o, beat_rules(width))
    result = bench.watch(checker.result)
    left, active, seen_valid = inside["left"], inside["active"], inside["checked.o_valid"]
    seen_room, seen_final = inside["checked_space_left"], inside["checked_final"]
    # The last sector's bytes are added a cycle later.
    given = Signal(32, name="given")
    m.d.comb += given.eq(inside["given"] + inside["lately"])
    failed, complete, beat_valid = inside["failed"], inside["complete"], inside["beat.o_valid"]
    fires, emits = inside["checked_fires"], inside["emits"]
    layout = checker.i.payload.shape()
    seen = {
        name: inside["checked"][field.offset : field.offset + field.width] for name, field in layout
    }

    # The unpacker's promise: lines for the whole length, unless the stream is cut short.
    cut = i.payload.missing.any() | i.payload.mask_missing
    bench.assume(~(i.moves & i.payload.last & ~cut) | (left <= width))
    bench.assume(~(i.moves & i.payload.empty) | (left == 0))

    # Ghosts: the announced length of the transfer in each stage, and what remained behind it.
    length_1, length_2, length_3, length_told = (Signal(32, name=f"length_{k}") for k in range(4))
    left_2, given_3 = Signal(32), Signal(32)
    mid = Signal()
    with m.If(i.moves):
        m.d.sync += [
            mid.eq(~i.payload.last),
            length_2.eq(length_1),
            left_2.eq(left - inside["space_left"]),
        ]
    with m.If(length.moves):
        m.d.sync += length_1.eq(length.payload)
    with m.If(fires & emits):
        m.d.sync += [length_3.eq(length_2), given_3.eq(given)]
    with m.If(fires & seen["last"]):
        m.d.sync += length_told.eq(length_2)

    # Seen from outside: never a byte more than announced.
    out = Signal(32)
    with m.If(o.moves):
        m.d.sync += out.eq(Mux(o.payload.last, 0, out + o.payload.size))
    bench.implies(o.valid, out + o.payload.size <= length_3, out + o.payload.size >= out)
    bench.implies(result.valid, result.payload.size <= length_told)
    bench.implies(
        result.valid & (result.payload.line_error == LineError.NONE),
        result.payload.size == length_told,
    )

    # Stage 1.
    bench.implies(mid, active)
    bench.implies(~mid & active, left == length_1)
    bench.implies(active, left <= length_1)

    # Stage 2 has the transfer of the sector in it, or the one whose sectors are to come.
    right = ~failed
    wrong = seen["mask_missing"] | inside["checked_wrong"].any()
    bench.implies(seen_valid & ~seen["last"], mid, length_2 == length_1, left_2 == left)
    bench.implies(seen_valid & seen["last"], ~mid, failed | wrong | seen_final)
    bench.implies(
        seen_valid,
        seen_room <= width,
        seen_final == (left_2 == 0),
        (inside["checked_wrong"] & seen["missing"]) == seen["missing"],
        inside["checked_is_wrong"] == inside["checked_wrong"].any(),
        given <= length_2,
        seen_final | (seen_room == width),
        seen_room <= length_2,
    )
    lane_bytes = config.element_bytes
    for j in range(width):
        bench.implies(
            seen_valid & (seen_room <= j) & ~inside["checked_wrong"][j // lane_bytes],
            seen["elements"].word_select(j, 8) == 0,
        )
    bench.implies(seen_valid & right, given + seen_room + left_2 == length_2)
    bench.implies(seen_valid & right, length_2 - given >= seen_room)
    bench.implies(seen_valid & right & complete, given == length_2, seen_room == 0)
    bench.implies(~seen_valid & ~mid, given == 0, right, ~complete)
    bench.implies(~seen_valid & mid, given <= length_1)
    bench.implies(~seen_valid & mid & right, given + left == length_1)
    bench.implies(~seen_valid & mid & right & complete, given == length_1)
    bench.implies(~seen_valid & mid & right & ~complete, left != 0)

    # The beat that is offered.
    ended = failed | complete
    bench.implies(beat_valid, out == given_3)
    bench.implies(~beat_valid, out == Mux(ended, 0, given))
    bench.implies(beat_valid & ~o.payload.last, ~ended, given == given_3 + o.payload.size)
    bench.implies(beat_valid & ~o.payload.last, length_3 == Mux(seen_valid, length_2, length_1))
    bench.implies(beat_valid & ~o.payload.last, seen_valid | mid)
    bench.implies(beat_valid & o.payload.last, ended | (given == 0))
    bench.implies(failed, inside["error"] != 0, ~inside["result_valid"])
    bench.implies(inside["result_valid"] == 0, inside["error"] == Mux(failed, inside["error"], 0))

    # It ends: whoever is outside is willing, then something moves at once.
    willing = length.valid & i.valid & o.ready & result.ready
    bench.implies(willing, length.ready | i.ready | o.valid | result.valid)
    bench.cover(
        result.moves
        & (result.payload.line_error == LineError.NONE)
        & (result.payload.size > width),
        *(
            result.moves & (result.payload.line_error == error)
            for error in LineError
            if error is not LineError.CODEC
        ),
        o.moves & o.payload.last & (o.payload.size == 0),
    )
    return bench


@pytest.mark.parametrize("config", configs(WITH_SHIPPED, quick=()))
def test_checker_gives_no_byte_beyond_the_length(config, tmp_path):
    prove(checker_proof(config, StreamChecker(config)), tmp_path, depth=1)
