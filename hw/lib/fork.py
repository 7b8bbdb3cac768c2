"""Distribution of a stream to several sinks."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Fork(wiring.Component):
    """Gives each transfer once to every output, whichever order they take it in.

    Latency: 0 cycles. Throughput: a transfer per cycle while all outputs are ready.

    Parameters
    ----------
    shape
        Shape of the payload.
    outputs
        How many there are.

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
        given = Signal(self.outputs)
        gives = Signal(self.outputs)
        for k, output in enumerate(self.o):
            m.d.comb += [
                output.valid.eq(self.i.valid & ~given[k]),
                output.payload.eq(self.i.payload),
                gives[k].eq(given[k] | output.ready),
            ]
        m.d.comb += self.i.ready.eq(gives.all())
        with m.If(self.i.valid):
            m.d.sync += given.eq(Mux(self.i.ready, 0, gives))
        return m
