"""The test's codec: its registry entry and its RTL. Nothing outside this folder knows of it."""

from contextlib import contextmanager
from typing import ClassVar

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats import registry as formats
from cdma.hw.codec import registry
from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Sector, Truncation
from cdma.hw.lib.pipeline import PipelineRegister
from tests.hw.codec.xor.golden_model import XorModel

SEED_BITS = 12


class Xor(LineCodec):
    """XOR with the previous element of the line, of the first one with the parameter `seed`.

    The record tells the XOR of all bytes of the data, and how many lines they were, modulo 256.
    """

    name = "xor"
    number = 0x58
    parameters: ClassVar = {"seed": SEED_BITS}
    usual_parameters: ClassVar = {"seed": 0x123}
    result: ClassVar = {"parity": 8, "lines": 8}
    line_summary_bits = 8

    def compressor(self, config):
        return XorCompressor(config)

    def decompressor(self, config):
        return XorDecompressor(config)

    def line_summary(self, config):
        return LineParity(config)

    def summary_collector(self, config):
        return ParityCollector()


@contextmanager
def xor_registered():
    """The codec, in the registries of formats and of RTL."""
    with formats.registered("xor", XorModel, ("seed",)), registry.registered(Xor()) as entry:
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
        before: list[Value] = [Mux(position == 0, sector.parameters[:SEED_BITS], previous)]
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
                "parameters": In(SEED_BITS),
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
        element: Value = Mux(beat.sol, self.parameters, previous)
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


class LineParity(wiring.Component):
    """The XOR of each line's bytes, a cycle after its last sector."""

    def __init__(self, config):
        self.config = config
        super().__init__({"i": In(stream.Signature(Sector(config))), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        sectors = self.config.sectors
        m.submodules.parities = parities = PipelineRegister(8)
        wiring.connect(m, parities.o, wiring.flipped(self.o))
        position = Signal(range(sectors))
        parity = Signal(8)
        ends = Signal()
        sector_bytes = self.i.payload.elements.as_value()
        total: Value = Mux(position == 0, 0, parity)
        for j in range(self.config.sector_bytes):
            total = total ^ sector_bytes.word_select(j, 8)
        m.d.comb += [
            ends.eq(position == sectors - 1),
            parities.i.valid.eq(self.i.valid & ends),
            parities.i.payload.eq(total),
            self.i.ready.eq(~ends | parities.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [position.eq(Mux(ends, 0, position + 1)), parity.eq(total)]
        return m


class ParityCollector(wiring.Component):
    """The XOR of the lines of a transfer, and their number; settled in the cycle after its end."""

    def __init__(self):
        super().__init__(
            {
                "begins": In(1),
                "lines": In(2),
                "first": In(8),
                "second": In(8),
                "ends": In(1),
                "settled": Out(1),
                "result": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        parity = Signal(8)
        lines = Signal(8)
        m.d.comb += self.settled.eq(1)
        with m.If(self.begins):
            m.d.sync += [parity.eq(0), lines.eq(0)]
        with m.Elif(self.lines != 0):
            second = Mux(self.lines == 2, self.second, 0)
            m.d.sync += [parity.eq(parity ^ self.first ^ second), lines.eq(lines + self.lines)]
        with m.If(self.ends):
            m.d.sync += self.result.eq(Cat(parity, lines))
        return m
