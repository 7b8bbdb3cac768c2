"""The way in: host memory, receiver, splitter, units, device memory."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest, WriteBeat, WriteRequest
from cdma.hw.codec.stream.unpack import StreamTail
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.control.each_ring import each_ring, of_ring
from cdma.hw.dma.data_queue import COUNT_BITS, ecc_members, report_errors
from cdma.hw.dma.inbound.expansion import ExpansionUnit
from cdma.hw.dma.inbound.line_reports import LineReportCollector
from cdma.hw.dma.inbound.receiver import StreamReceiver
from cdma.hw.dma.inbound.splitter import LineSplitter
from cdma.hw.dma.interleave import unit_of
from cdma.hw.dma.job_faults import count_jobs
from cdma.hw.dma.payloads import (
    CollectJob,
    InJob,
    InOutcome,
    IssuedLines,
    ReceiveJob,
    ReceiveOutcome,
    SplitJob,
)
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import HalfRateRegister, PipelineRegister
from cdma.hw.lib.width_converter import PacketNarrower, PacketWidener


class InJobSplitter(wiring.Component):
    """Tells receiver, splitter and gather what of a job concerns them.

    Latency: 1 cycle. Throughput: a job per 2 cycles, as they are dispatched.

    Members
    -------
    i : `In(stream.Signature(InJob(config)))`
    receive : `Out(stream.Signature(ReceiveJob(config)))`
    split : `Out(stream.Signature(SplitJob(config)))`
    gather : `Out(stream.Signature(CollectJob(config)))`
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(InJob(config))),
                "receive": Out(stream.Signature(ReceiveJob(config))),
                "split": Out(stream.Signature(SplitJob(config))),
                "gather": Out(stream.Signature(CollectJob(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        line_bits = (config.codec.line_bytes - 1).bit_length()
        m.submodules.next_job = next_job = HalfRateRegister(InJob(config))
        m.submodules.fork = fork = Fork(InJob(config), 3)
        wiring.connect(m, next_job.o, fork.i)
        m.d.comb += [
            next_job.i.valid.eq(self.i.valid),
            next_job.i.payload.eq(self.i.payload),
            self.i.ready.eq(next_job.i.ready),
        ]
        for given, output in zip(fork.o, (self.receive, self.split, self.gather), strict=True):
            m.d.comb += [output.valid.eq(given.valid), given.ready.eq(output.ready)]
        job = next_job.o.payload
        # It takes a while to find, and is queued next.
        first_unit = unit_of(m, config, job.dst)
        m.d.comb += [
            self.receive.payload.src.eq(job.src),
            self.receive.payload.size.eq(job.src_length),
            self.receive.payload.ring.eq(job.ring),
            self.split.payload.dst.eq(job.dst),
            self.split.payload.length.eq(job.length),
            self.split.payload.capacity.eq(job.capacity),
            self.split.payload.codec.eq(job.codec),
            self.split.payload.parameters.eq(job.parameters),
            self.split.payload.first_unit.eq(first_unit),
            self.split.payload.ring.eq(job.ring),
            self.gather.payload.first_unit.eq(first_unit),
            self.gather.payload.tail_pad.eq(-job.length[:line_bits]),
        ]
        return m


class InPath(wiring.Component):
    """Carries transfers in, several at once, in order.

    Each stage takes the next transfer when it is done with its part of the former one, so a
    transfer's stream is read while the former one is still being written.

    After a transfer's first error no more is read for it, and lines that have not gone to their
    units are dropped. Other transfers go on.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(InJob(config)))`
    outcome : `Out(stream.Signature(InOutcome(config.codec)))`
        For each job, in order, after everything has been written.
    read_request : `Out(stream.Signature(ReadRequest(64, config.rings)))`
    read_beats : `In(stream.Signature(ReadBeat(config.host_bytes)))`
        Host memory.
    write_request : `Out(stream.Signature(WriteRequest(40, config.rings))).array(config.units)`
    write_beats : `Out(stream.Signature(WriteBeat(...))).array(config.units)`
    write_response : `In(stream.Signature(BusError)).array(config.units)`
        Device memory, at each unit.
    abort : `In(each_ring(1, config.rings))`
        Read no more; all jobs of the ring end with what they have.
    split : `Out(2)`
        Lines split off the stream in this cycle.
    starved : `Out(1)`
        In this cycle, the splitter waits for the host's data.
    corrected, uncorrectable : `Out(6)`
        Only with ECC: words of memories in the cycle before.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        units = config.units
        sector_bytes = config.codec.sector_bytes
        read_request = ReadRequest(HOST_ADDRESS_BITS, config.rings)
        write_request = WriteRequest(DEVICE_ADDRESS_BITS, config.rings)
        super().__init__(
            {
                "job": In(stream.Signature(InJob(config))),
                "outcome": Out(stream.Signature(InOutcome(config.codec))),
                "read_request": Out(stream.Signature(read_request)),
                "read_beats": In(stream.Signature(ReadBeat(config.host_bytes))),
                "write_request": Out(stream.Signature(write_request)).array(units),
                "write_beats": Out(stream.Signature(WriteBeat(sector_bytes))).array(units),
                "write_response": In(stream.Signature(BusError)).array(units),
                "abort": In(each_ring(1, config.rings)),
                "split": Out(2),
                "starved": Out(1),
                **ecc_members(config, COUNT_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.job_splitter = job_splitter = InJobSplitter(config)
        m.submodules.receiver = receiver = StreamReceiver(config)
        m.submodules.splitter = splitter = LineSplitter(config)
        m.submodules.gather = gather = LineReportCollector(config)
        # Jobs wait here for the stages that get to them last.
        m.submodules.split_jobs = split_jobs = Fifo(SplitJob(config), config.transfers - 1)
        m.submodules.gather_jobs = gather_jobs = Fifo(CollectJob(config), config.transfers - 1)
        # What the first stages tell waits here for the last one.
        m.submodules.received = received = Fifo(ReceiveOutcome(), config.transfers - 1)
        m.submodules.tails = tails = Fifo(StreamTail(), config.transfers - 1)
        m.submodules.ends = ends = Fifo(IssuedLines(), config.transfers - 1)

        def connect(source: Any, sink: Any) -> None:
            wiring.connect(m, source, sink)

        connect(wiring.flipped(self.job), job_splitter.i)
        connect(job_splitter.receive, receiver.job)
        connect(job_splitter.split, split_jobs.i)
        connect(job_splitter.gather, gather_jobs.i)
        connect(split_jobs.o, splitter.job)
        connect(gather_jobs.o, gather.job)

        connect(receiver.request, wiring.flipped(self.read_request))
        connect(wiring.flipped(self.read_beats), receiver.beats)
        self._connect_splitter(m, receiver, splitter)
        for k in range(config.units):
            # As many lines as are read at once: what memory takes to answer is the same.
            m.submodules[f"unit_{k}"] = unit = ExpansionUnit(
                config.codec, config.unit_lines, config.rings
            )
            connect(splitter.commands[k], unit.commands)
            connect(splitter.lines[k], unit.i)
            connect(unit.request, wiring.flipped(self.write_request[k]))
            connect(unit.beats, wiring.flipped(self.write_beats[k]))
            connect(wiring.flipped(self.write_response[k]), unit.response)
            connect(unit.report, gather.reports[k])
            m.d.comb += [
                splitter.line_checked[k].eq(unit.checked),
                splitter.line_wrong[k].eq(unit.wrong),
                splitter.line_answered[k].eq(unit.answered),
                splitter.line_refused[k].eq(unit.refused),
            ]

        connect(receiver.outcome, received.i)
        connect(splitter.tail, tails.i)
        connect(splitter.ends, ends.i)
        connect(ends.o, gather.ends)
        m.submodules.outcomes = outcomes = PipelineRegister(InOutcome(config.codec))
        connect(outcomes.o, wiring.flipped(self.outcome))
        # The receiver may be at a later job than the splitter.
        splits = splitter.job.valid & splitter.job.ready
        receiving = count_jobs(m, config, receiver.begins, name="receiving")
        splitting = count_jobs(m, config, splits, name="splitting")
        m.d.comb += receiver.stop.eq(splitter.stop & (receiving == splitting))

        done = Signal()
        m.d.comb += [
            outcomes.i.valid.eq(received.o.valid & tails.o.valid & gather.outcome.valid),
            outcomes.i.payload.receive.eq(received.o.payload),
            outcomes.i.payload.tail.eq(tails.o.payload),
            outcomes.i.payload.lines.eq(gather.outcome.payload),
            done.eq(outcomes.i.valid & outcomes.i.ready),
            received.o.ready.eq(done),
            tails.o.ready.eq(done),
            gather.outcome.ready.eq(done),
            receiver.abort.eq(of_ring(self.abort, receiver.ring)),
            self.split.eq(splitter.split),
            self.starved.eq(splitter.starved),
        ]
        report_errors(m, config, self, [receiver])
        return m

    def _connect_splitter(
        self, m: Module, receiver: StreamReceiver, splitter: LineSplitter
    ) -> None:
        """Bring streams from the receiver to the splitter, in beats of a sector."""
        sector_bytes, host_bytes = self.config.codec.sector_bytes, self.config.host_bytes
        if host_bytes == sector_bytes:
            wiring.connect(m, receiver.o, splitter.i)
            return
        converter: Any
        if host_bytes > sector_bytes:
            m.submodules.narrower = converter = PacketNarrower(host_bytes, sector_bytes)
        else:
            m.submodules.widener = converter = PacketWidener(host_bytes, sector_bytes)
            # Streams come from their first byte on, wherever in memory that is.
            m.d.comb += converter.first.valid.eq(1)
        for source, sink in ((receiver.o, converter.i), (converter.o, splitter.i)):
            m.d.comb += [
                sink.valid.eq(source.valid),
                source.ready.eq(sink.ready),
                *(
                    getattr(sink.payload, name).eq(getattr(source.payload, name))
                    for name in ("data", "size", "last")
                ),
            ]
