"""Encoding of writes: the data are merged with the fetched entry, and compressed."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES
from cdma.hw.buddy.payloads import (
    AccessStatus,
    CollectedWrite,
    EntryWrite,
    FetchedSector,
    StoredEntry,
    WriteKind,
)
from cdma.hw.codec.entry.best_of_three import entry_compressor
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo


class WriteEncoder(wiring.Component):
    """Encodes the data of writes into stored entries.

    A partial write takes the bytes that it does not cover from the fetched entry. Compressed
    entries pass the compressor, all others a FIFO beside it; entries leave in order.

    Throughput: an entry per `sectors` cycles; an entry that is not compressed takes one cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(EntryWrite(config)))`
    data : `In(stream.Signature(CollectedWrite(config)))`
        One for each write.
    fetched : `In(stream.Signature(FetchedSector(config)))`
        The sectors of each PARTIAL write's entry.
    o : `Out(stream.Signature(StoredEntry(config)))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(EntryWrite(config))),
                "data": In(stream.Signature(CollectedWrite(config))),
                "fetched": In(stream.Signature(FetchedSector(config))),
                "o": Out(stream.Signature(StoredEntry(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        sectors, width = config.entry.sectors, config.entry.sector_bytes
        m.submodules.compressor = compressor = entry_compressor(config.entry)
        m.submodules.bypass = bypass = Fifo(StoredEntry(config), 2)
        m.submodules.order = order = Fifo(EntryWrite(config), config.writes)

        write = self.i.payload
        data, strobe = self.data.payload.data, self.data.payload.strobe
        index = Signal(range(max(sectors, 2)))
        valid = Signal()
        needs_codec = Signal()
        partial = Signal()
        fetch_failed = Signal()
        bypasses = Signal()
        fire = Signal()
        entry_done = Signal()
        last = Signal()
        m.d.comb += [
            valid.eq(self.i.valid & self.data.valid),
            partial.eq(write.kind == WriteKind.PARTIAL),
            needs_codec.eq(partial | (write.kind == WriteKind.FULL)),
            fetch_failed.eq(partial & (self.fetched.payload.status != AccessStatus.OK)),
            bypasses.eq(~needs_codec | fetch_failed),
            last.eq(~needs_codec | (index == sectors - 1)),
        ]

        sector = Signal(8 * width)
        sector_strobe = Signal(width)
        m.d.comb += [
            sector.eq(data.word_select(index, 8 * width)),
            sector_strobe.eq(strobe.word_select(index, width)),
        ]
        for j in range(width):
            m.d.comb += compressor.i.payload.data.word_select(j, 8).eq(
                Mux(
                    sector_strobe[j] | ~partial,
                    sector.word_select(j, 8),
                    self.fetched.payload.data.word_select(j, 8),
                )
            )
        if config.entry.has_parameters:
            m.d.comb += compressor.parameters.eq(write.mapping.parameters)
        # The last sector also needs space in `order`.
        space = Signal()
        m.d.comb += [
            space.eq(~last | (order.i.ready & (~bypasses | bypass.i.ready))),
            compressor.i.valid.eq(
                valid & needs_codec & ~fetch_failed & space & (self.fetched.valid | ~partial)
            ),
            fire.eq(
                valid & space & (self.fetched.valid | ~partial) & (compressor.i.ready | bypasses)
            ),
            entry_done.eq(fire & last),
            self.i.ready.eq(entry_done),
            self.data.ready.eq(entry_done),
            self.fetched.ready.eq(fire & partial),
            order.i.valid.eq(entry_done),
            order.i.payload.eq(write),
            bypass.i.valid.eq(entry_done & bypasses),
            bypass.i.payload.write.eq(write),
            bypass.i.payload.metadata.eq(AS_IT_IS),
            bypass.i.payload.data.eq(data),
            bypass.i.payload.strobe.eq(strobe),
        ]
        with m.If(fetch_failed):
            m.d.comb += [
                order.i.payload.kind.eq(WriteKind.FAILED),
                bypass.i.payload.write.kind.eq(WriteKind.FAILED),
                bypass.i.payload.write.status.eq(self.fetched.payload.status),
            ]
        with m.If(fire):
            m.d.sync += index.eq(Mux(last, 0, index + 1))

        compressed = Signal()
        ready = Signal()
        m.d.comb += [
            compressed.eq(
                (order.o.payload.kind == WriteKind.FULL)
                | (order.o.payload.kind == WriteKind.PARTIAL)
            ),
            self.o.valid.eq(order.o.valid & Mux(compressed, compressor.o.valid, bypass.o.valid)),
            ready.eq(self.o.valid & self.o.ready),
            order.o.ready.eq(ready),
            compressor.o.ready.eq(ready & compressed),
            bypass.o.ready.eq(ready & ~compressed),
        ]
        with m.If(compressed):
            m.d.comb += [
                self.o.payload.write.eq(order.o.payload),
                self.o.payload.metadata.eq(compressor.o.payload.metadata),
                self.o.payload.data.eq(compressor.o.payload.data),
                self.o.payload.strobe.eq((1 << ENTRY_BYTES) - 1),
            ]
        with m.Else():
            m.d.comb += self.o.payload.eq(bypass.o.payload)
        return m
