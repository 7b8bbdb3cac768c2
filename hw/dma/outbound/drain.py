"""The drain: lines leave the units' buffers in the order of the transfer, as one stream."""

from typing import Any

from amaranth.hdl import Array, Assert, C, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError
from cdma.hw.codec.payloads import LineBeat
from cdma.hw.codec.selection import is_one_of, summarizing_codecs
from cdma.hw.codec.stream.pack import Chunk
from cdma.hw.config import EngineConfig
from cdma.hw.dma.line_crc import TransferCrc
from cdma.hw.dma.outbound.line_merge import LineMerger
from cdma.hw.dma.outbound.unit import LineReport
from cdma.hw.dma.outbound.whole_lines import WholeLineCounter
from cdma.hw.dma.payloads import DrainJob, DrainOutcome, IssuedLines, beat_number_bits
from cdma.hw.lib.count import following
from cdma.hw.lib.lanes import selected


# A job with 2 elements of head padding, cycle by cycle, with 8 lanes and heads of one element (H):
#
#   cycle   unit       chunk: lanes + head_elements = 9 elements       count
#     0     -        | 0  | 0  |    |    |    |    |    |    |    |      2    head padding
#     1     u        | Ha | a0 | a1 | a2 | a3 | a4 | a5 | a6 | a7 |      9    a long line
#     2     u        | a8 | a9 |    |    |    |    |    |    |    |      2    its last beat
#     3     u+1, u+2 | Hb | b0 | b1 | Hc | c0 |    |    |    |    |      5    two short lines
#     4     u+3      | Hd | d0 | d1 | d2 | d3 | d4 |    |    |    |      7    its mate does not fit
#
# With a chunk of two beats, in which a line's last beat always has space for the next line's first:
#
#     1     u        | Ha | a0 | a1 | a2 | a3 | a4 | a5 | a6 | a7 |      9
#     2     u, u+1   | a8 | a9 | Hb | b0 | b1 |    |    |    |  …        5    b is whole
#     3     u+2, u+3 | Hc | c0 | Hd | d0 | d1 | d2 | d3 | d4 | d5 …     11    d goes on
class LineDrain(wiring.Component):
    """Drains the units round-robin, a line from each, and combines the reports on the lines.

    Two lines leave in one cycle when both are so short that they fit a chunk: the link is then busy
    at ratios at which a line per cycle would not do. The units' CRCs are combined on the way. With
    `config.drain_beats` = 2, the first beat of a line leaves with the last one of the line before
    it, whatever their sizes: a line of n beats then takes n - 1 cycles, less than its bytes take at
    a port of a beat's width.

    Units give the CRC of all that they read of a job with the last of these lines.

    Latency: 0 cycles for lines; an outcome comes 2 + log2(line_bytes) cycles after a job's last
    chunk. Throughput: a line beat per cycle, or two lines; with two `drain_beats`, a line's beat
    and one of the next line.

    Resources: a barrel shifter of a chunk, and two CRC steps of a line.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(DrainJob(config)))`
    ends : `In(stream.Signature(IssuedLines()))`
        The end of the job's issue. Comes before the job's last line does.
    lines : `In(stream.Signature(LineBeat(config.codec))).array(config.units)`
    reports : `In(stream.Signature(LineReport(config.codec))).array(config.units)`
    crcs : `In(stream.Signature(32)).array(config.units)`
        The units' CRCs, one for each report that is the last of its job.
    stop : `In(1)`
        Nothing more of the job is written: its lines are dropped, from the next cycle on in which
        no chunk waits.
    o : `Out(stream.Signature(Chunk(config.codec, config.drain_beats)))`
        The head padding, then the lines.
    outcome : `Out(stream.Signature(DrainOutcome(config.codec)))`
    starved : `Out(1)`
        In this cycle a line would have been accepted, and none was valid.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "job": In(stream.Signature(DrainJob(config))),
                "ends": In(stream.Signature(IssuedLines())),
                "lines": In(stream.Signature(LineBeat(config.codec))).array(config.units),
                "reports": In(stream.Signature(LineReport(config.codec))).array(config.units),
                "crcs": In(stream.Signature(32)).array(config.units),
                "stop": In(1),
                "o": Out(stream.Signature(Chunk(config.codec, config.drain_beats))),
                "outcome": Out(stream.Signature(DrainOutcome(config.codec))),
                "starved": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        codec = self.config.codec
        m.submodules.crc = crc = TransferCrc(codec, start=0)
        m.submodules.merger = merger = LineMerger(codec, chunk_beats=self.config.drain_beats)
        m.submodules.whole_lines = whole_lines = WholeLineCounter(codec)
        t = _Transfer(self.config)
        heads = _QueueHeads(m, self, t)

        self._select_lines(m, t, heads, merger)
        self._send_chunk(m, t, heads, merger)
        self._advance(m, t, heads)
        m.d.comb += [
            whole_lines.job_ready.eq(self.job.ready),
            whole_lines.capacity.eq(self.job.payload.capacity),
            whole_lines.fire.eq(t.line_fire & ~t.line_drop),
            whole_lines.line_end.eq(heads.beat.eol),
            whole_lines.second_line.eq(t.merge_fire),
            whole_lines.second_end.eq(heads.mate_ends),
            whole_lines.lines_before.eq(t.drained),
            whole_lines.count_alone.eq(merger.count_alone),
            whole_lines.count_merged.eq(merger.count_merged),
        ]
        self._combine_crcs(m, t, heads, crc)
        self._report_outcome(m, t, heads, crc, whole_lines)
        self._accept_job(m, t)
        return m

    def _select_lines(self, m: Module, t: "_Transfer", heads: "_QueueHeads", merger: Any) -> None:
        """Decide whether a line is valid, and whether the next unit's line joins it.

        In a chunk of one beat only whole lines do, and only if they fit.
        """
        issued = self.ends.payload
        fits: Value = C(1)
        if self.config.drain_beats == 1:
            # Of each line and the next one, before it is known which one it is.
            counts = [lines.payload.count for lines in self.lines]
            short = [
                count + mate <= merger.most_merged
                for count, mate in zip(counts, [*counts[1:], counts[0]], strict=True)
            ]
            fits = heads.beat.sol & heads.mate.eol & selected(t.unit_is, short)
        mergeable = Signal()
        stalled = Signal()
        stalled_alone = Signal()
        m.d.comb += [
            # All lines are drained when as many are as were issued.
            t.all_drained.eq(self.ends.valid & (t.drained == issued.lines)),
            t.is_last_line.eq(self.ends.valid & (t.with_first == issued.lines)),
            t.is_last_but_one.eq(self.ends.valid & (t.with_both == issued.lines)),
            t.faulty.eq(~t.inside_line & (heads.report.error != BusError.NONE)),
            t.line_valid.eq(
                t.active
                & ~t.head_pad_pending
                & ~t.all_drained
                & heads.beat_valid
                & (t.inside_line | heads.report_valid)
            ),
            merger.first.eq(heads.beat),
            merger.second.eq(heads.mate),
            merger.codec.eq(t.codec_index),
            merger.merge.eq(t.merge),
            mergeable.eq(
                heads.beat.eol
                & heads.mate_valid
                & heads.mate_report_valid
                & merger.has_head
                & ~t.is_last_line
                & fits
                & (heads.mate_report.error == BusError.NONE)
                if self.config.units > 1
                else 0
            ),
            # A line that was offered alone leaves alone: what is offered must not change.
            t.merge.eq(mergeable & ~(stalled & stalled_alone)),
        ]
        m.d.sync += [stalled.eq(self.o.valid & ~self.o.ready), stalled_alone.eq(~t.merge)]

    def _send_chunk(self, m: Module, t: "_Transfer", heads: "_QueueHeads", merger: Any) -> None:
        """Send the head padding, lines, or an end that could not be marked on a line.

        From the first line with an error on, lines are dropped, and all once the job has stopped.
        """
        out = self.o.payload
        line_send = Signal()
        end_send = Signal()
        drops = Signal()
        m.d.comb += [
            drops.eq(t.stopped | t.line_failed | t.faulty),
            t.line_drop.eq(t.line_valid & drops),
            line_send.eq(t.line_valid & ~drops),
            end_send.eq(t.active & ~t.head_pad_pending & t.all_drained & ~t.last_sent),
            self.o.valid.eq((t.active & t.head_pad_pending) | line_send | end_send),
            t.line_fire.eq(t.line_drop | (line_send & self.o.ready)),
            t.merge_fire.eq(t.line_fire & t.merge & ~t.line_drop),
            self.starved.eq(
                t.active & ~t.head_pad_pending & ~t.all_drained & ~t.line_valid & self.o.ready
            ),
        ]
        with m.If(t.head_pad_pending):
            m.d.comb += out.count.eq(t.head_pad)
        with m.Elif(line_send):
            m.d.comb += [
                out.elements.eq(merger.elements),
                out.count.eq(Mux(t.merge, merger.count_merged, merger.count_alone)),
                out.last.eq(
                    Mux(
                        t.merge,
                        t.is_last_but_one & heads.mate_ends,
                        t.is_last_line & heads.beat.eol,
                    )
                ),
            ]
        with m.Elif(end_send):
            m.d.comb += out.last.eq(1)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [t.head_pad_pending.eq(0), t.last_sent.eq(t.last_sent | out.last)]
        # A chunk that was offered stays.
        with m.If(self.stop & (~self.o.valid | self.o.ready)):
            m.d.sync += t.stopped.eq(1)

    def _advance(self, m: Module, t: "_Transfer", heads: "_QueueHeads") -> None:
        """Take what was sent or dropped from the queues, and go on to the next unit."""
        sectors = self.config.codec.sectors
        m.d.comb += t.lines_begun.eq((t.line_fire & ~t.inside_line) + t.merge_fire)
        for k in range(self.config.units):
            first = t.line_fire & t.unit_is[k]
            second = t.merge_fire & t.next_unit_is[k]
            m.d.comb += [
                self.lines[k].ready.eq(first | second),
                self.reports[k].ready.eq((first & ~t.inside_line) | second),
                self.crcs[k].ready.eq(self.reports[k].ready & self.reports[k].payload.last),
            ]
            with m.If(self.crcs[k].ready):
                m.d.sync += Assert(self.crcs[k].valid)
        with m.If(t.line_fire):
            ended = Mux(t.merge_fire, 1 + heads.mate_ends, heads.beat.eol)
            m.d.sync += [
                t.inside_line.eq(~Mux(t.merge_fire, heads.mate_ends, heads.beat.eol)),
                *(count.eq(count + ended) for count in (t.drained, t.with_first, t.with_both)),
            ]
            with m.If(t.merge_fire & heads.mate_ends):
                m.d.sync += [
                    t.unit.eq(following(t.next_unit, self.config.units)),
                    t.unit_is.eq(t.next_unit_is.rotate_left(1)),
                ]
            with m.Elif(heads.beat.eol):
                m.d.sync += [t.unit.eq(t.next_unit), t.unit_is.eq(t.next_unit_is)]
            with m.If(~t.inside_line & ~t.line_failed):
                m.d.sync += t.line_failed.eq(t.faulty)
                with m.If(t.faulty):
                    m.d.sync += [
                        t.error.eq(heads.report.error),
                        t.faulty_beat.eq(t.drained * sectors + heads.report.beat),
                    ]

    def _combine_crcs(
        self, m: Module, t: "_Transfer", heads: "_QueueHeads", crc: TransferCrc
    ) -> None:
        """Combine the units' CRCs as they come, with the job's last line of each."""
        own, mates = (
            Array(stream.payload for stream in self.crcs)[unit] for unit in (t.unit, t.next_unit)
        )
        first_is_own = ~t.inside_line & heads.report.last
        m.d.comb += [
            crc.lines.eq((t.line_fire & first_is_own) + (t.merge_fire & heads.mate_report.last)),
            crc.first.eq(Mux(first_is_own, own, mates)),
            crc.second.eq(mates),
        ]

    def _collect_summaries(self, m: Module, t: "_Transfer", heads: "_QueueHeads") -> Value:
        """Collect the codecs' results, each of all lines.

        Returns whether that of the codec of the transfer that has ended is settled: no transfer
        waits for the result of another codec.
        """
        codec = self.config.codec
        settled: Value = C(1, 1)
        place = 0
        ended_codec = Signal.like(t.codec_index, name="ended_codec")
        for entry in summarizing_codecs(codec):
            m.submodules[f"{entry.identifier}_collector"] = collector = entry.summary_collector(
                codec
            )
            bits = entry.line_summary_bits
            m.d.comb += [
                collector.begins.eq(self.job.ready),
                collector.lines.eq(t.lines_begun),
                collector.first.eq(heads.first_report.summary[place : place + bits]),
                collector.second.eq(heads.mate_report.summary[place : place + bits]),
                collector.ends.eq(t.done),
            ]
            place += bits
            is_its = is_one_of(ended_codec, (codec.entries.index(entry),), codec)
            settled = settled & (collector.settled | ~is_its)
            with m.If(is_its):
                m.d.comb += self.outcome.payload.result.eq(collector.result)
        if place:
            with m.If(t.done):
                m.d.sync += ended_codec.eq(t.codec_index)
        return settled

    def _report_outcome(
        self,
        m: Module,
        t: "_Transfer",
        heads: "_QueueHeads",
        crc: TransferCrc,
        whole_lines: WholeLineCounter,
    ) -> None:
        """Keep the transfer's outcome until its CRC, less the tail padding, is computed."""
        outcome = Signal(DrainOutcome(self.config.codec), reset_less=True)
        outcome_valid = Signal()
        settled = Signal()
        m.d.comb += [
            t.done.eq(
                t.active & ~t.head_pad_pending & t.all_drained & t.last_sent & ~outcome_valid
            ),
            self.ends.ready.eq(t.done),
            self.outcome.valid.eq(outcome_valid & settled),
            self.outcome.payload.eq(outcome),
            self.outcome.payload.crc32.eq(crc.crc32),
            # For codecs that tell nothing: no register is loaded with it.
            self.outcome.payload.result.eq(0),
            crc.begins.eq(self.job.ready),
            crc.ends.eq(t.done),
            crc.tail_pad.eq(t.tail_pad),
        ]
        m.d.comb += settled.eq(crc.settled & self._collect_summaries(m, t, heads))
        with m.If(t.done):
            m.d.sync += [
                outcome_valid.eq(1),
                outcome.lines.eq(t.drained),
                outcome.whole_lines.eq(whole_lines.lines),
                outcome.whole_size.eq(whole_lines.size),
                outcome.cut.eq(self.ends.payload.cut),
                outcome.error.eq(Mux(t.line_failed, t.error, BusError.NONE)),
                outcome.faulty_beat.eq(t.faulty_beat),
            ]
        with m.Elif(settled & self.outcome.ready):
            m.d.sync += outcome_valid.eq(0)

    def _accept_job(self, m: Module, t: "_Transfer") -> None:
        """Begin the next transfer when there is none, or the present one is done."""
        job = self.job.payload
        m.d.comb += self.job.ready.eq(~t.active | t.done)
        with m.If(self.job.ready):
            m.d.sync += [
                t.active.eq(self.job.valid),
                t.head_pad_pending.eq(job.head_pad != 0),
                t.head_pad.eq(job.head_pad),
                t.codec_index.eq(job.codec),
                t.tail_pad.eq(job.tail_pad),
                t.unit.eq(job.first_unit),
                t.unit_is.eq(1 << job.first_unit),
                t.drained.eq(0),
                t.with_first.eq(1),
                t.with_both.eq(2),
                t.last_sent.eq(0),
                t.line_failed.eq(0),
                t.stopped.eq(0),
            ]


class _Transfer:
    """The registers of the transfer that is drained, and what is decided in this cycle.

    `drained` lines have been, and one and two more are `with_first` and `with_both`: whether lines
    merge depends on these, and is known late in the cycle.

    The unit whose line is next, `unit`, has its bit set in `unit_is`, too: what decides about
    lines is selected by that, in less time than the lines themselves.
    """

    def __init__(self, config: EngineConfig) -> None:
        job = DrainJob(config)
        self.active = Signal()
        self.head_pad_pending = Signal()
        self.head_pad = Signal(job["head_pad"].shape)
        self.codec_index = Signal(job["codec"].shape)
        self.tail_pad = Signal(job["tail_pad"].shape)
        self.unit = Signal(job["first_unit"].shape)
        self.next_unit = Signal(job["first_unit"].shape)
        self.unit_is = Signal(config.units, init=1)
        self.next_unit_is = Signal(config.units)
        self.inside_line = Signal()
        self.drained = Signal(IssuedLines()["lines"].shape)
        self.with_first = Signal.like(self.drained)
        self.with_both = Signal.like(self.drained)
        self.last_sent = Signal()
        self.line_failed = Signal()
        self.stopped = Signal()
        self.error = Signal(BusError, reset_less=True)
        self.faulty_beat = Signal(beat_number_bits(config.codec), reset_less=True)

        self.all_drained = Signal()
        self.is_last_line = Signal()
        self.is_last_but_one = Signal()
        self.faulty = Signal()
        self.line_valid = Signal()
        self.line_drop = Signal()
        self.line_fire = Signal()
        self.merge = Signal()
        self.merge_fire = Signal()
        self.lines_begun = Signal(2)
        self.done = Signal()


class _QueueHeads:
    """The oldest line beat and report of the present unit, and of the next one, the mate.

    `mate_ends` tells that the mate is a whole line, and `first_report` is that of the first line
    that begins in this cycle.
    """

    def __init__(self, m: Module, drain: LineDrain, t: _Transfer) -> None:
        m.d.comb += [
            t.next_unit.eq(following(t.unit, drain.config.units)),
            t.next_unit_is.eq(t.unit_is.rotate_left(1)),
        ]
        of_unit, of_next = (t.unit, t.unit_is), (t.next_unit, t.next_unit_is)
        self.beat_valid, self.beat = _select(m, drain.lines, *of_unit, "beat")
        self.report_valid, self.report = _select(m, drain.reports, *of_unit, "report")
        self.mate_valid, self.mate = _select(m, drain.lines, *of_next, "mate")
        self.mate_report_valid, self.mate_report = _select(
            m, drain.reports, *of_next, "mate_report"
        )
        # In a chunk of one beat, lines merge as a whole or not at all.
        self.mate_ends: Value = C(1)
        self.first_report = self.report
        if drain.config.drain_beats > 1:
            self.mate_ends = self.mate.eol
            self.first_report = Signal.like(self.report, name="first_report")
            m.d.comb += self.first_report.eq(Mux(t.inside_line, self.mate_report, self.report))


CARRIED = ("elements", "mask", "beat", "summary")
"""Fields that nothing is decided by."""


def _select(m: Module, streams: Any, unit: Value, unit_is: Value, name: str) -> tuple[Signal, Any]:
    """Select the valid and the payload of one of several streams: of a unit, told in both ways."""
    valid = Signal(name=f"{name}_valid")
    payload: Any = Signal(streams[0].payload.shape(), name=name)
    m.d.comb += valid.eq(selected(unit_is, [s.valid for s in streams]))
    for field, _ in payload.shape():
        values = [Value.cast(s.payload[field]) for s in streams]
        chosen = Array(values)[unit] if field in CARRIED else selected(unit_is, values)
        m.d.comb += Value.cast(payload[field]).eq(chosen)
    return valid, payload
