"""The count of a transfer's exponents, in a window of 32."""

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.recorded import COUNT_BITS, MARGIN, WINDOW, WINDOW_STEP
from cdma.hw.codec.xc.classes import CENTRE_BITS
from cdma.hw.codec.xc.record.line_sampler import LineSample

PLACE_BITS = (WINDOW - 1).bit_length()
_STEP_BITS = (WINDOW_STEP - 1).bit_length()


class ExponentCounts(data.StructLayout):
    """Counts of the exponents in a window.

    Members
    -------
    counts
        By exponent modulo 32.
    start
        The window's first exponent, in units of 16.
    peak, most
        The most frequent exponent, and its count: 0 if there are no counts.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "counts": data.ArrayLayout(COUNT_BITS, WINDOW),
                "start": CENTRE_BITS - _STEP_BITS,
                "peak": CENTRE_BITS,
                "most": COUNT_BITS,
            }
        )


class ExponentCounter(wiring.Component):
    """Counts exponents, as `cdma.golden.formats.xc.recorded.ExponentCounter` does.

    A counter's place is the exponent modulo 32, whichever window it is in, so that no window needs
    an adder. An exponent comes to have the most when its count was that of the one that has: one
    comparison finds the peak.

    Latency: 1 cycle. Throughput: a sample per cycle.

    Resources: 32 counters of 8 bits.

    Members
    -------
    clear : `In(1)`
        Forget all counts.
    valid : `In(1)`
        `sample` is one, which is counted if it is present.
    halves : `In(1)`
        With `valid`: all counts are halved before.
    sample : `In(LineSample())`
    o : `Out(ExponentCounts())`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "clear": In(1),
                "valid": In(1),
                "halves": In(1),
                "sample": In(LineSample()),
                "o": Out(ExponentCounts()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        counts = [Signal(COUNT_BITS, name=f"count_{i}") for i in range(WINDOW)]
        start = Signal(ExponentCounts()["start"].shape)
        peak = Signal(CENTRE_BITS)
        most, outside = Signal(COUNT_BITS), Signal(COUNT_BITS)
        exponent = Signal(CENTRE_BITS)
        place = exponent[:PLACE_BITS]
        block = exponent[_STEP_BITS:]

        def here(count: Signal) -> Value:
            """A count, halved if it is to be."""
            return Mux(self.halves, count >> 1, count)

        most_here, outside_here = Signal(COUNT_BITS), Signal(COUNT_BITS)
        counted, fixes, rises = Signal(), Signal(), Signal()
        next_start = Signal.like(start, name="next_start")
        m.d.comb += [
            exponent.eq(self.sample.exponent),
            most_here.eq(here(most)),
            outside_here.eq(here(outside)),
            next_start.eq(start + 1),
            counted.eq(
                self.sample.present & (most_here != 0) & ((block == start) | (block == next_start))
            ),
            fixes.eq(self.sample.present & ~counted & (outside_here == most_here)),
            rises.eq(counted & (here(Array(counts)[place]) == most_here)),
        ]
        with m.If(self.clear):
            m.d.sync += [most.eq(0), outside.eq(0), *(count.eq(0) for count in counts)]
        with m.Elif(self.valid):
            for i, count in enumerate(counts):
                hit = place == i
                m.d.sync += count.eq(Mux(fixes, hit, here(count) + (counted & hit)))
            m.d.sync += [
                most.eq(Mux(fixes, 1, most_here + rises)),
                outside.eq(Mux(fixes, 0, outside_here + (self.sample.present & ~counted))),
            ]
            with m.If(fixes | rises):
                m.d.sync += peak.eq(exponent)
            with m.If(fixes):
                m.d.sync += start.eq((exponent - MARGIN)[_STEP_BITS:CENTRE_BITS])
        m.d.comb += [
            *(out.eq(count) for out, count in zip(self.o.counts, counts, strict=True)),
            self.o.start.eq(start),
            self.o.peak.eq(peak),
            self.o.most.eq(most),
        ]
        return m
