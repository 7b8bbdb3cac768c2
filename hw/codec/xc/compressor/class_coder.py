"""The compressor's front end: elements to classes and indices."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.payloads import Sector
from cdma.hw.codec.xc.classes import Code, Parameters, centre_less, code_of
from cdma.hw.codec.xc.payloads import BF16, CodedSector, LineShape
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class ClassCoder(wiring.Component):
    """Codes the exponents of a sector per cycle.

        element   sign | exponent | mantissa        zero? -> present
                            |
        centre ---------- minus --> d --> table --> class, index
        pattern -----------------------------^

    Latency: 1 cycle. Throughput: a sector per cycle.

    Resources: a `CodedSector` of registers; for each lane a subtractor and the table of codes.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
        Whole lines of sectors, with the transfer's `Parameters`.
    o : `Out(stream.Signature(CodedSector(config, elements)))`
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(CodedSector(config, elements))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        m.submodules.coded = coded = PipelineRegister(CodedSector(config, elements))
        wiring.connect(m, coded.o, wiring.flipped(self.o))
        sector, out = self.i.payload, coded.i.payload
        parameters = data.View(Parameters(), sector.parameters[: Parameters().size])
        position = Signal(range(config.sectors))
        data_bits = sector.elements.as_value()
        m.d.comb += [
            coded.i.valid.eq(self.i.valid),
            self.i.ready.eq(coded.i.ready),
            out.pattern.eq(parameters.pattern),
            out.ends.eq(sector.empty | (position == config.sectors - 1)),
            out.last.eq(sector.last),
            out.empty.eq(sector.empty),
        ]
        for i in range(LineShape.of(config, elements).lanes):
            element = Signal(elements.bits, name=f"element_{i}")
            present = Signal(name=f"present_{i}")
            exponent = element[elements.mantissa_bits :][: elements.exponent_bits]
            distance = centre_less(m, parameters.centre, exponent, name=f"distance_{i}")
            code = code_of(m, distance, parameters.pattern, name=f"code_{i}")
            m.d.comb += [
                element.eq(Mux(sector.empty, 0, data_bits.word_select(i, elements.bits))),
                present.eq(element.any()),
                out.elements[i].eq(element),
                out.present[i].eq(present),
                out.codes[i].eq(Mux(present, code.as_value(), Code().const(None).as_bits())),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += position.eq(Mux(out.ends, 0, position + 1))
        return m
