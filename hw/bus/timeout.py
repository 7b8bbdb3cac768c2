"""Time-outs of a bus."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

TIMEOUT_BITS = 32


class SilenceTimer(wiring.Component):
    """Detects that the bus has been silent for too long.

    Members
    -------
    silent : `In(1)`
        A response is outstanding, and nothing is transferred in this cycle.
    timeout_cycles : `In(32)`
        The number of such cycles in a row that is too many; 0: never.
    expired : `Out(1)`
        This is the last of them.
    """

    def __init__(self) -> None:
        super().__init__({"silent": In(1), "timeout_cycles": In(TIMEOUT_BITS), "expired": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        waited = Signal(TIMEOUT_BITS)
        now = Signal(TIMEOUT_BITS + 1)
        m.d.comb += [
            now.eq(waited + 1),
            self.expired.eq(
                self.silent & (self.timeout_cycles != 0) & (now >= self.timeout_cycles)
            ),
        ]
        m.d.sync += waited.eq(Mux(self.silent, now, 0))
        return m
