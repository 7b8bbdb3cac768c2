"""The compressing DMA engine: descriptors in, completion records out."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature, connect_resized
from cdma.hw.bus.clock_crossing import Axi4ClockCrossing
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
from cdma.hw.dma.control.fetch_arbiter import FetchArbiter
from cdma.hw.dma.control.record import RecordWriter
from cdma.hw.dma.control.registers import Registers, register_source
from cdma.hw.dma.control.ring import DescriptorFetcher
from cdma.hw.dma.control.ring_arbiter import RingArbiter
from cdma.hw.dma.control.ring_parts import RingParts
from cdma.hw.dma.control.supervisor import Supervisor
from cdma.hw.dma.control.windows import RingWindowChecker
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
from cdma.hw.dma.path_activity import PathActivity
from cdma.hw.lib.clocks.async_fifo import LATENCY, RESET_CYCLES
from cdma.hw.lib.clocks.clock_gate import ClockGate
from cdma.hw.lib.count import count_ones
from cdma.hw.registers.file import DATA_BITS
from cdma.hw.registers.map import address_bits as register_address_bits
from cdma.hw.registers.port import RegisterPort

MEMORY_ID_BITS = 1
HOST_ID_BITS = 2
"""What the engine itself uses of IDs; a bus may have wider ones."""

HOST_DOMAIN = "host"
"""The clock domain of the bus to the host, if it has one of its own."""

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

PATHS = ("out_path", "in_path")
"""The data paths, whose clocks are gated with `clock_gates`."""


def memory_port(config: EngineConfig) -> Axi4Port:
    """The port to device memory of one of the engine's units."""
    return Axi4Port(
        config.codec.sector_bytes,
        DEVICE_ADDRESS_BITS,
        MEMORY_ID_BITS,
        # A line that crosses a page takes two.
        reads=(2 * config.unit_lines,),
        writes=(2 * config.unit_lines,),
        owners=config.rings,
        user_bits=config.stream_id_bits,
    )


def host_port(config: EngineConfig) -> Axi4Port:
    """The port to host memory: descriptors and data are read, data and records written."""
    return Axi4Port(
        config.host_bytes,
        HOST_ADDRESS_BITS,
        HOST_ID_BITS,
        reads=(config.rings * config.transfers, config.read_bursts),
        writes=(config.write_bursts, config.transfers),
        owners=config.rings,
        user_bits=config.stream_id_bits,
    )


class DmaEngine(wiring.Component):
    """Moves tensors between device memory and host memory, compressed on the host's side.

    Software puts descriptors into a ring in host memory and writes RING_TAIL; each descriptor ends
    with a completion record in host memory, in the order of the ring, whatever went wrong. Data
    leaves device memory through compression units at its controllers, so that only compressed lines
    travel to the engine (cDMA, §V-B), and comes back through expansion units there. Several
    descriptors are outstanding at once, both ways: what must wait for others comes behind a fence.
    Several rings, each with its registers, windows and interrupt, start their descriptors
    round-robin.

    Host reads have ID 0 for descriptors and 1 for data, host writes 0 for data and 1 for records;
    the memory ports use ID 0. Bursts are INCR, of whole-width beats, at most 16 at the host and 8
    at the memories, and cross no 4 KiB boundary. Write data is complete before its address is sent.

    Latency: if nothing is outstanding, the request for a descriptor comes `descriptor_read_latency`
    = 4 cycles after the doorbell, and the first one for its data `data_read_latency` = 10 cycles
    after the descriptor's last beat; registers answer after `register_response_latency` = 2. With
    several rings the first two are a cycle longer, in which one of them is chosen.

    With `host_clock` the bus to the host has a clock of its own, "host", in any ratio to the
    engine's: each of its channels takes `host_crossing_latency` = 4 cycles of the clock that it
    goes to, or one more, beside what is said here. Both resets come from one source and last for
    `reset_cycles` = 6 cycles of each clock at least.

    With `clock_gates` each path's clock stops while it has no job, some cycles behind its last one.
    Nothing in it would change meanwhile, so no latency does either. Token buckets fill over time
    and keep the clock.

    Throughput: a line per cycle and unit, two lines per cycle in all, each way; a beat per cycle
    at the host, each way, of the slower clock if there are two. Streams move at a sector per cycle
    at most, also at a wider host; one of another width costs them a cycle of latency each way.

    Parameters
    ----------
    config : EngineConfig

    Attributes
    ----------
    descriptor_read_latency, data_read_latency, register_response_latency : int
    host_crossing_latency, reset_cycles : int
        With `host_clock` only.
    member_domains : dict of str to str
        Clock domains of members, where they are not "sync".
    gated_clocks : dict of str to str
        Submodules whose clock is gated, each with its gate; empty without `clock_gates`.

    Members
    -------
    s_axil : `In(AxiLiteSignature(12, 32))`
        The registers of docs/reference/registers.md; pages of further rings take further bits.
    m_axi_mem0, m_axi_mem1, … : `Out(Axi4Signature(sector_bytes, 40, 1))`
        Device memory, for each unit; the configuration may have other widths of address and ID.
    m_axi_host : `Out(Axi4Signature(host_bytes, 64, 2))`
        Host memory; the same holds of it. In the domain "host" with `host_clock`.
    irq : `Out(config.rings)`
        For each ring, high while an enabled bit of its IRQ_STATUS is set.
    test_enable : `In(1)`
        Keep gated clocks running, for scan tests. Only with `clock_gates`.
    """

    descriptor_read_latency = 4
    data_read_latency = 10
    register_response_latency = RegisterPort.response_latency

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        user_bits = config.stream_id_bits
        memory = Axi4Signature(
            config.codec.sector_bytes,
            config.device_address_bits,
            config.device_id_bits,
            user_bits,
        )
        host = Axi4Signature(
            config.host_bytes, config.host_address_bits, config.host_id_bits, user_bits
        )
        self.member_domains: dict[str, str] = {}
        if config.host_clock:
            self.member_domains["m_axi_host"] = HOST_DOMAIN
            self.host_crossing_latency = LATENCY
            self.reset_cycles = RESET_CYCLES
        paths = PATHS if config.clock_gates else ()
        self.gated_clocks = {path: f"{path}_clock" for path in paths}
        address_bits = register_address_bits(register_source(config))
        super().__init__(
            {
                "s_axil": In(AxiLiteSignature(address_bits, DATA_BITS)),
                **{f"m_axi_mem{k}": Out(memory) for k in range(config.units)},
                "m_axi_host": Out(host),
                "irq": Out(config.rings),
                **({"test_enable": In(1)} if config.clock_gates else {}),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.registers = registers = Registers(config)
        rings = [RingParts(m, config, registers, number) for number in range(config.rings)]
        m.submodules.dispatcher = dispatcher = Dispatcher(config)
        m.submodules.out_path = OutPath(config)
        m.submodules.in_path = InPath(config)
        m.submodules.retire = retire = RetireUnit(config)
        m.submodules.record_writer = RecordWriter(config)
        m.submodules.host = host = host_port(config)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.s_axil)
        self._connect_host_bus(m, host)

        starts = self._connect_descriptors(m, rings)
        self._connect_host(m, rings)
        memories = self._add_memories(m)
        ports = [host, *memories]
        m.d.comb += [port.timeout_cycles.eq(registers.timeout_cycles.value) for port in ports]
        self._connect_idle(m, rings, ports)

        now = Signal(CYCLE_BITS)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [dispatcher.now.eq(now), retire.now.eq(now)]
        drained = self._connect_resets(m, rings, starts)
        for ring in rings:
            ring.connect_registers(m, m.submodules)
            ring.connect_windows(m, host, memories)
            ring.connect_interrupts(m, m.submodules)
        self._connect_throttles(m)
        m.d.comb += self.irq.eq(registers.irq)
        self._connect_counters(m, rings, memories)
        if config.ecc:
            self._connect_ecc(m, drained)
        for path, gate in self.gated_clocks.items():
            self._gate(m, path, gate)
        return m

    def _connect_descriptors(self, m: Module, rings: Sequence[RingParts]) -> list[Value]:
        """Connect a descriptor's stages: fetch, check, dispatch, path, retire, record.

        Returns, for each ring, that a descriptor of it starts in this cycle.
        """
        parts: Any = m.submodules
        dispatcher, retire, in_path = parts.dispatcher, parts.retire, parts.in_path
        for ring in rings:
            wiring.connect(m, ring.fetcher.o, ring.checker.i)
        if len(rings) == 1:
            wiring.connect(m, rings[0].checker.o, dispatcher.i)
            starts = [dispatcher.i.valid & dispatcher.i.ready]
            m.d.comb += dispatcher.all_retired.eq(rings[0].supervisor.all_retired)
        else:
            m.submodules.ring_arbiter = arbiter = RingArbiter(len(rings))
            wiring.connect(m, arbiter.o, dispatcher.i)
            starts = list(arbiter.chosen)
            # Fences have waited before they come to the dispatcher.
            m.d.comb += dispatcher.all_retired.eq(1)
            for ring in rings:
                wiring.connect(m, ring.checker.o, arbiter.i[ring.number])
                m.d.comb += [
                    arbiter.all_retired[ring.number].eq(ring.supervisor.all_retired),
                    arbiter.abort[ring.number].eq(ring.supervisor.abort),
                ]
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
        return starts

    def _connect_host(self, m: Module, rings: Sequence[RingParts]) -> None:
        """Connect descriptors, data and records to the port to host memory."""
        parts: Any = m.submodules
        host, out_path, in_path = parts.host, parts.out_path, parts.in_path
        if len(rings) == 1:
            wiring.connect(m, rings[0].fetcher.request, host.read_request[0])
            wiring.connect(m, host.read_beats[0], rings[0].fetcher.beats)
        else:
            m.submodules.fetch_arbiter = arbiter = FetchArbiter(self.config)
            wiring.connect(m, arbiter.port_request, host.read_request[0])
            wiring.connect(m, host.read_beats[0], arbiter.port_beats)
            for ring in rings:
                wiring.connect(m, ring.fetcher.request, arbiter.request[ring.number])
                wiring.connect(m, arbiter.beats[ring.number], ring.fetcher.beats)
        wiring.connect(m, in_path.read_request, host.read_request[1])
        wiring.connect(m, host.read_beats[1], in_path.read_beats)
        wiring.connect(m, out_path.write_request, host.write_request[0])
        wiring.connect(m, out_path.write_beats, host.write_beats[0])
        wiring.connect(m, host.write_response[0], out_path.write_response)
        wiring.connect(m, parts.record_writer.request, host.write_request[1])
        wiring.connect(m, parts.record_writer.beats, host.write_beats[1])
        wiring.connect(m, host.write_response[1], parts.record_writer.response)

    def _connect_host_bus(self, m: Module, host: Axi4Port) -> None:
        """Connect the port to host memory to the bus, or to what brings it to the bus's clock."""
        config = self.config
        if not config.host_clock:
            connect_resized(m, host.m_axi, self.m_axi_host)
            return
        m.submodules.host_crossing = crossing = Axi4ClockCrossing(
            config.host_bytes,
            config.host_address_bits,
            config.host_id_bits,
            config.stream_id_bits,
            domain=HOST_DOMAIN,
        )
        connect_resized(m, host.m_axi, wiring.flipped(crossing.s_axi))
        wiring.connect(m, crossing.m_axi, wiring.flipped(self.m_axi_host))

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

    def _connect_idle(
        self, m: Module, rings: Sequence[RingParts], ports: Sequence[Axi4Port]
    ) -> None:
        """Let each supervisor know whether the buses owe anything to its ring.

        With several rings others may keep the buses busy; then a ring whose descriptors all have
        their records is owed nothing, unless a port has been given up.
        """
        quiet = Cat(port.idle for port in ports).all()
        if len(rings) > 1:
            quiet |= ~Cat(port.dead for port in ports).any()
        m.d.comb += [ring.supervisor.buses_idle.eq(quiet) for ring in rings]

    def _connect_resets(
        self, m: Module, rings: Sequence[RingParts], starts: Sequence[Value]
    ) -> Value:
        """Connect the supervisors, and the reset of all rings together.

        Returns that no descriptor is left of those before the reset that this cycle ends.
        """
        if len(rings) == 1:
            (ring,) = rings
            ring.connect_supervisor(m, m.submodules, start_fire=starts[0], may_fetch=None)
            m.d.comb += ring.supervisor.reset_request.eq(ring.registers.control.reset)
            return ring.supervisor.clear
        all_rings: Any = m.submodules["registers"].all_rings
        resetting = Signal(name="all_resetting")
        drained = Signal()
        m.d.comb += [
            drained.eq(resetting & ~Cat(ring.supervisor.resetting for ring in rings).any()),
            all_rings.resetting.eq(resetting),
            all_rings.busy.eq(Cat(~ring.supervisor.idle for ring in rings)),
        ]
        with m.If(all_rings.reset):
            m.d.sync += resetting.eq(1)
        with m.Elif(drained):
            m.d.sync += resetting.eq(0)
        for ring, start_fire in zip(rings, starts, strict=True):
            ring.connect_supervisor(m, m.submodules, start_fire=start_fire, may_fetch=~resetting)
            m.d.comb += ring.supervisor.reset_request.eq(
                ring.registers.control.reset | all_rings.reset
            )
        return drained

    def _connect_throttles(self, m: Module) -> None:
        """Connect the throttles' registers."""
        parts: Any = m.submodules
        registers, out_path = parts.registers, parts.out_path
        for k in range(THROTTLE_CLASSES):
            m.d.comb += [
                out_path.throttle_rate[k].eq(getattr(registers, f"throttle{k}_rate").value),
                out_path.throttle_burst[k].eq(getattr(registers, f"throttle{k}_burst").value),
            ]

    def _connect_ecc(self, m: Module, drained: Value) -> None:
        """Connect the counters of flipped bits, and let transfers fail after those that are lost.

        A lost word may be of any transfer that is under way, and a later one may begin behind its
        remains; so they fail until the engine has been reset, which waits for all of them: until
        then `drained`.
        """
        parts: Any = m.submodules
        registers, out_path, in_path = parts.registers, parts.out_path, parts.in_path
        for name in ("corrected", "uncorrectable"):
            increment = getattr(registers, f"ecc_{name}").increment
            m.d.comb += increment.eq(getattr(out_path, name) + getattr(in_path, name))
        with m.If(registers.ecc_uncorrectable.increment.any()):
            m.d.sync += parts.retire.memory_failed.eq(1)
        with m.Elif(drained):
            m.d.sync += parts.retire.memory_failed.eq(0)

    def _gate(self, m: Module, path: str, gate: str) -> None:
        """Stop a path's clock while nothing is asked of it.

        The gate's name in `gated_clocks` lets its clock be the path's.
        """
        component: Any = m.submodules[path]
        m.submodules[f"{path}_activity"] = activity = PathActivity(self.config)
        m.submodules[gate] = clock_gate = ClockGate()
        job, outcome = component.job, component.outcome
        offers: list[Value] = []
        for name in ("read_request", "write_request", "write_beats"):
            one_or_more = getattr(component, name)
            streams = [one_or_more] if hasattr(one_or_more, "valid") else list(one_or_more)
            offers += [stream.valid for stream in streams]
        m.d.comb += [
            activity.offers.eq(Cat(*offers).any()),
            activity.job_valid.eq(job.valid),
            activity.job_fire.eq(job.valid & job.ready),
            activity.outcome_fire.eq(outcome.valid & outcome.ready),
            clock_gate.enable.eq(activity.enable),
            clock_gate.test_enable.eq(self.test_enable),
        ]

    def _connect_counters(
        self, m: Module, rings: Sequence[RingParts], memories: list[Axi4Port]
    ) -> None:
        """Connect what the performance counters count, each by its register's name."""
        parts: Any = m.submodules
        registers, host = parts.registers, parts.host
        out_path, in_path = parts.out_path, parts.in_path
        host_bytes, sector_bytes = self.config.host_bytes, self.config.codec.sector_bytes
        idle, *others = (ring.supervisor.idle for ring in rings)
        for other in others:
            idle &= other
        for name, step in {
            "cycles_busy": ~idle,
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
