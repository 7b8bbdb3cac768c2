"""The test's codec: its registry entry and its RTL. Nothing outside this folder knows of it."""

from contextlib import contextmanager

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats import registry as formats
from cdma.hw.codec import registry
from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Sector, Truncation
from cdma.hw.lib.pipeline import PipelineRegister
from tests.hw.codec.xor.golden_model import XorModel


class Xor(LineCodec):
    """XOR with the previous element of the line."""

    name = "xor"
    number = 0x58

    def compressor(self, config):
        return XorCompressor(config)

    def decompressor(self, config):
        return XorDecompressor(config)


@contextmanager
def xor_registered():
    """The codec, in the registries of formats and of RTL."""
    with formats.registered("xor", XorModel), registry.registered(Xor()) as entry:
        yield entry


class XorCompressor(wiring.Component):
    """A sector per cycle; latency 1 cycle."""

    line_latency = 1

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.beats = beats = PipelineRegister(LineBeat(config))
        wiring.connect(m, beats.o, wiring.flipped(self.o))
        sector, beat = self.i.payload, beats.i.payload
        position = Signal(range(config.sectors))
        previous = Signal(8 * config.element_bytes)
        before: list[Value] = [Mux(position == 0, 0, previous)]
        before += [sector.elements[i] for i in range(config.lanes - 1)]
        m.d.comb += [
            beats.i.valid.eq(self.i.valid),
            self.i.ready.eq(beats.i.ready),
            *(beat.elements[i].eq(sector.elements[i] ^ before[i]) for i in range(config.lanes)),
            beat.count.eq(config.lanes),
            beat.sol.eq(position == 0),
            beat.eol.eq(position == config.sectors - 1),
            beat.last.eq(sector.last),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                position.eq(Mux(beat.eol, 0, position + 1)),
                previous.eq(sector.elements[config.lanes - 1]),
            ]
        return m


class XorDecompressor(wiring.Component):
    """A sector per cycle; latency 1 cycle."""

    sector_latency = 1

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.sectors = sectors = PipelineRegister(ExpandedSector(config))
        wiring.connect(m, sectors.o, wiring.flipped(self.o))
        beat, sector = self.i.payload, sectors.i.payload
        damaged = Signal()
        previous = Signal(8 * config.element_bytes)
        element: Value = Mux(beat.sol, 0, previous)
        for i in range(config.lanes):
            restored = Signal(8 * config.element_bytes, name=f"restored_{i}")
            m.d.comb += [restored.eq(element ^ beat.elements[i]), sector.elements[i].eq(restored)]
            element = restored
        m.d.comb += [
            damaged.eq(beat.truncation != Truncation.NONE),
            sectors.i.valid.eq(self.i.valid),
            self.i.ready.eq(sectors.i.ready),
            sector.sol.eq(beat.sol),
            sector.missing.eq(Mux(damaged, Cat(i >= beat.count for i in range(config.lanes)), 0)),
            sector.last.eq(beat.last),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += previous.eq(element)
        return m
