"""The metadata cache shared by those who look metadata up."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.payloads import MetadataLookup, MetadataResult
from cdma.hw.lib.stream import Fifo


class LookupArbiter(wiring.Component):
    """Lets one lookup through per cycle, the first source before the others.

    Sources must take each result at once, as it comes.

    Latency: 0 cycles. Throughput: a lookup per cycle.

    Parameters
    ----------
    sources
        How many there are.
    lookups
        How many may be under way.

    Members
    -------
    lookup : `In(stream.Signature(MetadataLookup())).array(sources)`
    result : `Out(stream.Signature(MetadataResult())).array(sources)`
    waits : `Out(stream.Signature(1))`
        The last source's hints.
    cache_lookup : `Out(stream.Signature(MetadataLookup()))`
    cache_hint : `In(stream.Signature(1))`
    cache_result : `In(stream.Signature(MetadataResult()))`
        The cache's side: see `MetadataCache`.
    """

    def __init__(self, sources: int, lookups: int) -> None:
        self.sources = sources
        self.lookups = lookups
        super().__init__(
            {
                "lookup": In(stream.Signature(MetadataLookup())).array(sources),
                "result": Out(stream.Signature(MetadataResult())).array(sources),
                "waits": Out(stream.Signature(1)),
                "cache_lookup": Out(stream.Signature(MetadataLookup())),
                "cache_hint": In(stream.Signature(1)),
                "cache_result": In(stream.Signature(MetadataResult())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.hinted = hinted = Fifo(range(self.sources), self.lookups)
        m.submodules.asked = asked = Fifo(range(self.sources), self.lookups)

        chosen = Signal(range(self.sources))
        stays = Signal()
        held = Signal(range(self.sources))
        room = Signal()
        moves = Signal()
        m.d.comb += [
            room.eq(hinted.i.ready & asked.i.ready),
            moves.eq(self.cache_lookup.valid & self.cache_lookup.ready),
        ]
        with m.If(stays):
            m.d.comb += chosen.eq(held)
        with m.Else():
            for k in reversed(range(self.sources)):
                with m.If(self.lookup[k].valid):
                    m.d.comb += chosen.eq(k)
        m.d.sync += [stays.eq(self.cache_lookup.valid & ~self.cache_lookup.ready), held.eq(chosen)]
        for k, lookup in enumerate(self.lookup):
            with m.If(chosen == k):
                m.d.comb += [
                    self.cache_lookup.valid.eq(lookup.valid & room),
                    self.cache_lookup.payload.eq(lookup.payload),
                    lookup.ready.eq(self.cache_lookup.ready & room),
                ]
        m.d.comb += [
            hinted.i.valid.eq(moves),
            hinted.i.payload.eq(chosen),
            asked.i.valid.eq(moves),
            asked.i.payload.eq(chosen),
        ]

        wanted = Signal()
        m.d.comb += [
            wanted.eq(hinted.o.payload == self.sources - 1),
            self.waits.valid.eq(hinted.o.valid & wanted & self.cache_hint.valid),
            self.waits.payload.eq(self.cache_hint.payload),
            self.cache_hint.ready.eq(hinted.o.valid & (self.waits.ready | ~wanted)),
            hinted.o.ready.eq(self.cache_hint.valid & self.cache_hint.ready),
            self.cache_result.ready.eq(asked.o.valid),
            asked.o.ready.eq(self.cache_result.valid),
        ]
        for k, result in enumerate(self.result):
            m.d.comb += [
                result.valid.eq(asked.o.valid & (asked.o.payload == k) & self.cache_result.valid),
                result.payload.eq(self.cache_result.payload),
            ]
        return m
