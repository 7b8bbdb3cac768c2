"""What is wrong with a line, once all of it was decoded."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.codec.byte_lines import HEADER_BYTES
from cdma.hw.codec.quantize.decompressor.head import LineLayout
from cdma.hw.codec.quantize.decompressor.restorer import RESTORING, RestoredSector
from cdma.hw.codec.quantize.meter import STAGES as FORM_STAGES
from cdma.hw.codec.quantize.payloads import LineForm
from cdma.hw.codec.stream.line_release import HeldSector, LineVerdict
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class _Seen(data.StructLayout):
    """What was seen of a line: all but the form that it should have."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"layout": LineLayout(config), "wrong": 1, "truncated": 1, "last": 1})


class LineJudge(wiring.Component):
    """Compares each line with the form that the compressor would give its values.

    Latency: 0 cycles to sectors; `DEPTH` cycles from a line's last sector to its verdict, if the
    form is there. Throughput: a sector per cycle.

    Resources: `DEPTH` layouts of registers, a comparator of 8 bits.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    form : `In(stream.Signature(LineForm(config)))`
        For each line, that of what its values quantize to.
    i : `In(stream.Signature(RestoredSector(config)))`
    o : `Out(stream.Signature(HeldSector(config)))`
    verdict : `Out(stream.Signature(LineVerdict(config)))`
        For each line.
    """

    DEPTH = FORM_STAGES - RESTORING
    """Lines that may wait for their forms: as many cycles as the form comes later."""

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "form": In(stream.Signature(LineForm(config))),
                "i": In(stream.Signature(RestoredSector(config))),
                "o": Out(stream.Signature(HeldSector(config))),
                "verdict": Out(stream.Signature(LineVerdict(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        chain: list[PipelineRegister] = []
        for k in range(self.DEPTH):
            m.submodules[f"seen_{k}"] = register = PipelineRegister(_Seen(self.config))
            if chain:
                wiring.connect(m, chain[-1].o, register.i)
            chain.append(register)
        seen, waiting = chain[0].i, chain[-1].o

        sector, tag = self.i.payload, self.i.payload.tag
        so_far = Signal()
        wrong = Signal()
        goes_on = Signal()
        x_fire = Signal()
        m.d.comb += [
            wrong.eq(so_far | sector.infinite | tag.misfilled),
            goes_on.eq(~tag.ends | seen.ready),
            self.o.valid.eq(self.i.valid & goes_on),
            x_fire.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(x_fire),
            self.o.payload.elements.eq(sector.words.as_value()),
            self.o.payload.begins.eq(tag.begins),
            self.o.payload.ends.eq(tag.ends),
            seen.valid.eq(x_fire & tag.ends),
            seen.payload.layout.eq(tag.layout),
            seen.payload.wrong.eq(wrong),
            seen.payload.truncated.eq(tag.truncated),
            seen.payload.last.eq(tag.last),
        ]
        with m.If(x_fire):
            m.d.sync += so_far.eq(wrong & ~tag.ends)

        line, layout, out = waiting.payload, waiting.payload.layout, self.verdict.payload
        m.d.comb += [
            self.verdict.valid.eq(waiting.valid & self.form.valid),
            waiting.ready.eq(self.verdict.valid & self.verdict.ready),
            self.form.ready.eq(self.verdict.valid & self.verdict.ready),
            out.size.eq(Mux(layout.empty, 0, layout.size + HEADER_BYTES)),
            out.last.eq(line.last),
            out.empty.eq(layout.empty),
        ]
        with m.If(layout.empty):
            m.d.comb += out.status.eq(StreamStatus.OK)
        with m.Elif(layout.malformed):
            m.d.comb += out.status.eq(StreamStatus.BAD_TOKEN)
        with m.Elif(line.truncated):
            m.d.comb += out.status.eq(StreamStatus.PAYLOAD_TRUNCATED)
        with m.Elif(line.wrong | (self.form.payload.header != layout.header)):
            m.d.comb += out.status.eq(StreamStatus.BAD_TOKEN)
        return m
