"""Results of inbound lines: the units' reports, collected into one outcome of each job."""

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError
from cdma.hw.codec.stream.checker import LineError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.line_crc import TransferCrc
from cdma.hw.dma.payloads import CollectJob, CollectOutcome, ExpansionReport, IssuedLines
from cdma.hw.lib.count import following


class LineReportCollector(wiring.Component):
    """Takes the reports of the units round-robin, and combines them.

    Latency: an outcome comes 2 + log2(line_bytes) cycles after a job's last report, or 1 less after
    its end if that comes later. Throughput: two reports per cycle; a job per 2 + log2(line_bytes)
    cycles.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(CollectJob(config)))`
    ends : `In(stream.Signature(IssuedLines()))`
        The end of each job; before any report of the next one.
    reports : `In(stream.Signature(ExpansionReport(config.codec))).array(config.units)`
    outcome : `Out(stream.Signature(CollectOutcome(config.codec)))`
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "job": In(stream.Signature(CollectJob(config))),
                "ends": In(stream.Signature(IssuedLines())),
                "reports": In(stream.Signature(ExpansionReport(config.codec))).array(config.units),
                "outcome": Out(stream.Signature(CollectOutcome(config.codec))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        codec = config.codec
        units = config.units

        active = Signal()
        tail_pad = Signal(range(codec.line_bytes))
        unit = Signal(range(units))
        # The unit once more, a bit for each; and one more than `lines`.
        is_unit = Signal(units, init=1)
        lines = Signal.like(self.ends.payload.lines)
        lines_with_this = Signal.like(lines, init=1)
        m.submodules.crc = crc = TransferCrc(codec)

        # The heads of this unit's queue and of the next one's.
        next_unit = Signal.like(unit)
        m.d.comb += next_unit.eq(following(unit, units))

        def head(which: Value, name: str) -> tuple[Signal, Signal]:
            valid = Signal(name=f"{name}_valid")
            payload = Signal(ExpansionReport(codec), name=name)
            m.d.comb += [
                valid.eq(Array(s.valid for s in self.reports)[which]),
                payload.as_value().eq(Array(s.payload.as_value() for s in self.reports)[which]),
            ]
            return valid, payload

        report_valid, report = head(unit, "report")
        mate_valid, mate = head(next_unit, "mate")

        takes = Signal()
        takes_two = Signal()
        all_in = Signal()
        this_ends = Signal()
        m.d.comb += [
            all_in.eq(self.ends.valid & (lines == self.ends.payload.lines)),
            this_ends.eq(self.ends.valid & (lines_with_this == self.ends.payload.lines)),
            takes.eq(active & ~all_in & report_valid),
            takes_two.eq(takes & ~this_ends & mate_valid if units > 1 else 0),
        ]
        for k, reports in enumerate(self.reports):
            # What `takes` and `takes_two` say of this unit, without the way through all of them.
            before = self.reports[k - 1]
            is_mate = is_unit[k - 1] & before.valid & ~this_ends if units > 1 else 0
            m.d.comb += reports.ready.eq(active & ~all_in & reports.valid & (is_unit[k] | is_mate))
        with m.If(takes):
            m.d.sync += [
                lines.eq(Mux(takes_two, lines_with_this + 1, lines_with_this)),
                lines_with_this.eq(lines_with_this + 1 + takes_two),
                is_unit.eq(Mux(takes_two, is_unit.rotate_left(2), is_unit.rotate_left(1))),
                unit.eq(Mux(takes_two, following(next_unit, units), next_unit)),
            ]

        m.d.comb += [
            crc.lines.eq(takes + takes_two),
            crc.first.eq(report.crc32),
            crc.second.eq(mate.crc32),
        ]

        # The first line error, the first bus error, and the bytes before each.
        sums = Signal(CollectOutcome(codec), reset_less=True)
        found = Signal()
        stopped = Signal()
        found_one = Signal()
        stopped_one = Signal()
        m.d.comb += [
            found.eq(sums.line_error != LineError.NONE),
            found_one.eq(found | (report.line_error != LineError.NONE)),
            stopped.eq(found | (sums.error != BusError.NONE)),
            stopped_one.eq(stopped | found_one | (report.error != BusError.NONE)),
        ]
        with m.If(takes):
            m.d.sync += [
                sums.offset.eq(
                    sums.offset
                    + Mux(found, 0, report.offset)
                    + Mux(found_one | ~takes_two, 0, mate.offset)
                ),
                sums.size.eq(
                    sums.size
                    + Mux(stopped, 0, report.size)
                    + Mux(stopped_one | ~takes_two, 0, mate.size)
                ),
            ]
            with m.If(~found):
                m.d.sync += [
                    sums.line_error.eq(
                        Mux(takes_two & ~found_one, mate.line_error, report.line_error)
                    ),
                    sums.status.eq(Mux(takes_two & ~found_one, mate.status, report.status)),
                ]
            with m.If(sums.error == BusError.NONE):
                with m.If(takes_two & (report.error == BusError.NONE)):
                    m.d.sync += [sums.error.eq(mate.error), sums.address.eq(mate.address)]
                with m.Else():
                    m.d.sync += [sums.error.eq(report.error), sums.address.eq(report.address)]

        # The outcome, less the zeros that filled the last line.
        outcome_valid = Signal()
        outcome = Signal(CollectOutcome(codec), reset_less=True)
        over = Signal()
        m.d.comb += [
            over.eq(active & all_in & ~outcome_valid),
            self.ends.ready.eq(over),
            self.outcome.valid.eq(outcome_valid & crc.settled),
            self.outcome.payload.eq(outcome),
            self.outcome.payload.crc32.eq(crc.crc32),
            self.job.ready.eq(~active | over),
            crc.begins.eq(self.job.ready),
            crc.ends.eq(over),
            crc.tail_pad.eq(tail_pad),
        ]
        with m.If(over):
            m.d.sync += [
                outcome_valid.eq(1),
                outcome.eq(sums),
                outcome.cut.eq(self.ends.payload.cut),
            ]
        with m.Elif(crc.settled & self.outcome.ready):
            m.d.sync += outcome_valid.eq(0)

        with m.If(self.job.ready):
            m.d.sync += [
                active.eq(self.job.valid),
                tail_pad.eq(self.job.payload.tail_pad),
                unit.eq(self.job.payload.first_unit),
                is_unit.eq(1 << self.job.payload.first_unit),
                lines.eq(0),
                lines_with_this.eq(1),
                sums.eq(0),
            ]
        return m
