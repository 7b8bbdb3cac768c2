"""Makes a sector's symbols in the line's form, and puts them where the line goes on."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.quantize.forms import PLAIN, Header, symbols_of
from cdma.hw.codec.quantize.payloads import (
    ELEMENT_BITS,
    MAP_BITS,
    NUMBER_BITS,
    PLACE_BITS,
    SYMBOL_BITS,
    LineForm,
    QuantizedSector,
    lanes_of,
)
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fields import merge_level, shifted_up
from cdma.hw.lib.lanes import gather, ones_before, swaps
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.places import turned_up


class PlacedSector(data.StructLayout):
    """What a sector adds to its line.

    Members
    -------
    present
        Its part of the map, if the line has one.
    ring
        Its bytes: lanes that the line's bytes have modulo their number.
    place
        The byte of the line where they begin.
    begins, ends
        First and last sector of the line.
    form
        The line's.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "present": lanes_of(config),
                "ring": data.ArrayLayout(unsigned(8), config.sector_bytes),
                "place": PLACE_BITS - 3,
                "begins": 1,
                "ends": 1,
                "form": LineForm(config),
            }
        )


class _SymbolSector(data.StructLayout):
    """A sector's symbols, or its words if the line is raw, in lanes of 32 bits; later, joined.

    Members
    -------
    lanes
    present
        Those that are in the line.
    begins, ends, form
        As in `PlacedSector`.
    """

    def __init__(self, config: CodecConfig) -> None:
        lanes = lanes_of(config)
        super().__init__(
            {
                "lanes": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes),
                "present": lanes,
                "begins": 1,
                "ends": 1,
                "form": LineForm(config),
            }
        )


class _JoinedSector(data.StructLayout):
    """A `_SymbolSector` whose lanes were joined, two levels of the tree, and where it begins.

    Members
    -------
    place
        In bits.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"sector": _SymbolSector(config), "place": PLACE_BITS})


class SymbolPlacer(wiring.Component):
    """Moves a sector's symbols to where their line goes on.

        numbers -> symbols -> gather -> merge, 2 levels -> merge, the others -> shift, turn
                     |  by header  |  with a map                                by place

    Three stages: symbols; gather and half of the tree; the rest of it, and the shift to the place.
    A raw line's words pass all of it unchanged.

    Latency: 3 cycles. Throughput: a sector per cycle. Waits for a line's form before its first
    sector.

    Resources: three sectors of registers; for each lane two adders, a butterfly and a tree of
    shifters.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    form : `In(stream.Signature(LineForm(config)))`
        For each line; taken with its last sector.
    i : `In(stream.Signature(QuantizedSector(config)))`
    o : `Out(stream.Signature(PlacedSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "form": In(stream.Signature(LineForm(config))),
                "i": In(stream.Signature(QuantizedSector(config))),
                "o": Out(stream.Signature(PlacedSector(config))),
            }
        )

    # A sector with a map, of four lanes and 3 bits; the line goes on at bit 37:
    #
    #     symbols   a    .    b    c       each less one, of 3 bits
    #     gathered  a    b    c    .
    #     joined    cccbbbaaa
    #     shifted   .cccbbbaaa.....        37 = 4 bytes and 5 bits; and turned by 4 bytes

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.symbols = symbols = PipelineRegister(_SymbolSector(config))
        m.submodules.joined = joined = PipelineRegister(_JoinedSector(config))
        m.submodules.placed = placed = PipelineRegister(PlacedSector(config))
        wiring.connect(m, placed.o, wiring.flipped(self.o))
        self._make_symbols(m, symbols.i)
        self._join(m, symbols.o, joined.i)
        self._place(m, joined.o, placed.i)
        return m

    def _make_symbols(self, m: Module, symbols) -> None:
        """Stage 1: symbols in the line's form."""
        sector, form, out = self.i.payload, self.form.payload, symbols.payload
        numbered = sector.numbered
        header = Header(form.header)
        x_fire = Signal()
        begins = Signal(init=1)
        carried = Signal(signed(NUMBER_BITS))
        m.d.comb += [
            symbols.valid.eq(self.i.valid & self.form.valid),
            x_fire.eq(symbols.valid & symbols.ready),
            self.i.ready.eq(x_fire),
            self.form.ready.eq(x_fire & numbered.ends),
            out.begins.eq(begins),
            out.ends.eq(numbered.ends),
            out.form.eq(form),
        ]
        with m.If(x_fire):
            m.d.sync += [
                begins.eq(numbered.ends),
                carried.eq(Mux(numbered.ends, 0, numbered.numbers[lanes_of(self.config) - 1])),
            ]
        number_before: Value = carried
        for i in range(lanes_of(self.config)):
            number = numbered.numbers[i]
            before = Signal(signed(NUMBER_BITS), name=f"before_{i}")
            symbol = Signal(SYMBOL_BITS, name=f"symbol_{i}")
            m.d.comb += before.eq(Mux(header.lorenzo, number_before, 0))
            both = symbols_of(m, number, before, name=f"lane_{i}")
            m.d.comb += [
                symbol.eq(Mux(header.mapped, both.less_one, both.zigzag)),
                out.present[i].eq(both.present & header.mapped),
                out.lanes[i].eq(
                    Mux(
                        header.raw,
                        sector.words[i],
                        Mux(header.kind == PLAIN, symbol[1:], symbol),
                    )
                ),
            ]
            number_before = number

    def _join(self, m: Module, symbols, joined) -> None:
        """Stage 2: the symbols in a row, half of the tree, and where they begin."""
        sector, out = symbols.payload, joined.payload
        lanes = lanes_of(self.config)
        header = Header(sector.form.header)
        ones, count = ones_before(m, sector.present, name="present")
        levels = []
        for k, swap in enumerate(swaps(m, ones, name="swap")):
            level = Signal(len(swap), name=f"level_{k}")
            m.d.comb += level.eq(swap & header.mapped.replicate(len(swap)))
            levels.append(level)
        values = [sector.lanes[i][:SYMBOL_BITS] for i in range(lanes)]
        fields = gather(m, values, levels, from_first=True, name="gathered")
        for level in range(2):
            widths = [header.width << level] * len(fields)
            fields = merge_level(m, fields, widths, name=f"merge_{level}")

        later = Signal(PLACE_BITS)
        x_fire = Signal()
        size = Signal(PLACE_BITS)
        m.d.comb += [
            joined.valid.eq(symbols.valid),
            symbols.ready.eq(joined.ready),
            x_fire.eq(symbols.valid & joined.ready),
            size.eq(
                Mux(
                    header.raw,
                    ELEMENT_BITS * lanes,
                    Mux(header.mapped, count, lanes) * header.width,
                )
            ),
            out.sector.eq(sector),
            out.place.eq(Mux(sector.begins, Mux(header.mapped, MAP_BITS, 0), later)),
        ]
        with m.If(~header.raw):
            m.d.comb += out.sector.lanes.as_value().eq(Cat(fields))
        with m.If(x_fire):
            m.d.sync += later.eq(out.place + size)

    def _place(self, m: Module, joined, placed) -> None:
        """Stage 3: the rest of the tree, and the shift to the place."""
        sector, place, out = joined.payload.sector, joined.payload.place, placed.payload
        header = Header(sector.form.header)
        lanes = lanes_of(self.config)
        ring_bytes = self.config.sector_bytes
        words = sector.lanes.as_value()
        fields: list[Value] = [words.word_select(b, 4 * SYMBOL_BITS) for b in range(lanes // 4)]
        level = 2
        while len(fields) > 1:
            widths = [header.width << level] * len(fields)
            fields = merge_level(m, fields, widths, name=f"merge_{level}")
            level += 1
        shifted = shifted_up(m, fields[0], place[:3], 8 * ring_bytes, name="shifted")
        row = Signal(8 * ring_bytes)
        m.d.comb += row.eq(Mux(header.raw, words, shifted))
        ring = turned_up(
            m,
            [row.word_select(j, 8) for j in range(ring_bytes)],
            place[3:][: (ring_bytes - 1).bit_length()],
            name="turned",
        )
        m.d.comb += [
            placed.valid.eq(joined.valid),
            joined.ready.eq(placed.ready),
            *(out.ring[j].eq(byte) for j, byte in enumerate(ring)),
            out.present.eq(sector.present),
            out.place.eq(place[3:]),
            out.begins.eq(sector.begins),
            out.ends.eq(sector.ends),
            out.form.eq(sector.form),
        ]
