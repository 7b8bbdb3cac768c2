"""The write path: encoding, and write-back to both memories."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    CollectedWrite,
    EntryWrite,
    ErrorReport,
    FetchedSector,
    MetadataLookup,
    MetadataResult,
    SubordinateWriteResponse,
)
from cdma.hw.buddy.write.encoder import WriteEncoder
from cdma.hw.buddy.write.write_back import WriteBack
from cdma.hw.bus.burst import BusError, ReadRequest, WriteBeat
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PingPongBuffer, SkidBuffer

DATA_ENTRIES = 8
"""Entries of data buffered in front of the encoder."""


class WritePath(wiring.Component):
    """Encodes entries and writes them to both memories.

        i ─ writes ─┬─ encoder ─ write-back ─ o
        data ─ FIFO ┤                │
        fetched ────┘         requests, beats

    Throughput: an entry per cycle, as far as the codec and the ports allow.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(EntryWrite(config)))`
    data : `In(stream.Signature(CollectedWrite(config)))`
        The data of each write, in the same order.
    fetched : `In(stream.Signature(FetchedSector(config)))`
        As in `WriteEncoder`.
    o : `Out(stream.Signature(SubordinateWriteResponse(config)))`
        One for each burst.
    lookup, result, poison, poisoned
    device_request, device_beats, device_response
    buddy_request, buddy_beats, buddy_response
    write_done, stored, device_sectors, buddy_sectors, error, poison_lost
        As in `WriteBack`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(EntryWrite(config))),
                "data": In(stream.Signature(CollectedWrite(config))),
                "fetched": In(stream.Signature(FetchedSector(config))),
                "o": Out(stream.Signature(SubordinateWriteResponse(config))),
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
        m.submodules.writes = writes = Fifo(EntryWrite(config), config.writes)
        m.submodules.write_data = write_data = Fifo(CollectedWrite(config), DATA_ENTRIES)
        m.submodules.encoder = encoder = WriteEncoder(config)
        m.submodules.write_back = write_back = WriteBack(config)
        wiring.connect(m, wiring.flipped(self.i), writes.i)
        wiring.connect(m, wiring.flipped(self.data), write_data.i)
        wiring.connect(m, writes.o, encoder.i)
        wiring.connect(m, write_data.o, encoder.data)
        # Cuts the path from what can be written back to what is read.
        m.submodules.fetched_sectors = fetched = SkidBuffer(FetchedSector(config))
        wiring.connect(m, wiring.flipped(self.fetched), fetched.i)
        wiring.connect(m, fetched.o, encoder.fetched)
        wiring.connect(m, encoder.o, write_back.i)
        wiring.connect(m, write_back.o, wiring.flipped(self.o))
        # Cuts the path from whether the cache takes a lookup, which comes late, to what is
        # compressed.
        m.submodules.lookups = lookups = PingPongBuffer(MetadataLookup())
        wiring.connect(m, write_back.lookup, lookups.i)
        wiring.connect(m, lookups.o, wiring.flipped(self.lookup))
        wiring.connect(m, wiring.flipped(self.result), write_back.result)
        wiring.connect(m, write_back.poison, wiring.flipped(self.poison))
        wiring.connect(m, wiring.flipped(self.poisoned), write_back.poisoned)
        wiring.connect(m, write_back.error, wiring.flipped(self.error))
        for memory in ("device", "buddy"):
            for name in (f"{memory}_request", f"{memory}_beats"):
                wiring.connect(m, getattr(write_back, name), wiring.flipped(getattr(self, name)))
            name = f"{memory}_response"
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(write_back, name))
        m.d.comb += [
            self.write_done.eq(write_back.write_done),
            self.stored.eq(write_back.stored),
            self.device_sectors.eq(write_back.device_sectors),
            self.buddy_sectors.eq(write_back.buddy_sectors),
            self.poison_lost.eq(write_back.poison_lost),
        ]
        return m
