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
        tokens = Signal(BURST_BITS + RATE_FRACTION_BITS)
        # How many lines they are enough for follows from a register, as the issuer needs it early.
        enough = Signal(2)
        most = Signal.like(tokens)
        # How many lines pass is known last: the tokens behind each number are there by then.
        passed = [Signal.like(tokens, name=f"tokens_after_{lines}") for lines in range(3)]
        enough_then = [Signal.like(enough, name=f"enough_after_{lines}") for lines in range(3)]
        m.d.comb += [
            most.eq(
                Mux(self.burst < 2 * line_bytes, 2 * line_bytes, self.burst) << RATE_FRACTION_BITS
            ),
            self.permits.eq(Mux(enough[1], 2, enough[0])),
        ]
        for lines, after in enumerate(passed):
            more = Signal(len(tokens) + 1, name=f"more_after_{lines}")
            m.d.comb += [
                more.eq(tokens + self.rate - lines * line),
                after.eq(Mux(more > most, most, more)),
                # The most are enough for two.
                enough_then[lines].eq(Cat(more >= line, more >= 2 * line)),
            ]
        with m.If(self.rate == 0):
            m.d.sync += [tokens.eq(most), enough.eq(0b11)]
        with m.Else():
            with m.Switch(self.passed):
                for lines, after in enumerate(passed[:-1]):
                    with m.Case(lines):
                        m.d.sync += [tokens.eq(after), enough.eq(enough_then[lines])]
                with m.Default():
                    m.d.sync += [tokens.eq(passed[-1]), enough.eq(enough_then[-1])]
        return m
