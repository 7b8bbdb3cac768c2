"""Arbitration of metadata lookups for the shared cache."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.payloads import MetadataLookup, MetadataResult
from cdma.hw.lib.fifo import Fifo


class LookupArbiter(wiring.Component):
    """Grants one lookup per cycle with fixed priority, source 0 first, and routes the results.

    Sources must be ready for each result in the cycle in which it is valid.

    Latency: 0 cycles. Throughput: a lookup per cycle.

    Parameters
    ----------
    sources
        Number of sources.
    lookups
        Outstanding lookups, at most.

    Members
    -------
    lookup : `In(stream.Signature(MetadataLookup())).array(sources)`
    result : `Out(stream.Signature(MetadataResult())).array(sources)`
    hint : `Out(stream.Signature(1))`
        One for each lookup of the last source: 1 if its result waits for a memory access.
    cache_lookup : `Out(stream.Signature(MetadataLookup()))`
    cache_hint : `In(stream.Signature(1))`
    cache_result : `In(stream.Signature(MetadataResult()))`
        The cache's side, as in `MetadataCache`.
    """

    def __init__(self, sources: int, lookups: int) -> None:
        self.sources = sources
        self.lookups = lookups
        super().__init__(
            {
                "lookup": In(stream.Signature(MetadataLookup())).array(sources),
                "result": Out(stream.Signature(MetadataResult())).array(sources),
                "hint": Out(stream.Signature(1)),
                "cache_lookup": Out(stream.Signature(MetadataLookup())),
                "cache_hint": In(stream.Signature(1)),
                "cache_result": In(stream.Signature(MetadataResult())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.hint_order = hint_order = Fifo(range(self.sources), self.lookups)
        m.submodules.result_order = result_order = Fifo(range(self.sources), self.lookups)

        # A grant that is stalled by backpressure is kept. Whether a source may go is known without
        # its own lookup, which may be late, and those of lower priority.
        grants = Signal(self.sources)
        stalled = Signal()
        stalled_grants = Signal(self.sources)
        grant = Signal(range(self.sources))
        space = Signal()
        fire = Signal()
        m.d.comb += [
            space.eq(hint_order.i.ready & result_order.i.ready),
            fire.eq(self.cache_lookup.valid & self.cache_lookup.ready),
        ]
        valid = Cat(lookup.valid for lookup in self.lookup)
        m.d.comb += self.cache_lookup.valid.eq(space & valid.any())
        m.d.sync += [
            stalled.eq(self.cache_lookup.valid & ~self.cache_lookup.ready),
            stalled_grants.eq(grants),
        ]
        for k, lookup in enumerate(self.lookup):
            may_go = Mux(stalled, stalled_grants[k], ~valid[:k].any())
            m.d.comb += [
                grants[k].eq(lookup.valid & may_go),
                lookup.ready.eq(may_go & self.cache_lookup.ready & space),
            ]
            with m.If(grants[k]):
                m.d.comb += [grant.eq(k), self.cache_lookup.payload.eq(lookup.payload)]
        m.d.comb += [
            hint_order.i.valid.eq(fire),
            hint_order.i.payload.eq(grant),
            result_order.i.valid.eq(fire),
            result_order.i.payload.eq(grant),
        ]

        hint_used = Signal()
        m.d.comb += [
            hint_used.eq(hint_order.o.payload == self.sources - 1),
            self.hint.valid.eq(hint_order.o.valid & hint_used & self.cache_hint.valid),
            self.hint.payload.eq(self.cache_hint.payload),
            self.cache_hint.ready.eq(hint_order.o.valid & (self.hint.ready | ~hint_used)),
            hint_order.o.ready.eq(self.cache_hint.valid & self.cache_hint.ready),
            self.cache_result.ready.eq(result_order.o.valid),
            result_order.o.ready.eq(self.cache_result.valid),
        ]
        for k, result in enumerate(self.result):
            m.d.comb += [
                result.valid.eq(
                    result_order.o.valid & (result_order.o.payload == k) & self.cache_result.valid
                ),
                result.payload.eq(self.cache_result.payload),
            ]
        return m
