"""Lines of the lossy lane as they will come back: each sector in order, of its own line's form.

The quantizer gives anything, in order; what makes numbers to values is cut out, and notes what it
gets. `test_quantize.py` has both. The solver picks a sector, a lane and a line, each by its number.
"""

import pytest
from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.codec.quantize import restorer
from cdma.hw.codec.quantize.arithmetic import HalfNormal
from cdma.hw.codec.quantize.payloads import (
    ELEMENT_BITS,
    K_BITS,
    NUMBER_BITS,
    lanes_of,
)
from cdma.hw.codec.quantize.restorer import LineRestorer
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, CutOut
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import any_number
from tests.formal.order import Order, one
from tests.formal.smtbmc import prove
from tests.lib.shares import configs

COUNT_BITS = 4
"""Of counters of sectors and lines, of which fewer are on the way."""


class CutValues:
    """Stand-ins for what makes numbers to values: a number is kept as it is, and a value is any."""

    def __init__(self, bench, patch):
        self.values = []

        def half_normal(m, number, *, name):
            half = Signal(HalfNormal(), name=name)
            assert len(half.as_value()) >= NUMBER_BITS
            m.d.comb += half.as_value().eq(Value.cast(number).as_unsigned())
            return half

        def restored(m, half, k, *, name):
            word = Signal(ELEMENT_BITS, name=f"{name}_word")
            m.d.comb += word.eq(AnySeq(ELEMENT_BITS))
            self.values.append((half.as_value()[:NUMBER_BITS], k, word))
            return word, None

        patch.setattr(restorer, "half_normal", half_normal)
        patch.setattr(restorer, "restored", restored)
        patch.setattr(restorer, "Quantizer", lambda config: CutOut(quantizer(config)))


quantizer = restorer.Quantizer


def restored_proof(sector_bytes, patch):
    """Sectors come back in order: as they are in raw lines, else the values of their numbers."""
    config = CodecConfig(sector_bytes=sector_bytes, element_bytes=1, codecs=("quantize", "raw"))
    lanes = lanes_of(config)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        values = CutValues(bench, context)
        block = LineRestorer(config, "quantize")
        inside = bench.add(block)
    bench.drive(block.i)
    bench.watch(block.o)
    lane = any_number(bench, range(lanes), "lane")
    x_fire = inside["x_fire"]
    out = inside.component("restored").i

    # The quantizer gets the sector, without parameters if it is of another codec, and gives what it
    # likes, by the rules of streams.
    given, cut = inside.component("fork").o[0], inside.component("quantizer")
    mine = given.payload.codec == config.codecs.index("quantize")
    parameters = Mux(mine, given.payload.parameters, 0)
    bench.implies(
        cut.i.valid,
        given.valid,
        cut.i.payload.elements.as_value() == given.payload.elements.as_value(),
        cut.i.payload.parameters == parameters,
    )
    bench.trust(cut.o, lambda *_: [])

    # What the quantizer has given, of a lane, goes through the registers that wait for the line.
    def own(sector):
        words = [sector.words[i] for i in range(lanes)]
        numbers = [Value.cast(sector.numbered.numbers[i]).as_unsigned() for i in range(lanes)]
        rest = sector.numbered
        return Cat(at(numbers, lane), at(words, lane), rest.ends, rest.last, rest.empty)

    half = inside.component("halves").o
    shown = [half.payload.halves[i].as_value()[:NUMBER_BITS] for i in range(lanes)]
    words = [half.payload.words[i] for i in range(lanes)]
    at_end = Cat(
        at(shown, lane),
        at(words, lane),
        half.payload.ends,
        half.payload.last,
        half.payload.empty,
    )
    judged = inside.component("judged").o
    sectors = Order(bench, len(at_end), count_bits=COUNT_BITS)
    sectors.comes(one(judged[0].valid & judged[0].ready, own(judged[0].payload)))
    waiting = [inside.component(f"waiting_{k}").o for k in range(config.sectors - 1)]
    sectors.on_the_way(
        one(half.valid, at_end), *(one(s.valid, own(s.payload)) for s in reversed(waiting))
    )
    sectors.leaves(one(x_fire, at_end))

    # Codec and parameters beside them.
    def form(payload):
        return Cat(payload.codec, payload.parameters)

    copy = inside.component("fork").o[1]
    formats = [inside.component("format").o]
    stages = config.sectors + restorer.QUANTIZER_STAGES - 1
    formats += [inside.component(f"format_{k}").o for k in range(stages)]
    forms = Order(bench, len(form(copy.payload)), count_bits=COUNT_BITS)
    forms.comes(one(copy.valid & copy.ready, form(copy.payload)))
    forms.on_the_way(*(one(s.valid, form(s.payload)) for s in reversed(formats)))
    forms.leaves(one(x_fire, form(formats[-1].payload)))
    bench.implies(x_fire, half.valid, formats[-1].valid)

    # A line is raw if one of its sectors has a raw value.
    line = Signal(COUNT_BITS)
    m.d.comb += line.eq(AnyConst(COUNT_BITS))
    judged_lines, lines_left = Signal(COUNT_BITS), Signal(COUNT_BITS)
    is_raw, begins = Signal(), Signal(init=1)
    sector = judged[1].payload.numbered
    takes = judged[1].valid & judged[1].ready
    with m.If(takes):
        m.d.sync += [begins.eq(sector.ends), judged_lines.eq(judged_lines + sector.ends)]
    with m.If(takes & (judged_lines == line)):
        m.d.sync += is_raw.eq(sector.raw | (is_raw & ~begins))
    m.d.sync += lines_left.eq(lines_left + (x_fire & half.payload.ends))
    raw_lines = inside.component("raw_lines").o
    bench.require(judged_lines == (lines_left + raw_lines.valid)[:COUNT_BITS])
    is_next = lines_left == line
    bench.implies(raw_lines.valid & is_next, raw_lines.payload == is_raw)
    so_far = inside["so_far"]
    bench.implies(begins, ~so_far)
    bench.implies((judged_lines == line) & ~begins, so_far == is_raw)

    # What comes back.
    word = at([w for _, _, w in values.values], lane)
    back = out.payload.elements.as_value()
    bench.implies(
        x_fire & is_next,
        raw_lines.valid,
        at([back.word_select(i, ELEMENT_BITS) for i in range(lanes)], lane)
        == Mux(is_raw, at(words, lane), word),
    )
    bench.implies(
        x_fire,
        out.payload.last == half.payload.last,
        out.payload.empty == half.payload.empty,
        form(out.payload) == form(formats[-1].payload),
        at([number for number, _, _ in values.values], lane) == at(shown, lane),
        *(k == formats[-1].payload.parameters[:K_BITS] for _, k, _ in values.values),
    )
    bench.require(x_fire == (out.valid & out.ready))
    bench.cover(
        x_fire & is_next & is_raw & half.payload.ends,
        x_fire & is_next & ~is_raw & ~half.payload.ends if config.sectors > 1 else x_fire,
    )
    return bench


SECTORS = {f"S{size}": size for size in (32, 64, 128)}


@pytest.mark.parametrize("sector_bytes", configs(SECTORS, quick=[]))
def test_sectors_come_back_as_their_line_is(sector_bytes, tmp_path, monkeypatch):
    prove(restored_proof(sector_bytes, monkeypatch), tmp_path, depth=1, cover_depth=14)


FAULTS = {
    "the line before": ("(so_far | sector.raw) & ~sector.ends", "so_far | sector.raw"),
    "the last sector alone": (
        "raw_lines.i.payload.eq(so_far | sector.raw)",
        "raw_lines.i.payload.eq(sector.raw)",
    ),
    "the first sector alone": (
        "raw_lines.o.ready.eq(x_fire & line.ends)",
        "raw_lines.o.ready.eq(x_fire)",
    ),
    "never raw": ("Mux(raw_lines.o.payload, line.words[i], word)", "word"),
    "another's parameters": ("with m.If(~mine):", "with m.If(mine):"),
    "parameters of a later sector": (
        "k = formats.payload.parameters[:K_BITS]",
        "k = first.o.payload.parameters[:K_BITS]",
    ),
    "formats that run ahead": ("formats.ready.eq(x_fire)", "formats.ready.eq(1)"),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_sectors_that_come_back_otherwise_are_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, LineRestorer, *FAULTS[fault])
    find_fault(restored_proof(64, monkeypatch), tmp_path, depth=12)
