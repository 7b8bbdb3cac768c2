"""Stalls on a stream, as by the backpressure of a partner that is not always ready."""

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import AxiStreamSignature

EIGHTHS = (0, 2, 4, 7)
"""Eighths of the cycles that are stalled, at each level."""


class StallGate(wiring.Component):
    """Lets beats through in some cycles only, drawn at random.

    What is offered stays on offer. Latency: 0 cycles. Resources: a shift register of 16 bits with
    feedback, which never stops.

    Parameters
    ----------
    data_bytes
        Width of the stream.
    seed
        Where the random bits begin: 1 to 65535.

    Members
    -------
    stalls : `In(2)`
        How many of the cycles: see `RoundPlan`.
    closed : `In(1)`
        Let nothing new through.
    i : `In(AxiStreamSignature(data_bytes))`
    o : `Out(AxiStreamSignature(data_bytes))`
    """

    def __init__(self, data_bytes: int, seed: int) -> None:
        self.data_bytes = data_bytes
        self.seed = seed
        super().__init__(
            {
                "stalls": In(2),
                "closed": In(1),
                "i": In(AxiStreamSignature(data_bytes)),
                "o": Out(AxiStreamSignature(data_bytes)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # x^16 + x^14 + x^13 + x^11 + 1.
        bits = Signal(16, init=self.seed)
        m.d.sync += bits.eq(Cat(bits[15] ^ bits[13] ^ bits[12] ^ bits[10], bits[:15]))

        opens = Signal()
        m.d.sync += opens.eq((bits[:3] >= Array(EIGHTHS)[self.stalls]) & ~self.closed)
        offered = Signal()
        passes = Signal()
        m.d.comb += [
            passes.eq(opens | offered),
            self.o.tvalid.eq(self.i.tvalid & passes),
            self.i.tready.eq(self.o.tready & passes),
            self.o.tdata.eq(self.i.tdata),
            self.o.tkeep.eq(self.i.tkeep),
            self.o.tlast.eq(self.i.tlast),
        ]
        m.d.sync += offered.eq(self.o.tvalid & ~self.o.tready)
        return m
