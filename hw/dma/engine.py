"""The compressing DMA engine: descriptors in, completion records out."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature, connect_resized
from cdma.hw.bus.port import Axi4Port
from cdma.hw.bus.read_half import ReadHalf
from cdma.hw.bus.timeout import SilenceTimer
from cdma.hw.bus.write_half import WriteHalf
from cdma.hw.codec.stream.pack import ElementPacker
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.checker import DescriptorChecker
from cdma.hw.dma.control.completion import RetireUnit
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS
from cdma.hw.dma.control.dispatch import CYCLE_BITS, Dispatcher
from cdma.hw.dma.control.record import InterruptCoalescer, RecordWriter
from cdma.hw.dma.control.registers import Registers
from cdma.hw.dma.control.ring import DescriptorFetcher
from cdma.hw.dma.control.supervisor import Supervisor
from cdma.hw.dma.control.windows import PAGE_BITS, RingWindowChecker
from cdma.hw.dma.inbound.expansion import ExpansionUnit
from cdma.hw.dma.inbound.line_reports import LineReportCollector
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
"""What the engine itself uses of IDs; a bus may have wider ones."""

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
    LineReportCollector,
    ReadHalf,
    WriteHalf,
    SilenceTimer,
    RingWindowChecker,
    DescriptorFetcher,
    DescriptorChecker,
    Dispatcher,
    RetireUnit,
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
    descriptors are outstanding at once, both ways: what must wait for others comes behind a fence.

    Host reads have ID 0 for descriptors and 1 for data, host writes 0 for data and 1 for records;
    the memory ports use ID 0. Bursts are INCR, of whole-width beats, at most 16 at the host and 8
    at the memories, and cross no 4 KiB boundary. Write data is complete before its address is sent.

    Latency: if nothing is outstanding, the request for a descriptor comes `descriptor_read_latency`
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
        Device memory, for each unit; the configuration may have other widths of address and ID.
    m_axi_host : `Out(Axi4Signature(host_bytes, 64, 2))`
        Host memory; the same holds of it.
    irq : `Out(1)`
        High while an enabled bit of IRQ_STATUS is set.
    """

    descriptor_read_latency = 4
    data_read_latency = 10
    register_response_latency = RegisterPort.response_latency

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        memory = Axi4Signature(
            config.codec.sector_bytes, config.device_address_bits, config.device_id_bits
        )
        super().__init__(
            {
                "s_axil": In(AxiLiteSignature(ADDRESS_BITS, DATA_BITS)),
                **{f"m_axi_mem{k}": Out(memory) for k in range(config.units)},
                "m_axi_host": Out(
                    Axi4Signature(config.host_bytes, config.host_address_bits, config.host_id_bits)
                ),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.registers = registers = Registers(config)
        m.submodules.supervisor = supervisor = Supervisor()
        m.submodules.ring_window = RingWindowChecker()
        m.submodules.fetcher = DescriptorFetcher(config)
        m.submodules.checker = DescriptorChecker(config)
        m.submodules.dispatcher = dispatcher = Dispatcher(config)
        m.submodules.out_path = OutPath(config)
        m.submodules.in_path = InPath(config)
        m.submodules.retire = retire = RetireUnit(config)
        m.submodules.record_writer = RecordWriter(config)
        m.submodules.host = host = Axi4Port(
            config.host_bytes,
            HOST_ADDRESS_BITS,
            HOST_ID_BITS,
            reads=(config.transfers, config.read_bursts),
            writes=(config.write_bursts, config.transfers),
        )
        wiring.connect(m, wiring.flipped(self.s_axil), registers.s_axil)
        connect_resized(m, host.m_axi, self.m_axi_host)

        self._connect_descriptors(m)
        self._connect_host(m)
        memories = self._add_memories(m)
        ports = [host, *memories]
        m.d.comb += [port.timeout_cycles.eq(registers.timeout_cycles.value) for port in ports]
        m.d.comb += supervisor.buses_idle.eq(Cat(port.idle for port in ports).all())

        now = Signal(CYCLE_BITS)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [dispatcher.now.eq(now), retire.now.eq(now)]
        self._connect_supervisor(m)
        self._connect_registers(m)
        self._connect_windows(m, memories)
        self._connect_interrupts(m)
        self._connect_counters(m, memories)
        if config.ecc:
            self._connect_ecc(m)
        return m

    def _connect_descriptors(self, m: Module) -> None:
        """Connect a descriptor's stages: fetch, check, dispatch, path, retire, record."""
        parts: Any = m.submodules
        dispatcher, retire, in_path = parts.dispatcher, parts.retire, parts.in_path
        wiring.connect(m, parts.fetcher.o, parts.checker.i)
        wiring.connect(m, parts.checker.o, dispatcher.i)
        wiring.connect(m, dispatcher.started, retire.started)
        wiring.connect(m, dispatcher.job_out, parts.out_path.job)
        wiring.connect(m, parts.out_path.outcome, retire.outcome_out)
        wiring.connect(m, in_path.outcome, retire.outcome_in)
        wiring.connect(m, retire.o, parts.record_writer.i)
        # The dispatcher starts nothing inward while something is verified.
        verify = retire.verify.valid
        m.d.comb += [
            in_path.job.valid.eq(dispatcher.job_in.valid | verify),
            in_path.job.payload.eq(
                Mux(
                    verify,
                    retire.verify.payload.as_value(),
                    dispatcher.job_in.payload.as_value(),
                )
            ),
            dispatcher.job_in.ready.eq(in_path.job.ready & ~verify),
            retire.verify.ready.eq(in_path.job.ready),
            dispatcher.verified.eq(retire.verified),
        ]

    def _connect_host(self, m: Module) -> None:
        """Connect descriptors, data and records to the port to host memory."""
        parts: Any = m.submodules
        host, out_path, in_path = parts.host, parts.out_path, parts.in_path
        wiring.connect(m, parts.fetcher.request, host.read_request[0])
        wiring.connect(m, host.read_beats[0], parts.fetcher.beats)
        wiring.connect(m, in_path.read_request, host.read_request[1])
        wiring.connect(m, host.read_beats[1], in_path.read_beats)
        wiring.connect(m, out_path.write_request, host.write_request[0])
        wiring.connect(m, out_path.write_beats, host.write_beats[0])
        wiring.connect(m, host.write_response[0], out_path.write_response)
        wiring.connect(m, parts.record_writer.request, host.write_request[1])
        wiring.connect(m, parts.record_writer.beats, host.write_beats[1])
        wiring.connect(m, host.write_response[1], parts.record_writer.response)

    def _add_memories(self, m: Module) -> list[Axi4Port]:
        """Add a port to device memory for each unit, and return them."""
        parts: Any = m.submodules
        out_path, in_path = parts.out_path, parts.in_path
        memories = []
        for k in range(self.config.units):
            m.submodules[f"memory_{k}"] = memory = memory_port(self.config)
            memories.append(memory)
            wiring.connect(m, out_path.read_request[k], memory.read_request[0])
            wiring.connect(m, memory.read_beats[0], out_path.read_beats[k])
            wiring.connect(m, in_path.write_request[k], memory.write_request[0])
            wiring.connect(m, in_path.write_beats[k], memory.write_beats[0])
            wiring.connect(m, memory.write_response[0], in_path.write_response[k])
            connect_resized(m, memory.m_axi, getattr(self, f"m_axi_mem{k}"))
        return memories

    def _connect_supervisor(self, m: Module) -> None:
        """Connect the supervisor to the stages that it starts, stops and watches."""
        parts: Any = m.submodules
        supervisor, dispatcher = parts.supervisor, parts.dispatcher
        fetcher, record_writer = parts.fetcher, parts.record_writer
        m.d.comb += [
            fetcher.enable.eq(supervisor.fetch),
            fetcher.clear.eq(supervisor.clear),
            dispatcher.all_retired.eq(supervisor.all_retired),
            dispatcher.abort.eq(supervisor.abort),
            parts.out_path.abort.eq(supervisor.abort),
            parts.in_path.abort.eq(supervisor.abort),
            record_writer.clear.eq(supervisor.clear),
            supervisor.fetched.eq(fetcher.idle & parts.checker.idle),
            supervisor.start_fire.eq(dispatcher.i.valid & dispatcher.i.ready),
            supervisor.record_done.eq(record_writer.record_done),
            supervisor.record_info.eq(record_writer.record_info),
            supervisor.record_error.eq(record_writer.error),
            supervisor.ring_faulty.eq(fetcher.faulty),
            supervisor.ring_fault.eq(fetcher.fault),
            parts.checker.clear.eq(supervisor.clear),
            supervisor.record_outside.eq(parts.checker.faulty),
            supervisor.record_address.eq(parts.checker.fault_address),
        ]

    def _connect_registers(self, m: Module) -> None:
        """Connect control, ring, status and throttle registers."""
        parts: Any = m.submodules
        registers, supervisor = parts.registers, parts.supervisor
        fetcher, record_writer, out_path = parts.fetcher, parts.record_writer, parts.out_path
        m.d.comb += [
            supervisor.abort_request.eq(registers.control.abort),
            supervisor.reset_request.eq(registers.control.reset),
            supervisor.enabled.eq(registers.control.enable),
            fetcher.base.eq(registers.ring_base.address),
            fetcher.log2_entries.eq(registers.ring_size.log2_entries),
            fetcher.tail.eq(registers.ring_tail.index),
            fetcher.done.eq(record_writer.done),
            parts.retire.log2_entries.eq(registers.ring_size.log2_entries),
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

    def _connect_windows(self, m: Module, memories: list[Axi4Port]) -> None:
        """Connect the windows, the buses' attributes, and what keeps setup registers as they are.

        Ring, windows and attributes hold still while anything could depend on them.
        """
        parts: Any = m.submodules
        registers, ring_window, checker = parts.registers, parts.ring_window, parts.checker
        # A cycle late: a descriptor that starts to be fetched in the cycle in which software takes
        # CONTROL.enable back is seen before the next write.
        busy = Signal()
        m.d.sync += busy.eq(~parts.supervisor.idle)
        m.d.comb += [
            registers.setup_closed.eq(registers.control.enable | busy),
            registers.windows_closed.eq(registers.setup_closed | registers.window_lock.lock),
            ring_window.base.eq(registers.ring_base.address),
            ring_window.log2_entries.eq(registers.ring_size.log2_entries),
            parts.fetcher.outside.eq(ring_window.outside),
        ]
        host_bits, device_bits = self.config.host_address_bits, self.config.device_address_bits
        for window, name, address_bits in (
            (ring_window.window, "descriptor", host_bits),
            (checker.record_window, "record", host_bits),
            (checker.host_window, "host", host_bits),
            (checker.device_window, "device", device_bits),
        ):
            last = getattr(registers, f"{name}_window_last").address
            m.d.comb += [
                window.base.eq(getattr(registers, f"{name}_window_base").address),
                window.last.eq(_reachable(last, address_bits - PAGE_BITS)),
            ]
        for port in (parts.host, *memories):
            bus = registers.host_bus if port is parts.host else registers.device_bus
            m.d.comb += [
                port.attributes.prot.eq(bus.prot),
                port.attributes.arcache.eq(bus.arcache),
                port.attributes.awcache.eq(bus.awcache),
            ]

    def _connect_interrupts(self, m: Module) -> None:
        """Connect the interrupt, and the registers that keep the first error."""
        parts: Any = m.submodules
        registers, supervisor = parts.registers, parts.supervisor
        record_writer = parts.record_writer
        m.submodules.coalescer = coalescer = InterruptCoalescer()
        m.d.comb += [
            coalescer.request.eq(record_writer.record_done & record_writer.record_info.interrupt),
            coalescer.count.eq(registers.irq_coalesce_count.value),
            coalescer.cycles.eq(registers.irq_coalesce_cycles.value),
            registers.irq_status.done_set.eq(coalescer.interrupt),
            registers.irq_status.error_set.eq(supervisor.error_valid),
            registers.irq_status.ring_error_set.eq(supervisor.ring_stop),
            registers.error_capture.eq(supervisor.error_valid & ~registers.irq_status.error),
            registers.error_status.status.eq(supervisor.error.status),
            registers.error_status.detail.eq(supervisor.error.detail),
            registers.error_tag.value.eq(supervisor.error.tag),
            registers.error_addr.address.eq(supervisor.error.address),
            self.irq.eq(registers.irq),
        ]

    def _connect_ecc(self, m: Module) -> None:
        """Connect the counters of flipped bits, and let transfers fail after those that are lost.

        A lost word may be of any transfer that is under way, and a later one may begin behind its
        remains; so they fail until the engine has been reset, which waits for all of them.
        """
        parts: Any = m.submodules
        registers, out_path, in_path = parts.registers, parts.out_path, parts.in_path
        for name in ("corrected", "uncorrectable"):
            increment = getattr(registers, f"ecc_{name}").increment
            m.d.comb += increment.eq(getattr(out_path, name) + getattr(in_path, name))
        with m.If(registers.ecc_uncorrectable.increment.any()):
            m.d.sync += parts.retire.memory_failed.eq(1)
        with m.Elif(parts.supervisor.clear):
            m.d.sync += parts.retire.memory_failed.eq(0)

    def _connect_counters(self, m: Module, memories: list[Axi4Port]) -> None:
        """Connect what the performance counters count, each by its register's name."""
        parts: Any = m.submodules
        registers, host = parts.registers, parts.host
        out_path, in_path = parts.out_path, parts.in_path
        host_bytes, sector_bytes = self.config.host_bytes, self.config.codec.sector_bytes
        for name, step in {
            "cycles_busy": ~parts.supervisor.idle,
            "raw_bytes_out": sector_bytes * sum((port.beat_read for port in memories), C(0)),
            "stream_bytes_out": Mux(
                out_path.write_beats.valid & out_path.write_beats.ready,
                count_ones(out_path.write_beats.payload.strobe),
                0,
            ),
            "raw_bytes_in": sector_bytes * sum((port.beat_written for port in memories), C(0)),
            "stream_bytes_in": Mux(
                in_path.read_beats.valid & in_path.read_beats.ready, host_bytes, 0
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
            # A cycle late: some of the events are known late in theirs.
            increment = getattr(registers, name).increment
            counted = Signal.like(increment, name=f"{name}_step")
            m.d.sync += counted.eq(step)
            m.d.comb += increment.eq(counted)
        m.d.comb += [
            registers.reservation_high_water.value.eq(out_path.reserved * sector_bytes),
            registers.outstanding_high_water.value.eq(out_path.outstanding),
        ]


def _reachable(page: Value, bits: int) -> Value:
    """Return a page's number, at most the greatest one that a bus has with so many bits."""
    if bits >= len(page):
        return page
    return Mux(page[bits:].any(), (1 << bits) - 1, page)
