"""The lossy lane's symbols: of each number, in each form of a line, the reader finds it again.

The lane is one that the solver picks, of a sector of any numbers. With Lorenzo's prediction what
comes back is the number less the one before it, which may be that of the sector before. The
networks between the two are left out, and so are pipeline registers (`Straight`).
"""

import pytest
from amaranth.hdl import C, Mux, Signal, signed
from amaranth.hdl._ast import AnySeq

from cdma.golden.formats.lossy.fixed_width import RAW_HEADER
from cdma.hw.codec.quantize import forms
from cdma.hw.codec.quantize.compressor import placer
from cdma.hw.codec.quantize.compressor.placer import SymbolPlacer
from cdma.hw.codec.quantize.decompressor import symbol_reader
from cdma.hw.codec.quantize.decompressor.symbol_reader import STEP_BITS, SymbolReader
from cdma.hw.codec.quantize.payloads import NUMBER_BITS, SYMBOL_BITS, lanes_of, own_config
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, break_function, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import any_number, straighten
from tests.formal.smtbmc import prove
from tests.lib.shares import widths

PLAIN, ZIGZAG, LORENZO, RAW = range(4)
"""Kinds of lines."""


def symbol_proof(sector_bytes, patch):
    config = own_config(CodecConfig(sector_bytes=sector_bytes))
    lanes = lanes_of(config)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        for name in ("gather", "turned_up"):
            context.setattr(placer, name, lambda m, ring, *_, **__: list(ring))
        context.setattr(placer, "shifted_up", lambda *_, name: C(0, 8 * config.sector_bytes))
        made = straighten(context, placer)
        writer = SymbolPlacer(config)
        inside = bench.add(writer)
        written = made[0].i.payload
        made = straighten(
            context, symbol_reader, free=[symbol_reader._SpreadSector, symbol_reader._PickedSector]
        )
        context.setattr(
            symbol_reader, "picked", lambda m, line, *_, **__: [C(0, 8)] * config.sector_bytes
        )
        reader = SymbolReader(config)
        bench.add(reader)
    # The registers are made in the order of the stages.
    spread, stepped = made[2].o.payload, reader.o.payload
    bench.drive(writer.i)
    bench.drive(writer.form)
    for ready in (writer.o.ready, reader.o.ready):
        m.d.comb += ready.eq(AnySeq(1))
    for port in (reader.i, reader.line):
        m.d.comb += [port.valid.eq(0)]
    sector, header = writer.i.payload, writer.form.payload.header
    kind, mapped = header[6:8], header[5]
    lane = any_number(bench, range(lanes), "lane")
    numbers = [sector.numbered.numbers[i] for i in range(lanes)]
    number = Signal(signed(NUMBER_BITS))
    m.d.comb += number.eq(at([n.as_unsigned() for n in numbers], lane))
    limit = 1 << NUMBER_BITS - 1
    bench.assume(
        *(n != -limit for n in numbers),
        # A line of this kind has no negative numbers.
        (kind != PLAIN) | (number >= 0),
        (kind != RAW) | (header == RAW_HEADER),
    )
    fires = Signal()
    m.d.comb += fires.eq(writer.i.valid & writer.i.ready)
    last = Signal(signed(NUMBER_BITS), name="last_of_sector_before")
    with m.If(fires):
        m.d.sync += last.eq(Mux(sector.numbered.ends, 0, numbers[-1]))
    bench.require(inside["carried"] == last)
    before = Signal(signed(NUMBER_BITS))
    others = [last, *numbers[:-1]]
    m.d.comb += before.eq(at([n.as_unsigned() for n in others], lane))
    # The reader gets the symbol, and of a line with a map the lanes that the map has.
    symbol = at([written.lanes[i] for i in range(lanes)], lane)
    found = at([spread.lanes[i] for i in range(lanes)], lane)
    present = at(list(written.present), lane)
    bench.assume(
        spread.tag.layout.header == header,
        found == symbol,
        at(list(spread.present), lane) == (~mapped | present),
    )
    raw = kind == RAW
    # A lane that is not in the line has nothing.
    bench.implies(mapped & ~raw & ~present, number == Mux(kind == LORENZO, before, 0))
    step = at([stepped.lanes[i] for i in range(lanes)], lane)
    right = Signal(signed(STEP_BITS))
    m.d.comb += right.eq(Mux(kind == LORENZO, number - before, number))
    bench.implies(~raw, step[:STEP_BITS] == right.as_unsigned(), (symbol >> SYMBOL_BITS) == 0)
    word = at([sector.words[i] for i in range(lanes)], lane)
    bench.implies(raw, step == word)
    bench.cover(
        *(
            fires & (kind == one) & (mapped == has_map) & (number == 5)
            for one in (PLAIN, ZIGZAG, LORENZO)
            for has_map in (0, 1)
        ),
        fires & raw,
        fires & (kind == LORENZO) & (right == 2 - 2 * limit),
    )
    return bench


@pytest.mark.parametrize("sector_bytes", widths(32, 64, 128, quick=[32]))
def test_every_number_comes_back_from_its_symbol(sector_bytes, tmp_path, monkeypatch):
    prove(symbol_proof(sector_bytes, monkeypatch), tmp_path, depth=1, cover_depth=4)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("component", "right", "wrong"),
    [
        (SymbolReader, "symbol[0] ^ header.mapped", "symbol[0]"),
        (SymbolReader, "base.eq(half), one_more.eq(header.mapped)", "base.eq(half)"),
        (SymbolPlacer, "Mux(numbered.ends, 0, numbered.numbers", "Mux(0, 0, numbered.numbers"),
        (SymbolPlacer, "both.present & header.mapped", "number.any() & header.mapped"),
    ],
    ids=["signs", "one less", "the line before", "differences of zero"],
)
def test_symbols_of_other_numbers_are_found(component, right, wrong, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(symbol_proof(32, monkeypatch), tmp_path, depth=4)


@pytest.mark.verify
def test_a_size_that_is_one_less_is_found(tmp_path, monkeypatch):
    right, wrong = "Cat(C(0, 1), ~size)", "Cat(C(0, 1), size)"
    break_function(monkeypatch, forms, "symbols_of", right, wrong)
    monkeypatch.setattr(placer, "symbols_of", forms.symbols_of)
    find_fault(symbol_proof(32, monkeypatch), tmp_path, depth=4)
