"""The compressing DMA engine: descriptors in, completion records out."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature
from cdma.hw.bus.port import Axi4Port, ReadHalf, SilenceTimer, WriteHalf
from cdma.hw.codec.stream.pack import ElementPacker
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.completion import Completer
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS, DescriptorChecker
from cdma.hw.dma.control.dispatch import CYCLE_BITS, Dispatcher
from cdma.hw.dma.control.record import RECORDS, InterruptCoalescer, RecordWriter
from cdma.hw.dma.control.registers import Registers
from cdma.hw.dma.control.ring import PREFETCH, DescriptorFetcher
from cdma.hw.dma.control.supervisor import Supervisor
from cdma.hw.dma.inbound.expansion import ExpansionUnit
from cdma.hw.dma.inbound.line_reports import LineGather
from cdma.hw.dma.inbound.path import InPath
from cdma.hw.dma.inbound.receiver import StreamReceiver
from cdma.hw.dma.inbound.splitter import LineSplitter
from cdma.hw.dma.outbound.buffer import UnitBuffer
from cdma.hw.dma.outbound.drain import LineDrain
from cdma.hw.dma.outbound.issue import LineIssuer
from cdma.hw.dma.outbound.path import THROTTLE_CLASSES, OutPath
from cdma.hw.dma.outbound.throttle import TokenBucket
from cdma.hw.dma.outbound.unit import CompressionUnit
from cdma.hw.lib.count import count_ones
from cdma.hw.registers.file import ADDRESS_BITS, DATA_BITS
from cdma.hw.registers.port import RegisterPort

MEMORY_ID_BITS = 1
HOST_ID_BITS = 2

SLEEPERS = (
    OutPath,
    LineIssuer,
    TokenBucket,
    CompressionUnit,
    UnitBuffer,
    LineDrain,
    ElementPacker,
    InPath,
    StreamReceiver,
    LineSplitter,
    ExpansionUnit,
    LineGather,
    ReadHalf,
    WriteHalf,
    SilenceTimer,
    DescriptorFetcher,
    DescriptorChecker,
    Dispatcher,
    Completer,
    RecordWriter,
    Supervisor,
)
"""Components that can sleep: the simulator leaves out what would change nothing
(`cdma.hw.lib.sleep`).

A bucket fills and a timer counts while what is around them waits, so they are not part of it.
"""


def memory_port(config: EngineConfig) -> Axi4Port:
    """The port to device memory of one of the engine's units."""
    return Axi4Port(
        config.codec.sector_bytes,
        DEVICE_ADDRESS_BITS,
        MEMORY_ID_BITS,
        # A line that crosses a page takes two.
        reads=(2 * config.unit_lines,),
        writes=(2 * config.unit_lines,),
    )


class DmaEngine(wiring.Component):
    """Moves tensors between device memory and host memory, compressed on the host's side.

    Software puts descriptors into a ring in host memory and writes RING_TAIL; each descriptor ends
    with a completion record in host memory, in the order of the ring, whatever went wrong. Data
    leaves device memory through compression units at its controllers, so that only compressed lines
    travel to the engine (cDMA, §V-B), and comes back through expansion units there. Several
    descriptors are under way at once, both ways: what must wait for others comes behind a fence.

    Host reads have ID 0 for descriptors and 1 for data, host writes 0 for data and 1 for records;
    the memory ports use ID 0. Bursts are INCR, of whole-width beats, at most 16 at the host and 8
    at the memories, and cross no 4 KiB boundary. Write data is complete before its address is sent.

    Latency: if nothing is under way, the request for a descriptor comes `descriptor_read_latency`
    = 4 cycles after the doorbell, and the first one for its data `data_read_latency` = 10 cycles
    after the descriptor's last beat; registers answer after `register_response_latency` = 2.

    Throughput: a line per cycle and unit, two lines per cycle in all, each way; a beat per cycle
    at the host, each way.

    Parameters
    ----------
    config : EngineConfig

    Attributes
    ----------
    descriptor_read_latency, data_read_latency, register_response_latency : int

    Members
    -------
    s_axil : `In(AxiLiteSignature(12, 32))`
        The registers of docs/reference/registers.md.
    m_axi_mem0, m_axi_mem1, … : `Out(Axi4Signature(sector_bytes, 40, 1))`
        Device memory, for each unit.
    m_axi_host : `Out(Axi4Signature(host_bytes, 64, 2))`
        Host memory.
    irq : `Out(1)`
        High while an enabled bit of IRQ_STATUS is set.
    """

    descriptor_read_latency = 4
    data_read_latency = 10
    register_response_latency = RegisterPort.response_latency

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        memory = Axi4Signature(config.codec.sector_bytes, DEVICE_ADDRESS_BITS, MEMORY_ID_BITS)
        super().__init__(
            {
                "s_axil": In(AxiLiteSignature(ADDRESS_BITS, DATA_BITS)),
                **{f"m_axi_mem{k}": Out(memory) for k in range(config.units)},
                "m_axi_host": Out(
                    Axi4Signature(config.host_bytes, HOST_ADDRESS_BITS, HOST_ID_BITS)
                ),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.registers = registers = Registers(config)
        m.submodules.supervisor = supervisor = Supervisor()
        m.submodules.fetcher = fetcher = DescriptorFetcher(config)
        m.submodules.checker = checker = DescriptorChecker(config)
        m.submodules.dispatcher = dispatcher = Dispatcher(config)
        m.submodules.out_path = out_path = OutPath(config)
        m.submodules.in_path = in_path = InPath(config)
        m.submodules.completer = completer = Completer(config)
        m.submodules.record_writer = record_writer = RecordWriter(config)
        m.submodules.host = host = Axi4Port(
            config.host_bytes,
            HOST_ADDRESS_BITS,
            HOST_ID_BITS,
            reads=(PREFETCH, config.read_bursts),
            writes=(config.write_bursts, RECORDS),
        )

        def connect(source: Any, sink: Any) -> None:
            wiring.connect(m, source, sink)

        connect(wiring.flipped(self.s_axil), registers.s_axil)
        connect(host.m_axi, wiring.flipped(self.m_axi_host))

        # A descriptor's walk.
        connect(fetcher.o, checker.i)
        connect(checker.o, dispatcher.i)
        connect(dispatcher.started, completer.started)
        connect(dispatcher.job_out, out_path.job)
        connect(out_path.outcome, completer.outcome_out)
        connect(in_path.outcome, completer.outcome_in)
        connect(completer.o, record_writer.i)
        # The dispatcher starts nothing inward while something is verified.
        verifies = completer.verify.valid
        m.d.comb += [
            in_path.job.valid.eq(dispatcher.job_in.valid | verifies),
            in_path.job.payload.eq(
                Mux(
                    verifies,
                    completer.verify.payload.as_value(),
                    dispatcher.job_in.payload.as_value(),
                )
            ),
            dispatcher.job_in.ready.eq(in_path.job.ready & ~verifies),
            completer.verify.ready.eq(in_path.job.ready),
            dispatcher.verified.eq(completer.verified),
        ]

        # Data and descriptors at the host.
        connect(fetcher.request, host.read_request[0])
        connect(host.read_beats[0], fetcher.beats)
        connect(in_path.read_request, host.read_request[1])
        connect(host.read_beats[1], in_path.read_beats)
        connect(out_path.write_request, host.write_request[0])
        connect(out_path.write_beats, host.write_beats[0])
        connect(host.write_response[0], out_path.write_response)
        connect(record_writer.request, host.write_request[1])
        connect(record_writer.beats, host.write_beats[1])
        connect(host.write_response[1], record_writer.response)

        # The memories.
        ports = [host]
        for k in range(config.units):
            m.submodules[f"memory_{k}"] = memory = memory_port(config)
            ports.append(memory)
            connect(out_path.read_request[k], memory.read_request[0])
            connect(memory.read_beats[0], out_path.read_beats[k])
            connect(in_path.write_request[k], memory.write_request[0])
            connect(in_path.write_beats[k], memory.write_beats[0])
            connect(memory.write_response[0], in_path.write_response[k])
            connect(memory.m_axi, wiring.flipped(getattr(self, f"m_axi_mem{k}")))

        now = Signal(CYCLE_BITS)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [port.timeout_cycles.eq(registers.timeout_cycles.value) for port in ports]
        m.d.comb += [
            fetcher.enable.eq(supervisor.fetch),
            fetcher.base.eq(registers.ring_base.address),
            fetcher.log2_entries.eq(registers.ring_size.log2_entries),
            fetcher.tail.eq(registers.ring_tail.index),
            fetcher.done.eq(record_writer.done),
            fetcher.clear.eq(supervisor.clear),
            dispatcher.settled.eq(supervisor.settled),
            dispatcher.abort.eq(supervisor.abort),
            dispatcher.now.eq(now),
            out_path.abort.eq(supervisor.abort),
            in_path.abort.eq(supervisor.abort),
            completer.log2_entries.eq(registers.ring_size.log2_entries),
            completer.now.eq(now),
            record_writer.clear.eq(supervisor.clear),
            supervisor.abort_asked.eq(registers.control.abort),
            supervisor.reset_asked.eq(registers.control.reset),
            supervisor.enabled.eq(registers.control.enable),
            supervisor.fetched.eq(fetcher.idle & ~checker.o.valid),
            supervisor.starts.eq(dispatcher.i.valid & dispatcher.i.ready),
            supervisor.told.eq(record_writer.told),
            supervisor.about.eq(record_writer.about),
            supervisor.buses_idle.eq(Cat(port.idle for port in ports).all()),
            supervisor.ring_faulty.eq(fetcher.faulty),
            supervisor.ring_fault.eq(fetcher.fault),
            supervisor.record_error.eq(record_writer.error),
            registers.ring_clear.eq(supervisor.clear),
            registers.ring_head.index.eq(fetcher.head),
            registers.ring_done.index.eq(record_writer.done),
            registers.status.idle.eq(supervisor.idle),
            registers.status.aborting.eq(supervisor.abort),
            registers.status.resetting.eq(supervisor.resetting),
            registers.status.ring_error.eq(supervisor.ring_error),
        ]
        for k in range(THROTTLE_CLASSES):
            m.d.comb += [
                out_path.throttle_rate[k].eq(getattr(registers, f"throttle{k}_rate").value),
                out_path.throttle_burst[k].eq(getattr(registers, f"throttle{k}_burst").value),
            ]

        # Interrupts, and the first error.
        m.submodules.coalescer = coalescer = InterruptCoalescer()
        m.d.comb += [
            coalescer.arrives.eq(record_writer.told & record_writer.about.interrupt),
            coalescer.count.eq(registers.irq_coalesce_count.value),
            coalescer.cycles.eq(registers.irq_coalesce_cycles.value),
            registers.irq_status.done_set.eq(coalescer.raises),
            registers.irq_status.error_set.eq(supervisor.fails),
            registers.irq_status.ring_error_set.eq(supervisor.ring_stops),
            registers.error_capture.eq(supervisor.fails & ~registers.irq_status.error),
            registers.error_status.status.eq(supervisor.error.status),
            registers.error_status.detail.eq(supervisor.error.detail),
            registers.error_tag.value.eq(supervisor.error.tag),
            registers.error_addr.address.eq(supervisor.error.address),
            self.irq.eq(registers.irq),
        ]

        # Performance counters.
        codec = config.codec
        written = Signal(range(config.host_bytes + 1))
        m.d.sync += written.eq(
            Mux(
                out_path.write_beats.valid & out_path.write_beats.ready,
                count_ones(out_path.write_beats.payload.strobe),
                0,
            )
        )
        memories = ports[1:]
        for name, step in {
            "cycles_busy": ~supervisor.idle,
            "raw_bytes_out": codec.sector_bytes * sum((p.beat_read for p in memories), C(0)),
            "stream_bytes_out": written,
            "raw_bytes_in": codec.sector_bytes * sum((p.beat_written for p in memories), C(0)),
            "stream_bytes_in": Mux(
                in_path.read_beats.valid & in_path.read_beats.ready, config.host_bytes, 0
            ),
            "lines_out": out_path.issued,
            "lines_in": in_path.split,
            "host_write_beats": host.beat_written,
            "host_read_beats": host.beat_read,
            "stall_no_credit": out_path.no_credit,
            "stall_throttle": out_path.throttled,
            "stall_dram": out_path.starved,
            "stall_host_write": out_path.blocked,
            "stall_host_read": in_path.starved,
        }.items():
            m.d.comb += getattr(registers, name).increment.eq(step)
        m.d.comb += [
            registers.reservation_high_water.value.eq(out_path.reserved * codec.sector_bytes),
            registers.outstanding_high_water.value.eq(out_path.under_way),
        ]
        return m
