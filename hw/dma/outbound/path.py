"""The outbound path: device memory, units, buffer, drain, host memory."""

from typing import Any

from amaranth.hdl import Array, Assert, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest, WriteBeat, WriteRequest
from cdma.hw.codec.selection import is_copy
from cdma.hw.codec.stream.pack import OFFSET_BITS, Chunk, ElementPacker
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.control.each_ring import each_ring, of_ring
from cdma.hw.dma.data_queue import COUNT_BITS, data_queue, ecc_members, report_errors
from cdma.hw.dma.interleave import unit_of
from cdma.hw.dma.job_faults import count_jobs
from cdma.hw.dma.outbound.buffer import UnitBuffer
from cdma.hw.dma.outbound.drain import LineDrain
from cdma.hw.dma.outbound.issue import LineIssuer
from cdma.hw.dma.outbound.throttle import BURST_BITS, RATE_BITS, TokenBucket
from cdma.hw.dma.outbound.unit import CompressionUnit, LineReport
from cdma.hw.dma.outbound.writer import StreamWriter
from cdma.hw.dma.payloads import DrainJob, OutJob, OutOutcome, ReadJob, WriteJob
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import HalfRateRegister, PingPongBuffer, PipelineRegister, SkidBuffer
from cdma.hw.lib.width_converter import PacketNarrower, PacketWidener

THROTTLE_CLASSES = 2

WRITING = 4
"""Jobs that are drained and not answered, which the stages hold; more need a queue."""


class OutJobSplitter(wiring.Component):
    """Splits a job into those of the issuer, the drain and the writer.

    Latency: 1 cycle. Throughput: a job per 2 cycles, as they are dispatched.

    Members
    -------
    i : `In(stream.Signature(OutJob(config)))`
    read : `Out(stream.Signature(ReadJob(config)))`
    drain : `Out(stream.Signature(DrainJob(config)))`
    write : `Out(stream.Signature(WriteJob(rings=config.rings)))`
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(OutJob(config))),
                "read": Out(stream.Signature(ReadJob(config))),
                "drain": Out(stream.Signature(DrainJob(config))),
                "write": Out(stream.Signature(WriteJob(rings=config.rings))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        codec = config.codec
        line_bits = (codec.line_bytes - 1).bit_length()
        element_bits = (codec.element_bytes - 1).bit_length()
        # The packet's beats are a sector each, or as wide as the bus if that is less.
        width_bits = (config.stream_bytes_per_cycle - 1).bit_length()
        # The first line's unit is a remainder, so it has a stage of its own.
        found = data.StructLayout({"job": OutJob(config), "first_unit": range(config.units)})
        m.submodules.next_job = next_job = HalfRateRegister(found)
        m.submodules.fork = fork = Fork(found, 3)
        wiring.connect(m, next_job.o, fork.i)
        m.d.comb += [
            next_job.i.valid.eq(self.i.valid),
            next_job.i.payload.job.eq(self.i.payload),
            next_job.i.payload.first_unit.eq(unit_of(m, config, self.i.payload.src)),
            self.i.ready.eq(next_job.i.ready),
        ]
        for copy, output in zip(fork.o, (self.read, self.drain, self.write), strict=True):
            m.d.comb += [output.valid.eq(copy.valid), copy.ready.eq(output.ready)]
        job = next_job.o.payload.job
        first_unit = next_job.o.payload.first_unit
        copied = is_copy(job.codec, codec)
        m.d.comb += [
            self.read.payload.src.eq(job.src),
            self.read.payload.length.eq(job.length),
            self.read.payload.codec.eq(job.codec),
            self.read.payload.parameters.eq(job.parameters),
            self.read.payload.throttle_class.eq(job.throttle_class),
            self.read.payload.first_unit.eq(first_unit),
            self.read.payload.ring.eq(job.ring),
            self.drain.payload.first_unit.eq(first_unit),
            self.drain.payload.head_pad.eq(job.dst[element_bits:width_bits]),
            self.drain.payload.codec.eq(job.codec),
            self.drain.payload.tail_pad.eq(-job.length[:line_bits]),
            self.drain.payload.capacity.eq(job.capacity),
            self.write.payload.dst.eq(job.dst),
            self.write.payload.capacity.eq(job.capacity),
            self.write.payload.limit.eq(Mux(copied, job.length, (1 << OFFSET_BITS) - 1)),
            self.write.payload.ring.eq(job.ring),
        ]
        return m


class OutPath(wiring.Component):
    """Carries transfers out, several at once, in order.

    Each stage accepts the next transfer when it is done with its part of the former one, so a
    transfer's reads begin while the former one is still being written.

    After a transfer's first error no more is read for it, and what has been read is dropped if it
    would come behind the error. Other transfers go on.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job : `In(stream.Signature(OutJob(config)))`
    outcome : `Out(stream.Signature(OutOutcome(config.codec)))`
        For each job, in order, after everything has been written.
    read_request : `Out(stream.Signature(ReadRequest(40, config.rings))).array(config.units)`
    read_beats : `In(stream.Signature(ReadBeat(...))).array(config.units)`
        Device memory, at each unit.
    write_request : `Out(stream.Signature(WriteRequest(64, config.rings)))`
    write_beats : `Out(stream.Signature(WriteBeat(config.host_bytes)))`
    write_response : `In(stream.Signature(BusError))`
        Host memory. A response is accepted whatever the outcomes wait for.
    throttle_rate, throttle_burst : `In(20).array(2)`
        The token buckets.
    abort : `In(each_ring(1, config.rings))`
        Issue no more reads; all jobs of the ring end with the lines that they have.
    issued : `Out(2)`
        Lines issued in this cycle.
    reserved : `Out(...)`
        Beats of the buffer that are reserved.
    outstanding : `Out(...)`
        Lines that have been issued and have not been compressed yet.
    no_credit, throttled, starved, blocked : `Out(1)`
        The stream is stalled in this cycle: by the buffer's lack of space, by the throttle, by
        memory, by the host.
    corrected, uncorrectable : `Out(6)`
        Only with ECC: words of memories in the cycle before.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        units = config.units
        sector_bytes = config.codec.sector_bytes
        read_request = ReadRequest(DEVICE_ADDRESS_BITS, config.rings)
        write_request = WriteRequest(HOST_ADDRESS_BITS, config.rings)
        super().__init__(
            {
                "job": In(stream.Signature(OutJob(config))),
                "outcome": Out(stream.Signature(OutOutcome(config.codec))),
                "read_request": Out(stream.Signature(read_request)).array(units),
                "read_beats": In(stream.Signature(ReadBeat(sector_bytes))).array(units),
                "write_request": Out(stream.Signature(write_request)),
                "write_beats": Out(stream.Signature(WriteBeat(config.host_bytes))),
                "write_response": In(stream.Signature(BusError)),
                "throttle_rate": In(RATE_BITS).array(THROTTLE_CLASSES),
                "throttle_burst": In(BURST_BITS).array(THROTTLE_CLASSES),
                "abort": In(each_ring(1, config.rings)),
                "issued": Out(2),
                "reserved": Out(range(units * config.unit_beats + 1)),
                "outstanding": Out(range(units * config.unit_beats + 1)),
                "no_credit": Out(1),
                "throttled": Out(1),
                "starved": Out(1),
                "blocked": Out(1),
                **ecc_members(config, COUNT_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.splitter = splitter = OutJobSplitter(config)
        m.submodules.issuer = issuer = LineIssuer(config)
        m.submodules.drain = drain = LineDrain(config)
        m.submodules.packer = packer = ElementPacker(config.codec, chunk_beats=config.drain_beats)
        m.submodules.writer = writer = StreamWriter(
            config.host_bytes, config.write_bursts, rings=config.rings, stops_at_error=True
        )
        # Jobs are queued for the stages that get to them last.
        m.submodules.drain_jobs = drain_jobs = Fifo(DrainJob(config), config.transfers - 1)
        m.submodules.write_jobs = write_jobs = Fifo(
            WriteJob(rings=config.rings), config.transfers - 1
        )

        def connect(source: Any, sink: Any) -> None:
            wiring.connect(m, source, sink)

        connect(wiring.flipped(self.job), splitter.i)
        connect(splitter.read, issuer.i)
        connect(splitter.drain, drain_jobs.i)
        connect(splitter.write, write_jobs.i)
        connect(drain_jobs.o, drain.job)
        connect(issuer.ends, drain.ends)

        for k in range(THROTTLE_CLASSES):
            m.submodules[f"bucket_{k}"] = bucket = TokenBucket(config)
            mine = issuer.throttle_class == k
            m.d.comb += [
                bucket.rate.eq(self.throttle_rate[k]),
                bucket.burst.eq(self.throttle_burst[k]),
                bucket.passed.eq(Mux(mine, issuer.issued, 0)),
            ]
            with m.If(mine):
                m.d.comb += issuer.permits.eq(bucket.permits)

        line_done = Signal(config.units)
        memories: list[Any] = []
        for k in range(config.units):
            m.submodules[f"unit_{k}"] = unit = CompressionUnit(
                config.codec, config.unit_lines, config.units, config.rings
            )
            m.submodules[f"buffer_{k}"] = buffer = UnitBuffer(config)
            m.submodules[f"reports_{k}"] = reports = data_queue(
                config, LineReport(config.codec), config.unit_beats, framing=("last",)
            )
            # Of each job that the issuer may be ahead of the drain, and of the drain's own.
            m.submodules[f"crcs_{k}"] = crcs = Fifo(32, config.transfers)
            memories += [buffer, reports]
            connect(issuer.o[k], unit.i)
            connect(unit.request, wiring.flipped(self.read_request[k]))
            connect(wiring.flipped(self.read_beats[k]), unit.beats)
            connect(unit.o, buffer.i)
            # The drain knows late in the cycle whether it takes a report, by the report's fault.
            m.submodules[f"next_report_{k}"] = next_report = PingPongBuffer(
                reports.o.payload.shape(), lambda report: Value.cast(report.error)
            )
            connect(buffer.o, drain.lines[k])
            connect(reports.o, next_report.i)
            connect(next_report.o, drain.reports[k])
            connect(crcs.o, drain.crcs[k])
            m.d.comb += [
                issuer.freed[k].eq(buffer.freed),
                # A line's report leaves with its first beat, and has a place while that has one.
                reports.i.valid.eq(unit.report.valid),
                reports.i.payload.eq(unit.report.payload.line),
                crcs.i.valid.eq(unit.report.valid & unit.report.payload.line.last),
                crcs.i.payload.eq(unit.report.payload.crc32),
                unit.report.ready.eq(1),
                issuer.line_ended[k].eq(unit.ended),
                issuer.line_failed[k].eq(unit.failed),
                line_done[k].eq(unit.report.valid),
            ]
            with m.If(unit.report.valid):
                m.d.sync += Assert(reports.i.ready)
            with m.If(crcs.i.valid):
                m.d.sync += Assert(crcs.i.ready)
        # How many lines are issued is known last.
        less = Signal.like(self.outstanding)
        m.d.comb += less.eq(self.outstanding - count_ones(line_done))
        m.d.sync += self.outstanding.eq(Array([less, less + 1, less + 2])[issuer.issued])

        # The packer accepts a chunk by its count, which the drain knows late in the cycle.
        m.submodules.chunks = chunks = SkidBuffer(Chunk(config.codec, config.drain_beats))
        connect(drain.o, chunks.i)
        connect(chunks.o, packer.i)
        self._connect_writer(m, packer, write_jobs, writer)
        connect(writer.request, wiring.flipped(self.write_request))
        connect(writer.beats, wiring.flipped(self.write_beats))
        # Space for all outstanding responses: the writer accepts none while an outcome is stalled,
        # which may wait for a record whose own response comes behind these.
        m.submodules.responses = responses = Fifo(BusError, config.write_bursts)
        connect(wiring.flipped(self.write_response), responses.i)
        connect(responses.o, writer.response)
        m.d.comb += [
            writer.answered.eq(responses.i.valid & responses.i.ready),
            writer.refused.eq(writer.answered & (responses.i.payload != BusError.NONE)),
        ]

        self._stop_early(m, issuer, drain, writer)

        drained = drain.outcome
        if config.transfers > WRITING:
            m.submodules.drained = queue = Fifo(drained.payload.shape(), config.transfers - WRITING)
            connect(drain.outcome, queue.i)
            drained = queue.o
        m.submodules.outcomes = outcomes = PipelineRegister(OutOutcome(config.codec))
        connect(outcomes.o, wiring.flipped(self.outcome))
        outcome_fire = Signal()
        m.d.comb += [
            outcomes.i.valid.eq(drained.valid & writer.outcome.valid),
            outcomes.i.payload.read.eq(drained.payload),
            outcomes.i.payload.write.eq(writer.outcome.payload),
            outcome_fire.eq(outcomes.i.valid & outcomes.i.ready),
            drained.ready.eq(outcome_fire),
            writer.outcome.ready.eq(outcome_fire),
            issuer.abort.eq(of_ring(self.abort, issuer.ring)),
            self.issued.eq(issuer.issued),
            self.reserved.eq(issuer.reserved),
            self.no_credit.eq(issuer.no_credit),
            self.throttled.eq(issuer.throttled),
            self.starved.eq(drain.starved),
            self.blocked.eq(packer.o.valid & ~packer.o.ready),
        ]
        report_errors(m, config, self, memories)
        return m

    def _connect_writer(
        self, m: Module, packer: ElementPacker, write_jobs: Fifo, writer: StreamWriter
    ) -> None:
        """Bring packets from the packer to the writer, in beats as wide as the bus."""
        sector_bytes, host_bytes = self.config.codec.sector_bytes, self.config.host_bytes
        if host_bytes > sector_bytes:
            m.submodules.widener = widener = PacketWidener(sector_bytes, host_bytes)
            m.submodules.writes = writes = Fork(write_jobs.o.payload.shape(), 2)
            wiring.connect(m, write_jobs.o, writes.i)
            wiring.connect(m, writes.o[0], writer.job)
            wiring.connect(m, packer.o, widener.i)
            wiring.connect(m, widener.o, writer.i)
            # A packet begins in the beat of memory that holds its first byte.
            places = range((sector_bytes - 1).bit_length(), (host_bytes - 1).bit_length())
            m.d.comb += [
                widener.first.valid.eq(writes.o[1].valid),
                widener.first.payload.eq(writes.o[1].payload.dst[places.start : places.stop]),
                writes.o[1].ready.eq(widener.first.ready),
            ]
            return
        wiring.connect(m, write_jobs.o, writer.job)
        if host_bytes == sector_bytes:
            wiring.connect(m, packer.o, writer.i)
        else:
            m.submodules.narrower = narrower = PacketNarrower(sector_bytes, host_bytes)
            wiring.connect(m, packer.o, narrower.i)
            wiring.connect(m, narrower.o, writer.i)

    def _stop_early(
        self, m: Module, issuer: LineIssuer, drain: LineDrain, writer: StreamWriter
    ) -> None:
        """Stop the issuer and the drain if nothing more of their job will be written.

        The stages may be at different jobs.
        """
        issues = issuer.i.valid & issuer.i.ready
        drains = drain.job.valid & drain.job.ready
        written = writer.i.valid & writer.i.ready & writer.i.payload.last
        issuing = count_jobs(m, self.config, issues, name="issuing")
        draining = count_jobs(m, self.config, drains, name="draining")
        # The writer is at the packet behind the last one that ended.
        writing = count_jobs(m, self.config, written, name="writing", first=1)
        m.d.comb += [
            issuer.stop.eq(writer.closed & (issuing == writing)),
            drain.stop.eq(writer.closed & (draining == writing)),
        ]
