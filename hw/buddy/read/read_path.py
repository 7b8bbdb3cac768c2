"""The read path: issue, overtaking, assembly, decompression, response."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.frontend.admission import FETCHES
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    EntryRead,
    ErrorReport,
    ExpectedEntry,
    FetchedSector,
    MetadataLookup,
    MetadataResult,
    ReadInfo,
    SubordinateReadBeat,
)
from cdma.hw.buddy.read.assembler import EntryAssembler
from cdma.hw.buddy.read.issue import ReadIssue
from cdma.hw.buddy.read.response import ReadResponse
from cdma.hw.buddy.read.spill_queues import SpillQueues
from cdma.hw.bus.burst import ReadBeat, ReadRequest
from cdma.hw.codec.entry.best_of_three import entry_decompressor
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo

DECOMPRESSIONS = 16
"""Entries in the decompressor."""


def outstanding_entries(config: BuddyConfig) -> int:
    """Return how many entries the read path may have outstanding: reads, and fetches for writes."""
    return config.reads + FETCHES


class ReadPath(wiring.Component):
    """Reads entries from both memories, and decompresses them.

        i ─ issue ─ expected ─ queues ─ assembler ─ decompressor ─ response ─ beats, fetched
              │                  │
           requests         device, buddy beats

    Reads of other IDs overtake those that wait for buddy memory; see `SpillQueues`.

    Throughput: an entry per cycle, as far as the widths of the ports allow.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(EntryRead(config)))`
    lookup, hint, result
        Metadata lookups, as in `ReadIssue`.
    device_request, buddy_request : `Out(stream.Signature(ReadRequest(40 or 64)))`
    device_beats, buddy_beats : `In(stream.Signature(ReadBeat(32)))`
    beats : `Out(stream.Signature(SubordinateReadBeat(config)))`
    fetched : `Out(stream.Signature(FetchedSector(config)))`
    data_done : `Out(1)`
        The oldest read that is not a fetch has all of its data.
    read_done, fetch_done : `Out(1)`
        As in `ReadResponse`.
    error : `Out(ErrorReport())`
    issued : `Out(1)`
        An entry was issued. For counters, as are the next members.
    device_sectors, buddy_sectors, overfetched : `Out(range(5))`
        With `issued`: sectors requested from each memory, and those that were not needed.
    buddy_stall : `Out(1)`
        As in `SpillQueues`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        count = range(ENTRY_SECTORS + 1)
        super().__init__(
            {
                "i": In(stream.Signature(EntryRead(config))),
                "lookup": Out(stream.Signature(MetadataLookup())),
                "hint": In(stream.Signature(1)),
                "result": In(stream.Signature(MetadataResult())),
                "device_request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS))),
                "device_beats": In(stream.Signature(ReadBeat(SECTOR_BYTES))),
                "buddy_request": Out(stream.Signature(ReadRequest(BUDDY_ADDRESS_BITS))),
                "buddy_beats": In(stream.Signature(ReadBeat(SECTOR_BYTES))),
                "beats": Out(stream.Signature(SubordinateReadBeat(config))),
                "fetched": Out(stream.Signature(FetchedSector(config))),
                "data_done": Out(1),
                "read_done": Out(1),
                "fetch_done": Out(1),
                "error": Out(ErrorReport()),
                "issued": Out(1),
                "device_sectors": Out(count),
                "buddy_sectors": Out(count),
                "overfetched": Out(count),
                "buddy_stall": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        entries = outstanding_entries(config)
        m.submodules.issue = issue = ReadIssue(config, entries)
        m.submodules.expected = expected = Fifo(ExpectedEntry(config), entries)
        m.submodules.device_sectors = device_sectors = Fifo(
            ReadBeat(SECTOR_BYTES), entries * ENTRY_SECTORS
        )
        m.submodules.queues = queues = SpillQueues(config)
        m.submodules.assembler = assembler = EntryAssembler(config)
        m.submodules.decompressor = decompressor = entry_decompressor(config.entry)
        m.submodules.infos = infos = Fifo(ReadInfo(config), DECOMPRESSIONS)
        m.submodules.response = response = ReadResponse(config)

        # Issue.
        wiring.connect(m, wiring.flipped(self.i), issue.i)
        wiring.connect(m, issue.lookup, wiring.flipped(self.lookup))
        wiring.connect(m, wiring.flipped(self.hint), issue.hint)
        wiring.connect(m, wiring.flipped(self.result), issue.result)
        wiring.connect(m, issue.device_request, wiring.flipped(self.device_request))
        wiring.connect(m, issue.buddy_request, wiring.flipped(self.buddy_request))
        wiring.connect(m, issue.o, expected.i)

        # Overtaking and assembly.
        wiring.connect(m, expected.o, queues.i)
        wiring.connect(m, wiring.flipped(self.device_beats), device_sectors.i)
        wiring.connect(m, device_sectors.o, queues.device)
        wiring.connect(m, wiring.flipped(self.buddy_beats), queues.buddy)
        wiring.connect(m, queues.o, assembler.i)
        wiring.connect(m, queues.o_device, assembler.device)
        wiring.connect(m, queues.o_buddy, assembler.buddy)

        # Decompression and response.
        wiring.connect(m, assembler.o, decompressor.i)
        if config.entry.has_parameters:
            m.d.comb += decompressor.parameters.eq(assembler.parameters)
        wiring.connect(m, assembler.info, infos.i)
        wiring.connect(m, decompressor.o, response.i)
        wiring.connect(m, infos.o, response.info)
        wiring.connect(m, response.beats, wiring.flipped(self.beats))
        wiring.connect(m, response.fetched, wiring.flipped(self.fetched))
        wiring.connect(m, response.error, wiring.flipped(self.error))
        m.d.comb += [
            self.data_done.eq(queues.read_done),
            self.read_done.eq(response.read_done),
            self.fetch_done.eq(response.fetch_done),
            self.issued.eq(issue.issued),
            self.device_sectors.eq(issue.o.payload.fetched),
            self.buddy_sectors.eq(issue.o.payload.buddy),
            self.overfetched.eq(issue.overfetched),
            self.buddy_stall.eq(queues.buddy_stall),
        ]
        return m
