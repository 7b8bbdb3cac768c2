"""What will come back of the data: for the checksum, which is of restored bytes."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import Sector
from cdma.hw.codec.quantize.arithmetic import HalfNormal, half_normal, restored
from cdma.hw.codec.quantize.compressor.quantizer import Quantizer
from cdma.hw.codec.quantize.payloads import ELEMENT_BITS, K_BITS, QuantizedSector, lanes_of
from cdma.hw.codec.selection import is_one_of
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import PipelineRegister, registered

QUANTIZER_STAGES = 2


class _Format(data.StructLayout):
    """A sector's codec and parameters."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"codec": range(len(config.codecs)), "parameters": config.parameter_bits})


class _HalfRestored(data.StructLayout):
    """A sector's numbers on their way to values, and its values as they are."""

    def __init__(self, config: CodecConfig) -> None:
        lanes = lanes_of(config)
        super().__init__(
            {
                "halves": data.ArrayLayout(HalfNormal(), lanes),
                "words": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes),
                "ends": 1,
                "last": 1,
                "empty": 1,
            }
        )


class LineRestorer(wiring.Component):
    """Gives lines as they will come back; those of other codecs as they are.

        Sector -+-> Quantizer -+-> a line of registers --> numbers to values, or words --> Sector
                |              +-> any value raw? ----------------^
                +-> codec, parameters ------------------------------------------------------^

    Latency: 3 cycles more than a line has sectors. Throughput: a sector per cycle.

    Resources: a line of registers, a `Quantizer`, and for each lane a shifter.

    Parameters
    ----------
    config : CodecConfig
    codec : str
        The codec's name.

    Members
    -------
    i, o : `In(stream.Signature(Sector(config)))`, `Out(stream.Signature(Sector(config)))`
        Whole lines of sectors.
    """

    def __init__(self, config: CodecConfig, codec: str) -> None:
        self.config = config
        self.codec = codec
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(Sector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.fork = fork = Fork(Sector(config), 2)
        m.submodules.quantizer = quantizer = Quantizer(config)
        m.submodules.judged = judged = Fork(QuantizedSector(config), 2)
        m.submodules.raw_lines = raw_lines = PipelineRegister(1)
        m.submodules.restored = done = PipelineRegister(Sector(config))
        wiring.connect(m, wiring.flipped(self.i), fork.i)
        wiring.connect(m, quantizer.o, judged.i)
        wiring.connect(m, done.o, wiring.flipped(self.o))

        # Without a bound, all values are raw.
        mine = is_one_of(fork.o[0].payload.codec, (config.codecs.index(self.codec),), config)
        m.d.comb += [
            quantizer.i.valid.eq(fork.o[0].valid),
            fork.o[0].ready.eq(quantizer.i.ready),
            quantizer.i.payload.eq(fork.o[0].payload),
        ]
        with m.If(~mine):
            m.d.comb += quantizer.i.payload.parameters.eq(0)

        lanes = lanes_of(config)
        waiting = registered(m, judged.o[0], config.sectors - 1, name="waiting")
        m.submodules.halves = halves = PipelineRegister(_HalfRestored(config))
        whole, half = waiting.payload, halves.i.payload
        m.d.comb += [
            halves.i.valid.eq(waiting.valid),
            waiting.ready.eq(halves.i.ready),
            *(
                half.halves[i].eq(half_normal(m, whole.numbered.numbers[i], name=f"half_{i}"))
                for i in range(lanes)
            ),
            half.words.eq(whole.words),
            half.ends.eq(whole.numbered.ends),
            half.last.eq(whole.numbered.last),
            half.empty.eq(whole.numbered.empty),
        ]
        copy = fork.o[1]
        m.submodules.format = first = PipelineRegister(_Format(config))
        m.d.comb += [
            first.i.valid.eq(copy.valid),
            first.i.payload.codec.eq(copy.payload.codec),
            first.i.payload.parameters.eq(copy.payload.parameters),
            copy.ready.eq(first.i.ready),
        ]
        formats = registered(m, first.o, config.sectors + QUANTIZER_STAGES - 1, name="format")

        # A line is raw if one of its values is.
        sector = judged.o[1].payload.numbered
        so_far = Signal()
        m.d.comb += [
            raw_lines.i.valid.eq(judged.o[1].valid & sector.ends),
            raw_lines.i.payload.eq(so_far | sector.raw),
            judged.o[1].ready.eq(~sector.ends | raw_lines.i.ready),
        ]
        with m.If(judged.o[1].valid & judged.o[1].ready):
            m.d.sync += so_far.eq((so_far | sector.raw) & ~sector.ends)

        line, out = halves.o.payload, done.i.payload
        x_fire = Signal()
        k = formats.payload.parameters[:K_BITS]
        m.d.comb += [
            done.i.valid.eq(halves.o.valid & raw_lines.o.valid & formats.valid),
            x_fire.eq(done.i.valid & done.i.ready),
            halves.o.ready.eq(x_fire),
            formats.ready.eq(x_fire),
            raw_lines.o.ready.eq(x_fire & line.ends),
            out.last.eq(line.last),
            out.empty.eq(line.empty),
            out.codec.eq(formats.payload.codec),
            out.parameters.eq(formats.payload.parameters),
        ]
        words = out.elements.as_value()
        for i in range(lanes):
            word, _ = restored(m, line.halves[i], k, name=f"lane_{i}")
            m.d.comb += words.word_select(i, ELEMENT_BITS).eq(
                Mux(raw_lines.o.payload, line.words[i], word)
            )
        return m
