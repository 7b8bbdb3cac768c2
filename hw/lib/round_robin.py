"""Round-robin arbitration."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class RoundRobinArbiter(wiring.Component):
    """Grants one of several requests; the one that was served last has the lowest priority.

    Latency: 0 cycles. Resources: a multiplexer of priority encoders, one for each request.

    Parameters
    ----------
    count
        The number of requests.

    Members
    -------
    requests : `In(count)`
    grant : `Out(range(count))`
        The index of the request that is granted; 0 if there is none.
    fire : `In(1)`
        The request that is granted is served in this cycle.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"count must be a positive integer, not {count!r}")
        self.count = count
        super().__init__({"requests": In(count), "grant": Out(range(count)), "fire": In(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        served = Signal(range(self.count))
        for k in range(self.count):
            with m.If(served == k):
                # The last assignment wins, so it is that of the highest priority.
                for distance in reversed(range(1, self.count + 1)):
                    index = (k + distance) % self.count
                    with m.If(self.requests[index]):
                        m.d.comb += self.grant.eq(index)
        with m.If(self.fire):
            m.d.sync += served.eq(self.grant)
        return m
