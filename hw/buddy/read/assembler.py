"""Entries from the sectors that come from device memory and from buddy memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.buddy.reads import ExpectedEntry, ReadInfo
from cdma.hw.bus.burst import BusError, ReadBeat
from cdma.hw.codec.entry.payloads import KeptEntry
from cdma.hw.config import BuddyConfig

SECTOR_BITS = 8 * SECTOR_BYTES
SLOT_BITS = 64
"""Of device memory, target 16x."""


class EntryAssembler(wiring.Component):
    """Puts together what is kept of entries.

    Latency: 1 cycle from an entry's last sector. Throughput: a sector from each memory per cycle;
    an entry takes at least a cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(ExpectedEntry(config)))`
    device, buddy : `In(stream.Signature(ReadBeat(32)))`
        Sectors, as they were asked for.
    o : `Out(stream.Signature(KeptEntry()))`
        An entry of class 0 if the access has failed.
    info : `Out(stream.Signature(ReadInfo(config)))`
        For each entry, what it is for.
    read_ends : `Out(1)`
        An entry that is not fetched for a write has been read.
    starved : `Out(1)`
        An entry lacks nothing but sectors of buddy memory, and none comes.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(ExpectedEntry(config))),
                "device": In(stream.Signature(ReadBeat(SECTOR_BYTES))),
                "buddy": In(stream.Signature(ReadBeat(SECTOR_BYTES))),
                "o": Out(stream.Signature(KeptEntry())),
                "info": Out(stream.Signature(ReadInfo(config))),
                "read_ends": Out(1),
                "starved": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        entry = self.i.payload
        kept = [
            Signal(SECTOR_BITS, name=f"kept_{k}", reset_less=True) for k in range(ENTRY_SECTORS)
        ]
        metadata = Signal.like(entry.metadata, reset_less=True)
        info = Signal(ReadInfo(self.config), reset_less=True)
        complete = Signal()
        kept_left = Signal()
        info_left = Signal()
        leaves = Signal()
        open_ = Signal()
        m.d.comb += [
            leaves.eq((kept_left | self.o.ready) & (info_left | self.info.ready)),
            open_.eq(self.i.valid & (~complete | leaves)),
            self.o.valid.eq(complete & ~kept_left),
            self.info.valid.eq(complete & ~info_left),
            self.info.payload.eq(info),
        ]
        # Either may be taken first.
        with m.If(complete):
            m.d.sync += [
                kept_left.eq((kept_left | self.o.ready) & ~leaves),
                info_left.eq((info_left | self.info.ready) & ~leaves),
            ]
        with m.If(info.status == AccessStatus.OK):
            m.d.comb += self.o.payload.metadata.eq(metadata)
        m.d.comb += [
            self.o.payload.data.word_select(k, SECTOR_BITS).eq(word) for k, word in enumerate(kept)
        ]

        sectors = range(ENTRY_SECTORS + 1)
        from_device = Signal(sectors)
        from_buddy = Signal(sectors)
        device_left = Signal(sectors)
        buddy_left = Signal(sectors)
        takes_device = Signal()
        takes_buddy = Signal()
        ends = Signal()
        m.d.comb += [
            device_left.eq(entry.fetched - from_device),
            buddy_left.eq(entry.buddy - from_buddy),
            self.device.ready.eq(open_ & (device_left != 0)),
            self.buddy.ready.eq(open_ & (buddy_left != 0)),
            takes_device.eq(self.device.ready & self.device.valid),
            takes_buddy.eq(self.buddy.ready & self.buddy.valid),
            ends.eq(open_ & (device_left == takes_device) & (buddy_left == takes_buddy)),
            self.i.ready.eq(ends),
            self.read_ends.eq(ends & ~entry.fetch),
            self.starved.eq(self.buddy.ready & ~self.buddy.valid & (device_left == 0)),
        ]
        m.d.sync += complete.eq(ends | (complete & ~leaves))
        with m.If(ends):
            m.d.sync += [from_device.eq(0), from_buddy.eq(0)]
        with m.Else():
            m.d.sync += [
                from_device.eq(from_device + takes_device),
                from_buddy.eq(from_buddy + takes_buddy),
            ]

        # What was fetched beyond the entry is dropped, errors too.
        device_counts = Signal()
        device_place = Signal(sectors)
        buddy_place = Signal(sectors)
        device_data = Signal(SECTOR_BITS)
        m.d.comb += [
            device_counts.eq(takes_device & (from_device < entry.device)),
            device_place.eq(entry.first + from_device),
            buddy_place.eq(entry.device + from_buddy),
            device_data.eq(self.device.payload.data),
        ]
        with m.If(entry.shared):
            m.d.comb += device_data.eq(
                self.device.payload.data.word_select(entry.eighth, SLOT_BITS)
            )
        for k, word in enumerate(kept):
            with m.If(takes_buddy & (buddy_place == k)):
                m.d.sync += word.eq(self.buddy.payload.data)
            with m.Elif(device_counts & (device_place == k)):
                m.d.sync += word.eq(device_data)

        # The access's first error.
        earlier = Signal(AccessStatus)
        status = Signal(AccessStatus)
        m.d.comb += status.eq(entry.status)
        with m.If(earlier != AccessStatus.OK):
            m.d.comb += status.eq(earlier)
        with m.Elif(device_counts & (self.device.payload.error == BusError.TIMEOUT)):
            m.d.comb += status.eq(AccessStatus.TIMEOUT)
        with m.Elif(device_counts & (self.device.payload.error != BusError.NONE)):
            m.d.comb += status.eq(AccessStatus.DEVICE_READ)
        with m.Elif(takes_buddy & (self.buddy.payload.error == BusError.TIMEOUT)):
            m.d.comb += status.eq(AccessStatus.TIMEOUT)
        with m.Elif(takes_buddy & (self.buddy.payload.error != BusError.NONE)):
            m.d.comb += status.eq(AccessStatus.BUDDY_READ)
        with m.If(ends):
            m.d.sync += [
                earlier.eq(AccessStatus.OK),
                metadata.eq(entry.metadata),
                info.access.eq(entry.access),
                info.fetch.eq(entry.fetch),
                info.status.eq(status),
            ]
        with m.Elif(open_):
            m.d.sync += earlier.eq(status)
        return m
