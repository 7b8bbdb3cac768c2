"""A slice of the metadata cache: tags, task queue, data array, MSHRs and eviction buffer."""

from amaranth.hdl import Assert, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.evictions import EvictionBuffer
from cdma.hw.buddy.metadata.line import (
    ROW_BYTES,
    LineShape,
    SliceLookup,
    SliceResult,
    StoreTask,
    Walk,
)
from cdma.hw.buddy.metadata.mshr import MshrFile
from cdma.hw.buddy.metadata.store import MetadataStore
from cdma.hw.buddy.metadata.tags import MetadataTags
from cdma.hw.bus.burst import BusError, ReadBeat, WriteBeat
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import SkidBuffer


class MetadataSlice(wiring.Component):
    """Looks metadata up in the lines of one slice.

        lookup ─ tags ─ tasks ─ store ─ o
                  │               │  └─ rows ─ evictions ─ write_request, write_beats
                  └─ read_request └──── mshrs ─ read_beats

    The tags decide in order, and the store executes in the same order. Between them is a FIFO in
    which lookups wait for lines that are being fetched. After reset all lines are dropped, at a
    line per cycle. After a failed fetch, no lookup is accepted until all outstanding ones have
    ended and the line has been dropped.

    Latency: `hit_latency` = 6 cycles for a hit in an idle slice. Throughput: a lookup per cycle.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    lookup : `In(stream.Signature(SliceLookup(config)))`
    o : `Out(stream.Signature(SliceResult()))`
        In order, one for each lookup.
    command : `In(stream.Signature(Walk()))`
        Executed on all lines once the lookups before it have ended, and accepted when it is done;
        no lookup is accepted in between.
    read_request : `Out(stream.Signature(line_bits))`
        Line to be fetched.
    read_beats : `In(stream.Signature(ReadBeat(32)))`
        Beats of the lines. Always ready.
    write_request : `Out(stream.Signature(line_bits))`
    write_beats : `Out(stream.Signature(WriteBeat(32)))`
    write_response : `In(stream.Signature(BusError))`
        Always ready from two cycles after a request on.
    quick_hit : `Out(1)`
        The lookup accepted two cycles ago needs no memory access itself.
    memory_stall : `Out(1)`
        Some lookup in the slice waits for a memory access, or is stalled.
    refused, tag_lost : `Out(1)`
        Metadata are lost: memory refused a line; a tag is uncorrectable.
    corrected, uncorrectable : `Out(1)`
        One bit of a codeword of tags or data had flipped; two had.
    """

    hit_latency = 6

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        shape = LineShape(config)
        super().__init__(
            {
                "lookup": In(stream.Signature(SliceLookup(config))),
                "o": Out(stream.Signature(SliceResult())),
                "command": In(stream.Signature(Walk())),
                "read_request": Out(stream.Signature(shape.line_bits)),
                "read_beats": In(stream.Signature(ReadBeat(ROW_BYTES))),
                "write_request": Out(stream.Signature(shape.line_bits)),
                "write_beats": Out(stream.Signature(WriteBeat(ROW_BYTES))),
                "write_response": In(stream.Signature(BusError)),
                "quick_hit": Out(1),
                "memory_stall": Out(1),
                "refused": Out(1),
                "tag_lost": Out(1),
                "corrected": Out(1),
                "uncorrectable": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape(config)
        m.submodules.tags = tags = MetadataTags(config)
        m.submodules.tasks = tasks = Fifo(StoreTask(config), shape.tasks)
        m.submodules.store = store = MetadataStore(config)
        m.submodules.fetches = fetches = SkidBuffer(unsigned(shape.line_bits))
        m.submodules.mshrs = mshrs = MshrFile(config)
        m.submodules.evictions = evictions = EvictionBuffer(config)
        wiring.connect(m, tags.o, tasks.i)
        wiring.connect(m, tasks.o, store.i)
        wiring.connect(m, store.o, wiring.flipped(self.o))
        wiring.connect(m, tags.fetch, fetches.i)
        wiring.connect(m, fetches.o, wiring.flipped(self.read_request))
        wiring.connect(m, wiring.flipped(self.read_beats), mshrs.beats)
        wiring.connect(m, store.rows, evictions.rows)
        wiring.connect(m, evictions.request, wiring.flipped(self.write_request))
        wiring.connect(m, evictions.beats, wiring.flipped(self.write_beats))
        wiring.connect(m, wiring.flipped(self.write_response), evictions.response)
        m.d.comb += [
            tags.can_fetch.eq(mshrs.free),
            mshrs.allocate.eq(tags.fetch.valid & tags.fetch.ready),
            tags.can_evict.eq(evictions.free),
            tags.eviction.eq(evictions.number),
            evictions.allocate.eq(tags.evict),
            evictions.line.eq(tags.evicted_line),
            evictions.query.eq(tags.query),
            tags.conflict.eq(evictions.conflict),
            store.failed_set.eq(tags.failed_set),
            store.failed_way.eq(tags.failed_way),
            tags.failed.eq(store.failed),
            evictions.drop.eq(store.drop),
            evictions.dropped.eq(store.dropped),
            store.fill_complete.eq(mshrs.complete),
            store.fill_error.eq(mshrs.error),
            store.fill_data.eq(mshrs.data),
            mshrs.row.eq(store.fill_row),
            mshrs.read.eq(store.fill_read),
            mshrs.deallocate.eq(store.fill_release),
            self.refused.eq(evictions.refused),
            self.tag_lost.eq(tags.uncorrectable),
            self.corrected.eq(tags.corrected | store.corrected),
            self.uncorrectable.eq(tags.uncorrectable | store.uncorrectable),
        ]

        # Walks through all lines, each once the slice is idle: one after reset that drops
        # everything, one after each failed fetch that drops failed lines, and one per command.
        tasks_queued = Signal(range(shape.tasks + 2))
        all_idle = Signal()
        failed = Signal()
        is_command = Signal()
        walk = Signal(Walk(), init={"invalidate": 1, "blind": 1})
        line = Signal(shape.set_bits + shape.way_bits)
        m.d.sync += tasks_queued.eq(
            tasks_queued + (tasks.i.valid & tasks.i.ready) - (tasks.o.valid & tasks.o.ready)
        )
        m.d.comb += all_idle.eq(
            tags.idle & (tasks_queued == 0) & store.idle & mshrs.idle & evictions.idle
        )
        with m.If(store.fetch_failed):
            m.d.sync += failed.eq(1)
        access = tags.i.payload
        with m.FSM(init="WALK"):
            with m.State("RUN"):
                with m.If(failed | self.command.valid):
                    m.next = "DRAIN"
                with m.Else():
                    m.d.comb += [
                        tags.i.valid.eq(self.lookup.valid),
                        self.lookup.ready.eq(tags.i.ready),
                        access.lookup.eq(self.lookup.payload),
                    ]
            with m.State("DRAIN"):
                with m.If(all_idle):
                    m.next = "WALK"
                    m.d.sync += [is_command.eq(~failed), walk.eq(self.command.payload)]
                    with m.If(failed):
                        m.d.sync += walk.eq(Walk().const({"invalidate": 1, "failed": 1}))
            with m.State("WALK"):
                m.d.comb += [
                    tags.i.valid.eq(1),
                    access.is_walk.eq(1),
                    access.walk.eq(walk),
                    access.way.eq(line[: shape.way_bits]),
                    access.lookup.line.eq(line[shape.way_bits :]),
                ]
                with m.If(tags.i.ready):
                    m.d.sync += line.eq(line + 1)
                    with m.If(line == shape.lines - 1):
                        m.d.sync += line.eq(0)
                        m.next = "SETTLE"
            with m.State("SETTLE"):
                with m.If(all_idle):
                    m.d.comb += self.command.ready.eq(is_command)
                    m.d.sync += failed.eq(0)
                    m.next = "RUN"

        m.d.comb += [
            self.quick_hit.eq(tags.quick_hit),
            self.memory_stall.eq(~mshrs.idle | tags.stalled | tags.missed | failed),
        ]
        m.d.sync += Assert(~self.command.ready | self.command.valid)
        return m
