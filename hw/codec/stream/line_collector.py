"""Beats of a line to its head, and then to the whole line."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.config import CodecConfig
from cdma.hw.lib.pipeline import PipelineRegister


class HeadBytes(data.StructLayout):
    """The beginning of a line.

    Members
    -------
    header
        The line's first byte, or more.
    front
        The payload's first bytes.
    count
        Bytes of the line's first beat that are there, if it is truncated in it.
    truncation
        As in `LineBeat`, of the line's first beat.
    parameters
        The line's.
    empty
        No line.
    """

    def __init__(
        self, config: CodecConfig, front_bits: int, parameter_bits: int, header_bits: int = 8
    ) -> None:
        super().__init__(
            {
                "header": header_bits,
                "front": front_bits,
                "count": range(config.lanes + 1),
                "truncation": Truncation,
                "parameters": parameter_bits,
                "empty": 1,
            }
        )


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
    """Collects a line's beats, and gives its head away when the beats have come that it is in.

        beats   0 1 2 3 | 0 1 2 3
        head    ^         ^                   the line's layout begins
        body            ^         ^           its sectors can

    Latency: 1 cycle from a line's first beat to its head, or from its second one if a head is
    longer than a beat; 1 cycle from its last to its body. Throughput: a beat per cycle.

    Resources: two lines of registers less a beat, and a head's.

    Parameters
    ----------
    config : CodecConfig
        Its elements are bytes.
    front_bits, parameter_bits, header_bits
        As much of a line's first beat or two, of its parameters and of its header, as its head
        needs.

    Members
    -------
    parameters : `In(parameter_bits)`
        Those of the line whose beat is offered.
    i : `In(stream.Signature(LineBeat(config)))`
    head : `Out(stream.Signature(HeadBytes(...)))`
    body : `Out(stream.Signature(LineBody(config)))`
        For each line, both.
    """

    def __init__(
        self, config: CodecConfig, front_bits: int, parameter_bits: int, header_bits: int = 8
    ) -> None:
        self.config = config
        self.front_bits = front_bits
        self.head_layout = HeadBytes(config, front_bits, parameter_bits, header_bits)
        super().__init__(
            {
                "parameters": In(parameter_bits),
                "i": In(stream.Signature(LineBeat(config))),
                "head": Out(stream.Signature(self.head_layout)),
                "body": Out(stream.Signature(LineBody(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.heads = heads = PipelineRegister(self.head_layout)
        m.submodules.bodies = bodies = PipelineRegister(LineBody(config))
        wiring.connect(m, heads.o, wiring.flipped(self.head))
        wiring.connect(m, bodies.o, wiring.flipped(self.body))
        beat = self.i.payload
        bits = 8 * config.sector_bytes

        # A head goes as soon as it can: its beat may have to wait for the body before it.
        in_one = self.front_bits <= bits
        second = Signal()
        has_head = Signal()
        head_given = Signal()
        head_goes = Signal()
        x_ready = Signal()
        m.d.comb += [
            has_head.eq(beat.sol if in_one else Mux(beat.sol, beat.eol, second)),
            head_goes.eq(~has_head | head_given | heads.i.ready),
            x_ready.eq(head_goes & (~beat.eol | bodies.i.ready)),
            self.i.ready.eq(x_ready),
            heads.i.valid.eq(self.i.valid & has_head & ~head_given),
            bodies.i.valid.eq(self.i.valid & head_goes & beat.eol),
        ]
        with m.If(self.i.valid):
            m.d.sync += head_given.eq(has_head & head_goes & ~x_ready)

        head, body = heads.i.payload, bodies.i.payload
        elements = beat.elements.as_value()
        first = Signal(self.head_layout)
        m.d.comb += [
            first.header.eq(beat.mask),
            first.front.eq(elements),
            first.count.eq(beat.count),
            first.truncation.eq(beat.truncation),
            first.parameters.eq(self.parameters),
            first.empty.eq(beat.empty),
            head.eq(first),
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
        if not in_one:
            begun = Signal(self.head_layout, reset_less=True)
            m.d.comb += second.eq(position == 1)
            with m.If(self.i.valid & beat.sol):
                m.d.sync += begun.eq(first)
            with m.If(~beat.sol):
                m.d.comb += [head.eq(begun), head.front.eq(Cat(held[0], elements))]
        return m
