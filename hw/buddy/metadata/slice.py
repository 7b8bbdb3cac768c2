"""A slice of the metadata cache: tags in front, data behind, and what lies between."""

from amaranth.hdl import Assert, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.evictions import WriteBacks
from cdma.hw.buddy.metadata.line import (
    ROW_BYTES,
    LineShape,
    SliceLookup,
    SliceResult,
    StoreTask,
    Walk,
)
from cdma.hw.buddy.metadata.mshr import FillBuffer
from cdma.hw.buddy.metadata.store import MetadataStore
from cdma.hw.buddy.metadata.tags import MetadataTags
from cdma.hw.bus.burst import BusError, ReadBeat, WriteBeat
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.stream import Fifo, SkidBuffer


class MetadataSlice(wiring.Component):
    """Looks metadata up, of the lines that are this slice's.

    The tags decide in order, the store carries out in the same order; between them is a queue, in
    which lookups wait for lines that are fetched meanwhile. From reset on, all lines are dropped
    first, which takes a cycle for each. If a fetch has failed, no lookup is taken until all that
    are here have ended and the line has been dropped.

    Latency: `hit_latency` cycles for a hit with nothing before it. Throughput: a lookup per cycle.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    lookup : `In(stream.Signature(SliceLookup(config)))`
    o : `Out(stream.Signature(SliceResult()))`
        In order, one for each lookup.
    command : `In(stream.Signature(Walk()))`
        What is to be done with all lines when the lookups before it have ended. Taken when it has
        been done; until then no lookup is taken.
    read_request : `Out(stream.Signature(line_bits))`
        A line to be fetched.
    read_beats : `In(stream.Signature(ReadBeat(32)))`
        The lines' beats. Always ready.
    write_request : `Out(stream.Signature(line_bits))`
    write_beats : `Out(stream.Signature(WriteBeat(32)))`
    write_response : `In(stream.Signature(BusError))`
        Taken at once, but for the two cycles behind a request.
    quick : `Out(1)`
        The lookup that came two cycles ago needs nothing of memory itself.
    waits : `Out(1)`
        But some lookup here does, or cannot go on.
    refused, tag_lost : `Out(1)`
        Metadata are lost: memory has not taken a line; a tag is beyond correction.
    corrected, uncorrectable : `Out(1)`
        A bit of a tag or of data had flipped, or more.
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
                "quick": Out(1),
                "waits": Out(1),
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
        m.submodules.tasks = tasks = Fifo(StoreTask(config), shape.steps)
        m.submodules.store = store = MetadataStore(config)
        m.submodules.fetches = fetches = SkidBuffer(unsigned(shape.line_bits))
        m.submodules.fills = fills = FillBuffer(config)
        m.submodules.write_backs = write_backs = WriteBacks(config)
        wiring.connect(m, tags.o, tasks.i)
        wiring.connect(m, tasks.o, store.i)
        wiring.connect(m, store.o, wiring.flipped(self.o))
        wiring.connect(m, tags.fetch, fetches.i)
        wiring.connect(m, fetches.o, wiring.flipped(self.read_request))
        wiring.connect(m, wiring.flipped(self.read_beats), fills.beats)
        wiring.connect(m, store.rows, write_backs.rows)
        wiring.connect(m, write_backs.request, wiring.flipped(self.write_request))
        wiring.connect(m, write_backs.beats, wiring.flipped(self.write_beats))
        wiring.connect(m, wiring.flipped(self.write_response), write_backs.response)
        m.d.comb += [
            tags.room.eq(fills.free),
            fills.reserve.eq(tags.fetch.valid & tags.fetch.ready),
            tags.can_evict.eq(write_backs.free),
            tags.write_back.eq(write_backs.number),
            write_backs.take.eq(tags.evicts),
            write_backs.line.eq(tags.evicted),
            write_backs.query.eq(tags.query),
            tags.conflict.eq(write_backs.conflict),
            store.failed_set.eq(tags.failed_set),
            store.failed_way.eq(tags.failed_way),
            tags.failed.eq(store.failed),
            write_backs.drop.eq(store.drop),
            write_backs.dropped.eq(store.dropped),
            store.fill_complete.eq(fills.complete),
            store.fill_error.eq(fills.error),
            store.fill_data.eq(fills.data),
            fills.row.eq(store.fill_row),
            fills.read.eq(store.fill_read),
            fills.released.eq(store.fill_release),
            self.refused.eq(write_backs.refused),
            self.tag_lost.eq(tags.uncorrectable),
            self.corrected.eq(tags.corrected | store.corrected),
            self.uncorrectable.eq(tags.uncorrectable | store.uncorrectable),
        ]

        # Walks, each when there is nothing else: a first one that drops everything, those that
        # drop failed lines, and commands.
        queued = Signal(range(shape.steps + 2))
        quiet = Signal()
        failed = Signal()
        of_command = Signal()
        walk = Signal(Walk(), init={"invalidate": 1, "blind": 1})
        line = Signal(shape.set_bits + shape.way_bits)
        m.d.sync += queued.eq(
            queued + (tasks.i.valid & tasks.i.ready) - (tasks.o.valid & tasks.o.ready)
        )
        m.d.comb += quiet.eq(tags.idle & (queued == 0) & store.idle & fills.idle & write_backs.idle)
        with m.If(store.fails):
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
                with m.If(quiet):
                    m.next = "WALK"
                    m.d.sync += [of_command.eq(~failed), walk.eq(self.command.payload)]
                    with m.If(failed):
                        m.d.sync += walk.eq(Walk().const({"invalidate": 1, "failed": 1}))
            with m.State("WALK"):
                m.d.comb += [
                    tags.i.valid.eq(1),
                    access.walks.eq(1),
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
                with m.If(quiet):
                    m.d.comb += self.command.ready.eq(of_command)
                    m.d.sync += failed.eq(0)
                    m.next = "RUN"

        m.d.comb += [
            self.quick.eq(tags.quick),
            self.waits.eq(~fills.idle | tags.stalled | tags.missed | failed),
        ]
        m.d.sync += Assert(~self.command.ready | self.command.valid)
        return m
