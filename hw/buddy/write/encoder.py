"""Writes: the data joined with what was fetched, and compressed."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES
from cdma.hw.buddy.frontend.access import GatheredWrite
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.buddy.read.response import FetchedSector
from cdma.hw.buddy.writes import EntryWrite, StoredEntry, WriteKind
from cdma.hw.codec.entry.compressor import EntryCompressor
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.stream import Fifo


class WriteEncoder(wiring.Component):
    """Makes what is kept of an entry from the data of a write.

    Where a write covers a part of an entry, the rest comes from the entry as it was. In order.

    Throughput: an entry per `sectors` cycles of the codec; what is not compressed takes a cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(EntryWrite(config)))`
    data : `In(stream.Signature(GatheredWrite(config)))`
        For each.
    fetched : `In(stream.Signature(FetchedSector(config)))`
        The sectors of each that MERGES.
    o : `Out(stream.Signature(StoredEntry(config)))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(EntryWrite(config))),
                "data": In(stream.Signature(GatheredWrite(config))),
                "fetched": In(stream.Signature(FetchedSector(config))),
                "o": Out(stream.Signature(StoredEntry(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        sectors, width = config.entry.sectors, config.entry.sector_bytes
        m.submodules.compressor = compressor = EntryCompressor(config.entry)
        m.submodules.plain = plain = Fifo(StoredEntry(config), 2)
        m.submodules.order = order = Fifo(EntryWrite(config), config.writes)

        write = self.i.payload
        data, strobe = self.data.payload.data, self.data.payload.strobe
        index = Signal(range(max(sectors, 2)))
        offered = Signal()
        compresses = Signal()
        merges = Signal()
        damaged = Signal()
        skips = Signal()
        moves = Signal()
        ends = Signal()
        final = Signal()
        m.d.comb += [
            offered.eq(self.i.valid & self.data.valid),
            merges.eq(write.kind == WriteKind.MERGES),
            compresses.eq(merges | (write.kind == WriteKind.COVERS)),
            damaged.eq(merges & (self.fetched.payload.status != AccessStatus.OK)),
            skips.eq(~compresses | damaged),
            final.eq(~compresses | (index == sectors - 1)),
        ]

        sector = Signal(8 * width)
        covered = Signal(width)
        m.d.comb += [
            sector.eq(data.word_select(index, 8 * width)),
            covered.eq(strobe.word_select(index, width)),
        ]
        for j in range(width):
            m.d.comb += compressor.i.payload.data.word_select(j, 8).eq(
                Mux(
                    covered[j] | ~merges,
                    sector.word_select(j, 8),
                    self.fetched.payload.data.word_select(j, 8),
                )
            )
        # The last sector also goes to where its write is remembered.
        room = Signal()
        m.d.comb += [
            room.eq(~final | (order.i.ready & (~skips | plain.i.ready))),
            compressor.i.valid.eq(
                offered & compresses & ~damaged & room & (self.fetched.valid | ~merges)
            ),
            moves.eq(
                offered & room & (self.fetched.valid | ~merges) & (compressor.i.ready | skips)
            ),
            ends.eq(moves & final),
            self.i.ready.eq(ends),
            self.data.ready.eq(ends),
            self.fetched.ready.eq(moves & merges),
            order.i.valid.eq(ends),
            order.i.payload.eq(write),
            plain.i.valid.eq(ends & skips),
            plain.i.payload.write.eq(write),
            plain.i.payload.metadata.eq(AS_IT_IS),
            plain.i.payload.data.eq(data),
            plain.i.payload.strobe.eq(strobe),
        ]
        with m.If(damaged):
            m.d.comb += [
                order.i.payload.kind.eq(WriteKind.NOTHING),
                plain.i.payload.write.kind.eq(WriteKind.NOTHING),
                plain.i.payload.write.status.eq(self.fetched.payload.status),
            ]
        with m.If(moves):
            m.d.sync += index.eq(Mux(final, 0, index + 1))

        coded = Signal()
        ready = Signal()
        m.d.comb += [
            coded.eq(
                (order.o.payload.kind == WriteKind.COVERS)
                | (order.o.payload.kind == WriteKind.MERGES)
            ),
            self.o.valid.eq(order.o.valid & Mux(coded, compressor.o.valid, plain.o.valid)),
            ready.eq(self.o.valid & self.o.ready),
            order.o.ready.eq(ready),
            compressor.o.ready.eq(ready & coded),
            plain.o.ready.eq(ready & ~coded),
        ]
        with m.If(coded):
            m.d.comb += [
                self.o.payload.write.eq(order.o.payload),
                self.o.payload.metadata.eq(compressor.o.payload.metadata),
                self.o.payload.data.eq(compressor.o.payload.data),
                self.o.payload.strobe.eq((1 << ENTRY_BYTES) - 1),
            ]
        with m.Else():
            m.d.comb += self.o.payload.eq(plain.o.payload)
        return m
