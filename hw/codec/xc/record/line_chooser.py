"""The choice of the lines of a transfer whose samples are counted."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.recorded import COUNT_BITS, JITTER_BITS, JITTER_TAPS, LEVELS, MOST

DISTANCE_BITS = LEVELS + 2


class LineChooser(wiring.Component):
    """Chooses lines at uneven distances, as `cdma.golden.formats.xc.recorded.sampled_lines` does.

    The first line, and then each one at a distance of 2 or 3; whenever counters could be full, they
    are to be halved, and distances double. Of two lines in a cycle, at most one is chosen.

    Latency: none. Throughput: two lines per cycle.

    Members
    -------
    begins : `In(1)`
        A transfer begins; its first lines follow in the next cycle.
    lines : `In(2)`
        The number of lines in this cycle: 0, 1 or 2.
    first, second : `Out(1)`
        This line is chosen.
    halves : `Out(1)`
        Counts are to be halved before the chosen line is counted.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "begins": In(1),
                "lines": In(2),
                "first": Out(1),
                "second": Out(1),
                "halves": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # Lines until the next one that is chosen; the ones below twice the level's distance.
        skipped = Signal(DISTANCE_BITS)
        reach = Signal(DISTANCE_BITS - 1, init=1)
        sampled = Signal(COUNT_BITS)
        jitter = Signal(JITTER_BITS, init=1)
        reach_here = Signal.like(reach, name="reach_here")
        distance = Signal(DISTANCE_BITS)
        chosen = Signal()
        m.d.comb += [
            self.first.eq((self.lines != 0) & (skipped == 0)),
            self.second.eq((self.lines == 2) & (skipped == 1)),
            chosen.eq(self.first | self.second),
            self.halves.eq(sampled == MOST),
            reach_here.eq(Mux(self.halves, Cat(1, reach), reach)),
            # The bit above the reach, and uneven bits in it.
            distance.eq((Cat(1, reach_here) ^ reach_here) | (jitter & reach_here)),
        ]
        with m.If(self.begins):
            m.d.sync += [skipped.eq(0), reach.eq(1), sampled.eq(0), jitter.eq(1)]
        with m.Else():
            m.d.sync += skipped.eq(Mux(chosen, distance, skipped) - Mux(self.second, 1, self.lines))
            with m.If(chosen):
                m.d.sync += [
                    reach.eq(reach_here),
                    sampled.eq(Mux(self.halves, MOST >> 1, sampled) + 1),
                    jitter.eq(Cat(jitter[JITTER_TAPS[0]] ^ jitter[JITTER_TAPS[1]], jitter)),
                ]
        return m
