"""Token buckets that limit how fast device memory is read (cDMA, §V-D)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.config import EngineConfig
from cdma.hw.dma.limits import BURST_BITS, RATE_BITS, RATE_FRACTION_BITS
from cdma.hw.lib.clocks.clock_gate import FREE_DOMAIN


class TokenBucket(wiring.Component):
    """Lets lines through at a rate.

    Tokens come in at `rate`, up to `burst`; each line takes as many as it has bytes. In any time t
    at most rate · t + burst bytes are let through.

    Latency: a line's tokens are missing in the next cycle; a rate of 0 lets everything through from
    the next cycle on. Throughput: two lines per cycle.

    Parameters
    ----------
    config : EngineConfig

    Attributes
    ----------
    local_domains : dict of str to str
        With `clock_gates` it goes on while the path around it has no clock: its own one is free.

    Members
    -------
    rate : `In(20)`
        Rate in 1/256 byte per cycle; 0 lets everything through.
    burst : `In(20)`
        Burst in bytes; less than two lines counts as two.
    permits : `Out(2)`
        The number of lines that may pass in this cycle: 0, 1 or 2.
    passed : `In(2)`
        The number of lines that pass in this cycle.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.local_domains = {FREE_DOMAIN: "sync"} if config.clock_gates else {}
        super().__init__(
            {
                "rate": In(RATE_BITS),
                "burst": In(BURST_BITS),
                "permits": Out(2),
                "passed": In(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        line_bytes = self.config.codec.line_bytes
        line = line_bytes << RATE_FRACTION_BITS
        # How many lines pass is known last, so it decides about few bits: what is permitted next,
        # and what is taken off in the next cycle.
        tokens_before = Signal(BURST_BITS + RATE_FRACTION_BITS + 1)
        taken = Signal(2)
        enough = Signal(2)
        most = Signal(BURST_BITS + RATE_FRACTION_BITS)
        tokens = Signal.like(tokens_before)
        # Those of the next cycle, if nothing passes in this one, and before the most are enough.
        more = Signal.like(tokens_before)
        m.d.comb += [
            most.eq(
                Mux(self.burst < 2 * line_bytes, 2 * line_bytes, self.burst) << RATE_FRACTION_BITS
            ),
            tokens.eq(tokens_before - taken * line),
            more.eq(Mux(tokens > most, most + self.rate, tokens + self.rate)),
            self.permits.eq(Mux(enough[1], 2, enough[0])),
        ]
        with m.If(self.rate == 0):
            m.d.sync += [tokens_before.eq(most), taken.eq(0), enough.eq(0b11)]
        with m.Else():
            m.d.sync += [tokens_before.eq(more), taken.eq(self.passed)]
            with m.Switch(self.passed):
                for lines in range(3):
                    with m.Case(*((lines,) if lines < 2 else (2, 3))):
                        # The most are enough for two.
                        m.d.sync += enough.eq(
                            Cat(more >= (lines + 1) * line, more >= (lines + 2) * line)
                        )
        return m
