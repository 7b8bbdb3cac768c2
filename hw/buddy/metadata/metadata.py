"""The metadata room: the shared cache, its flushes, and the loss of metadata."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.cache import MetadataCache
from cdma.hw.buddy.metadata.line import ROW_BYTES
from cdma.hw.buddy.metadata.lookups import LookupArbiter
from cdma.hw.buddy.payloads import (
    DEVICE_ADDRESS_BITS,
    MetadataError,
    MetadataLookup,
    MetadataResult,
)
from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest, WriteBeat, WriteRequest
from cdma.hw.config import MetadataCacheConfig

COUNTERS = ("hit", "miss", "evicted", "corrected", "uncorrectable")


class BuddyMetadata(wiring.Component):
    """Serves the metadata lookups of the read path and the write path from one cache.

    Once metadata are lost, every lookup ends with an error until `clear`: the copy in memory may
    be stale, also for accesses that were admitted before the loss was known.

    Latency: as `MetadataCache`. Throughput: a lookup per cycle; source 0 has the highest priority.

    Parameters
    ----------
    config : MetadataCacheConfig
    sources
        Number of lookup ports.
    lookups
        Outstanding lookups, at most.

    Members
    -------
    lookup : `In(stream.Signature(MetadataLookup())).array(sources)`
    result : `Out(stream.Signature(MetadataResult())).array(sources)`
    hint : `Out(stream.Signature(1))`
        As in `LookupArbiter`.
    read_request, read_beats, write_request, write_beats, write_response
        Device memory, as in `MetadataCache`.
    flush, invalidate : `In(1)`
        Pulses: write dirty lines to memory; drop all lines as well.
    flushing : `Out(1)`
        A flush is pending or in progress.
    flush_done : `Out(1)`
        All flushes are done, their writes answered.
    clear : `In(1)`
        All lines are dropped, and losses forgotten.
    poison_lost : `In(1)`
        An entry could not be poisoned.
    lost : `Out(1)`
        Metadata are lost, until `clear`.
    hit, miss, evicted, corrected, uncorrectable : `Out(1)`
        As in `MetadataCache`.
    """

    def __init__(self, config: MetadataCacheConfig, *, sources: int, lookups: int) -> None:
        self.config = config
        self.sources = sources
        self.lookups = lookups
        super().__init__(
            {
                "lookup": In(stream.Signature(MetadataLookup())).array(sources),
                "result": Out(stream.Signature(MetadataResult())).array(sources),
                "hint": Out(stream.Signature(1)),
                "read_request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS))),
                "read_beats": In(stream.Signature(ReadBeat(ROW_BYTES))),
                "write_request": Out(stream.Signature(WriteRequest(DEVICE_ADDRESS_BITS))),
                "write_beats": Out(stream.Signature(WriteBeat(ROW_BYTES))),
                "write_response": In(stream.Signature(BusError)),
                "flush": In(1),
                "invalidate": In(1),
                "flushing": Out(1),
                "flush_done": Out(1),
                "clear": In(1),
                "poison_lost": In(1),
                "lost": Out(1),
                **{name: Out(1) for name in COUNTERS},
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.arbiter = arbiter = LookupArbiter(self.sources, self.lookups)
        m.submodules.cache = cache = MetadataCache(self.config)
        for k in range(self.sources):
            wiring.connect(m, wiring.flipped(self.lookup[k]), arbiter.lookup[k])
            wiring.connect(m, arbiter.result[k], wiring.flipped(self.result[k]))
        wiring.connect(m, arbiter.hint, wiring.flipped(self.hint))
        wiring.connect(m, arbiter.cache_lookup, cache.lookup)
        wiring.connect(m, cache.hint, arbiter.cache_hint)
        wiring.connect(m, cache.read_request, wiring.flipped(self.read_request))
        wiring.connect(m, wiring.flipped(self.read_beats), cache.read_beats)
        wiring.connect(m, cache.write_request, wiring.flipped(self.write_request))
        wiring.connect(m, cache.write_beats, wiring.flipped(self.write_beats))
        wiring.connect(m, wiring.flipped(self.write_response), cache.write_response)
        m.d.comb += [getattr(self, name).eq(getattr(cache, name)) for name in COUNTERS]

        # Lost metadata.
        poison_lost = Signal()
        with m.If(self.clear):
            m.d.sync += poison_lost.eq(0)
        with m.Elif(self.poison_lost):
            m.d.sync += poison_lost.eq(1)
        m.d.comb += [
            self.lost.eq(cache.lost | poison_lost),
            cache.clear.eq(self.clear),
            arbiter.cache_result.valid.eq(cache.o.valid),
            arbiter.cache_result.payload.eq(cache.o.payload),
            cache.o.ready.eq(arbiter.cache_result.ready),
        ]
        with m.If(self.lost & (cache.o.payload.error == MetadataError.NONE)):
            m.d.comb += arbiter.cache_result.payload.error.eq(MetadataError.READ)

        # Flushes: a command is pending until the cache accepts it, then in progress until done.
        flush_pending = Signal()
        flush_invalidates = Signal()
        flush_fire = Signal()
        in_progress = Signal()
        m.d.comb += [
            cache.flush.valid.eq(flush_pending),
            cache.flush.payload.write_back.eq(1),
            cache.flush.payload.invalidate.eq(flush_invalidates),
            flush_fire.eq(flush_pending & cache.flush.ready),
            self.flushing.eq(flush_pending | in_progress),
            self.flush_done.eq(in_progress & cache.flushed & ~flush_pending),
        ]
        with m.If(self.flush | self.invalidate):
            m.d.sync += [
                flush_pending.eq(1),
                flush_invalidates.eq(self.invalidate | (flush_invalidates & ~flush_fire)),
            ]
        with m.Elif(flush_fire):
            m.d.sync += [flush_pending.eq(0), flush_invalidates.eq(0)]
        m.d.sync += in_progress.eq(
            flush_pending | (in_progress & ~(cache.flushed & ~flush_pending))
        )
        return m
