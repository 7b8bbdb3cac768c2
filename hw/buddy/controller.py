"""The buddy memory controller: compressed memory behind an AXI4 port."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.address.mapper import SectorMapper
from cdma.hw.buddy.address.page_table import PageTable
from cdma.hw.buddy.frontend.access import BurstSplitter, GatheredWrite, WriteGatherer
from cdma.hw.buddy.frontend.admission import FETCHES, Admission, AdmittedAccess
from cdma.hw.buddy.frontend.dispatcher import AccessDispatcher
from cdma.hw.buddy.frontend.subordinate_port import ManagerPort
from cdma.hw.buddy.metadata.cache import MetadataCache
from cdma.hw.buddy.metadata.lookups import LookupArbiter
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    LOGICAL_ADDRESS_BITS,
    MetadataError,
)
from cdma.hw.buddy.read.assembler import EntryAssembler
from cdma.hw.buddy.read.issue import ReadIssuer
from cdma.hw.buddy.read.response import ReadReturner
from cdma.hw.buddy.reads import ExpectedEntry, ReadInfo
from cdma.hw.buddy.registers import BuddyRegisters
from cdma.hw.buddy.runs import SECTOR_OFFSET_BITS
from cdma.hw.buddy.write.encoder import WriteEncoder
from cdma.hw.buddy.write.write_back import EntryStorer, stores_of
from cdma.hw.buddy.writes import EntryWrite
from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature
from cdma.hw.bus.burst import ReadBeat
from cdma.hw.bus.port import Axi4Port
from cdma.hw.codec.entry.decompressor import EntryDecompressor
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.stream import Fifo
from cdma.hw.registers.file import ADDRESS_BITS, DATA_BITS
from cdma.hw.registers.port import RegisterPort

DEVICE_ID_BITS = 2
BUDDY_ID_BITS = 1
ADMITTED = 8
"""Accesses on their way through page table and mapper."""
GATHERED = 8
"""Entries of data on their way to the compressor."""
RESTORING = 16
"""Entries on their way through the decompressor."""


class BuddyController(wiring.Component):
    """Memory of entries that are kept compressed, and spill into buddy memory what has no room.

    Logical addresses come in at `s_axi`. A page table, written through registers, tells each
    page's place and target ratio (Buddy Compression, §3.2). Entries of compressed pages are read
    with their metadata, and only those sectors of buddy memory are touched that hold a part of an
    entry; no entry moves because of another. INCR bursts of any length, size and alignment are
    served; FIXED and WRAP are answered with SLVERR, as is every access that fails for whatever
    reason, which the registers tell. Writes of the same entry are in the order in which they came;
    a read sees the writes that were answered before it came.

    Device reads have ID 0 for entries and 1 for metadata, and so have device writes; the buddy port
    uses ID 0. Bursts are INCR, of whole-width beats, at most 4 for entries, and cross no 4 KiB
    boundary.

    Latency: a lone read's first beat comes `read_latency` = 30 cycles and what device memory takes
    after its address, or `compressed_read_latency` = 35 if its page is compressed, its metadata are
    at hand and nothing of it has spilled. Registers answer after `register_response_latency` = 2.

    Throughput: an entry per cycle, as far as the ports' widths allow.

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
        entries = config.reads + FETCHES
        fills = config.cache.slices * config.cache.misses
        m.submodules.registers = registers = BuddyRegisters(config)
        m.submodules.manager = manager = ManagerPort(config)
        m.submodules.read_splitter = read_splitter = BurstSplitter(config)
        m.submodules.write_splitter = write_splitter = BurstSplitter(config)
        m.submodules.gatherer = gatherer = WriteGatherer(config)
        m.submodules.admission = admission = Admission(config)
        m.submodules.admitted = admitted = Fifo(AdmittedAccess(config), ADMITTED)
        m.submodules.page_table = page_table = PageTable(config)
        m.submodules.mapper = mapper = SectorMapper(config)
        m.submodules.dispatcher = dispatcher = AccessDispatcher(config)
        m.submodules.issuer = issuer = ReadIssuer(config, entries)
        m.submodules.lookups = lookups = LookupArbiter(3, entries + stores_of(config) + 4)
        m.submodules.cache = cache = MetadataCache(config.cache)
        m.submodules.expected = expected = Fifo(ExpectedEntry(config), entries)
        m.submodules.device_beats = device_beats = Fifo(
            ReadBeat(SECTOR_BYTES), entries * ENTRY_SECTORS
        )
        m.submodules.assembler = assembler = EntryAssembler(config)
        m.submodules.restoring = restoring = Fifo(ReadInfo(config), RESTORING)
        m.submodules.decompressor = decompressor = EntryDecompressor(config.entry)
        m.submodules.returner = returner = ReadReturner(config)
        m.submodules.written = written = Fifo(EntryWrite(config), config.writes)
        m.submodules.write_data = write_data = Fifo(GatheredWrite(config), GATHERED)
        m.submodules.encoder = encoder = WriteEncoder(config)
        m.submodules.storer = storer = EntryStorer(config)
        m.submodules.device = device = Axi4Port(
            SECTOR_BYTES,
            DEVICE_ADDRESS_BITS,
            DEVICE_ID_BITS,
            # A run that crosses a page takes two.
            reads=(2 * entries, fills),
            writes=(2 * config.writes, fills),
        )
        m.submodules.buddy = buddy = Axi4Port(
            SECTOR_BYTES,
            BUDDY_ADDRESS_BITS,
            BUDDY_ID_BITS,
            reads=(2 * entries,),
            writes=(2 * config.writes,),
        )

        def connect(source: Any, sink: Any) -> None:
            wiring.connect(m, source, sink)

        connect(wiring.flipped(self.s_axil), registers.s_axil)
        connect(device.m_axi, wiring.flipped(self.m_axi_device))
        connect(buddy.m_axi, wiring.flipped(self.m_axi_buddy))
        connect(wiring.flipped(self.s_axi), manager.s_axi)

        # In: to places in memory.
        connect(manager.read, read_splitter.i)
        connect(manager.write, write_splitter.i)
        connect(manager.write_beats, gatherer.beats)
        connect(read_splitter.o, admission.read)
        connect(write_splitter.o, gatherer.i)
        connect(gatherer.o, admission.write)
        connect(admission.data, write_data.i)
        m.d.comb += [
            page_table.i.payload.address.eq(admission.o.payload.access.address),
            page_table.i.valid.eq(admission.o.valid & admitted.i.ready),
            admitted.i.payload.eq(admission.o.payload),
            admitted.i.valid.eq(admission.o.valid & page_table.i.ready),
            admission.o.ready.eq(page_table.i.ready & admitted.i.ready),
        ]
        connect(page_table.o, mapper.i)
        connect(mapper.o, dispatcher.mapping)
        connect(admitted.o, dispatcher.i)
        connect(dispatcher.read, issuer.i)
        connect(dispatcher.write, written.i)

        # Reads: metadata and sectors, then the entry.
        connect(issuer.lookup, lookups.lookup[2])
        connect(lookups.waits, issuer.waits)
        connect(lookups.result[2], issuer.result)
        connect(issuer.device_request, device.read_request[0])
        connect(issuer.buddy_request, buddy.read_request[0])
        connect(issuer.o, expected.i)
        connect(expected.o, assembler.i)
        connect(device.read_beats[0], device_beats.i)
        connect(device_beats.o, assembler.device)
        connect(buddy.read_beats[0], assembler.buddy)
        connect(assembler.o, decompressor.i)
        connect(assembler.info, restoring.i)
        connect(decompressor.o, returner.i)
        connect(restoring.o, returner.info)
        connect(returner.fetched, encoder.fetched)
        connect(returner.beats, manager.read_beats)

        # Writes: what is kept, then metadata and sectors.
        connect(written.o, encoder.i)
        connect(write_data.o, encoder.data)
        connect(encoder.o, storer.i)
        connect(storer.o, manager.response)
        connect(storer.poison, lookups.lookup[0])
        connect(lookups.result[0], storer.poisoned)
        connect(storer.lookup, lookups.lookup[1])
        connect(lookups.result[1], storer.result)
        for port, name in ((device, "device"), (buddy, "buddy")):
            connect(getattr(storer, f"{name}_request"), port.write_request[0])
            connect(getattr(storer, f"{name}_beats"), port.write_beats[0])
            connect(port.write_response[0], getattr(storer, f"{name}_response"))

        # Metadata.
        connect(lookups.cache_lookup, cache.lookup)
        connect(cache.hint, lookups.cache_hint)
        lost = Signal()
        m.d.comb += [
            lookups.cache_result.valid.eq(cache.o.valid),
            lookups.cache_result.payload.eq(cache.o.payload),
            cache.o.ready.eq(lookups.cache_result.ready),
        ]
        # A line that memory has not taken is not what memory still has of it: those that were
        # admitted before that was known must not take it for the truth.
        with m.If(lost & (cache.o.payload.error == MetadataError.NONE)):
            m.d.comb += lookups.cache_result.payload.error.eq(MetadataError.READ)
        connect(cache.read_request, device.read_request[1])
        connect(device.read_beats[1], cache.read_beats)
        connect(cache.write_request, device.write_request[1])
        connect(cache.write_beats, device.write_beats[1])
        connect(device.write_response[1], cache.write_response)

        # What is free again.
        m.d.comb += [
            admission.read_ends.eq(returner.returned),
            admission.write_ends.eq(storer.write_ends),
            admission.fetch_ends.eq(returner.fetch_ends),
            admission.fetch_unneeded.eq(dispatcher.fetch_unneeded),
            admission.response_ends.eq(storer.o.valid & storer.o.ready),
            dispatcher.read_ends.eq(assembler.read_ends),
            dispatcher.write_ends.eq(storer.write_ends),
        ]

        # Commands.
        writes_back = Signal()
        invalidates = Signal()
        poison_lost = Signal()
        m.d.comb += [
            lost.eq(cache.lost | poison_lost),
            cache.flush.valid.eq(writes_back),
            cache.flush.payload.write_back.eq(1),
            cache.flush.payload.invalidate.eq(invalidates),
            cache.clear.eq(registers.control.clear),
            admission.enable.eq(registers.control.enable),
            admission.lost.eq(lost),
        ]
        flush_taken = Signal()
        m.d.comb += flush_taken.eq(writes_back & cache.flush.ready)
        with m.If(registers.control.flush | registers.control.invalidate):
            m.d.sync += [
                writes_back.eq(1),
                invalidates.eq(registers.control.invalidate | (invalidates & ~flush_taken)),
            ]
        with m.Elif(flush_taken):
            m.d.sync += [writes_back.eq(0), invalidates.eq(0)]
        with m.If(registers.control.clear):
            m.d.sync += poison_lost.eq(0)
        with m.Elif(storer.lost):
            m.d.sync += poison_lost.eq(1)

        # Regions, and the page table.
        m.d.comb += [
            mapper.logical_bytes.eq(registers.logical_bytes.bytes),
            # Metadata and buddy sectors are aligned, whatever software has written.
            mapper.metadata_base.eq(_sector_aligned(registers.metadata_base.address)),
            mapper.carve_out_bytes.eq(registers.carve_out_bytes.bytes),
            mapper.gbbr.eq(_sector_aligned(registers.gbbr.address)),
            page_table.write.en.eq(registers.page_frame.written),
            page_table.write.index.eq(registers.page_index.index),
            page_table.write.entry.fields.eq(registers.page_fields.fields),
            page_table.write.entry.mapped.eq(registers.page_fields.mapped),
            page_table.write.entry.frame.eq(registers.page_frame.frame),
            device.timeout_cycles.eq(registers.timeout_cycles.value),
            buddy.timeout_cycles.eq(registers.timeout_cycles.value),
        ]

        # Status, interrupts, and the first error.
        flushing = Signal()
        idle = Signal()
        was_lost = Signal()
        fails = Signal()
        m.d.sync += [
            was_lost.eq(lost),
            flushing.eq(writes_back | (flushing & ~(cache.flushed & ~writes_back))),
        ]
        m.d.comb += [
            idle.eq(admission.idle & device.idle & buddy.idle),
            fails.eq(returner.failed | storer.failed),
            registers.status.idle.eq(idle),
            registers.status.flushing.eq(writes_back | flushing),
            registers.status.lost.eq(lost),
            registers.status.clearing.eq(page_table.clearing),
            registers.irq_status.flushed_set.eq(flushing & cache.flushed & ~writes_back),
            registers.irq_status.error_set.eq(fails),
            registers.irq_status.lost_set.eq(lost & ~was_lost),
            registers.error_capture.eq(fails & ~registers.irq_status.error),
            registers.error_status.write.eq(~returner.failed),
            registers.error_status.status.eq(Mux(returner.failed, returner.status, storer.status)),
            registers.error_addr.address.eq(Mux(returner.failed, returner.address, storer.address)),
            self.irq.eq(registers.irq),
        ]

        # Performance counters.
        expected_entry = issuer.o.payload
        moves = Signal()
        m.d.comb += moves.eq(dispatcher.i.valid & dispatcher.i.ready)
        for name, step in {
            "cycles_busy": ~idle,
            "reads": moves & ~dispatcher.i.payload.write,
            "writes": moves & dispatcher.i.payload.write,
            "partial_writes": moves & dispatcher.i.payload.partial & ~dispatcher.fetch_unneeded,
            "device_sectors_read": Mux(issuer.issued, expected_entry.fetched, 0),
            "device_sectors_written": Mux(storer.stored, storer.device_sectors, 0),
            "buddy_sectors_read": Mux(issuer.issued, expected_entry.buddy, 0),
            "buddy_sectors_written": Mux(storer.stored, storer.buddy_sectors, 0),
            "overfetched_sectors": Mux(issuer.issued, issuer.overfetched, 0),
            "spilled": (issuer.issued & (expected_entry.buddy != 0))
            + (storer.stored & (storer.buddy_sectors != 0)),
            "metadata_hits": cache.hit,
            "metadata_misses": cache.miss,
            "metadata_evictions": cache.evicted,
            "metadata_corrected": cache.corrected,
            "metadata_uncorrectable": cache.uncorrectable,
            "stall_hazard": dispatcher.waits,
            "stall_buddy": assembler.starved,
        }.items():
            m.d.comb += getattr(registers, name).increment.eq(step)
        return m


def _sector_aligned(address: Value) -> Value:
    return Cat(C(0, SECTOR_OFFSET_BITS), address[SECTOR_OFFSET_BITS:])
