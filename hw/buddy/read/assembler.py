"""Assembly of entries from the sectors of device memory and of buddy memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.payloads import AccessStatus, ExpectedEntry, ReadInfo
from cdma.hw.bus.burst import BusError, ReadBeat
from cdma.hw.codec.entry.payloads import EntryParameters, KeptEntry
from cdma.hw.config import BuddyConfig

SECTOR_BITS = 8 * SECTOR_BYTES
SLOT_BITS = 64
"""Width of an entry's slot in device memory, target 16x."""


class AssembledEntry(data.StructLayout):
    """An entry with its access.

    Members
    -------
    kept, info, parameters
        As at the ports of `EntryAssembler`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "kept": KeptEntry(),
                "info": ReadInfo(config),
                **({"parameters": EntryParameters()} if config.entry.has_parameters else {}),
            }
        )


class EntryAssembler(wiring.Component):
    """Assembles stored entries from their sectors.

        device   d0 d1 d2 …    entry.device sectors are kept, overfetched ones are dropped
        buddy    b0 b1 …       entry.buddy sectors
        entry    first: d0 d1 … b0 b1 …

    Latency: 1 cycle from an entry's last sector. Throughput: a sector from each memory per cycle;
    an entry takes at least a cycle. Resources: two entries of registers.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(ExpectedEntry(config)))`
    device, buddy : `In(stream.Signature(ReadBeat(32)))`
        Sectors, in the order of the entries.
    o : `Out(stream.Signature(KeptEntry()))`
        The stored entry; of size class 0 if the access has failed.
    info : `Out(stream.Signature(ReadInfo(config)))`
        The access of each entry.
    parameters : `Out(EntryParameters())`
        Only where entries may be of XC: of the page of the entry at `o`.
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
                **({"parameters": Out(EntryParameters())} if config.entry.has_parameters else {}),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        has_parameters = self.config.entry.has_parameters
        layout = AssembledEntry(self.config)
        entry = self.i.payload
        # What has come of an entry, that with what comes in this cycle, and the entry that is sent.
        collected = Signal(layout, reset_less=True)
        added = Signal(layout)
        sent = Signal(layout, reset_less=True)
        complete = Signal()
        assembling = Signal()
        assembled = Signal()
        sending = Signal()
        free = Signal()
        m.d.comb += [added.eq(collected), assembling.eq(self.i.valid & ~complete)]
        m.d.sync += collected.eq(added)

        count = range(ENTRY_SECTORS + 1)
        from_device = Signal(count)
        from_buddy = Signal(count)
        device_left = Signal(count)
        buddy_left = Signal(count)
        device_fire = Signal()
        buddy_fire = Signal()
        device_done = Signal()
        buddy_done = Signal()
        m.d.comb += [
            device_left.eq(entry.fetched - from_device),
            buddy_left.eq(entry.buddy - from_buddy),
            self.device.ready.eq(assembling & (device_left != 0)),
            self.buddy.ready.eq(assembling & (buddy_left != 0)),
            device_fire.eq(self.device.ready & self.device.valid),
            buddy_fire.eq(self.buddy.ready & self.buddy.valid),
            # Valid is known last.
            device_done.eq((device_left == 0) | (device_left == 1) & self.device.valid),
            buddy_done.eq((buddy_left == 0) | (buddy_left == 1) & self.buddy.valid),
            assembled.eq(assembling & device_done & buddy_done),
            self.i.ready.eq(assembled),
        ]
        with m.If(assembled):
            m.d.sync += [from_device.eq(0), from_buddy.eq(0)]
        with m.Else():
            m.d.sync += [
                from_device.eq(from_device + device_fire),
                from_buddy.eq(from_buddy + buddy_fire),
            ]

        # Overfetched sectors are dropped, and so are their errors.
        device_used = Signal()
        device_sector = Signal(count)
        buddy_sector = Signal(count)
        device_data = Signal(SECTOR_BITS)
        m.d.comb += [
            device_used.eq(device_fire & (from_device < entry.device)),
            device_sector.eq(entry.first + from_device),
            buddy_sector.eq(entry.device + from_buddy),
            device_data.eq(self.device.payload.data),
        ]
        with m.If(entry.shared):
            m.d.comb += device_data.eq(
                self.device.payload.data.word_select(entry.eighth, SLOT_BITS)
            )
        for k in range(ENTRY_SECTORS):
            word = added.kept.data.word_select(k, SECTOR_BITS)
            with m.If(buddy_fire & (buddy_sector == k)):
                m.d.comb += word.eq(self.buddy.payload.data)
            with m.Elif(device_used & (device_sector == k)):
                m.d.comb += word.eq(device_data)

        # The first error is the access's.
        earlier = Signal(AccessStatus)
        status = Signal(AccessStatus)
        m.d.comb += status.eq(entry.status)
        with m.If(earlier != AccessStatus.OK):
            m.d.comb += status.eq(earlier)
        with m.Elif(device_used & (self.device.payload.error == BusError.TIMEOUT)):
            m.d.comb += status.eq(AccessStatus.TIMEOUT)
        with m.Elif(device_used & (self.device.payload.error != BusError.NONE)):
            m.d.comb += status.eq(AccessStatus.DEVICE_READ)
        with m.Elif(buddy_fire & (self.buddy.payload.error == BusError.TIMEOUT)):
            m.d.comb += status.eq(AccessStatus.TIMEOUT)
        with m.Elif(buddy_fire & (self.buddy.payload.error != BusError.NONE)):
            m.d.comb += status.eq(AccessStatus.BUDDY_READ)
        with m.If(assembled):
            m.d.sync += earlier.eq(AccessStatus.OK)
            m.d.comb += [
                added.kept.metadata.eq(Mux(status == AccessStatus.OK, entry.metadata, 0)),
                added.info.access.eq(entry.access),
                added.info.fetch.eq(entry.fetch),
                added.info.status.eq(status),
            ]
            if has_parameters:
                m.d.comb += added.parameters.eq(entry.parameters)
        with m.Elif(assembling):
            m.d.sync += earlier.eq(status)

        # Whether the former entry is taken is known late, so its sectors do not wait for that: a
        # whole entry that cannot go on stays where it was collected.
        m.d.sync += complete.eq((assembled | complete) & ~free)
        with m.If(free):
            m.d.sync += sending.eq(assembled | complete)
            with m.If(assembled | complete):
                m.d.sync += sent.eq(added)
        self._send(m, sent, sending, free)
        if has_parameters:
            m.d.comb += self.parameters.eq(sent.parameters)
        return m

    def _send(self, m: Module, sent: data.View, sending: Signal, free: Signal) -> None:
        """Offer entry and access, of which either may be accepted first."""
        entry_sent = Signal()
        info_sent = Signal()
        done = Signal()
        m.d.comb += [
            done.eq((entry_sent | self.o.ready) & (info_sent | self.info.ready)),
            free.eq(~sending | done),
            self.o.valid.eq(sending & ~entry_sent),
            self.o.payload.eq(sent.kept),
            self.info.valid.eq(sending & ~info_sent),
            self.info.payload.eq(sent.info),
        ]
        with m.If(sending):
            m.d.sync += [
                entry_sent.eq((entry_sent | self.o.ready) & ~done),
                info_sent.eq((info_sent | self.info.ready) & ~done),
            ]
