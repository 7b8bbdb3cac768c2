"""The room of Buddy's entries of XC: what fits leaves the last bit to the kind; all else is raw."""

import pytest
from amaranth.hdl import Const, Mux, Signal
from amaranth.hdl._ast import AnyConst

from cdma.golden.buddy.xc_entry import CODE_BITS, KEPT_BYTES
from cdma.hw.codec.xc.classes import INDEX_BITS
from cdma.hw.codec.xc.compressor import meter
from cdma.hw.codec.xc.compressor.meter import LineTotals, fields_of
from cdma.hw.codec.xc.payloads import LineShape, own_config
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench
from tests.formal.broken import find_fault
from tests.formal.smtbmc import check

CONFIG = own_config(CodecConfig())
SHAPE = LineShape.of(CONFIG)


def room_proof() -> Bench:
    """Layouts have no state: the first cycle is all there is."""
    bench = Bench()
    m = bench.m
    totals = Signal(LineTotals(CONFIG))
    m.d.comb += totals.as_value().eq(AnyConst(len(totals.as_value())))
    # An escape's index has four bits, and an element has at most as many.
    bench.assume(
        totals.kept <= SHAPE.elements,
        totals.bits <= INDEX_BITS * totals.kept,
        INDEX_BITS * totals.escapes <= totals.bits,
    )
    plan, _ = fields_of(m, CONFIG, totals, code_bits=CODE_BITS, name="entry")
    # By the document: bits up to the end of the last field.
    mask_bytes = Mux(totals.kept == SHAPE.elements, 0, SHAPE.mask_bytes)
    before = Signal(16)
    end = Signal(16)
    m.d.comb += [
        before.eq(8 * (mask_bytes + ((2 * totals.kept + 7) >> 3) + totals.kept)),
        end.eq(
            Mux(
                totals.escapes == 0,
                before + totals.bits,
                before + (((totals.bits + 7) >> 3) << 3) + 8 * totals.escapes,
            )
        ),
    ]
    fits = (totals.kept != 0) & (end <= CODE_BITS)
    bench.require(
        plan.raw == ~fits,
        plan.raw | (plan.sparse == (totals.kept != SHAPE.elements)),
        plan.raw | (plan.rest_at + totals.kept == plan.extras_at),
        plan.raw | ((plan.extras_at << 3) == before),
        plan.raw | (plan.escapes_at + totals.escapes <= KEPT_BYTES),
    )
    bench.cover(
        fits & (end == CODE_BITS),
        fits & (totals.escapes == 10),
        ~fits & (end == CODE_BITS + 1) & (totals.escapes == 0),
        ~fits & (end == CODE_BITS + 1) & (totals.escapes != 0),
        fits & (totals.kept == 1),
    )
    return bench


def test_only_what_leaves_the_kind_its_bit_is_of_xc(tmp_path):
    check(room_proof(), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
def test_a_room_that_forgets_the_kind_is_found(tmp_path, monkeypatch):
    def larger(end_bytes, extra_bits, has_escapes, code_bits):
        return end_bytes > Const((code_bits + 1) // 8)

    monkeypatch.setattr(meter, "is_beyond", larger)
    find_fault(room_proof(), tmp_path, depth=1)
