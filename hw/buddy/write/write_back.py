"""Write-back of entries: metadata first, then the sectors of both memories, then the response."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import DEVICE_SLOT_BYTES, ENTRY_SECTORS, Target
from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, SECTOR_BYTES, ZVC_FLAG
from cdma.hw.buddy.address.slots import size_class, split_sectors
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    SECTOR_OFFSET_BITS,
    AccessStatus,
    EntryWrite,
    ErrorReport,
    MetadataError,
    MetadataLookup,
    MetadataResult,
    StoredEntry,
    SubordinateWriteResponse,
    WriteKind,
    set_metadata_status,
)
from cdma.hw.buddy.write.run_writer import RunWriter
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.bus.burst import BusError, ReadRequest, WriteBeat
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo

POISON = ZVC_FLAG | AS_IT_IS
"""Metadata that no valid entry has: they mark an entry as corrupt."""


def lookups_ahead(config: BuddyConfig) -> int:
    """Return how many entries may wait for their lookups while a line of metadata is fetched."""
    return max(4, config.writes // 2)


class WriteBack(wiring.Component):
    """Writes entries to both memories, and answers bursts.

        i ─ set metadata ─ entries ─ write sectors ─ outstanding ─ complete ─ o
                 │            │          │   │                       │
              lookup        result    device buddy          poison, poisoned

    An entry's metadata are set before its sectors are written. If one of its sectors cannot be
    written, the metadata are poisoned, so that the entry is never taken for valid. A burst is
    answered when all of its entries are in memory; nothing is written if the metadata cannot be.

    Entries complete in order. Throughput: a sector for each memory per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(StoredEntry(config)))`
    lookup : `Out(stream.Signature(MetadataLookup()))`
    result : `In(stream.Signature(MetadataResult()))`
        One for each of `lookup`, in order.
    poison : `Out(stream.Signature(MetadataLookup()))`
    poisoned : `In(stream.Signature(MetadataResult()))`
        One for each of `poison`.
    device_request, buddy_request : `Out(stream.Signature(ReadRequest(40 or 64)))`
    device_beats, buddy_beats : `Out(stream.Signature(WriteBeat(32)))`
    device_response, buddy_response : `In(stream.Signature(BusError))`
    o : `Out(stream.Signature(SubordinateWriteResponse(config)))`
        One for each burst.
    write_done : `Out(1)`
        An entry is complete.
    stored : `Out(1)`
        Sectors of an entry are sent to memory. For counters, as are the next two.
    device_sectors, buddy_sectors : `Out(range(5))`
        With `stored`: number of sectors for each memory.
    error : `Out(ErrorReport())`
    poison_lost : `Out(1)`
        An entry could not be poisoned.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(StoredEntry(config))),
                "lookup": Out(stream.Signature(MetadataLookup())),
                "result": In(stream.Signature(MetadataResult())),
                "poison": Out(stream.Signature(MetadataLookup())),
                "poisoned": In(stream.Signature(MetadataResult())),
                "device_request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS))),
                "device_beats": Out(stream.Signature(WriteBeat(SECTOR_BYTES))),
                "device_response": In(stream.Signature(BusError)),
                "buddy_request": Out(stream.Signature(ReadRequest(BUDDY_ADDRESS_BITS))),
                "buddy_beats": Out(stream.Signature(WriteBeat(SECTOR_BYTES))),
                "buddy_response": In(stream.Signature(BusError)),
                "o": Out(stream.Signature(SubordinateWriteResponse(config))),
                "write_done": Out(1),
                "stored": Out(1),
                "device_sectors": Out(range(ENTRY_SECTORS + 1)),
                "buddy_sectors": Out(range(ENTRY_SECTORS + 1)),
                "error": Out(ErrorReport()),
                "poison_lost": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.entries = entries = Fifo(StoredEntry(config), lookups_ahead(config))
        m.submodules.results = results = Fifo(MetadataResult(), lookups_ahead(config) + 1)
        m.submodules.device = device = RunWriter(DEVICE_ADDRESS_BITS, config.writes)
        m.submodules.buddy = buddy = RunWriter(BUDDY_ADDRESS_BITS, config.writes)
        m.submodules.outstanding = outstanding = Fifo(EntryWrite(config), config.writes)
        for writer, name in ((device, "device"), (buddy, "buddy")):
            wiring.connect(m, writer.request, wiring.flipped(getattr(self, f"{name}_request")))
            wiring.connect(m, writer.beats, wiring.flipped(getattr(self, f"{name}_beats")))
            wiring.connect(m, wiring.flipped(getattr(self, f"{name}_response")), writer.response)
        wiring.connect(m, wiring.flipped(self.result), results.i)
        self._set_metadata(m, entries)
        self._write_sectors(m, entries, results, device, buddy, outstanding)
        self._complete(m, device, buddy, outstanding)
        return m

    def _set_metadata(self, m: Module, entries: Fifo) -> None:
        """Set the metadata of compressed entries."""
        entry = self.i.payload
        compressed = Signal()
        m.d.comb += [
            compressed.eq(_is_compressed(entry.write)),
            self.lookup.valid.eq(self.i.valid & compressed & entries.i.ready),
            self.lookup.payload.address.eq(entry.write.mapping.metadata_address),
            self.lookup.payload.upper.eq(entry.write.mapping.metadata_upper),
            self.lookup.payload.write.eq(1),
            self.lookup.payload.metadata.eq(entry.metadata),
            entries.i.valid.eq(self.i.valid & (self.lookup.ready | ~compressed)),
            entries.i.payload.eq(entry),
            self.i.ready.eq(entries.i.ready & (self.lookup.ready | ~compressed)),
        ]

    def _write_sectors(
        self,
        m: Module,
        entries: Fifo,
        results: Fifo,
        device: RunWriter,
        buddy: RunWriter,
        outstanding: Fifo,
    ) -> None:
        """Send the sectors to the memories once the metadata are set."""
        entry = entries.o.payload
        mapping = entry.write.mapping
        looked_up = Signal()
        status = Signal(AccessStatus)
        valid = Signal()
        ready = Signal()
        fire = Signal()
        m.d.comb += [
            looked_up.eq(_is_compressed(entry.write)),
            status.eq(entry.write.status),
            valid.eq(entries.o.valid & (results.o.valid | ~looked_up)),
        ]
        with m.If(looked_up):
            set_metadata_status(m, status, results.o.payload.error)

        # The runs. A page that is not compressed has only those sectors written that the strobe
        # touches.
        number = size_class(self.config, entry.metadata, mapping)
        entry_device, entry_buddy = split_sectors(m, mapping.target, number, name="stored")
        first, count = _touched_sectors(m, entry.strobe)
        uncompressed = Signal()
        m.d.comb += [
            uncompressed.eq(entry.write.kind == WriteKind.UNCOMPRESSED),
            device.i.payload.run.address.eq(
                mapping.device_address + Mux(uncompressed, first * SECTOR_BYTES, 0)
            ),
            buddy.i.payload.run.address.eq(mapping.buddy_address),
        ]
        with m.If((status == AccessStatus.OK) & uncompressed):
            m.d.comb += device.i.payload.run.sectors.eq(count)
        with m.Elif((status == AccessStatus.OK) & looked_up):
            m.d.comb += [
                device.i.payload.run.sectors.eq(entry_device),
                buddy.i.payload.run.sectors.eq(entry_buddy),
            ]

        # Their data. Target 16x: four entries share a sector, and only the eight bytes of this one
        # are written.
        slot_bytes = DEVICE_SLOT_BYTES[Target.X16]
        shared = Signal()
        slot_strobe = Signal(ENTRY_BYTES)
        m.d.comb += [
            shared.eq(mapping.compressed & (mapping.target == Target.X16)),
            slot_strobe.eq(
                C((1 << slot_bytes) - 1, ENTRY_BYTES)
                << (mapping.device_address[:SECTOR_OFFSET_BITS])
            ),
            buddy.i.payload.strobe.eq(entry.strobe),
        ]
        with m.If(shared):
            slot = entry.data[: 8 * slot_bytes]
            m.d.comb += [
                device.i.payload.data.eq(slot.replicate(SECTOR_BYTES // slot_bytes)),
                device.i.payload.strobe.eq(slot_strobe),
            ]
        with m.Else():
            shift = Signal(range(ENTRY_SECTORS))
            m.d.comb += [
                shift.eq(Mux(uncompressed, first, 0)),
                device.i.payload.data.eq(_from_sector(entry.data, shift, 8 * SECTOR_BYTES)),
                device.i.payload.strobe.eq(_from_sector(entry.strobe, shift, SECTOR_BYTES)),
            ]
        m.d.comb += buddy.i.payload.data.eq(
            _from_sector(entry.data, entry_device, 8 * SECTOR_BYTES)
        )

        # All three sinks accept the entry in the same cycle.
        m.d.comb += [
            ready.eq(device.i.ready & buddy.i.ready & outstanding.i.ready),
            fire.eq(valid & ready),
            device.i.valid.eq(valid & buddy.i.ready & outstanding.i.ready),
            buddy.i.valid.eq(valid & device.i.ready & outstanding.i.ready),
            outstanding.i.valid.eq(valid & device.i.ready & buddy.i.ready),
            outstanding.i.payload.eq(entry.write),
            outstanding.i.payload.status.eq(status),
            entries.o.ready.eq(fire),
            results.o.ready.eq(fire & looked_up),
            self.stored.eq(fire),
            self.device_sectors.eq(device.i.payload.run.sectors),
            self.buddy_sectors.eq(buddy.i.payload.run.sectors),
        ]

    def _complete(self, m: Module, device: RunWriter, buddy: RunWriter, outstanding: Fifo) -> None:
        """Complete entries whose runs are written, poison those that failed, and answer bursts."""
        m.submodules.responses = responses = Fifo(
            SubordinateWriteResponse(self.config), self.config.writes
        )
        wiring.connect(m, responses.o, wiring.flipped(self.o))
        write = outstanding.o.payload
        written = Signal()
        bus_error = Signal()
        needs_poison = Signal()
        poison_issued = Signal()
        poison_done = Signal()
        done = Signal()
        status = Signal(AccessStatus)
        error = Signal()
        burst_error = Signal()
        m.d.comb += [
            written.eq(outstanding.o.valid & device.o.valid & buddy.o.valid),
            bus_error.eq((device.o.payload != BusError.NONE) | (buddy.o.payload != BusError.NONE)),
            needs_poison.eq(bus_error & _is_compressed(write)),
            status.eq(write.status),
        ]
        with m.If((device.o.payload == BusError.TIMEOUT) | (buddy.o.payload == BusError.TIMEOUT)):
            m.d.comb += status.eq(AccessStatus.TIMEOUT)
        with m.Elif(device.o.payload != BusError.NONE):
            m.d.comb += status.eq(AccessStatus.DEVICE_WRITE)
        with m.Elif(buddy.o.payload != BusError.NONE):
            m.d.comb += status.eq(AccessStatus.BUDDY_WRITE)
        m.d.comb += [
            self.poison.valid.eq(written & needs_poison & ~poison_issued),
            self.poison.payload.address.eq(write.mapping.metadata_address),
            self.poison.payload.upper.eq(write.mapping.metadata_upper),
            self.poison.payload.write.eq(1),
            self.poison.payload.metadata.eq(POISON),
            self.poisoned.ready.eq(1),
            error.eq(status != AccessStatus.OK),
            done.eq(written & (~needs_poison | poison_done) & (responses.i.ready | ~write.last)),
            outstanding.o.ready.eq(done),
            device.o.ready.eq(done),
            buddy.o.ready.eq(done),
            responses.i.valid.eq(done & write.last),
            responses.i.payload.id.eq(write.id),
            responses.i.payload.resp.eq(
                Mux(burst_error | error, AxiResponse.SLVERR, AxiResponse.OKAY)
            ),
            self.write_done.eq(done),
            self.error.valid.eq(done & error),
            self.error.status.eq(status),
            self.error.address.eq(write.address),
        ]
        with m.If(done):
            m.d.sync += [
                poison_issued.eq(0),
                poison_done.eq(0),
                burst_error.eq(~write.last & (burst_error | error)),
            ]
        with m.Elif(self.poison.valid & self.poison.ready):
            m.d.sync += poison_issued.eq(1)
        with m.If(self.poisoned.valid):
            m.d.sync += poison_done.eq(1)
        m.d.comb += self.poison_lost.eq(
            self.poisoned.valid & (self.poisoned.payload.error != MetadataError.NONE)
        )


def _is_compressed(write: Any) -> Value:
    return (write.kind == WriteKind.FULL) | (write.kind == WriteKind.PARTIAL)


def _from_sector(value: Value, first: Value, sector_bits: int) -> Value:
    """Return the value from sector `first` on."""
    return value >> Cat(C(0, (sector_bits - 1).bit_length()), first)


def _touched_sectors(m: Module, strobe: Value) -> tuple[Signal, Signal]:
    """Return the first sector in which a byte is written, and their number up to the last one."""
    first = Signal(range(ENTRY_SECTORS))
    count = Signal(range(ENTRY_SECTORS + 1))
    last = Signal(range(ENTRY_SECTORS))
    touched = Signal(ENTRY_SECTORS)
    m.d.comb += [
        touched.eq(Cat(strobe.word_select(k, SECTOR_BYTES).any() for k in range(ENTRY_SECTORS))),
        count.eq(Mux(touched.any(), last - first + 1, 0)),
    ]
    for k in range(ENTRY_SECTORS):
        with m.If(touched[k]):
            m.d.comb += last.eq(k)
        with m.If(touched[ENTRY_SECTORS - 1 - k]):
            m.d.comb += first.eq(ENTRY_SECTORS - 1 - k)
    return first, count
