"""Plain lines through an engine without a codec that carries them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Sector, Truncation
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class RawCompressor(wiring.Component):
    """Makes a full line of each line's sectors.

    Latency: `line_latency` = 1 cycle. Throughput: a sector per cycle.

    Resources: a beat of registers.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    line_latency : int

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
        Whole lines of sectors.
    o : `Out(stream.Signature(LineBeat(config)))`
        Full lines without a head.
    """

    line_latency = 1

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.beats = beats = PipelineRegister(LineBeat(config))
        wiring.connect(m, beats.o, wiring.flipped(self.o))
        sector, beat = self.i.payload, beats.i.payload
        position = Signal(range(config.sectors))
        m.d.comb += [
            beats.i.valid.eq(self.i.valid),
            self.i.ready.eq(beats.i.ready),
            beat.elements.eq(sector.elements),
            beat.count.eq(Mux(sector.empty, 0, config.lanes)),
            beat.sol.eq(position == 0),
            beat.eol.eq(sector.empty | (position == config.sectors - 1)),
            beat.last.eq(sector.last),
            beat.empty.eq(sector.empty),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += position.eq(Mux(beat.eol, 0, position + 1))
        return m


class RawDecompressor(wiring.Component):
    """Gives back a line's sectors, and zeros behind a line that is short.

    Latency: `sector_latency` = 1 cycle. Throughput: a sector per cycle.

    Resources: a sector and a mask of registers.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    sector_latency : int

    Members
    -------
    i : `In(stream.Signature(LineBeat(config)))`
        The mask tells which elements the line should have.
    o : `Out(stream.Signature(ExpandedSector(config)))`
        All sectors of each line; of a damaged one, those up to the damage.
    """

    sector_latency = 1

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes = config.lanes
        m.submodules.sectors = sectors = PipelineRegister(ExpandedSector(config))
        wiring.connect(m, sectors.o, wiring.flipped(self.o))
        beat, sector = self.i.payload, sectors.i.payload

        # Behind the last beat of a short line, sectors of zeros up to the line's end.
        fills = Signal()
        line_last = Signal()
        position = Signal(range(config.sectors))
        mask = Signal(config.elements)
        mask_left = Signal(config.elements)
        full = Signal()
        damaged = Signal()
        x_fire = Signal()
        m.d.comb += [
            mask.eq(Mux(beat.sol, beat.mask, mask_left)),
            damaged.eq(~fills & (beat.truncation != Truncation.NONE)),
            full.eq(position == config.sectors - 1),
            sectors.i.valid.eq(fills | self.i.valid),
            self.i.ready.eq(sectors.i.ready & ~fills),
            x_fire.eq(sectors.i.valid & sectors.i.ready),
            sector.sol.eq(position == 0),
            sector.missing.eq(
                Mux(damaged, mask[:lanes] & Cat(i >= beat.count for i in range(lanes)), 0)
            ),
            sector.last.eq(Mux(fills, full & line_last, beat.last & (full | damaged))),
        ]
        with m.If(~fills):
            m.d.comb += sector.elements.eq(beat.elements)
        with m.If(x_fire):
            m.d.sync += [
                position.eq(Mux(full | damaged, 0, position + 1)),
                mask_left.eq(mask >> lanes),
                fills.eq(Mux(fills, ~full, beat.eol & ~full & ~damaged)),
            ]
            with m.If(~fills):
                m.d.sync += line_last.eq(beat.last)
        return m
