"""Distribution of a stream to several sinks."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Fork(wiring.Component):
    """Sends each transfer once to every output, whichever order they accept it in.

    Latency: 0 cycles. Throughput: a transfer per cycle while all outputs are ready.

    Parameters
    ----------
    shape
        Shape of the payload.
    outputs
        The number of outputs.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape)).array(outputs)`
    """

    def __init__(self, shape: ShapeLike, outputs: int) -> None:
        self.outputs = outputs
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)).array(outputs),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sent = Signal(self.outputs)
        sent_next = Signal(self.outputs)
        for k, output in enumerate(self.o):
            m.d.comb += [
                output.valid.eq(self.i.valid & ~sent[k]),
                output.payload.eq(self.i.payload),
                sent_next[k].eq(sent[k] | output.ready),
            ]
        m.d.comb += self.i.ready.eq(sent_next.all())
        with m.If(self.i.valid):
            m.d.sync += sent.eq(Mux(self.i.ready, 0, sent_next))
        return m
