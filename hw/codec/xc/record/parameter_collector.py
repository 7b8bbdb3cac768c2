"""The collector of a transfer's samples, which makes of them what its record says."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.xc.codec import chosen_elements
from cdma.hw.codec.xc.payloads import BF16, own_config
from cdma.hw.codec.xc.record.exponent_counter import ExponentCounter
from cdma.hw.codec.xc.record.line_chooser import LineChooser
from cdma.hw.codec.xc.record.line_sampler import LineSample
from cdma.hw.codec.xc.record.parameter_choice import (
    CHOICE_CYCLES,
    ParameterChoice,
    RecordedParameters,
)
from cdma.hw.config import CodecConfig


class ParameterCollector(wiring.Component):
    """Finds the parameters that suit a transfer, and so the next one of such data.

    It counts exponents of samples of the lines, and after the transfer looks for the centre and the
    pattern with which these take the fewest bits, while the next transfer is counted. The result is
    that of `cdma.golden.formats.xc.recorded.recorded_parameters`.

    Latency: `settled` is high `result_latency` = 49 cycles after `ends`. Throughput: two lines per
    cycle.

    Resources: 32 counters and a copy of them, twelve accumulators.

    Parameters
    ----------
    elements : ElementFormat

    Attributes
    ----------
    result_latency : int
        Cycles from `ends` to `settled`.

    Members
    -------
    begins : `In(1)`
        A transfer begins; its first lines follow in the next cycle.
    lines : `In(2)`
        The number of lines in this cycle: 0, 1 or 2.
    first, second : `In(9)`
        The lines' samples, as `LineSample`.
    ends : `In(1)`
        The transfer has ended; it may begin another in the same cycle. A result that has not
        settled is dropped.
    settled : `Out(1)`
        `result` is that of the transfer that ended last.
    result : `Out(11)`
        As `RecordedParameters`.
    """

    result_latency = CHOICE_CYCLES + 2

    def __init__(self, elements: ElementFormat = BF16) -> None:
        self.elements = elements
        summary_bits = LineSample().size
        super().__init__(
            {
                "begins": In(1),
                "lines": In(2),
                "first": In(summary_bits),
                "second": In(summary_bits),
                "ends": In(1),
                "settled": Out(1),
                "result": Out(RecordedParameters().size),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.chooser = chooser = LineChooser()
        m.submodules.counter = counter = ExponentCounter()
        m.submodules.choice = choice = ParameterChoice(self.elements)
        # A sample is counted in the cycle behind its line's; so the counts are whole, and may be
        # cleared, a cycle later, too.
        begun, ended = Signal(), Signal()
        m.d.sync += [
            begun.eq(self.begins),
            ended.eq(self.ends),
            counter.valid.eq(chooser.first | chooser.second),
            counter.halves.eq(chooser.halves),
            counter.sample.as_value().eq(Mux(chooser.second, self.second, self.first)),
        ]
        m.d.comb += [
            chooser.begins.eq(self.begins),
            chooser.lines.eq(self.lines),
            counter.clear.eq(begun),
            choice.counts.eq(counter.o),
            choice.begins.eq(ended),
            self.settled.eq(~ended & ~choice.busy),
            self.result.eq(choice.o.as_value()),
        ]
        return m


def of_elements(config: CodecConfig) -> ParameterCollector:
    """The collector alone, which is the same in all widths that there are, of an element format."""
    elements = chosen_elements(config)
    own_config(config, elements)
    return ParameterCollector(elements)
