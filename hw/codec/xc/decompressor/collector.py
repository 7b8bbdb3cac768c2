"""Beats of a line to its head, and then to the whole line."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.decompressor.head import HeadBytes
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class LineBody(data.StructLayout):
    """A line's payload.

    Members
    -------
    payload
        Behind the line's end, anything.
    truncated
        The stream ended inside the line.
    last
        As in `LineBeat`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "payload": data.ArrayLayout(unsigned(8), config.line_bytes),
                "truncated": 1,
                "last": 1,
            }
        )


class LineCollector(wiring.Component):
    """Collects a line's beats, and gives its head away when the first one comes.

        beats   0 1 2 3 | 0 1 2 3
        head    ^         ^                   the classes' stages begin
        body            ^         ^           extras can be found

    Latency: 1 cycle from a line's first beat to its head, 1 cycle from its last to its body.
    Throughput: a beat per cycle.

    Resources: two lines of registers less a beat, and a head's.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    parameters : `In(Parameters().size)`
        Those of the line whose beat is offered.
    i : `In(stream.Signature(LineBeat(config)))`
    head : `Out(stream.Signature(HeadBytes(config)))`
    body : `Out(stream.Signature(LineBody(config)))`
        For each line, both.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "parameters": In(Parameters().size),
                "i": In(stream.Signature(LineBeat(config))),
                "head": Out(stream.Signature(HeadBytes(config))),
                "body": Out(stream.Signature(LineBody(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.heads = heads = PipelineRegister(HeadBytes(config))
        m.submodules.bodies = bodies = PipelineRegister(LineBody(config))
        wiring.connect(m, heads.o, wiring.flipped(self.head))
        wiring.connect(m, bodies.o, wiring.flipped(self.body))
        beat = self.i.payload
        bits = 8 * config.sector_bytes

        # A head goes as soon as it can: its beat may have to wait for the body before it.
        head_given = Signal()
        head_goes = Signal()
        x_ready = Signal()
        m.d.comb += [
            head_goes.eq(~beat.sol | head_given | heads.i.ready),
            x_ready.eq(head_goes & (~beat.eol | bodies.i.ready)),
            self.i.ready.eq(x_ready),
            heads.i.valid.eq(self.i.valid & beat.sol & ~head_given),
            bodies.i.valid.eq(self.i.valid & head_goes & beat.eol),
        ]
        with m.If(self.i.valid):
            m.d.sync += head_given.eq(beat.sol & head_goes & ~x_ready)

        head, body = heads.i.payload, bodies.i.payload
        elements = beat.elements.as_value()
        m.d.comb += [
            head.header.eq(beat.mask),
            head.front.eq(elements),
            head.count.eq(beat.count),
            head.truncation.eq(beat.truncation),
            head.parameters.eq(self.parameters),
            head.empty.eq(beat.empty),
            body.truncated.eq(beat.truncation != Truncation.NONE),
            body.last.eq(beat.last),
        ]
        # The last beat goes past the others, which wait for it.
        if config.sectors == 1:
            m.d.comb += body.payload.eq(elements)
            return m
        position = Signal(range(config.sectors))
        held = [Signal(bits, name=f"beat_{s}", reset_less=True) for s in range(config.sectors - 1)]
        m.d.comb += body.payload.as_value().eq(
            Cat(
                *(Mux(position == s, elements, own) for s, own in enumerate(held)),
                elements,
            )
        )
        with m.If(self.i.valid & x_ready):
            m.d.sync += position.eq(Mux(beat.eol, 0, position + 1))
            for s, own in enumerate(held):
                with m.If(position == s):
                    m.d.sync += own.eq(elements)
        return m
