"""The Buddy memory controller: compressed memory behind an AXI4 subordinate port."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.address.translation import AddressTranslation
from cdma.hw.buddy.frontend.dispatcher import AccessDispatcher
from cdma.hw.buddy.frontend.frontend import BuddyFrontend
from cdma.hw.buddy.metadata.metadata import BuddyMetadata
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    LOGICAL_ADDRESS_BITS,
)
from cdma.hw.buddy.read.read_path import ReadPath, outstanding_entries
from cdma.hw.buddy.registers import BuddyRegisters
from cdma.hw.buddy.write.write_back import lookups_ahead
from cdma.hw.buddy.write.write_path import WritePath
from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature
from cdma.hw.bus.port import Axi4Port
from cdma.hw.config import BuddyConfig
from cdma.hw.registers.file import ADDRESS_BITS, DATA_BITS
from cdma.hw.registers.port import RegisterPort

DEVICE_ID_BITS = 2
BUDDY_ID_BITS = 1


def device_port(config: BuddyConfig) -> Axi4Port:
    """The port to device memory: entries have ID 0, lines of metadata 1."""
    fills = config.cache.slices * config.cache.misses
    return Axi4Port(
        SECTOR_BYTES,
        DEVICE_ADDRESS_BITS,
        DEVICE_ID_BITS,
        # A run that crosses a 4 KiB boundary takes two requests.
        reads=(2 * outstanding_entries(config), fills),
        writes=(2 * config.writes, fills),
    )


def buddy_port(config: BuddyConfig) -> Axi4Port:
    """The port to buddy memory, over the link."""
    return Axi4Port(
        SECTOR_BYTES,
        BUDDY_ADDRESS_BITS,
        BUDDY_ID_BITS,
        reads=(2 * outstanding_entries(config),),
        writes=(2 * config.writes,),
    )


class BuddyController(wiring.Component):
    """Memory of entries that are stored compressed, and overflow into buddy memory.

    An access walks through five rooms:

        s_axi ─ frontend ─ address ─ dispatcher ─┬─ read ──┬─ device, buddy
           └────── beats and responses ──────────┴─ write ─┘
                                                      └── metadata ─ device

    Logical addresses arrive at `s_axi`. A page table, which software writes through registers,
    holds each page's place and target ratio (Buddy Compression, §3.2). Entries of compressed pages
    are accessed with their metadata, and only those sectors of buddy memory are accessed that hold
    a part of the entry; no entry moves because of another one. INCR bursts of any length, size and
    alignment are supported; FIXED and WRAP are answered with SLVERR, as is every access that fails,
    with the reason in the registers. Writes of the same entry are performed in order of arrival; a
    read returns the writes that were answered before it arrived. Writes are answered in order of
    arrival, and so are reads of the same ID; a read that waits for buddy memory may be overtaken by
    reads of other IDs, but no burst is answered within another.

    Device reads and writes have ID 0 for entries and ID 1 for metadata; the buddy port uses ID 0.
    Bursts are INCR, of full-width beats, at most 4 for entries, and cross no 4 KiB boundary.

    Latency: the first beat of a read in an idle controller comes `read_latency` = 30 cycles plus
    the latency of device memory after its address; `compressed_read_latency` = 35 if its page is
    compressed, its metadata hit and nothing of it is in buddy memory. Registers answer after
    `register_response_latency` = 2.

    Throughput: an entry per cycle, as far as the widths of the ports allow.

    Parameters
    ----------
    config : BuddyConfig

    Attributes
    ----------
    read_latency, compressed_read_latency, register_response_latency : int

    Members
    -------
    s_axi : `In(Axi4Signature(sector_bytes, 40, id_bits))`
        Logical memory.
    m_axi_device : `Out(Axi4Signature(32, 40, 2))`
        Device memory; the metadata are at its end.
    m_axi_buddy : `Out(Axi4Signature(32, 64, 1))`
        Buddy memory, over the link.
    s_axil : `In(AxiLiteSignature(12, 32))`
        The registers of docs/reference/buddy-registers.md.
    irq : `Out(1)`
        High while an enabled bit of IRQ_STATUS is set.
    """

    read_latency = 30
    compressed_read_latency = 35
    register_response_latency = RegisterPort.response_latency

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "s_axi": In(
                    Axi4Signature(config.entry.sector_bytes, LOGICAL_ADDRESS_BITS, config.id_bits)
                ),
                "m_axi_device": Out(
                    Axi4Signature(SECTOR_BYTES, DEVICE_ADDRESS_BITS, DEVICE_ID_BITS)
                ),
                "m_axi_buddy": Out(Axi4Signature(SECTOR_BYTES, BUDDY_ADDRESS_BITS, BUDDY_ID_BITS)),
                "s_axil": In(AxiLiteSignature(ADDRESS_BITS, DATA_BITS)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        entries = outstanding_entries(config)
        m.submodules.registers = registers = BuddyRegisters(config)
        m.submodules.frontend = frontend = BuddyFrontend(config)
        m.submodules.address = address = AddressTranslation(config)
        m.submodules.dispatcher = dispatcher = AccessDispatcher(config)
        m.submodules.metadata = metadata = BuddyMetadata(
            config.cache, sources=3, lookups=entries + lookups_ahead(config) + 4
        )
        m.submodules.read = read = ReadPath(config)
        m.submodules.write = write = WritePath(config)
        m.submodules.device = device = device_port(config)
        m.submodules.buddy = buddy = buddy_port(config)
        wiring.connect(m, wiring.flipped(self.s_axi), frontend.s_axi)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.s_axil)
        wiring.connect(m, device.m_axi, wiring.flipped(self.m_axi_device))
        wiring.connect(m, buddy.m_axi, wiring.flipped(self.m_axi_buddy))

        # Frontend, address, dispatch.
        wiring.connect(m, frontend.access, address.i)
        wiring.connect(m, address.o, dispatcher.i)
        wiring.connect(m, address.mapping, dispatcher.mapping)
        wiring.connect(m, dispatcher.read, read.i)
        wiring.connect(m, dispatcher.write, write.i)
        wiring.connect(m, frontend.write_data, write.data)

        # Reads; a partial write fetches its entry through the read path.
        wiring.connect(m, read.lookup, metadata.lookup[2])
        wiring.connect(m, metadata.hint, read.hint)
        wiring.connect(m, metadata.result[2], read.result)
        wiring.connect(m, read.device_request, device.read_request[0])
        wiring.connect(m, device.read_beats[0], read.device_beats)
        wiring.connect(m, read.buddy_request, buddy.read_request[0])
        wiring.connect(m, buddy.read_beats[0], read.buddy_beats)
        wiring.connect(m, read.fetched, write.fetched)
        wiring.connect(m, read.beats, frontend.read_beats)

        # Writes.
        wiring.connect(m, write.poison, metadata.lookup[0])
        wiring.connect(m, metadata.result[0], write.poisoned)
        wiring.connect(m, write.lookup, metadata.lookup[1])
        wiring.connect(m, metadata.result[1], write.result)
        wiring.connect(m, write.device_request, device.write_request[0])
        wiring.connect(m, write.device_beats, device.write_beats[0])
        wiring.connect(m, device.write_response[0], write.device_response)
        wiring.connect(m, write.buddy_request, buddy.write_request[0])
        wiring.connect(m, write.buddy_beats, buddy.write_beats[0])
        wiring.connect(m, buddy.write_response[0], write.buddy_response)
        wiring.connect(m, write.o, frontend.responses)

        # Metadata.
        wiring.connect(m, metadata.read_request, device.read_request[1])
        wiring.connect(m, device.read_beats[1], metadata.read_beats)
        wiring.connect(m, metadata.write_request, device.write_request[1])
        wiring.connect(m, metadata.write_beats, device.write_beats[1])
        wiring.connect(m, device.write_response[1], metadata.write_response)

        # Completion: hazards end and credits return.
        m.d.comb += [
            dispatcher.read_done.eq(read.data_done),
            dispatcher.write_done.eq(write.write_done),
            frontend.read_done.eq(read.read_done),
            frontend.write_done.eq(write.write_done),
            frontend.fetch_done.eq(read.fetch_done),
            frontend.fetch_skipped.eq(dispatcher.fetch_skipped),
            frontend.lost.eq(metadata.lost),
            metadata.poison_lost.eq(write.poison_lost),
        ]
        idle = Signal()
        m.d.comb += idle.eq(frontend.idle & device.idle & buddy.idle)

        self._configure(m, registers, frontend, address, metadata, device, buddy)
        self._report_status(m, registers, idle, address, metadata, read, write)
        self._count(m, registers, idle, dispatcher, metadata, read, write)
        return m

    def _configure(
        self,
        m: Module,
        registers: BuddyRegisters,
        frontend: BuddyFrontend,
        address: AddressTranslation,
        metadata: BuddyMetadata,
        device: Axi4Port,
        buddy: Axi4Port,
    ) -> None:
        """Pass commands, regions, and writes of the page table on to the rooms."""
        m.d.comb += [
            frontend.enable.eq(registers.control.enable),
            metadata.flush.eq(registers.control.flush),
            metadata.invalidate.eq(registers.control.invalidate),
            metadata.clear.eq(registers.control.clear),
            address.logical_bytes.eq(registers.logical_bytes.bytes),
            address.metadata_base.eq(registers.metadata_base.address),
            address.carve_out_bytes.eq(registers.carve_out_bytes.bytes),
            address.gbbr.eq(registers.gbbr.address),
            address.page_write.en.eq(registers.page_frame.written),
            address.page_write.index.eq(registers.page_index.index),
            address.page_write.entry.fields.eq(registers.page_fields.fields),
            address.page_write.entry.mapped.eq(registers.page_fields.mapped),
            address.page_write.entry.frame.eq(registers.page_frame.frame),
            device.timeout_cycles.eq(registers.timeout_cycles.value),
            buddy.timeout_cycles.eq(registers.timeout_cycles.value),
        ]
        if self.config.entry.has_parameters:
            m.d.comb += [
                address.page_write.entry.parameters.centre.eq(registers.page_parameters.centre),
                address.page_write.entry.parameters.pattern.eq(registers.page_parameters.pattern),
            ]

    def _report_status(
        self,
        m: Module,
        registers: BuddyRegisters,
        idle: Signal,
        address: AddressTranslation,
        metadata: BuddyMetadata,
        read: ReadPath,
        write: WritePath,
    ) -> None:
        """Report status, interrupts, and the first error."""
        was_lost = Signal()
        error = Signal()
        read_error = read.error.valid
        m.d.sync += was_lost.eq(metadata.lost)
        m.d.comb += [
            error.eq(read_error | write.error.valid),
            registers.status.idle.eq(idle),
            registers.status.flushing.eq(metadata.flushing),
            registers.status.lost.eq(metadata.lost),
            registers.status.clearing.eq(address.clearing),
            registers.irq_status.flushed_set.eq(metadata.flush_done),
            registers.irq_status.error_set.eq(error),
            registers.irq_status.lost_set.eq(metadata.lost & ~was_lost),
            registers.error_capture.eq(error & ~registers.irq_status.error),
            registers.error_status.write.eq(~read_error),
            registers.error_status.status.eq(
                Mux(read_error, read.error.status, write.error.status)
            ),
            registers.error_addr.address.eq(
                Mux(read_error, read.error.address, write.error.address)
            ),
            self.irq.eq(registers.irq),
        ]

    def _count(
        self,
        m: Module,
        registers: BuddyRegisters,
        idle: Signal,
        dispatcher: AccessDispatcher,
        metadata: BuddyMetadata,
        read: ReadPath,
        write: WritePath,
    ) -> None:
        """Drive the performance counters, a cycle after what they count."""
        access = dispatcher.i.payload
        dispatched = Signal()
        m.d.comb += dispatched.eq(dispatcher.i.valid & dispatcher.i.ready)
        for name, step in {
            "cycles_busy": ~idle,
            "reads": dispatched & ~access.write,
            "writes": dispatched & access.write,
            "partial_writes": dispatched & access.partial & ~dispatcher.fetch_skipped,
            "device_sectors_read": Mux(read.issued, read.device_sectors, 0),
            "device_sectors_written": Mux(write.stored, write.device_sectors, 0),
            "buddy_sectors_read": Mux(read.issued, read.buddy_sectors, 0),
            "buddy_sectors_written": Mux(write.stored, write.buddy_sectors, 0),
            "overfetched_sectors": Mux(read.issued, read.overfetched, 0),
            "spilled": (read.issued & (read.buddy_sectors != 0))
            + (write.stored & (write.buddy_sectors != 0)),
            "metadata_hits": metadata.hit,
            "metadata_misses": metadata.miss,
            "metadata_evictions": metadata.evicted,
            "metadata_corrected": metadata.corrected,
            "metadata_uncorrectable": metadata.uncorrectable,
            "stall_hazard": dispatcher.hazard,
            "stall_buddy": read.buddy_stall,
        }.items():
            # What happens is often known late in its cycle, and a counter is wide.
            counted = Signal(Value.cast(step).shape(), name=f"counted_{name}")
            m.d.sync += counted.eq(step)
            m.d.comb += getattr(registers, name).increment.eq(counted)
