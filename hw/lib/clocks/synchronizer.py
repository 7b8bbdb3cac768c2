"""Synchronizers of what another clock's registers hold."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

ATTRIBUTES = {"ASYNC_REG": "TRUE", "keep": "true"}
"""Attributes of the registers in Verilog: tools place them together, and share or move none."""


class Synchronizer(wiring.Component):
    """A row of registers that brings a value from another clock domain.

    Each bit may arrive a cycle before or after another one that changed with it. So no more than
    one bit may change at a time, or a later stage must not look at the others. What is brought must
    come from registers directly, or logic in between may show a value that it never had.

    Latency: `stages` cycles, or one more where the first register became metastable. Resources:
    `stages` registers. A module of its own, so that a library's cell can take its place.

    Parameters
    ----------
    width
        Bits of the value.
    stages
        Registers in a row, at least 2: the mean time between failures grows exponentially with it.
    domain
        The clock domain that the value is brought to.

    Attributes
    ----------
    local_domains : dict of str to str
        In the module it is "sync", so that all of a size share one.

    Members
    -------
    i : `In(width)`
        From registers of another domain.
    o : `Out(width)`
        The value in `domain`; 0 after reset.

    Raises
    ------
    ValueError
        If there are fewer than two stages.
    """

    def __init__(self, width: int, stages: int, domain: str) -> None:
        if stages < 2:
            raise ValueError(f"stages must be at least 2, not {stages!r}")
        self.width = width
        self.stages = stages
        self.domain = domain
        self.local_domains = {domain: "sync"}
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform) -> Module:
        m = Module()
        value = self.i
        for k in range(self.stages):
            stage = Signal(self.width, name=f"stage_{k}", attrs=ATTRIBUTES)
            m.d[self.domain] += stage.eq(value)
            value = stage
        m.d.comb += self.o.eq(value)
        return m
