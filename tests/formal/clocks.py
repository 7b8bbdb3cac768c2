"""Two clocks in a proof: each ticks when the solver wants, and synchronizers may be metastable.

A step of the solver is no cycle of any clock. In each one the solver lets none, one or both of the
clocks tick, so that every ratio, every phase and every jitter is among what it looks at.
"""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Elaboratable,
    EnableInserter,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.hdl._ast import AnySeq

from cdma.hw.lib.clocks.synchronizer import Synchronizer
from tests.formal.bench import Bench, Inside, Port, Rules


class MetastableSynchronizer(Synchronizer):
    """A `Synchronizer` whose first register may take each bit as it was a step before.

    So a bit that changes at the time of the clock's edge comes with it or with the next one, each
    for itself: what a metastable register decides, and what wires of different lengths do.

    Attributes
    ----------
    before : Signal
        What came in a step before.
    contents : list[Signal]
        The registers, the first one first.
    """

    def __init__(self, width: int, stages: int, domain: str) -> None:
        super().__init__(width, stages, domain)
        self.before = Signal(width)
        self.contents = [Signal(width, name=f"stage_{k}") for k in range(stages)]

    def elaborate(self, platform) -> Module:
        m = Module()
        late = Signal(self.width)
        m.d.comb += late.eq(AnySeq(self.width))
        m.d.sync += self.before.eq(self.i)
        value = (self.i & ~late) | (self.before & late)
        for stage in self.contents:
            m.d[self.domain] += stage.eq(value)
            value = stage
        m.d.comb += self.o.eq(value)
        return m


class TwoClocks:
    """Two clock domains of a proof.

    Attributes
    ----------
    ticks : dict[str, Signal]
        For each domain: its clock has an edge at the end of this step.
    resets, reset_before : dict[str, Signal]
        Now, and in the step before. Low, unless the proof has called `reset`.
    """

    def __init__(
        self, bench: Bench, first: str, second: str, *, is_asynchronous: bool = False
    ) -> None:
        self.bench = bench
        self.is_asynchronous = is_asynchronous
        self.ticks = {}
        self.resets = {}
        self.reset_before = {}
        for name in (first, second):
            domain = ClockDomain(name, async_reset=is_asynchronous)
            bench.m.domains += domain
            self.ticks[name] = Signal(name=f"{name}_tick")
            self.resets[name] = domain.rst
            self.reset_before[name] = Signal(name=f"{name}_reset_before")
            bench.m.d.sync += self.reset_before[name].eq(domain.rst)
            bench.m.d.comb += [domain.clk.eq(ClockSignal()), self.ticks[name].eq(AnySeq(1))]
        # The state of the proof itself has no other reset than its beginning.
        bench.assume(~ResetSignal())

    def add(self, component: Elaboratable) -> Inside:
        """Put a component in, whose registers wait for the ticks of their domains."""
        return self.bench.add(EnableInserter(self.ticks)(component))

    def drive(self, stream: Any, domain: str, rules: Rules | None = None) -> Port:
        """Let anything come in at a stream of a domain, at its ticks."""
        ready = Signal()
        self.bench.m.d.comb += ready.eq(stream.ready & self.ticks[domain])
        port = SimpleNamespace(valid=stream.valid, ready=ready, payload=stream.payload)
        return self.bench.drive(port, rules)

    def watch(self, stream: Any, domain: str, rules: Rules | None = None) -> Port:
        """Take from a stream of a domain at any of its ticks, and assert the rules."""
        port = self.bench.watch(stream, rules)
        self.bench.assume(~stream.ready | self.ticks[domain])
        return port

    def reset(self, domain: str, cycles: int) -> None:
        """Let resets of a domain begin at any time, and last for so many cycles of both clocks.

        The registers find it at their first tick, or at once if it is asynchronous: up to a cycle
        of those is over by then.
        """
        m, reset = self.bench.m, self.resets[domain]
        begun = Signal(name=f"{domain}_reset_begun")
        m.d.comb += reset.eq(AnySeq(1))
        m.d.sync += begun.eq(reset & (begun | self.ticks[domain] | self.is_asynchronous))
        for name, tick in self.ticks.items():
            lasted = Signal(range(cycles), name=f"{domain}_reset_lasted_{name}")
            with m.If(~reset):
                m.d.sync += lasted.eq(0)
            with m.Elif(tick & begun & (lasted != cycles - 1)):
                m.d.sync += lasted.eq(lasted + 1)
            self.bench.assume(~self.reset_before[domain] | reset | (lasted == cycles - 1))
