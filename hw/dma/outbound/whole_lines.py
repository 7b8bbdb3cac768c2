"""The lines of a transfer that fit its destination as a whole."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.stream.pack import OFFSET_BITS
from cdma.hw.config import CodecConfig
from cdma.hw.dma.payloads import LINE_COUNT_BITS


class WholeLineCounter(wiring.Component):
    """Counts the lines, and the bytes of their stream, that end within the destination.

    A line's end is compared with the capacity one cycle after the line, so `lines` and `size` are
    those of all lines up to the cycle before.

    Latency: 1 cycle from a line beat to the counts. Throughput: a line's beat per cycle, and one of
    the line behind it.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    job_ready : `In(1)`
        A transfer begins; the counts start at 0.
    capacity : `In(OFFSET_BITS)`
        The destination's bytes, in the cycle in which `job_ready` is high.
    fire : `In(1)`
        A line beat is sent in this cycle, or two are.
    line_end, second_line, second_end : `In(1)`
        The line beat is its line's last one; the first beat of a second line is sent with it; that
        is all of the second line.
    lines_before : `In(LINE_COUNT_BITS)`
        Lines of the transfer that were drained before this cycle.
    count_alone, count_merged : `In(...)`
        Elements of the line beat alone, and of both.
    lines : `Out(LINE_COUNT_BITS)`
    size : `Out(OFFSET_BITS)`
        The lines that fit, and the bytes of their stream.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        chunk_elements = config.lanes + config.head_elements
        super().__init__(
            {
                "job_ready": In(1),
                "capacity": In(OFFSET_BITS),
                "fire": In(1),
                "line_end": In(1),
                "second_line": In(1),
                "second_end": In(1),
                "lines_before": In(LINE_COUNT_BITS),
                "count_alone": In(range(chunk_elements + 1)),
                "count_merged": In(range(2 * chunk_elements + 1)),
                "lines": Out(LINE_COUNT_BITS),
                "size": Out(OFFSET_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        element_bytes = self.config.element_bytes
        prefix = data.StructLayout({"lines": LINE_COUNT_BITS, "size": OFFSET_BITS})
        size = Signal(OFFSET_BITS)
        capacity = Signal(OFFSET_BITS, reset_less=True)

        # Stage 1: the stream's size behind this cycle's first and second line beat.
        size_first = Signal(OFFSET_BITS)
        size_second = Signal(OFFSET_BITS)
        ends = Signal(data.ArrayLayout(prefix, 2), reset_less=True)
        ends_valid = Signal(2)
        m.d.comb += [
            size_first.eq(size + self.count_alone * element_bytes),
            size_second.eq(size + self.count_merged * element_bytes),
        ]
        m.d.sync += ends_valid.eq(
            Cat(self.fire & self.line_end, self.second_line & self.second_end)
        )
        with m.If(self.fire):
            m.d.sync += [
                size.eq(Mux(self.second_line, size_second, size_first)),
                ends[0].size.eq(size_first),
                ends[0].lines.eq(self.lines_before + 1),
                ends[1].size.eq(size_second),
                ends[1].lines.eq(self.lines_before + 2),
            ]

        # Stage 2: the last of them that fits.
        fitting = Signal(prefix)
        fitting_now = Signal(prefix)
        m.d.comb += fitting_now.eq(fitting)
        for k in range(2):
            with m.If(ends_valid[k] & (ends[k].size <= capacity)):
                m.d.comb += fitting_now.eq(ends[k])
        m.d.sync += fitting.eq(fitting_now)
        m.d.comb += [self.lines.eq(fitting_now.lines), self.size.eq(fitting_now.size)]

        with m.If(self.job_ready):
            m.d.sync += [capacity.eq(self.capacity), size.eq(0), fitting.eq(0)]
        return m
