"""A clock gate: one module that an integrator puts the library's cell in the place of."""

from amaranth.hdl import ClockSignal, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

FREE_DOMAIN = "free"
"""What components with a gated clock call the clock domain in which that clock goes on."""


class ClockGate(wiring.Component):
    """Passes the pulses of a clock on while it is enabled.

    Whether a pulse is passed on is decided before it begins: by a latch that is transparent while
    the clock is low. So the gated clock has whole pulses only, and its edges are the clock's. In
    Verilog it is that latch and an AND, in a module of its own: all gates of a design are instances
    of it, so that one wrapper around the library's integrated clock-gating cell takes the place of
    them all.

    Amaranth has no latches, and its own simulator and proofs no gates: there, whatever has a gated
    clock has the clock itself.

    Latency: none; `enable` of a cycle decides about the edge that ends it. Resources: a latch and a
    gate.

    Members
    -------
    enable : `In(1)`
        Pass on the edge at the end of this cycle. From registers with the same clock.
    test_enable : `In(1)`
        Pass on all edges: for scan tests.
    gated_clk : `Out(1)`
    """

    def __init__(self) -> None:
        super().__init__({"enable": In(1), "test_enable": In(1), "gated_clk": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        # It makes the module's ports; the text is `cdma.hw.emit.clock_gates`'s.
        m.d.comb += self.gated_clk.eq(ClockSignal() & (self.enable | self.test_enable))
        return m
