"""Entries into memory: metadata first, then the sectors of both memories, then the response."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import DEVICE_SLOT_BYTES, ENTRY_SECTORS, Target
from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, SECTOR_BYTES, ZVC_FLAG
from cdma.hw.buddy.address.slots import split_sectors
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    LOGICAL_ADDRESS_BITS,
    AccessStatus,
    MetadataError,
    MetadataLookup,
    MetadataResult,
    take_metadata_error,
)
from cdma.hw.buddy.runs import RunWriter
from cdma.hw.buddy.writes import EntryWrite, StoredEntry, WriteKind
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.bus.burst import BusError, ReadRequest, WriteBeat
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.stream import Fifo

POISON = ZVC_FLAG | AS_IT_IS
"""Metadata that no entry has: what is kept is none."""


def stores_of(config: BuddyConfig) -> int:
    """Entries that may wait for their lookups: while a line of metadata comes, more are taken."""
    return max(4, config.writes // 2)


class ManagerWriteResponse(data.StructLayout):
    """BID and BRESP."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"id": config.id_bits, "resp": AxiResponse})


class EntryStorer(wiring.Component):
    """Writes entries to where they are kept.

    An entry's metadata are set before its sectors are written. If those cannot be, or not all, the
    metadata become those of no entry, so that what is left is not taken for data. A burst is
    answered when all of its entries are in memory; nothing is written whose metadata cannot be.

    Everything is in order. Throughput: a sector for each memory per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(StoredEntry(config)))`
    lookup : `Out(stream.Signature(MetadataLookup()))`
    result : `In(stream.Signature(MetadataResult()))`
        For each of `lookup`, in order.
    poison : `Out(stream.Signature(MetadataLookup()))`
    poisoned : `In(stream.Signature(MetadataResult()))`
        For each of `poison`.
    device_request, buddy_request : `Out(stream.Signature(ReadRequest(40 or 64)))`
    device_beats, buddy_beats : `Out(stream.Signature(WriteBeat(32)))`
    device_response, buddy_response : `In(stream.Signature(BusError))`
    o : `Out(stream.Signature(ManagerWriteResponse(config)))`
        For each burst.
    write_ends : `Out(1)`
        An entry is done with.
    stored : `Out(1)`
        Sectors of an entry go to memory. For counters, as are the next two.
    device_sectors, buddy_sectors : `Out(range(5))`
        With it: how many.
    failed, status, address : `Out`
        An access ends with an error; which one, and its address.
    lost : `Out(1)`
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
                "o": Out(stream.Signature(ManagerWriteResponse(config))),
                "write_ends": Out(1),
                "stored": Out(1),
                "device_sectors": Out(range(ENTRY_SECTORS + 1)),
                "buddy_sectors": Out(range(ENTRY_SECTORS + 1)),
                "failed": Out(1),
                "status": Out(AccessStatus),
                "address": Out(LOGICAL_ADDRESS_BITS),
                "lost": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.stores = stores = Fifo(StoredEntry(config), stores_of(config))
        m.submodules.results = results = Fifo(MetadataResult(), stores_of(config) + 1)
        m.submodules.device = device = RunWriter(DEVICE_ADDRESS_BITS, config.writes)
        m.submodules.buddy = buddy = RunWriter(BUDDY_ADDRESS_BITS, config.writes)
        m.submodules.under_way = under_way = Fifo(EntryWrite(config), config.writes)
        m.submodules.responses = responses = Fifo(ManagerWriteResponse(config), config.writes)
        for writer, name in ((device, "device"), (buddy, "buddy")):
            wiring.connect(m, writer.request, wiring.flipped(getattr(self, f"{name}_request")))
            wiring.connect(m, writer.beats, wiring.flipped(getattr(self, f"{name}_beats")))
            wiring.connect(m, wiring.flipped(getattr(self, f"{name}_response")), writer.response)
        wiring.connect(m, wiring.flipped(self.result), results.i)
        wiring.connect(m, responses.o, wiring.flipped(self.o))

        # Set the metadata.
        entry = self.i.payload
        coded = Signal()
        m.d.comb += [
            coded.eq(_is_coded(entry.write)),
            self.lookup.valid.eq(self.i.valid & coded & stores.i.ready),
            self.lookup.payload.address.eq(entry.write.mapping.metadata_address),
            self.lookup.payload.upper.eq(entry.write.mapping.metadata_upper),
            self.lookup.payload.write.eq(1),
            self.lookup.payload.metadata.eq(entry.metadata),
            stores.i.valid.eq(self.i.valid & (self.lookup.ready | ~coded)),
            stores.i.payload.eq(entry),
            self.i.ready.eq(stores.i.ready & (self.lookup.ready | ~coded)),
        ]

        # Write the sectors.
        store = stores.o.payload
        mapping = store.write.mapping
        looked_up = Signal()
        status = Signal(AccessStatus)
        known = Signal()
        room = Signal()
        goes = Signal()
        m.d.comb += [
            looked_up.eq(_is_coded(store.write)),
            status.eq(store.write.status),
            known.eq(stores.o.valid & (results.o.valid | ~looked_up)),
        ]
        with m.If(looked_up):
            take_metadata_error(m, status, results.o.payload.error)
        held_device, held_buddy = split_sectors(m, mapping.target, store.metadata, name="stored")
        plain_first, plain_sectors = _touched(m, store.strobe)
        shared = Signal()
        plain = Signal()
        slot_strobe = Signal(ENTRY_BYTES)
        whole = (1 << DEVICE_SLOT_BYTES[Target.X16]) - 1
        m.d.comb += [
            plain.eq(store.write.kind == WriteKind.PLAIN),
            shared.eq(mapping.compressed & (mapping.target == Target.X16)),
            # Where four entries share a sector, only this one's eight bytes are written.
            slot_strobe.eq(C(whole, ENTRY_BYTES) << (mapping.device_address[:5])),
            device.i.payload.run.address.eq(
                mapping.device_address + Mux(plain, plain_first * SECTOR_BYTES, 0)
            ),
            buddy.i.payload.run.address.eq(mapping.buddy_address),
            buddy.i.payload.strobe.eq(store.strobe),
        ]
        with m.If((status == AccessStatus.OK) & plain):
            m.d.comb += device.i.payload.run.sectors.eq(plain_sectors)
        with m.Elif((status == AccessStatus.OK) & looked_up):
            m.d.comb += [
                device.i.payload.run.sectors.eq(held_device),
                buddy.i.payload.run.sectors.eq(held_buddy),
            ]
        with m.If(shared):
            slot = store.data[: 8 * DEVICE_SLOT_BYTES[Target.X16]]
            m.d.comb += [
                device.i.payload.data.eq(slot.replicate(SECTOR_BYTES // 8)),
                device.i.payload.strobe.eq(slot_strobe),
            ]
        with m.Else():
            shift = Signal(range(ENTRY_SECTORS))
            m.d.comb += [
                shift.eq(Mux(plain, plain_first, 0)),
                device.i.payload.data.eq(_from_sector(store.data, shift, 8 * SECTOR_BYTES)),
                device.i.payload.strobe.eq(_from_sector(store.strobe, shift, SECTOR_BYTES)),
            ]
        m.d.comb += [
            buddy.i.payload.data.eq(_from_sector(store.data, held_device, 8 * SECTOR_BYTES)),
            room.eq(device.i.ready & buddy.i.ready & under_way.i.ready),
            goes.eq(known & room),
            device.i.valid.eq(known & buddy.i.ready & under_way.i.ready),
            buddy.i.valid.eq(known & device.i.ready & under_way.i.ready),
            under_way.i.valid.eq(known & device.i.ready & buddy.i.ready),
            under_way.i.payload.eq(store.write),
            under_way.i.payload.status.eq(status),
            stores.o.ready.eq(goes),
            results.o.ready.eq(goes & looked_up),
            self.stored.eq(goes),
            self.device_sectors.eq(device.i.payload.run.sectors),
            self.buddy_sectors.eq(buddy.i.payload.run.sectors),
        ]

        # See how it ended. An entry that is not all there is poisoned.
        write = under_way.o.payload
        ended = Signal()
        torn = Signal()
        poisons = Signal()
        asked = Signal()
        answered = Signal()
        ends = Signal()
        final = Signal(AccessStatus)
        m.d.comb += [
            ended.eq(under_way.o.valid & device.o.valid & buddy.o.valid),
            torn.eq((device.o.payload != BusError.NONE) | (buddy.o.payload != BusError.NONE)),
            poisons.eq(torn & _is_coded(write)),
            final.eq(write.status),
        ]
        with m.If((device.o.payload == BusError.TIMEOUT) | (buddy.o.payload == BusError.TIMEOUT)):
            m.d.comb += final.eq(AccessStatus.TIMEOUT)
        with m.Elif(device.o.payload != BusError.NONE):
            m.d.comb += final.eq(AccessStatus.DEVICE_WRITE)
        with m.Elif(buddy.o.payload != BusError.NONE):
            m.d.comb += final.eq(AccessStatus.BUDDY_WRITE)
        burst_fails = Signal()
        fails = Signal()
        m.d.comb += [
            self.poison.valid.eq(ended & poisons & ~asked),
            self.poison.payload.address.eq(write.mapping.metadata_address),
            self.poison.payload.upper.eq(write.mapping.metadata_upper),
            self.poison.payload.write.eq(1),
            self.poison.payload.metadata.eq(POISON),
            self.poisoned.ready.eq(1),
            fails.eq(final != AccessStatus.OK),
            ends.eq(ended & (~poisons | answered) & (responses.i.ready | ~write.last)),
            under_way.o.ready.eq(ends),
            device.o.ready.eq(ends),
            buddy.o.ready.eq(ends),
            responses.i.valid.eq(ends & write.last),
            responses.i.payload.id.eq(write.id),
            responses.i.payload.resp.eq(
                Mux(burst_fails | fails, AxiResponse.SLVERR, AxiResponse.OKAY)
            ),
            self.write_ends.eq(ends),
            self.failed.eq(ends & fails),
            self.status.eq(final),
            self.address.eq(write.address),
        ]
        with m.If(ends):
            m.d.sync += [
                asked.eq(0),
                answered.eq(0),
                burst_fails.eq(~write.last & (burst_fails | fails)),
            ]
        with m.Elif(self.poison.valid & self.poison.ready):
            m.d.sync += asked.eq(1)
        with m.If(self.poisoned.valid):
            m.d.sync += answered.eq(1)
        m.d.comb += self.lost.eq(
            self.poisoned.valid & (self.poisoned.payload.error != MetadataError.NONE)
        )
        return m


def _is_coded(write: Any) -> Value:
    return (write.kind == WriteKind.COVERS) | (write.kind == WriteKind.MERGES)


def _from_sector(value: Value, first: Value, sector_bits: int) -> Value:
    """The value from a sector on."""
    return value >> Cat(C(0, (sector_bits - 1).bit_length()), first)


def _touched(m: Module, strobe: Value) -> tuple[Signal, Signal]:
    """The first sector in which something is written, and how many there are up to the last."""
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
