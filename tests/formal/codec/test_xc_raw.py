"""The check of XC's raw lines: each one is counted as the compressor counts a line, and answered.

What the counts of a line say of it is in `test_xc_codes.py`, of the same `LineMeter`. Here it is of
which beats they are: those of one raw line, from its first to its last one, whatever is between raw
lines. Tables, counts and the layout are cut out, and pipeline registers are left out (`Straight`).
"""

import pytest
from amaranth.hdl import Cat, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.compressor import class_coder, meter
from cdma.hw.codec.xc.compressor.meter import LineTotals
from cdma.hw.codec.xc.decompressor import raw_checker
from cdma.hw.codec.xc.decompressor.raw_checker import RawChecker
from cdma.hw.codec.xc.payloads import LinePlan, LineShape
from cdma.hw.lib.fifo import Fifo
from tests.formal.bench import Bench, CutOut
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.test_xc_codes import CutTables
from tests.formal.codec.xc_lines import RAW, SHAPES, any_number, shape_of, straighten
from tests.formal.codec.xc_places import LineGhosts, cut_widths
from tests.formal.smtbmc import prove
from tests.lib.shares import names


def checker_proof(shape_name, patch):
    """Any lines; of each raw one there is one answer, with its last beat, by the line's counts."""
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes = shape.lanes
    bench = Bench()
    m = bench.m
    counted, laid_out, queues = [], [], []

    def free(bits, most, name):
        signal = Signal(bits, name=name)
        m.d.comb += signal.eq(AnySeq(bits))
        bench.assume(signal <= most)
        return signal

    kept = free(lanes.bit_length(), lanes, "sector_kept")

    def total(values):
        counted.append(free((4 * lanes).bit_length(), 4 * lanes, f"sum_{len(counted)}"))
        return counted[-1]

    def fields_of(inner, config, totals, elements, *, name, **_):
        plan = Signal(LinePlan(config, elements), name=name)
        inner.d.comb += plan.as_value().eq(AnySeq(len(plan.as_value())))
        laid_out.append((totals, plan))
        return plan, Signal()

    def queue(*shape):
        queues.append(CutOut(Fifo(*shape)))
        return queues[-1]

    with patch.context() as context:
        CutTables(context, class_coder)
        cut_widths(bench, context, meter)
        straighten(context, class_coder)
        straighten(context, meter)
        context.setattr(meter, "count_ones", lambda present: kept)
        context.setattr(meter, "total", total)
        context.setattr(meter, "fields_of", fields_of)
        context.setattr(raw_checker, "Fifo", queue)
        block = RawChecker(config, form)
        inside = bench.add(block)
    bench.drive(block.i)
    m.d.comb += [
        block.parameters.eq(AnySeq(len(block.parameters))),
        block.o.ready.eq(AnySeq(1)),
    ]
    bits, escapes = counted
    ((totals, plan),) = laid_out
    (answers,) = queues
    bench.assume(escapes <= lanes)

    # Lines as an unpacker gives them: a raw one has as many beats as sectors, unless it is cut.
    beat = block.i.payload
    begun, is_raw, was_raw = Signal(), Signal(), Signal()
    whole = beat.truncation == Truncation.NONE
    ghosts = LineGhosts(bench, shape, config.sectors)
    m.d.comb += is_raw.eq(Mux(begun, was_raw, beat.mask[6:8] == RAW))
    bench.assume(
        beat.sol == ~begun,
        ~is_raw | (beat.eol == (~whole | ghosts.ends)),
        whole | beat.eol,
    )
    fires, counts = Signal(), Signal()
    m.d.comb += [fires.eq(block.i.valid & block.i.ready), counts.eq(fires & is_raw)]
    with m.If(fires):
        m.d.sync += [begun.eq(~beat.eol), was_raw.eq(is_raw)]
    ghosts.goes_on(counts, beat.eol, kept=kept, bits=bits, escapes=escapes)
    bench.require(ghosts.begins == ~(begun & was_raw), inside["raw_line"] == (begun & was_raw))

    # Beats of raw lines go to the coder, and others pass by.
    coder = inside.component("coder").i
    sector = coder.payload
    bench.require(
        coder.valid == (block.i.valid & is_raw),
        ~(coder.valid & coder.ready) | counts,
        ~counts | (coder.valid & coder.ready),
        ~block.i.valid | is_raw | block.i.ready,
        sector.elements.as_value() == beat.elements.as_value(),
        sector.parameters[: Parameters().size] == block.parameters,
        sector.empty == ~whole,
    )
    # One answer for each, by the counts of its own beats.
    given = answers.i.valid & answers.i.ready
    before = data.View(LineTotals(config, form), inside["meter.before"])
    bench.require(
        inside["coder.position"] == ghosts.position if config.sectors > 1 else ghosts.begins,
        before.kept == ghosts.kept,
        before.bits == ghosts.bits,
        before.escapes == ghosts.escapes,
        given == (counts & beat.eol),
    )
    bench.implies(
        given,
        answers.i.payload == plan.raw,
        totals.kept == ghosts.kept + kept,
        totals.bits == ghosts.bits + bits,
        totals.escapes == ghosts.escapes + escapes,
    )
    if form.trims:
        # A bit of the mantissas that the solver picks: whether any element has had it.
        bit = any_number(bench, range(form.mantissa_bits), "bit")
        bench.assume(bit < form.mantissa_bits)
        had, has = Signal(), Signal()
        words = [beat.elements.as_value().word_select(i, form.bits) for i in range(lanes)]
        m.d.comb += has.eq(had | Cat(at(list(word), bit) & whole for word in words).any())
        with m.If(counts):
            m.d.sync += had.eq(has & ~beat.eol)
        bench.require(at(list(before.together), bit) == had)
        bench.implies(given, at(list(totals.together), bit) == has)
    # The queue's answers are those of the block.
    bench.require(
        block.o.valid == answers.o.valid,
        block.o.payload == answers.o.payload,
        answers.o.ready == block.o.ready,
        answers.i.valid == (block.i.valid & is_raw & beat.eol),
    )
    bench.cover(
        given & whole & (totals.kept == shape.elements),
        given & ~whole,
        fires & ~is_raw & beat.eol,
    )
    return bench


@pytest.mark.parametrize("shape", names(SHAPES, quick=["bf16-S32"]))
def test_each_raw_line_is_answered_by_its_own_counts(shape, tmp_path, monkeypatch):
    prove(checker_proof(shape, monkeypatch), tmp_path, depth=1, cover_depth=8)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Mux(beat.sol, beat.mask[6:8] == RAW_LINE, raw_line)", "beat.mask[6:8] == RAW_LINE"),
        ("raw & ~beat.eol", "raw"),
        ("beat.truncation != Truncation.NONE", "0"),
        ("self.i.valid & raw", "self.i.valid"),
        ("~raw | coder.i.ready", "coder.i.ready"),
    ],
    ids=["first beats", "the line before", "cut lines go on", "any line", "all lines wait"],
)
def test_raw_lines_that_are_checked_otherwise_are_found(right, wrong, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, RawChecker, right, wrong)
    find_fault(checker_proof("bf16-S32", monkeypatch), tmp_path, depth=6)
