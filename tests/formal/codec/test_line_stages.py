"""Whole lines of XC and of the lossy lane, between beats and what codes them: none is lost.

A sender gives a line away in beats, a collector puts the beats of one together again, and a release
holds sectors until their line was judged. Each is followed for all of its lines by ghosts, at the
widths that ship. Pipeline registers are left out (`Straight`).
"""

import pytest
from amaranth.hdl import Mux, ResetSignal, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.golden import StreamStatus
from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.quantize import payloads as quantize
from cdma.hw.codec.quantize.decompressor.head import head_bytes as lossy_head
from cdma.hw.codec.quantize.payloads import K_BITS, MAP_BITS
from cdma.hw.codec.stream import line_collector, line_release
from cdma.hw.codec.stream.line_collector import HeadBytes, LineCollector
from cdma.hw.codec.stream.line_release import LineRelease
from cdma.hw.codec.stream.line_sender import LineSender, WholeLine
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.decompressor.head import front_bits
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import SECTORS, SHAPES, shape_of, straighten
from tests.formal.smtbmc import prove
from tests.lib.shares import names

LOSSY = {f"quantize-S{sector_bytes}": sector_bytes for sector_bytes in SECTORS}
LINES = [*SHAPES, *LOSSY]
"""XC's shapes, and those of the lossy lane."""
QUICK = ("bf16-S32",)
NONE = Truncation.NONE


def config_of(name):
    """The configuration of a shape, and the bits of front, parameters and header in its heads."""
    if name in LOSSY:
        config = quantize.own_config(CodecConfig(sector_bytes=LOSSY[name]))
        assert lossy_head(config) == HeadBytes(config, MAP_BITS, K_BITS)
        return config, (MAP_BITS, K_BITS, 8)
    config, form = shape_of(name)
    return config, (front_bits(config, form), Parameters().size, 8 * form.header_bytes)


def sender_proof(name, patch):
    """Each line that comes leaves before the next one, in as many beats as it needs."""
    config, _ = config_of(name)
    bench = Bench()
    m = bench.m
    block = LineSender(config)
    inside = bench.add(block, ignored=True)
    bench.drive(block.i)
    out = bench.watch(block.o)
    beat_bytes, line, beat = config.sector_bytes, block.i.payload, block.o.payload
    bench.assume(line.size <= config.line_bytes)
    held = Signal(WholeLine(config), reset_less=True)
    there, sent = Signal(), Signal(range(config.sectors + 1))
    before = Signal(range(2 * config.line_bytes), name="bytes_before")
    is_final = Signal(name="line_ends")
    comes, goes = block.i.valid & block.i.ready, out.moves
    m.d.comb += [
        before.eq(sent * beat_bytes),
        is_final.eq(before + beat_bytes >= held.size),
    ]
    with m.If(goes):
        m.d.sync += [sent.eq(sent + 1), there.eq(~is_final)]
    with m.If(comes):
        m.d.sync += [held.eq(line), sent.eq(0), there.eq(1)]
    parts = [held.payload.word_select(s, 8 * beat_bytes) for s in range(config.sectors)]
    rest = at([held.payload >> 8 * beat_bytes * s for s in range(config.sectors)], sent)
    bench.require(block.o.valid == there)
    bench.implies(comes, ~there | (goes & is_final))
    bench.implies(
        there,
        (sent == 0) | (before < held.size),
        held.size <= config.line_bytes,
        inside["copy"] == rest,
        inside["left"] == held.size - before,
        inside["first"] == (sent == 0),
        inside["final"] == is_final,
        inside.register("header") == held.header,
        inside.register("last") == held.last,
        inside.register("empty") == held.empty,
        beat.elements.as_value() == at(parts, sent),
        beat.mask == Mux((sent == 0) & ~held.empty, held.header, 0),
        beat.count == Mux(is_final, held.size - before, beat_bytes),
        beat.sol == (sent == 0),
        beat.eol == is_final,
        beat.last == (held.last & is_final),
        beat.empty == held.empty,
        beat.truncation == NONE,
    )
    bench.cover(
        goes & is_final & (held.size == config.line_bytes),
        goes & is_final & (held.size == 0) & comes,
        goes & beat.last & ~beat.sol if config.sectors > 1 else goes & beat.last,
    )
    return bench


def has(head, name, value):
    """Condition that a head has as much of a value as it has room for."""
    own = Value.cast(head[name])
    return own == value[: len(own)]


def collector_proof(name, patch):
    """Each line that comes gives one head, as soon as it is there, and one body, with its end."""
    config, (front, parameters, header) = config_of(name)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        straighten(context, line_collector)
        block = LineCollector(config, front, parameters, header)
        inside = bench.add(block)
    lines = bench.drive(block.i)
    m.d.comb += [
        block.parameters.eq(AnySeq(parameters)),
        block.head.ready.eq(AnySeq(1)),
        block.body.ready.eq(AnySeq(1)),
    ]
    beat, head, body = block.i.payload, block.head.payload, block.body.payload
    bits, in_one = 8 * config.sector_bytes, front <= 8 * config.sector_bytes
    position = Signal(range(config.sectors + 1), name="ghost_position")
    begins, ends = position == 0, beat.eol
    bench.assume(beat.sol == begins, ends | (position < config.sectors - 1))
    bench.require(position < config.sectors)
    # What came of the line, the beat that is offered with it.
    kept = [Signal(bits, name=f"came_{s}", reset_less=True) for s in range(config.sectors)]
    came = [Mux(position == s, beat.elements.as_value(), own) for s, own in enumerate(kept)]
    known = [
        Signal(len(value), name=f"first_{k}", reset_less=True)
        for k, value in enumerate(
            (beat.mask, beat.count, beat.truncation.as_value(), block.parameters, beat.empty)
        )
    ]
    own = (beat.mask, beat.count, beat.truncation.as_value(), block.parameters, beat.empty)
    first = [Mux(begins, now, then) for now, then in zip(own, known, strict=True)]
    given = Signal()
    gives = block.head.valid & block.head.ready
    bodies = block.body.valid & block.body.ready
    with m.If(lines.moves):
        m.d.sync += [
            position.eq(Mux(ends, 0, position + 1)),
            *(own.eq(now) for own, now in zip(kept, came, strict=True)),
            *(own.eq(now) for own, now in zip(known, first, strict=True)),
        ]
    m.d.sync += given.eq((given | gives) & ~(lines.moves & ends))
    # It is there with the first beat, or of a long one with the second, or with the line's end.
    head_at = 0 if in_one else 1
    there = (position == head_at) | (begins & ends)
    bench.require(
        ~gives | (block.i.valid & there & ~given),
        ~(lines.moves & there) | given | gives,
        bodies == (lines.moves & ends),
        given == Mux(position > head_at, 1, inside["head_given"]),
        # A beat may wait, but nothing of it is given before it has come.
        ~given | lines.waiting | (position > head_at),
        ~given | there | (position > head_at) | ResetSignal(),
    )
    names_of = ("header", "count", "truncation", "parameters", "empty")
    bench.implies(
        gives,
        *(has(head, name, value) for name, value in zip(names_of, first, strict=True)),
        *(
            ~((position == s) | (position > s))
            | (head.front[bits * s : bits * (s + 1)] == own[: len(head.front) - bits * s])
            for s, own in enumerate(came[: head_at + 1])
        ),
    )
    bench.implies(
        bodies,
        body.truncated == (beat.truncation != NONE),
        body.last == beat.last,
        *(
            (position < s) | (body.payload.as_value()[bits * s : bits * (s + 1)] == came[s])
            for s in range(config.sectors)
        ),
    )
    if config.sectors > 1:
        bench.require(inside["position"] == position)
        for s in range(config.sectors - 1):
            bench.require((position <= s) | (inside[f"beat_{s}"] == kept[s]))
    if not in_one:
        begun = data.View(block.head_layout, inside["begun"])
        for name, value in zip(names_of, known, strict=True):
            bench.require(begins | has(begun, name, value))
    bench.cover(
        bodies & given & (position == config.sectors - 1),
        bodies & gives & begins,
        bodies & body.truncated & body.last,
    )
    return bench


def release_proof(name, patch):
    """All sectors of a line that is right leave as they came; of another one, its status alone."""
    config, _ = config_of(name)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        straighten(context, line_release)
        block = LineRelease(config, config.sectors)
        bench.add(block)
    bench.drive(block.i)
    bench.drive(block.verdict)
    out = bench.watch(block.o)
    held, line, sector = block.i.payload, block.verdict.payload, block.o.payload
    position = Signal(range(config.sectors + 1), name="ghost_position")
    # Sectors of a line that were taken, and those that left.
    left = Signal(range(config.sectors + 1), name="ghost_left")
    takes = block.i.valid & block.i.ready
    right = line.status == StreamStatus.OK
    bench.assume(
        held.begins == (position == 0),
        held.ends | (position < config.sectors - 1),
    )
    bench.require(position < config.sectors)
    with m.If(takes):
        m.d.sync += [
            position.eq(Mux(held.ends, 0, position + 1)),
            left.eq(Mux(held.ends, 0, left + out.moves)),
        ]
    judged = Signal(len(line.as_value()), name="held_verdict")
    with m.If(takes):
        m.d.sync += judged.eq(line.as_value())
    bench.require(
        ~takes | block.verdict.valid,
        ~out.moves | takes,
        (block.verdict.valid & block.verdict.ready) == (takes & held.ends),
        # The verdict stays until the line has gone.
        (position == 0) | (block.verdict.valid & (line.as_value() == judged)) | ResetSignal(),
        (left == Mux(right | (position == 0), position, 1)) | ResetSignal(),
    )
    bench.implies(takes, out.moves == (right | held.begins))
    # What is offered may be another line during a reset.
    ends = takes & held.ends & ~ResetSignal()
    bench.implies(ends, left + out.moves == Mux(right, position + 1, 1))
    bench.implies(
        out.moves,
        sector.elements.as_value() == Mux(right, held.elements, 0),
        sector.sol == held.begins,
        sector.last == (line.last & (held.ends | ~right)),
        sector.status == line.status,
        sector.offset == Mux(right, line.size, 0),
        sector.empty == line.empty,
        sector.present == 0,
        sector.missing == 0,
        ~sector.mask_missing,
    )
    bench.cover(
        takes & held.ends & right & (left == config.sectors - 1),
        takes & held.ends & ~right,
        out.moves & ~right & sector.last,
    )
    return bench


PROOFS = {"sender": sender_proof, "collector": collector_proof, "release": release_proof}


@pytest.mark.parametrize("shape", names(LINES, quick=QUICK))
@pytest.mark.parametrize("proof", list(PROOFS))
def test_no_line_is_lost_or_changed(proof, shape, tmp_path, monkeypatch):
    prove(PROOFS[proof](shape, monkeypatch), tmp_path, depth=1, cover_depth=8)


FAULTS = {
    "a beat too few": (LineSender, "left <= 2 * beat_bytes", "left < 3 * beat_bytes", "sender"),
    "a line too early": (LineSender, "(self.o.ready & final)", "self.o.ready", "sender"),
    "two heads": (
        LineCollector,
        "has_head & head_goes & ~x_ready",
        "has_head & ~head_goes & ~x_ready",
        "collector",
    ),
    "a body without a head": (
        LineCollector,
        "self.i.valid & head_goes & beat.eol",
        "self.i.valid & beat.eol",
        "collector",
    ),
    "the line before goes on": (
        LineCollector,
        "Mux(beat.eol, 0, position + 1)",
        "position + 1",
        "collector",
    ),
    "a whole line": (
        LineCollector,
        "beat.truncation != Truncation.NONE",
        "beat.truncation == Truncation.MASK",
        "collector",
    ),
    "each sector has the status": (
        LineRelease,
        "~failed | held.payload.begins",
        "~failed | held.payload.begins | held.payload.ends",
        "release",
    ),
    "data of a wrong line": (
        LineRelease,
        "Mux(failed, 0, held.payload.elements)",
        "held.payload.elements",
        "release",
    ),
    "a verdict too early": (
        LineRelease,
        "held.valid & held.ready & held.payload.ends",
        "held.valid & held.ready",
        "release",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(FAULTS))
def test_lines_that_are_lost_or_changed_are_found(fault, tmp_path, monkeypatch):
    component, right, wrong, proof = FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(PROOFS[proof]("bf16-S32", monkeypatch), tmp_path, depth=6)
