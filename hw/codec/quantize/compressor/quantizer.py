"""The compressor's front end: values to numbers."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import Sector
from cdma.hw.codec.quantize.arithmetic import Scale, number_of, scale_of
from cdma.hw.codec.quantize.payloads import ELEMENT_BITS, K_BITS, QuantizedSector, lanes_of
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class _ScaledSector(data.StructLayout):
    """A sector, and how far each of its values is to be shifted."""

    def __init__(self, config: CodecConfig) -> None:
        lanes = lanes_of(config)
        super().__init__(
            {
                "words": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes),
                "scales": data.ArrayLayout(Scale(), lanes),
                "ends": 1,
                "last": 1,
                "empty": 1,
            }
        )


class Quantizer(wiring.Component):
    """Quantizes a sector per cycle.

        word   sign | exponent | fraction
                        |          |
        k ----------- minus     --------> shift, kept as it is? | shift, round --> number

    Latency: 2 cycles. Throughput: a sector per cycle.

    Resources: two sectors of registers; for each lane a subtractor, a shifter and an incrementer.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
        Whole lines of sectors, with k as the transfer's parameter.
    o : `Out(stream.Signature(QuantizedSector(config)))`
        No sector at all (`empty`) has numbers of zero.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(QuantizedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.scaled = scaled = PipelineRegister(_ScaledSector(config))
        m.submodules.quantized = quantized = PipelineRegister(QuantizedSector(config))
        wiring.connect(m, quantized.o, wiring.flipped(self.o))
        sector, before = self.i.payload, scaled.i.payload
        position = Signal(range(config.sectors))
        k = sector.parameters[:K_BITS]
        data_bits = sector.elements.as_value()
        m.d.comb += [
            scaled.i.valid.eq(self.i.valid),
            self.i.ready.eq(scaled.i.ready),
            before.ends.eq(sector.empty | (position == config.sectors - 1)),
            before.last.eq(sector.last),
            before.empty.eq(sector.empty),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += position.eq(Mux(before.ends, 0, position + 1))
        for i in range(lanes_of(config)):
            word = Signal(ELEMENT_BITS, name=f"word_{i}")
            m.d.comb += [
                word.eq(Mux(sector.empty, 0, data_bits.word_select(i, ELEMENT_BITS))),
                before.words[i].eq(word),
                before.scales[i].eq(scale_of(m, word, k, name=f"lane_{i}")),
            ]

        after, out = scaled.o.payload, quantized.i.payload
        lanes = range(lanes_of(config))
        m.d.comb += [
            quantized.i.valid.eq(scaled.o.valid),
            scaled.o.ready.eq(quantized.i.ready),
            out.words.eq(after.words),
            out.numbered.raw.eq(~after.empty & Cat(after.scales[i].raw for i in lanes).any()),
            out.numbered.ends.eq(after.ends),
            out.numbered.last.eq(after.last),
            out.numbered.empty.eq(after.empty),
            *(
                out.numbered.numbers[i].eq(
                    number_of(m, after.words[i], after.scales[i], name=f"rounded_{i}")
                )
                for i in lanes
            ),
        ]
        return m
