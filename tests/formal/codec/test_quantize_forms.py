"""The forms of the lossy lane's lines: the meter measures all of a line, and takes the shortest.

Symbols are cut out: `test_quantize_symbols.py` has what they are. Of any symbols of a line's
numbers and differences, the widths are those of the widest ones, and of the four forms that a line
can have, whose sizes are told here as the format has them, the least is taken. Pipeline registers
are left out (`Straight`).
"""

import pytest
from amaranth.hdl import C, Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.golden.formats.lossy.fixed_width import RAW_HEADER
from cdma.hw.codec.quantize import meter
from cdma.hw.codec.quantize.forms import Symbols
from cdma.hw.codec.quantize.meter import FormMeter
from cdma.hw.codec.quantize.payloads import SYMBOL_BITS, lanes_of, own_config
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, break_function, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import LINE_BYTES, any_number, padded, straighten
from tests.formal.codec.xc_places import number
from tests.formal.smtbmc import check, prove
from tests.lib.shares import widths

PLAIN, ZIGZAG, LORENZO = range(3)
"""Kinds of lines that are not raw."""
NUMBERS = 32
"""Of a line."""
KINDS = ("number", "difference")
FORMS = ("zigzag", "less_one")
"""Symbols of a line without a map, and with one."""


class CutSymbols:
    """Stand-ins for the symbols of numbers, which note of which number they are."""

    def __init__(self, bench, patch):
        self.of = {kind: [] for kind in KINDS}
        self.symbols = {kind: [] for kind in KINDS}
        self.counts = []

        def free(bits, name):
            signal = Signal(bits, name=name)
            bench.m.d.comb += signal.eq(AnySeq(bits))
            return signal

        def symbols_of(m, own, before=None, *, name):
            kind = name.split("_")[0]
            self.of[kind].append((own, before))
            self.symbols[kind].append(
                Symbols(
                    free(1, f"{name}_present"),
                    free(1, f"{name}_negative"),
                    free(SYMBOL_BITS, f"{name}_zigzag"),
                    free(SYMBOL_BITS, f"{name}_less_one"),
                )
            )
            return self.symbols[kind][-1]

        def count_ones(present):
            self.counts.append((present, free(len(present).bit_length(), "sector_count")))
            bench.assume(self.counts[-1][1] <= len(present))
            return self.counts[-1][1]

        patch.setattr(meter, "symbols_of", symbols_of)
        patch.setattr(meter, "count_ones", count_ones)


def form_proof(sector_bytes, patch):
    """Any numbers of a line; its form is the shortest, and of these the one of the least header."""
    config = own_config(CodecConfig(sector_bytes=sector_bytes))
    lanes = lanes_of(config)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        cuts = CutSymbols(bench, context)
        made = straighten(context, meter)
        block = FormMeter(config)
        inside = bench.add(block)
    bench.drive(block.i)
    m.d.comb += block.o.ready.eq(AnySeq(1))
    sector, found, form = block.i.payload, made[1].i.payload, block.o.payload
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    position = Signal(range(config.sectors + 1), name="ghost_position")
    bench.assume(sector.ends == (position == config.sectors - 1))
    bench.require(position < config.sectors)
    with m.If(fires):
        m.d.sync += position.eq(Mux(sector.ends, 0, position + 1))

    def line_long(bits, joined, name):
        """Bits of a line's sectors together, up to the present one, and before it."""
        before, now = Signal(bits, name=f"{name}_before"), Signal(bits, name=f"{name}_now")
        m.d.comb += now.eq(joined(before))
        with m.If(fires):
            m.d.sync += before.eq(Mux(sector.ends, 0, now))
        return before, now

    # Symbols are of each number, and of its difference to the one before it in the line.
    lane = any_number(bench, range(lanes), "lane")
    numbers = [sector.numbers[i].as_unsigned() for i in range(lanes)]
    last, _ = line_long(len(numbers[0]), lambda _: numbers[-1], "last_number")
    for kind in KINDS:
        own = at([Value.cast(own).as_unsigned() for own, _ in cuts.of[kind]], lane)
        bench.require(own == at(numbers, lane))
    before = at([Value.cast(before).as_unsigned() for _, before in cuts.of["difference"]], lane)
    bench.require(
        before == at([last, *numbers[:-1]], lane), inside["carried"].as_unsigned() == last
    )

    # A bit of the symbols, which the solver picks; how many are not zero; any negative, any raw.
    so_far = data.View(meter._Seen(), inside["so_far"])
    bit = any_number(bench, range(SYMBOL_BITS), "bit")
    bench.assume(bit < SYMBOL_BITS)
    any_negative = Cat(sector.numbers[i][-1] for i in range(lanes)).any()
    negative_before, negative = line_long(1, lambda had: had | any_negative, "negative")
    raw_before, raw = line_long(1, lambda had: had | sector.raw, "raw")
    bench.require(so_far.negative == negative_before, so_far.raw == raw_before)
    ends = fires & sector.ends
    choices = []
    for kind, (present, in_sector) in zip(KINDS, cuts.counts, strict=True):
        counted, count = line_long(6, lambda had, own=in_sector: had + own, f"{kind}_count")
        bench.require(
            counted <= lanes * position,
            so_far[f"{kind}_count"] == counted,
            at(list(present), lane) == at([s.present for s in cuts.symbols[kind]], lane),
        )
        # Without negative numbers, those as they are have no sign.
        signless = ~negative if kind == "number" else C(0)
        base = Mux(negative, ZIGZAG, PLAIN) if kind == "number" else C(LORENZO, 2)
        for name in FORMS:
            symbols = [getattr(s, name) for s in cuts.symbols[kind]]
            any_has = Cat(at(list(symbol), bit) for symbol in symbols).any()
            had, has = line_long(1, lambda had, own=any_has: had | own, f"{kind}_{name}_bit")
            width = found[f"{kind}_{name}"]
            bench.require(at(list(so_far[f"{kind}_{name}"]), bit) == had)
            place = number(6, bit + 1 - signless, f"{kind}_{name}_place", m)
            bench.implies(
                ends,
                ~has | (width >= place),
                has | (place == 0) | (width != place),
                width <= SYMBOL_BITS,
            )
            size = padded(NUMBERS * width) if name == "zigzag" else 4 + padded(count * width)
            header = Cat(width, C(int(name == "less_one"), 1), base)
            choices.append((number(8, size, f"{kind}_{name}_size", m), header))
    bench.require((block.o.valid & block.o.ready) == ends)
    coded = ends & ~raw
    bench.implies(
        coded,
        *(form.size <= size for size, _ in choices),
        *((form.size != size) | (form.header <= header) for size, header in choices),
        Cat((form.size == size) & (form.header == header) for size, header in choices).any(),
        form.size < LINE_BYTES,
    )
    bench.implies(ends & raw, form.header == RAW_HEADER, form.size == LINE_BYTES)
    bench.implies(ends, form.last == sector.last, form.empty == sector.empty)
    bench.cover(
        *(coded & (form.header == header) & (form.size > 8) for _, header in choices),
        ends & raw,
        coded & (form.size == 0),
    )
    return bench


def length_proof():
    """The length of a number is the place of its highest bit."""
    bench = Bench()
    bits = any_number(bench, SYMBOL_BITS, "bits")
    length = meter._bit_length(bits)
    bench.require(
        (bits >> length) == 0, (length == 0) | (bits >> (length - 1).as_unsigned()[:5])[0]
    )
    bench.cover(length == SYMBOL_BITS)
    return bench


def test_length_is_the_place_of_the_highest_bit(tmp_path):
    check(length_proof(), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("sector_bytes", widths(32, 64, 128, quick=[]))
def test_form_of_a_line_is_the_shortest(sector_bytes, tmp_path, monkeypatch):
    prove(form_proof(sector_bytes, monkeypatch), tmp_path, depth=1, cover_depth=8)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("other = other_size < size", "other = other_size <= size"),
        ("MAP_BYTES + ((bits + 7) >> 3)", "MAP_BYTES + (bits >> 3)"),
        ("Mux(sector.ends, 0, line.as_value())", "line.as_value()"),
        ("Mux(line.negative, bits, bits[1:])", "Mux(sector.negative, bits, bits[1:])"),
        ("Mux(sector.ends, 0, numbers[-1])", "numbers[-1]"),
    ],
    ids=["the later form", "bytes", "lines before", "signs before", "numbers before"],
)
def test_another_form_is_found(right, wrong, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, FormMeter, right, wrong)
    find_fault(form_proof(64, monkeypatch), tmp_path, depth=4)


@pytest.mark.verify
def test_a_length_that_is_too_short_is_found(tmp_path, monkeypatch):
    break_function(
        monkeypatch, meter, "_bit_length", "reaches[n] & ~reaches[n + span]", "reaches[n]"
    )
    find_fault(length_proof(), tmp_path, depth=1)
