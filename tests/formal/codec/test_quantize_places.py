"""Places of the lossy lane's symbols: a sector's begin where those of the sectors before it end.

Ghosts count a line's symbols, sector by sector. What the placer is told, and what the reader is
told, is the same place of the same counts, in a map or out of one. Networks and counts are cut out:
what goes into each of them, and by which ways, is compared with what should; `test_lanes.py` and
`test_xc_fields.py` have what they do. Pipeline registers are left out (`Straight`). The window in
which a line grows is as it is.
"""

import pytest
from amaranth.hdl import C, Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.golden.formats.lossy.fixed_width import RAW_HEADER
from cdma.hw.codec.quantize.compressor import placer
from cdma.hw.codec.quantize.compressor.placer import SymbolPlacer
from cdma.hw.codec.quantize.compressor.window import LineWindow
from cdma.hw.codec.quantize.decompressor import head, symbol_reader
from cdma.hw.codec.quantize.decompressor.head import SectorFinder
from cdma.hw.codec.quantize.decompressor.symbol_reader import SymbolReader
from cdma.hw.codec.quantize.forms import RAW
from cdma.hw.codec.quantize.payloads import (
    ELEMENT_BITS,
    MAP_BITS,
    PLACE_BITS,
    SYMBOL_BITS,
    lanes_of,
    own_config,
)
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, anything
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import any_number, straighten
from tests.formal.smtbmc import prove
from tests.lib.shares import configs


def config_of(sector_bytes):
    return own_config(CodecConfig(sector_bytes=sector_bytes))


class CutNetworks:
    """Stand-ins for networks and counts: they give anything, and note what they get.

    Attributes
    ----------
    seen : dict[str, list]
        What each function got, and what it gave, in the order of its calls.
    """

    def __init__(self, bench, patch, module, lanes):
        self.seen = {}

        def free(bits):
            signal = Signal(bits, name="free")
            bench.m.d.comb += signal.eq(AnySeq(bits))
            return signal

        def total(bits):
            count = free(range(lanes + 1))
            bench.assume(count <= lanes, ~bits.all() | (count == lanes))
            return count

        def ones_before(m, present, *, name):
            return [free(3) for _ in range(lanes)], total(present)

        def row_of(*sizes):
            return [free(bits) for bits in sizes]

        makers = {
            "ones_before": ones_before,
            "count_ones": total,
            "swaps": lambda m, ones, *, name: row_of(*[lanes // 2] * (lanes.bit_length() - 1)),
            "gather": lambda m, values, levels, **_: row_of(*map(len, values)),
            "scatter": lambda m, values, levels, **_: row_of(*map(len, values)),
            "merge_level": lambda m, fields, widths, *, name: row_of(
                *[2 * len(fields[0])] * (len(fields) // 2)
            ),
            "split_level": lambda m, fields, widths, *, name: row_of(
                *[len(fields[0]) // 2] * (2 * len(fields))
            ),
            "shifted_up": lambda m, value, amount, width, *, name: free(width),
            "shifted_down": lambda m, value, amount, width, *, name: free(width),
            "turned_up": lambda m, ring, amount, *, name: row_of(*map(len, ring)),
            "turned_down": lambda m, ring, amount, *, name: row_of(*map(len, ring)),
            "picked": lambda m, line, place, parts, *, name: row_of(*[8] * parts),
        }
        for name, make in makers.items():
            if hasattr(module, name):
                patch.setattr(module, name, self._noting(name, make))

    def _noting(self, name, make):
        def stand_in(*given, **options):
            made = make(*given, **options)
            self.seen.setdefault(name, []).append((given, made))
            return made

        return stand_in

    def one(self, name):
        """What the only call of a function got, without the module, and what it gave."""
        ((given, made),) = self.seen[name]
        return given[1:], made


def same(one, other):
    """Bits of two rows, and lengths of what is in them."""
    assert [len(value) for value in one] == [len(value) for value in other]
    return Cat(one) == Cat(other)


def form_of(header):
    """Whether a line is raw and has a map, and its symbols' width."""
    return header[6:8] == RAW, header[5], header[:5]


class Ghost:
    """The symbols of a line's sectors before this one, and where this one's begin.

    Attributes
    ----------
    position, before : Signal
    place : Signal
        In bits of the payload.
    """

    def __init__(self, bench, config, header, count, fires, ends):
        self.position = Signal(range(config.sectors + 1), name="ghost_position")
        self.before = Signal(range(MAP_BITS + 1), name="ghost_before")
        self.place = Signal(PLACE_BITS, name="ghost_place")
        self.sector_bits = ELEMENT_BITS * lanes_of(config)
        bench.m.d.comb += self.place.eq(self.place_in(header))
        with bench.m.If(fires):
            bench.m.d.sync += [
                self.position.eq(Mux(ends, 0, self.position + 1)),
                self.before.eq(Mux(ends, 0, self.before + count)),
            ]
        bench.require(
            self.position < config.sectors, self.before <= self.position * lanes_of(config)
        )

    def place_in(self, header):
        """Where the sector's symbols begin in a line with a header."""
        raw, mapped, width = form_of(header)
        coded = Mux(mapped, MAP_BITS, 0) + self.before * width
        return Mux(raw, self.position * self.sector_bits, coded)[:PLACE_BITS]


def stable_header(bench, header, fires, ends):
    """Let a line's sectors have one header."""
    kept, inside = Signal(8, name="kept_header"), Signal(name="inside_line")
    with bench.m.If(fires):
        bench.m.d.sync += [kept.eq(header), inside.eq(~ends)]
    bench.assume(~inside | (header == kept), (header[6:8] != RAW) | (header == RAW_HEADER))
    return kept, inside


def placer_proof(sector_bytes, patch):
    """Any sectors of any lines; what leaves is at the ghosts' place, by the right ways."""
    config = config_of(sector_bytes)
    lanes, ring_bytes = lanes_of(config), config.sector_bytes
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        cut = CutNetworks(bench, context, placer, lanes)
        made = straighten(context, placer)
        block = SymbolPlacer(config)
        inside = bench.add(block)
    symbols = made[0].o.payload
    m.d.comb += [*anything(block.i), *anything(block.form), block.o.ready.eq(AnySeq(1))]
    sector, header, out = block.i.payload, block.form.payload.header, block.o.payload
    raw, mapped, width = form_of(header)
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    ends = sector.numbered.ends
    (present,), (ones, count) = cut.one("ones_before")
    counted = Mux(mapped, count, lanes)
    ghost = Ghost(bench, config, header, counted, fires, ends)
    bench.assume(ends == (ghost.position == config.sectors - 1))
    kept, inside_line = stable_header(bench, header, fires, ends)
    bench.require(
        inside_line == (ghost.position != 0),
        inside["begins"] == (ghost.position == 0),
        present == symbols.present,
    )
    # What was added up is the place, whatever the line's header was.
    bench.implies(inside_line, inside["later"] == ghost.place_in(kept))
    joined = made[1].o.payload
    bench.implies(
        fires, joined.place == ghost.place, out.place == ghost.place[3:], out.present == present
    )
    bench.require(out.begins == symbols.begins, out.ends == ends)

    # Symbols are gathered by the map, joined level by level, shifted and turned to the place.
    (counts,), ways = cut.one("swaps")
    (values, levels), gathered = cut.one("gather")
    lane = any_number(bench, range(lanes), "lane")
    absent = mapped & ~at(list(present), lane)
    bench.require(
        same(counts, ones),
        same(values, [symbols.lanes[i][:SYMBOL_BITS] for i in range(lanes)]),
        same(levels, [way & mapped.replicate(len(way)) for way in ways]),
    )
    bench.implies(fires & ~raw & absent, at(values, lane) == 0)
    fields = gathered
    for level, ((_, given, widths), made_fields) in enumerate(cut.seen["merge_level"]):
        bench.implies(~raw, same(given, fields), *(w == width << level for w in widths))
        fields = made_fields
    assert len(fields) == 1
    (value, amount, shifted_bits), shifted = cut.one("shifted_up")
    (ring, turns), turned = cut.one("turned_up")
    assert shifted_bits == 8 * ring_bytes
    words = Cat(sector.words[i] for i in range(lanes))
    bench.implies(
        fires,
        Value.cast(value) == fields[0],
        amount == ghost.place[:3],
        Cat(ring) == Mux(raw, words, shifted),
        turns == ghost.place[3:][: (ring_bytes - 1).bit_length()],
        Cat(out.ring[j] for j in range(ring_bytes)) == Cat(turned),
    )
    bench.cover(fires & ends & mapped & ~raw)
    if config.sectors > 1:
        bench.cover(fires & ends & mapped & ~raw & (ghost.before == 3))
    return bench


def finder_proof(sector_bytes, patch):
    """Any heads; each sector is found at the ghosts' place."""
    config = config_of(sector_bytes)
    lanes = lanes_of(config)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        cut = CutNetworks(bench, context, head, lanes)
        straighten(context, head)
        block = SectorFinder(config)
        inside = bench.add(block)
    bench.drive(block.i)
    m.d.comb += block.o.ready.eq(AnySeq(1))
    line, out = block.i.payload, block.o.payload
    header = line.layout.header
    raw, mapped, _ = form_of(header)
    fires = Signal()
    m.d.comb += fires.eq(block.o.valid & block.o.ready)
    ((bits,), count) = cut.seen["count_ones"][0]
    ghost = Ghost(bench, config, header, count, fires, out.ends)
    # `HeadReader` gives all numbers of a line without a map; no line has more symbols than numbers.
    bench.assume(raw | mapped | line.present.all())
    bench.require(
        bits == out.present,
        inside["position"] == ghost.position,
        inside["before"] == ghost.before,
        out.begins == (ghost.position == 0),
        out.ends == (line.layout.empty | (ghost.position == config.sectors - 1)),
        block.o.valid == block.i.valid,
    )
    bench.implies(
        fires,
        out.place == ghost.place,
        Value.cast(out.layout) == Value.cast(line.layout),
        out.present == line.present.word_select(ghost.position[: len(inside["position"])], lanes),
    )
    bench.cover(
        fires & out.ends & mapped & ~raw & (ghost.before == 3) if config.sectors > 1 else fires
    )
    return bench


def reader_proof(sector_bytes, patch):
    """Any sectors that were found; their symbols are picked from their place, by the right ways."""
    config = config_of(sector_bytes)
    lanes, ring_bytes = lanes_of(config), config.sector_bytes
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        cut = CutNetworks(bench, context, symbol_reader, lanes)
        made = straighten(context, symbol_reader)
        block = SymbolReader(config)
        bench.add(block)
    m.d.comb += [*anything(block.i), *anything(block.line), block.o.ready.eq(AnySeq(1))]
    sector, line = block.i.payload, block.line.payload
    raw, _mapped, width = form_of(sector.layout.header)
    fires = Signal()
    m.d.comb += fires.eq(block.o.valid & block.o.ready)
    spread, stepped = (one.i.payload for one in made[2:])
    place = sector.place
    (bytes_of_line, at_byte, parts), ring = cut.one("picked")
    (turning, turns), row = cut.one("turned_down")
    (counted,), ones = cut.seen["count_ones"][0]
    (shifting, amount, bits), field = cut.one("shifted_down")
    assert (parts, bits) == (ring_bytes, SYMBOL_BITS * lanes)
    bench.require(
        Cat(bytes_of_line) == line.payload.as_value()[: 8 * config.line_bytes],
        at_byte == place[3:],
        same(turning, ring),
        turns == place[3:][: (ring_bytes - 1).bit_length()],
        shifting == Cat(row)[: bits + 7],
        amount == place[:3],
        counted == sector.present,
    )
    fields = [field]
    levels = (lanes - 1).bit_length()
    for (_, given, widths), made_fields in cut.seen["split_level"]:
        levels -= 1
        bench.implies(~raw, same(given, fields), *(w == width << levels for w in widths))
        fields = made_fields
    assert levels == 0
    (present,), (before, _) = cut.one("ones_before")
    (counts,), ways = cut.one("swaps")
    (pieces, levels_of), scattered = cut.one("scatter")
    lane = any_number(bench, range(lanes), "lane")
    own = at(list(fields), lane)
    mask = Signal(SYMBOL_BITS)
    m.d.comb += mask.eq((1 << width) - 1)
    word = at([Cat(row).word_select(i, ELEMENT_BITS) for i in range(lanes)], lane)
    bench.require(
        present == sector.present,
        same(counts, before),
        same(levels_of, ways),
        at(list(pieces), lane) == (own & mask),
        at([spread.lanes[i] for i in range(lanes)], lane)
        == Mux(raw, word, at(list(scattered), lane)),
        spread.present == sector.present,
        fires == (block.i.valid & block.line.valid & block.o.ready),
    )
    # What is behind the last symbol, in its byte.
    end = Signal(range(bits + 8))
    m.d.comb += end.eq(place[:3] + ones * width)
    bit = any_number(bench, 3, "bit")
    behind = Cat(row).word_select(end[3:], 8).bit_select(bit, 1) & (bit >= end[:3])
    is_end = sector.ends & ~raw & (end[:3] != 0)
    bench.implies(is_end & behind, stepped.tag.misfilled)
    bench.implies(~is_end, ~stepped.tag.misfilled)
    last = Cat(row).word_select(end[3:], 8) & ~((C(1, 9) << end[:3]) - 1)[:8]
    bench.implies(stepped.tag.misfilled, last != 0)
    bench.require(
        Value.cast(stepped.tag.layout) == Value.cast(sector.layout),
        Cat(stepped.tag.begins, stepped.tag.ends) == Cat(sector.begins, sector.ends),
        Cat(stepped.tag.truncated, stepped.tag.last) == Cat(line.truncated, line.last),
    )
    bench.cover(fires & stepped.tag.misfilled, fires & raw)
    return bench


def window_proof(sector_bytes, _patch):
    """A bit of a line is what its sectors' parts have there, all of them joined."""
    config = config_of(sector_bytes)
    lanes, sectors = lanes_of(config), config.sectors
    bench = Bench()
    m = bench.m
    block = LineWindow(config)
    inside = bench.add(block)
    m.d.comb += [*anything(block.i), block.o.ready.eq(AnySeq(1))]
    sector = block.i.payload
    fires = Signal()
    position = Signal(range(sectors + 1), name="ghost_position")
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    bench.assume(sector.begins == (position == 0), sector.ends == (position == sectors - 1))
    with m.If(fires):
        m.d.sync += position.eq(Mux(sector.ends, 0, position + 1))
    bench.require(position < sectors, inside["position"] == position)
    bit = any_number(bench, range(8 * config.line_bytes), "bit")
    byte = Signal(8)
    now, before, joined = Signal(), Signal(), Signal()
    ring = [sector.ring[j] for j in range(config.sector_bytes)]
    m.d.comb += byte.eq(bit[3:])
    lands = (byte >= sector.place) & (byte < sector.place + len(ring))
    own = at(ring, byte[: (len(ring) - 1).bit_length()]).bit_select(bit[:3], 1)
    in_map = (bit >= position * lanes) & (bit < (position + 1) * lanes)
    ahead = (bit - position * lanes)[: (lanes - 1).bit_length()]
    m.d.comb += [
        now.eq((lands & own) | (in_map & sector.present.bit_select(ahead, 1))),
        joined.eq(now | (before & ~sector.begins)),
    ]
    with m.If(fires):
        m.d.sync += before.eq(joined)
    whole = block.o.payload.payload
    bench.require(
        whole.bit_select(bit, 1) == joined, block.o.valid == (block.i.valid & sector.ends)
    )
    if sectors > 1:
        kept = at([inside[f"window_{j}"] for j in range(config.line_bytes)], bit[3:])
        bench.require((position == 0) | (kept.bit_select(bit[:3], 1) == before))
        bench.cover(sector.ends & joined & ~now)
    bench.cover(fires & sector.ends & now)
    return bench


PROOFS = {
    "placer": placer_proof,
    "finder": finder_proof,
    "reader": reader_proof,
    "window": window_proof,
}
CASES = {f"{name}-S{size}": (name, size) for name in PROOFS for size in (32, 64, 128)}


@pytest.mark.parametrize("case", configs(CASES, quick=[]))
def test_symbols_are_where_those_before_them_end(case, tmp_path, monkeypatch):
    name, sector_bytes = case
    prove(PROOFS[name](sector_bytes, monkeypatch), tmp_path, depth=1, cover_depth=6)


FAULTS = {
    "a bit behind": (
        "placer",
        SymbolPlacer,
        "later.eq(out.place + size)",
        "later.eq(out.place + size + 1)",
    ),
    "over the map": ("placer", SymbolPlacer, "Mux(header.mapped, MAP_BITS, 0), later", "0, later"),
    "zeros count": ("placer", SymbolPlacer, "Mux(header.mapped, count, lanes) *", "lanes *"),
    "another bit of its byte": ("placer", SymbolPlacer, "place[:3], 8 *", "place[1:4], 8 *"),
    "gathered without a map": (
        *("placer", SymbolPlacer),
        "swap & header.mapped.replicate(len(swap))",
        "swap",
    ),
    "symbols of the last sector alone": (
        *("finder", SectorFinder),
        "before + count_ones(out.present)",
        "count_ones(out.present)",
    ),
    "raw sectors of one word": (
        *("finder", SectorFinder),
        "position * (ELEMENT_BITS * lanes)",
        "position * ELEMENT_BITS",
    ),
    "from another byte": (
        "reader",
        SymbolReader,
        "place = sector.place[3:]",
        "place = sector.place[2:]",
    ),
    "padding of another bit": ("reader", SymbolReader, "end[:3] <= k for", "end[:3] < k for"),
    "padding of another byte": (
        *("reader", SymbolReader),
        "end.eq(sector.shift + sector.size)",
        "end.eq(sector.size)",
    ),
    "with the next symbol": (
        *("reader", SymbolReader),
        "piece & mask for piece in pieces",
        "piece for piece in pieces",
    ),
    "the line before": (
        *("window", LineWindow),
        "own & ~sector.begins.replicate(8)",
        "own",
    ),
    "the map of another sector": (
        *("window", LineWindow),
        "(position == s).replicate(8)",
        "(position != s).replicate(8)",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", FAULTS)
def test_symbols_that_are_elsewhere_are_found(fault, tmp_path, monkeypatch):
    proof, component, right, wrong = FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(PROOFS[proof](32, monkeypatch), tmp_path, depth=4)
