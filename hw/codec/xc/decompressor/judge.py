"""What is wrong with a line, once all of it was decoded."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.stream.line_release import HeldSector, LineVerdict
from cdma.hw.codec.xc.decompressor.escape_reader import DecodedSector, status_of
from cdma.hw.codec.xc.payloads import BF16
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class LineJudge(wiring.Component):
    """Gathers what is wrong with a line's sectors up to its end.

    Latency: 0 cycles to sectors, 1 cycle from a line's last sector to its verdict. Throughput: a
    sector per cycle.

    Resources: a `LineVerdict` of registers.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Members
    -------
    raw_is_right : `In(stream.Signature(1))`
        For each line that is kept as it is: whether it had to be.
    i : `In(stream.Signature(DecodedSector(config, elements=elements)))`
    o : `Out(stream.Signature(HeldSector(config)))`
    verdict : `Out(stream.Signature(LineVerdict(config)))`
        For each line.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        super().__init__(
            {
                "raw_is_right": In(stream.Signature(1)),
                "i": In(stream.Signature(DecodedSector(config, elements=elements))),
                "o": Out(stream.Signature(HeldSector(config))),
                "verdict": Out(stream.Signature(LineVerdict(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.judged = judged = PipelineRegister(LineVerdict(self.config))
        wiring.connect(m, judged.o, wiring.flipped(self.verdict))
        sector, layout = self.i.payload, self.i.payload.layout
        so_far = Signal()
        wrong = Signal()
        goes_on = Signal()
        x_fire = Signal()
        waits_for_raw: Value = sector.ends & layout.raw
        m.d.comb += [
            wrong.eq(
                so_far
                | sector.wrong.any()
                | sector.miscounted
                | sector.misfilled
                | (layout.misfilled & sector.ends)
                | (waits_for_raw & ~self.raw_is_right.payload)
            ),
            goes_on.eq(
                (~sector.ends | judged.i.ready) & (~waits_for_raw | self.raw_is_right.valid)
            ),
            self.o.valid.eq(self.i.valid & goes_on),
            x_fire.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(x_fire),
            self.raw_is_right.ready.eq(x_fire & waits_for_raw),
            judged.i.valid.eq(x_fire & sector.ends),
            judged.i.payload.status.eq(status_of(layout.status, sector.truncated, wrong)),
            judged.i.payload.size.eq(
                Mux(layout.empty, 0, layout.size + self.elements.header_bytes)
            ),
            judged.i.payload.last.eq(sector.last),
            judged.i.payload.empty.eq(layout.empty),
            self.o.payload.elements.eq(sector.elements.as_value()),
            self.o.payload.begins.eq(sector.begins),
            self.o.payload.ends.eq(sector.ends),
        ]
        with m.If(x_fire):
            m.d.sync += so_far.eq(wrong & ~sector.ends)
        return m
