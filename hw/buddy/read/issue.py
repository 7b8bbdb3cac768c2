"""Reads of entries: metadata, the sectors of device memory beside them, and buddy memory last."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS, Target
from cdma.golden.buddy.entry import AS_IT_IS, METADATA_BITS
from cdma.hw.buddy.address.slots import slot_sectors, split_sectors
from cdma.hw.buddy.frontend.access import last_byte
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    AccessStatus,
    MetadataError,
    MetadataLookup,
    MetadataResult,
    take_metadata_error,
)
from cdma.hw.buddy.reads import EntryRead, ExpectedEntry
from cdma.hw.buddy.runs import SECTOR_OFFSET_BITS, RunCutter
from cdma.hw.bus.burst import ReadRequest
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.stream import Fifo

LOOKUPS = 8
"""Reads that wait for the few cycles of a lookup that hits."""


class IssuedRead(data.StructLayout):
    """A read of which the sectors of device memory have been asked for.

    Members
    -------
    read
    fetched
        How many were.
    known
        The metadata are, as they were at hand when the sectors were asked for.
    result
        Of the lookup, if so.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "read": EntryRead(config),
                "fetched": range(ENTRY_SECTORS + 1),
                "known": 1,
                "result": MetadataResult(),
            }
        )


class ReadIssuer(wiring.Component):
    """Asks the memories for entries.

    The metadata of each are looked up. If they are at hand, those sectors are asked for that hold
    the entry. If they have to come from memory, device memory is asked at once for all of the
    entry's slot there: the metadata tell only about the rest (Buddy Compression, §3.4), and a
    sector too many costs less than the wait. Buddy memory is asked when it is known that it has
    something.

    Everything is in order. Throughput: an entry per cycle; buddy runs that cross a 4 KiB boundary
    take a cycle more.

    Parameters
    ----------
    config : BuddyConfig
    entries
        How many may be on their way behind this.

    Members
    -------
    i : `In(stream.Signature(EntryRead(config)))`
    lookup : `Out(stream.Signature(MetadataLookup()))`
    waits : `In(stream.Signature(1))`
        For each lookup, before its result: the result is behind a memory access.
    result : `In(stream.Signature(MetadataResult()))`
        For each lookup.
    device_request : `Out(stream.Signature(ReadRequest(40)))`
    buddy_request : `Out(stream.Signature(ReadRequest(64)))`
    o : `Out(stream.Signature(ExpectedEntry(config)))`
    issued : `Out(1)`
        `o` gives an entry that was read. For counters, as is the next.
    overfetched : `Out(range(4))`
        With it: sectors of device memory that were not needed.
    """

    def __init__(self, config: BuddyConfig, entries: int) -> None:
        self.config = config
        self.entries = entries
        super().__init__(
            {
                "i": In(stream.Signature(EntryRead(config))),
                "lookup": Out(stream.Signature(MetadataLookup())),
                "waits": In(stream.Signature(1)),
                "result": In(stream.Signature(MetadataResult())),
                "device_request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS))),
                "buddy_request": Out(stream.Signature(ReadRequest(BUDDY_ADDRESS_BITS))),
                "o": Out(stream.Signature(ExpectedEntry(config))),
                "issued": Out(1),
                "overfetched": Out(range(ENTRY_SECTORS + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.lookups = lookups = Fifo(EntryRead(self.config), LOOKUPS)
        m.submodules.hints = hints = Fifo(1, self.entries)
        m.submodules.results = results = Fifo(MetadataResult(), self.entries)
        m.submodules.unresolved = unresolved = Fifo(IssuedRead(self.config), self.entries)
        m.submodules.device_cutter = device_cutter = RunCutter(DEVICE_ADDRESS_BITS)
        m.submodules.buddy_cutter = buddy_cutter = RunCutter(BUDDY_ADDRESS_BITS)
        wiring.connect(m, wiring.flipped(self.waits), hints.i)
        wiring.connect(m, wiring.flipped(self.result), results.i)
        wiring.connect(m, device_cutter.o, wiring.flipped(self.device_request))
        wiring.connect(m, buddy_cutter.o, wiring.flipped(self.buddy_request))

        # Look the metadata up.
        wanted = self.i.payload
        wants_lookup = Signal()
        m.d.comb += [
            wants_lookup.eq(wanted.mapping.compressed & (wanted.status == AccessStatus.OK)),
            self.lookup.valid.eq(self.i.valid & wants_lookup & lookups.i.ready),
            self.lookup.payload.address.eq(wanted.mapping.metadata_address),
            self.lookup.payload.upper.eq(wanted.mapping.metadata_upper),
            self.lookup.payload.write.eq(0),
            self.lookup.payload.metadata.eq(0),
            self.i.ready.eq(lookups.i.ready & (self.lookup.ready | ~wants_lookup)),
            lookups.i.valid.eq(self.i.valid & (self.lookup.ready | ~wants_lookup)),
            lookups.i.payload.eq(wanted),
        ]

        # Ask device memory.
        read = lookups.o.payload
        mapping = read.mapping
        sound = Signal()
        looked_up = Signal()
        behind = Signal(range(self.entries + 2))
        known = Signal()
        guessing = Signal()
        decided = Signal()
        result_sound = Signal()
        first = Signal(range(ENTRY_SECTORS))
        count = Signal(range(ENTRY_SECTORS + 1))
        issues = Signal()
        needed, _ = split_sectors(m, mapping.target, results.o.payload.metadata, name="issued")
        access = read.access
        last = last_byte(m, access)
        m.d.comb += [
            sound.eq(read.status == AccessStatus.OK),
            looked_up.eq(mapping.compressed & sound),
            # The result at hand is this read's: none before it waits for one.
            known.eq(results.o.valid & (behind == 0) & ~guessing),
            decided.eq(~looked_up | (hints.o.valid & (known | hints.o.payload))),
            result_sound.eq(results.o.payload.error == MetadataError.NONE),
            # What is not compressed is read by the sector.
            first.eq(Mux(mapping.compressed, 0, access.address[SECTOR_OFFSET_BITS:7])),
        ]
        # Once all of the slot was offered to the bus, it stays with that.
        m.d.sync += guessing.eq(device_cutter.i.valid & looked_up & ~known & ~device_cutter.i.ready)
        with m.If(~sound):
            m.d.comb += count.eq(0)
        with m.Elif(~mapping.compressed):
            m.d.comb += count.eq(last[SECTOR_OFFSET_BITS:] - first + 1)
        with m.Elif(~known):
            m.d.comb += count.eq(slot_sectors(mapping.target))
        with m.Elif(result_sound):
            m.d.comb += count.eq(needed)
        m.d.comb += [
            device_cutter.i.valid.eq(lookups.o.valid & decided & unresolved.i.ready),
            device_cutter.i.payload.address.eq(
                mapping.device_address + (first << SECTOR_OFFSET_BITS)
            ),
            device_cutter.i.payload.sectors.eq(count),
            issues.eq(device_cutter.i.valid & device_cutter.i.ready),
            lookups.o.ready.eq(issues),
            hints.o.ready.eq(issues & looked_up),
            unresolved.i.valid.eq(lookups.o.valid & decided & device_cutter.i.ready),
            unresolved.i.payload.read.eq(read),
            unresolved.i.payload.fetched.eq(count),
            unresolved.i.payload.known.eq(known | ~looked_up),
        ]
        with m.If(looked_up):
            m.d.comb += unresolved.i.payload.result.eq(results.o.payload)
        with m.Else():
            m.d.comb += unresolved.i.payload.result.metadata.eq(AS_IT_IS)

        # Ask buddy memory.
        issued = unresolved.o.payload
        result = Signal(MetadataResult())
        resolved = Signal()
        resolves = Signal()
        status = Signal(AccessStatus)
        metadata = Signal(METADATA_BITS)
        compressed = Signal()
        device = Signal(range(ENTRY_SECTORS + 1))
        buddy = Signal(range(ENTRY_SECTORS + 1))
        m.d.comb += [
            result.eq(Mux(issued.known, issued.result.as_value(), results.o.payload.as_value())),
            resolved.eq(issued.known | results.o.valid),
            status.eq(issued.read.status),
            metadata.eq(result.metadata),
            compressed.eq(issued.read.mapping.compressed),
        ]
        with m.If(issued.read.status == AccessStatus.OK):
            take_metadata_error(m, status, result.error)
        held_device, held_buddy = split_sectors(
            m, issued.read.mapping.target, metadata, name="resolved"
        )
        with m.If(status == AccessStatus.OK):
            m.d.comb += [
                device.eq(Mux(compressed, held_device, issued.fetched)),
                buddy.eq(Mux(compressed, held_buddy, 0)),
            ]
        gives = self.o.payload
        target = issued.read.mapping.target
        m.d.comb += [
            buddy_cutter.i.valid.eq(unresolved.o.valid & resolved & self.o.ready),
            buddy_cutter.i.payload.address.eq(issued.read.mapping.buddy_address),
            buddy_cutter.i.payload.sectors.eq(buddy),
            self.o.valid.eq(unresolved.o.valid & resolved & buddy_cutter.i.ready),
            gives.access.eq(issued.read.access),
            gives.fetch.eq(issued.read.fetch),
            gives.status.eq(status),
            gives.metadata.eq(metadata),
            gives.first.eq(Mux(compressed, 0, issued.read.access.address[SECTOR_OFFSET_BITS:7])),
            gives.fetched.eq(issued.fetched),
            gives.device.eq(device),
            gives.buddy.eq(buddy),
            gives.eighth.eq(issued.read.mapping.device_address[3:SECTOR_OFFSET_BITS]),
            gives.shared.eq(compressed & (target == Target.X16)),
            resolves.eq(self.o.valid & self.o.ready),
            unresolved.o.ready.eq(resolves),
            results.o.ready.eq((issues & looked_up & known) | (resolves & ~issued.known)),
            self.issued.eq(resolves),
            self.overfetched.eq(issued.fetched - device),
        ]
        m.d.sync += behind.eq(behind + (issues & looked_up & ~known) - (resolves & ~issued.known))
        return m
