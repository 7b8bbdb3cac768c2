"""The symbols of a sector, out of the line."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.quantize.decompressor.head import FoundSector, LineLayout
from cdma.hw.codec.quantize.forms import PLAIN, Header
from cdma.hw.codec.quantize.payloads import ELEMENT_BITS, SYMBOL_BITS, lanes_of
from cdma.hw.codec.stream.line_collector import LineBody
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.fields import shifted_down, split_level
from cdma.hw.lib.lanes import ones_before, scatter, swaps
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer
from cdma.hw.lib.places import picked, turned_down

STEP_BITS = SYMBOL_BITS + 1
"""Of what a symbol says, a number or a difference with its sign. In a line that no compressor
writes it can be beyond all numbers; a number and such a difference still fit."""


class SectorTag(data.StructLayout):
    """What goes beside a sector's data.

    Members
    -------
    layout
        The line's.
    misfilled
        A bit behind the line's last symbol is not zero. Told with the last sector.
    truncated, last
        As in `LineBody`.
    begins, ends
        First and last sector of the line.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "layout": LineLayout(config),
                "misfilled": 1,
                "truncated": 1,
                "last": 1,
                "begins": 1,
                "ends": 1,
            }
        )


class SteppedSector(data.StructLayout):
    """A sector's numbers or differences, or its words if the line is raw, in lanes of 32 bits."""

    def __init__(self, config: CodecConfig) -> None:
        lanes = lanes_of(config)
        super().__init__(
            {
                "tag": SectorTag(config),
                "lanes": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes),
            }
        )


class _PickedSector(data.StructLayout):
    """A sector with the line's bytes from its first symbol on, and how many bits it has."""

    def __init__(self, config: CodecConfig) -> None:
        lanes = lanes_of(config)
        super().__init__(
            {
                "tag": SectorTag(config),
                "present": lanes,
                "shift": 3,
                "size": range(SYMBOL_BITS * lanes + 1),
                "row": 8 * config.sector_bytes,
            }
        )


class _PartedSector(data.StructLayout):
    """A sector whose symbols are in fields of two, in turn joined in `row`; or its words."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "tag": SectorTag(config),
                "present": lanes_of(config),
                "row": 8 * config.sector_bytes,
            }
        )


class _SpreadSector(data.StructLayout):
    """A sector whose symbols are in their lanes of 32 bits; or its words."""

    def __init__(self, config: CodecConfig) -> None:
        lanes = lanes_of(config)
        super().__init__(
            {
                "tag": SectorTag(config),
                "present": lanes,
                "lanes": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes),
            }
        )


class SymbolReader(wiring.Component):
    """Gives a line's symbols to its sectors' lanes.

        line --> pick, turn --> shift, split, but one level --> split, mask --> scatter --> steps
                                  |                                             by the map
                                  +-> padding zero?

    Four stages: picked; split; in lanes; as numbers. The third one cuts the paths of ready.

    Latency: 4 cycles. Throughput: a sector per cycle. Waits for a line's body before its first
    sector.

    Resources: five sectors of registers; a multiplexer of the line's bytes, a tree of shifters, a
    butterfly.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    line : `In(stream.Signature(LineBody(config)))`
        For each line; taken with its last sector.
    i : `In(stream.Signature(FoundSector(config)))`
    o : `Out(stream.Signature(SteppedSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "line": In(stream.Signature(LineBody(config))),
                "i": In(stream.Signature(FoundSector(config))),
                "o": Out(stream.Signature(SteppedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.picked = picked_sectors = PipelineRegister(_PickedSector(config))
        m.submodules.parted = parted = PipelineRegister(_PartedSector(config))
        m.submodules.spread = spread = SkidBuffer(_SpreadSector(config))
        m.submodules.stepped = stepped = PipelineRegister(SteppedSector(config))
        wiring.connect(m, stepped.o, wiring.flipped(self.o))
        self._pick(m, picked_sectors.i)
        self._part(m, picked_sectors.o, parted.i)
        self._spread(m, parted.o, spread.i)
        self._step(m, spread.o, stepped.i)
        return m

    def _pick(self, m: Module, picked_sectors) -> None:
        """Stage 1: the line's bytes from the sector's first symbol on."""
        sector, line, out = self.i.payload, self.line.payload, picked_sectors.payload
        ring_bytes = self.config.sector_bytes
        ring_bits = (ring_bytes - 1).bit_length()
        header = Header(sector.layout.header)
        place = sector.place[3:]
        x_fire = Signal()
        payload = [line.payload[j] for j in range(self.config.line_bytes)]
        ring = picked(m, payload, place, ring_bytes, name="picked")
        row = turned_down(m, ring, place[:ring_bits], name="turned")
        m.d.comb += [
            picked_sectors.valid.eq(self.i.valid & self.line.valid),
            x_fire.eq(picked_sectors.valid & picked_sectors.ready),
            self.i.ready.eq(x_fire),
            self.line.ready.eq(x_fire & sector.ends),
            out.tag.layout.eq(sector.layout),
            out.tag.truncated.eq(line.truncated),
            out.tag.last.eq(line.last),
            out.tag.begins.eq(sector.begins),
            out.tag.ends.eq(sector.ends),
            out.present.eq(sector.present),
            out.shift.eq(sector.place[:3]),
            out.size.eq(count_ones(sector.present) * header.width),
            out.row.eq(Cat(row)),
        ]

    def _part(self, m: Module, picked_sectors, parted) -> None:
        """Stage 2: the symbols in pairs; what is behind them."""
        sector, out = picked_sectors.payload, parted.payload
        header = Header(sector.tag.layout.header)
        lanes = lanes_of(self.config)
        bits = SYMBOL_BITS * lanes
        field = shifted_down(m, sector.row[: bits + 7], sector.shift, bits, name="field")
        fields: list[Value] = [field]
        level = (lanes - 1).bit_length() - 1
        while level:
            widths = [header.width << level] * (2 * len(fields))
            fields = split_level(m, fields, widths, name=f"split_{level}")
            level -= 1

        # The byte in which the line's last symbol ends, if it ends inside one.
        end = Signal(range(bits + 8))
        last_byte = Signal(8)
        m.d.comb += [
            end.eq(sector.shift + sector.size),
            last_byte.eq(sector.row.word_select(end[3:], 8)),
            parted.valid.eq(picked_sectors.valid),
            picked_sectors.ready.eq(parted.ready),
            out.tag.eq(sector.tag),
            out.tag.misfilled.eq(
                sector.tag.ends
                & ~header.raw
                & (end[:3] != 0)
                & (last_byte & Cat(*(end[:3] <= k for k in range(7)), C(1, 1))).any()
            ),
            out.present.eq(sector.present),
            out.row.eq(Mux(header.raw, sector.row, Cat(fields))),
        ]

    def _spread(self, m: Module, parted, spread) -> None:
        """Stage 3: each lane's symbol."""
        sector, out = parted.payload, spread.payload
        header = Header(sector.tag.layout.header)
        lanes = lanes_of(self.config)
        pairs: list[Value] = [sector.row.word_select(b, 2 * SYMBOL_BITS) for b in range(lanes // 2)]
        pieces = split_level(m, pairs, [header.width] * lanes, name="split_0")
        mask = Cat(k < header.width for k in range(SYMBOL_BITS))
        ones, _ = ones_before(m, sector.present, name="present")
        # All lanes present is how they stand: the network then swaps none.
        ways = swaps(m, ones, name="swap")
        symbols = scatter(
            m, [piece & mask for piece in pieces], ways, from_first=True, name="spread"
        )
        m.d.comb += [
            spread.valid.eq(parted.valid),
            parted.ready.eq(spread.ready),
            out.tag.eq(sector.tag),
            out.present.eq(sector.present),
            *(
                out.lanes[i].eq(Mux(header.raw, sector.row.word_select(i, ELEMENT_BITS), symbol))
                for i, symbol in enumerate(symbols)
            ),
        ]

    def _step(self, m: Module, spread, stepped) -> None:
        """Stage 4: the number or difference that each symbol stands for."""
        sector, out = spread.payload, stepped.payload
        header = Header(sector.tag.layout.header)
        for i in range(lanes_of(self.config)):
            symbol = sector.lanes[i][:SYMBOL_BITS]
            base = Signal(signed(STEP_BITS), name=f"base_{i}")
            step = Signal(signed(STEP_BITS), name=f"step_{i}")
            one_more = Signal(name=f"one_more_{i}")
            half = symbol[1:]
            # With a map, symbols are one less; their lowest bit is the other one, then.
            with m.If(header.kind == PLAIN):
                m.d.comb += [base.eq(symbol), one_more.eq(header.mapped)]
            with m.Elif(symbol[0] ^ header.mapped):
                m.d.comb += base.eq(~Cat(half, 0).as_signed())
            with m.Else():
                m.d.comb += [base.eq(half), one_more.eq(header.mapped)]
            m.d.comb += [
                step.eq(Mux(sector.present[i], base + one_more, 0)),
                out.lanes[i].eq(Mux(header.raw, sector.lanes[i], step)),
            ]
        m.d.comb += [
            stepped.valid.eq(spread.valid),
            spread.ready.eq(stepped.ready),
            out.tag.eq(sector.tag),
        ]
