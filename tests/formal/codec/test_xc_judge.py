"""The verdict on a line of XC: what is wrong with any of its sectors is told with its last one."""

import pytest
from amaranth.hdl import Mux, Signal
from amaranth.hdl._ast import AnySeq

from cdma.golden import StreamStatus
from cdma.hw.codec.xc.decompressor import judge
from cdma.hw.codec.xc.decompressor.judge import LineJudge
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.xc_lines import SHAPES, shape_of, straighten
from tests.formal.smtbmc import prove
from tests.lib.shares import names

OK = StreamStatus.OK.value
TRUNCATED = StreamStatus.PAYLOAD_TRUNCATED.value
BAD = StreamStatus.BAD_TOKEN.value


def judge_proof(shape, patch):
    """Any sectors; a line's status is what its head shows, then its cut, then any fault of it."""
    config, form = shape_of(shape)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        straighten(context, judge)
        block = LineJudge(config, form)
        inside = bench.add(block)
    bench.drive(block.i)
    bench.drive(block.raw_is_right)
    m.d.comb += [block.o.ready.eq(AnySeq(1)), block.verdict.ready.eq(AnySeq(1))]
    sector, verdict = block.i.payload, block.verdict.payload
    layout = sector.layout
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    # Faults of the line so far, and those that are told with its end.
    had, has, at_end = Signal(), Signal(), Signal()
    asks = layout.raw & sector.ends
    m.d.comb += [
        at_end.eq(layout.misfilled | (layout.raw & ~block.raw_is_right.payload)),
        has.eq(had | (sector.wrong != 0) | sector.miscounted | sector.misfilled),
    ]
    with m.If(fires):
        m.d.sync += had.eq(Mux(sector.ends, 0, has))
    status = Mux(
        layout.status != OK,
        layout.status,
        Mux(sector.truncated, TRUNCATED, Mux(has | at_end, BAD, OK)),
    )
    gives = block.verdict.valid & block.verdict.ready
    bench.require(
        inside["so_far"] == had,
        gives == (fires & sector.ends),
        (block.o.valid & block.o.ready) == fires,
        (block.raw_is_right.valid & block.raw_is_right.ready) == (fires & asks),
        block.o.payload.elements == sector.elements.as_value(),
        block.o.payload.begins == sector.begins,
        block.o.payload.ends == sector.ends,
    )
    bench.implies(
        gives,
        verdict.status == status,
        verdict.size == Mux(layout.empty, 0, layout.size + form.header_bytes)[: len(verdict.size)],
        verdict.last == sector.last,
        verdict.empty == layout.empty,
    )
    bench.cover(
        gives & had & (status == BAD) & ~at_end & (sector.wrong == 0),
        gives & asks & (status == OK),
        gives & (status == TRUNCATED),
    )
    return bench


@pytest.mark.parametrize("shape", names(SHAPES, quick=["bf16-S32"]))
def test_verdict_is_on_all_of_the_line(shape, tmp_path, monkeypatch):
    prove(judge_proof(shape, monkeypatch), tmp_path, depth=1, cover_depth=4)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("so_far.eq(wrong & ~sector.ends)", "so_far.eq(0)"),
        ("so_far.eq(wrong & ~sector.ends)", "so_far.eq(wrong)"),
        ("(layout.misfilled & sector.ends)", "(layout.misfilled & sector.begins)"),
        ("waits_for_raw & ~self.raw_is_right.payload", "waits_for_raw & 0"),
    ],
    ids=["faults are forgotten", "faults stay", "classes are told first", "any raw line"],
)
def test_another_verdict_is_found(right, wrong, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, LineJudge, right, wrong)
    find_fault(judge_proof("bf16-S32", monkeypatch), tmp_path, depth=4)
