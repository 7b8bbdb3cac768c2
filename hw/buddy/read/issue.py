"""Issue of reads: metadata lookups, then requests to device memory, then to buddy memory."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS, Target
from cdma.golden.buddy.entry import AS_IT_IS, METADATA_BITS
from cdma.hw.buddy.address.sector_runs import RunSplitter
from cdma.hw.buddy.address.slots import size_class, slot_sectors, split_sectors
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    ENTRY_OFFSET_BITS,
    SECTOR_OFFSET_BITS,
    AccessStatus,
    EntryRead,
    ExpectedEntry,
    MetadataError,
    MetadataLookup,
    MetadataResult,
    last_byte,
    set_metadata_status,
)
from cdma.hw.bus.burst import ReadRequest
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import ReverseRegister

LOOKUPS = 8
"""Reads buffered during the few cycles of a lookup that hits."""


class LookedUpRead(data.StructLayout):
    """A read whose metadata are being looked up, if it needs them.

    Members
    -------
    read
        The device address is that of the first sector to be read.
    looked_up
        It needs them.
    sectors
        Number of sectors to be requested from device memory while, or if, they are not there.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {"read": EntryRead(config), "looked_up": 1, "sectors": range(ENTRY_SECTORS + 1)}
        )


class IssuedRead(data.StructLayout):
    """A read whose sectors have been requested from device memory.

    Members
    -------
    read
        As in `LookedUpRead`.
    fetched
        Number of sectors requested.
    result_valid
        The metadata were known when the sectors were requested, or are not needed.
    result
        The result of the lookup if `result_valid`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "read": EntryRead(config),
                "fetched": range(ENTRY_SECTORS + 1),
                "result_valid": 1,
                "result": MetadataResult(),
            }
        )


class ReadIssue(wiring.Component):
    """Requests the sectors of entries from both memories.

        i ─ lookup ─ lookups ─ device request ─ issued ─ buddy request ─ o
                                     │                        │
            hint, result ────────────┴────────────────────────┘

    The metadata of each entry are looked up. On a hit, the sectors that hold the entry are
    requested. On a miss, the whole slot is requested from device memory in parallel with the
    metadata, which tell only about the rest (Buddy Compression, §3.4): an overfetched sector costs
    less than the wait. Requests to buddy memory are issued once the metadata are known.

    Reads leave in order. Throughput: an entry per cycle; a run in buddy memory that crosses a 4 KiB
    boundary takes a cycle more.

    Parameters
    ----------
    config : BuddyConfig
    entries
        Outstanding entries behind this component, at most.

    Members
    -------
    i : `In(stream.Signature(EntryRead(config)))`
    lookup : `Out(stream.Signature(MetadataLookup()))`
    hint : `In(stream.Signature(1))`
        One for each lookup, before its result: 1 if the result waits for a memory access.
    result : `In(stream.Signature(MetadataResult()))`
        One for each lookup.
    device_request : `Out(stream.Signature(ReadRequest(40)))`
    buddy_request : `Out(stream.Signature(ReadRequest(64)))`
    o : `Out(stream.Signature(ExpectedEntry(config)))`
    issued : `Out(1)`
        An entry is transferred at `o`. For counters, as is the next member.
    overfetched : `Out(range(5))`
        With `issued`: sectors requested from device memory that do not belong to the entry.
    """

    def __init__(self, config: BuddyConfig, entries: int) -> None:
        self.config = config
        self.entries = entries
        super().__init__(
            {
                "i": In(stream.Signature(EntryRead(config))),
                "lookup": Out(stream.Signature(MetadataLookup())),
                "hint": In(stream.Signature(1)),
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
        m.submodules.lookups = lookups = Fifo(LookedUpRead(self.config), LOOKUPS)
        m.submodules.hints = hints = Fifo(1, self.entries)
        m.submodules.results = results = Fifo(MetadataResult(), self.entries)
        m.submodules.issued = issued = Fifo(IssuedRead(self.config), self.entries)
        wiring.connect(m, wiring.flipped(self.hint), hints.i)
        wiring.connect(m, wiring.flipped(self.result), results.i)

        # Issued reads whose results are outstanding. Results are in order, so the result at hand
        # belongs to the oldest of them, and to the read at the device stage if there is none.
        results_pending = Signal(range(self.entries + 2))
        self._look_up(m, lookups)
        taken, missed = self._request_device(m, lookups, hints, results, issued, results_pending)
        resolved = self._request_buddy(m, issued, results)
        m.d.comb += results.o.ready.eq(taken | resolved)
        m.d.sync += results_pending.eq(results_pending + missed - resolved)
        return m

    def _look_up(self, m: Module, lookups: Fifo) -> None:
        """Look the metadata up, and find what does not depend on them."""
        read = self.i.payload
        mapping = read.mapping
        kept_read = lookups.i.payload
        last = last_byte(m, read.access)
        first = Signal(range(ENTRY_SECTORS))
        ok = Signal()
        needs_lookup = Signal()
        # Whether the cache takes a lookup follows from its tags; which accesses go on, from this.
        m.submodules.lookup_kept = kept = ReverseRegister(MetadataLookup())
        wiring.connect(m, kept.o, wiring.flipped(self.lookup))
        lookup = kept.i
        m.d.comb += [
            ok.eq(read.status == AccessStatus.OK),
            needs_lookup.eq(mapping.compressed & ok),
            lookup.valid.eq(self.i.valid & needs_lookup & lookups.i.ready),
            lookup.payload.address.eq(mapping.metadata_address),
            lookup.payload.upper.eq(mapping.metadata_upper),
            lookup.payload.write.eq(0),
            lookup.payload.metadata.eq(0),
            self.i.ready.eq(lookups.i.ready & (lookup.ready | ~needs_lookup)),
            lookups.i.valid.eq(self.i.valid & (lookup.ready | ~needs_lookup)),
            # Pages that are not compressed are read by the sector.
            first.eq(
                Mux(
                    mapping.compressed, 0, read.access.address[SECTOR_OFFSET_BITS:ENTRY_OFFSET_BITS]
                )
            ),
            kept_read.read.eq(read),
            kept_read.read.mapping.device_address.eq(
                mapping.device_address + (first << SECTOR_OFFSET_BITS)
            ),
            kept_read.looked_up.eq(needs_lookup),
        ]
        with m.If(ok):
            m.d.comb += kept_read.sectors.eq(
                Mux(
                    mapping.compressed,
                    slot_sectors(mapping.target),
                    last[SECTOR_OFFSET_BITS:] - first + 1,
                )
            )

    def _request_device(
        self,
        m: Module,
        lookups: Fifo,
        hints: Fifo,
        results: Fifo,
        issued: Fifo,
        results_pending: Signal,
    ) -> tuple[Value, Value]:
        """Request the sectors in device memory: those that hold the entry, or the whole slot.

        Returns
        -------
        In this cycle, a read is issued that takes the result at hand; one whose result is pending.
        """
        m.submodules.device_splitter = splitter = RunSplitter(DEVICE_ADDRESS_BITS)
        wiring.connect(m, splitter.o, wiring.flipped(self.device_request))
        waiting = lookups.o.payload
        read = waiting.read
        mapping = read.mapping
        looked_up = waiting.looked_up
        result_valid = Signal()
        slot_stalled = Signal()
        decided = Signal()
        result_ok = Signal()
        count = Signal(range(ENTRY_SECTORS + 1))
        fire = Signal()
        number = size_class(self.config, results.o.payload.metadata, mapping)
        needed, _ = split_sectors(m, mapping.target, number, name="issued")
        m.d.comb += [
            result_valid.eq(results.o.valid & (results_pending == 0) & ~slot_stalled),
            decided.eq(~looked_up | (hints.o.valid & (result_valid | hints.o.payload))),
            result_ok.eq(results.o.payload.error == MetadataError.NONE),
        ]
        # A request for the whole slot that is stalled stays, though the result may come meanwhile.
        m.d.sync += slot_stalled.eq(
            splitter.i.valid & looked_up & ~result_valid & ~splitter.i.ready
        )
        with m.If(~looked_up | ~result_valid):
            m.d.comb += count.eq(waiting.sectors)
        with m.Elif(result_ok):
            m.d.comb += count.eq(needed)
        m.d.comb += [
            splitter.i.valid.eq(lookups.o.valid & decided & issued.i.ready),
            splitter.i.payload.address.eq(mapping.device_address),
            splitter.i.payload.sectors.eq(count),
            fire.eq(splitter.i.valid & splitter.i.ready),
            lookups.o.ready.eq(fire),
            hints.o.ready.eq(fire & looked_up),
            issued.i.valid.eq(lookups.o.valid & decided & splitter.i.ready),
            issued.i.payload.read.eq(read),
            issued.i.payload.fetched.eq(count),
            issued.i.payload.result_valid.eq(result_valid | ~looked_up),
        ]
        with m.If(looked_up):
            m.d.comb += issued.i.payload.result.eq(results.o.payload)
        with m.Else():
            m.d.comb += issued.i.payload.result.metadata.eq(AS_IT_IS)
        return fire & looked_up & result_valid, fire & looked_up & ~result_valid

    def _request_buddy(self, m: Module, issued: Fifo, results: Fifo) -> Value:
        """Request the sectors in buddy memory, and pass the entry on.

        Returns
        -------
        In this cycle, a read is passed on that takes the result at hand.
        """
        m.submodules.buddy_splitter = splitter = RunSplitter(BUDDY_ADDRESS_BITS)
        wiring.connect(m, splitter.o, wiring.flipped(self.buddy_request))
        read = issued.o.payload
        mapping = read.read.mapping
        result = Signal(MetadataResult())
        result_valid = Signal()
        fire = Signal()
        status = Signal(AccessStatus)
        metadata = Signal(METADATA_BITS)
        compressed = Signal()
        device = Signal(range(ENTRY_SECTORS + 1))
        buddy = Signal(range(ENTRY_SECTORS + 1))
        m.d.comb += [
            result.eq(Mux(read.result_valid, read.result.as_value(), results.o.payload.as_value())),
            result_valid.eq(read.result_valid | results.o.valid),
            status.eq(read.read.status),
            metadata.eq(result.metadata),
            compressed.eq(mapping.compressed),
        ]
        with m.If(read.read.status == AccessStatus.OK):
            set_metadata_status(m, status, result.error)
        number = size_class(self.config, metadata, mapping)
        entry_device, entry_buddy = split_sectors(m, mapping.target, number, name="resolved")
        with m.If(status == AccessStatus.OK):
            m.d.comb += [
                device.eq(Mux(compressed, entry_device, read.fetched)),
                buddy.eq(Mux(compressed, entry_buddy, 0)),
            ]
        expected = self.o.payload
        address = read.read.access.address
        m.d.comb += [
            splitter.i.valid.eq(issued.o.valid & result_valid & self.o.ready),
            splitter.i.payload.address.eq(mapping.buddy_address),
            splitter.i.payload.sectors.eq(buddy),
            self.o.valid.eq(issued.o.valid & result_valid & splitter.i.ready),
            expected.access.eq(read.read.access),
            expected.fetch.eq(read.read.fetch),
            expected.status.eq(status),
            expected.metadata.eq(metadata),
            expected.first.eq(Mux(compressed, 0, address[SECTOR_OFFSET_BITS:ENTRY_OFFSET_BITS])),
            expected.fetched.eq(read.fetched),
            expected.device.eq(device),
            expected.buddy.eq(buddy),
            expected.eighth.eq(mapping.device_address[3:SECTOR_OFFSET_BITS]),
            expected.shared.eq(compressed & (mapping.target == Target.X16)),
            fire.eq(self.o.valid & self.o.ready),
            issued.o.ready.eq(fire),
            self.issued.eq(fire),
            self.overfetched.eq(read.fetched - device),
            expected.parameters.eq(mapping.parameters),
        ]
        return fire & ~read.result_valid
