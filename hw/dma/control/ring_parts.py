"""The parts of the engine that each ring has of its own, from its registers to its interrupt."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring

from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.checker import DescriptorChecker
from cdma.hw.dma.control.each_ring import fires_for, of_ring
from cdma.hw.dma.control.record import InterruptCoalescer
from cdma.hw.dma.control.registers import Registers
from cdma.hw.dma.control.ring import DescriptorFetcher
from cdma.hw.dma.control.supervisor import Supervisor
from cdma.hw.dma.control.windows import PAGE_BITS, RingWindowChecker


class RingParts:
    """The submodules of the engine that belong to one ring, and how they are connected.

    Ring 0's have plain names, those of the others end in the ring's number.

    Parameters
    ----------
    m
        The engine's module.
    config : EngineConfig
    registers : Registers
        Those of all rings.
    number
        The ring's.

    Attributes
    ----------
    registers : RegisterPage
        The ring's.
    supervisor, window, fetcher, checker
    """

    def __init__(self, m: Module, config: EngineConfig, registers: Registers, number: int) -> None:
        self.config = config
        self.number = number
        self.registers: Any = registers.page(registers.pages[number])
        self._suffix = f"_{number}" if number else ""
        self.supervisor = Supervisor(config.rings)
        self.window = RingWindowChecker()
        self.fetcher = DescriptorFetcher(config)
        self.checker = DescriptorChecker(config)
        self._add(m, "supervisor", self.supervisor)
        self._add(m, "ring_window", self.window)
        self._add(m, "fetcher", self.fetcher)
        self._add(m, "checker", self.checker)

    def _add(self, m: Module, name: str, part: wiring.Component) -> None:
        m.submodules[f"{name}{self._suffix}"] = part

    def connect_supervisor(
        self, m: Module, shared: Any, *, start_fire: Value, may_fetch: Value | None
    ) -> None:
        """Connect the supervisor to the stages that it starts, stops and watches.

        Parameters
        ----------
        m, shared
            The engine's module and its submodules.
        start_fire
            A descriptor of the ring starts in this cycle.
        may_fetch
            The engine lets its rings fetch; None if nothing but the ring's supervisor decides.
        """
        supervisor, fetcher, checker = self.supervisor, self.fetcher, self.checker
        record_writer = shared.record_writer
        fetch = supervisor.fetch if may_fetch is None else supervisor.fetch & may_fetch
        record_done = fires_for(
            record_writer.record_done, record_writer.record_info.ring, self.number
        )
        m.d.comb += [
            fetcher.enable.eq(fetch),
            fetcher.clear.eq(supervisor.clear),
            *(
                of_ring(stage.abort, self.number).eq(supervisor.abort)
                for stage in (shared.dispatcher, shared.out_path, shared.in_path)
            ),
            of_ring(record_writer.clear, self.number).eq(supervisor.clear),
            supervisor.fetched.eq(fetcher.idle & checker.idle),
            supervisor.start_fire.eq(start_fire),
            supervisor.record_done.eq(record_done),
            supervisor.record_info.eq(record_writer.record_info),
            supervisor.record_error.eq(of_ring(record_writer.error, self.number)),
            supervisor.ring_faulty.eq(fetcher.faulty),
            supervisor.ring_fault.eq(fetcher.fault),
            checker.clear.eq(supervisor.clear),
            supervisor.record_outside.eq(checker.faulty),
            supervisor.record_address.eq(checker.fault_address),
        ]

    def connect_registers(self, m: Module, shared: Any) -> None:
        """Connect control, ring and status registers."""
        registers, supervisor, fetcher = self.registers, self.supervisor, self.fetcher
        done = of_ring(shared.record_writer.done, self.number)
        m.d.comb += [
            supervisor.abort_request.eq(registers.control.abort),
            supervisor.enabled.eq(registers.control.enable),
            fetcher.base.eq(registers.ring_base.address),
            fetcher.log2_entries.eq(registers.ring_size.log2_entries),
            fetcher.tail.eq(registers.ring_tail.index),
            fetcher.done.eq(done),
            of_ring(shared.retire.log2_entries, self.number).eq(registers.ring_size.log2_entries),
            registers.ring_clear.eq(supervisor.clear),
            registers.ring_head.index.eq(fetcher.head),
            registers.ring_done.index.eq(done),
            registers.status.idle.eq(supervisor.idle),
            registers.status.aborting.eq(supervisor.abort),
            registers.status.resetting.eq(supervisor.resetting),
            registers.status.ring_error.eq(supervisor.ring_error),
        ]

    def connect_windows(self, m: Module, host: Any, memories: list[Any]) -> None:
        """Connect the windows, the buses' attributes, and what keeps setup registers as they are.

        Ring, windows and attributes hold still while anything could depend on them.
        """
        registers, checker = self.registers, self.checker
        # A cycle late: a descriptor that starts to be fetched in the cycle in which software takes
        # CONTROL.enable back is seen before the next write.
        busy = Signal(name=f"busy{self._suffix}")
        m.d.sync += busy.eq(~self.supervisor.idle)
        m.d.comb += [
            registers.setup_closed.eq(registers.control.enable | busy),
            registers.windows_closed.eq(registers.setup_closed | registers.window_lock.lock),
            self.window.base.eq(registers.ring_base.address),
            self.window.log2_entries.eq(registers.ring_size.log2_entries),
            self.fetcher.outside.eq(self.window.outside),
        ]
        host_bits, device_bits = self.config.host_address_bits, self.config.device_address_bits
        for window, name, address_bits in (
            (self.window.window, "descriptor", host_bits),
            (checker.record_window, "record", host_bits),
            (checker.host_window, "host", host_bits),
            (checker.device_window, "device", device_bits),
        ):
            last = getattr(registers, f"{name}_window_last").address
            m.d.comb += [
                window.base.eq(getattr(registers, f"{name}_window_base").address),
                window.last.eq(_reachable(last, address_bits - PAGE_BITS)),
            ]
        for port in (host, *memories):
            bus = registers.host_bus if port is host else registers.device_bus
            attributes = of_ring(port.attributes, self.number)
            m.d.comb += [
                attributes.prot.eq(bus.prot),
                attributes.arcache.eq(bus.arcache),
                attributes.awcache.eq(bus.awcache),
            ]
            if self.config.stream_id_bits:
                m.d.comb += attributes.user.eq(registers.stream_id.id)

    def connect_interrupts(self, m: Module, shared: Any) -> None:
        """Connect the interrupt, and the registers that keep the first error."""
        registers, supervisor = self.registers, self.supervisor
        coalescer = InterruptCoalescer()
        self._add(m, "coalescer", coalescer)
        m.d.comb += [
            coalescer.request.eq(
                supervisor.record_done & shared.record_writer.record_info.interrupt
            ),
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
        ]


def _reachable(page: Value, bits: int) -> Value:
    """Return a page's number, at most the greatest one that a bus has with so many bits."""
    if bits >= len(page):
        return page
    return Mux(page[bits:].any(), (1 << bits) - 1, page)
