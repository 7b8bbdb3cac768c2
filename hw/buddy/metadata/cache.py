"""The metadata cache: the four bits of entries of compressed memory, at hand (§3.2, §3.5)."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import ROW_BYTES, LineShape, SliceLookup, SliceResult, Walk
from cdma.hw.buddy.metadata.ports import FetchPort, WriteBackPort
from cdma.hw.buddy.metadata.slice import MetadataSlice
from cdma.hw.buddy.payloads import DEVICE_ADDRESS_BITS, MetadataLookup, MetadataResult
from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest, WriteBeat, WriteRequest
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.stream import Fifo, Fork, SkidBuffer

HINTS = 8
"""Lookups whose hints may wait to be taken."""
LOOKUPS = 256
"""Lookups that may be under way, at most."""


class FlushRequest(data.StructLayout):
    """What is to be done with all lines.

    Members
    -------
    write_back
        Write those to memory that differ from it.
    invalidate
        Drop them all, those first.
    """

    def __init__(self) -> None:
        super().__init__({"write_back": 1, "invalidate": 1})


class MetadataCache(wiring.Component):
    """Keeps lines of metadata, and looks nibbles up in them or sets them, in order.

    Set-associative and write-back; a write that misses fetches its line too. What gives way is told
    by a tree of pseudo-LRU bits for each set. Lines go round the slices by their address. Each
    slice fetches `misses` lines at once, and looks further lookups up meanwhile; but results come
    in order, one for each lookup, so those behind a miss wait for it.

    If a fetch fails, all lookups that had to wait for it, and those that came before it was known,
    end with its error, and the line is not kept. Tags and data are in codewords of their own of
    which one bit may flip, in data for each 16 nibbles. If two have flipped in data, reads end with
    UNCORRECTABLE; what is written to memory for them is the nibble 15, which no entry has, and so
    are the neighbors of a nibble that is set there. If two have flipped in a tag, lookups in its
    set end with UNCORRECTABLE, and `lost` rises, for a line that was to be written may be gone.

    From reset on, and from `clear`, all lines are dropped, which takes a cycle for each line of a
    slice; lookups wait so long.

    It never hangs as long as results and hints are taken and memory answers, if only with an error.
    A slice's store is never stopped but by a result that is not taken, a fill that has not come, or
    rows that are not sent. The result that is next of all is that of the oldest lookup, whose slice
    has no older one, so it does not wait for other results. A fill comes whatever else stands, for
    its room was reserved before it was asked for. Rows are sent line by line, each line when the
    whole of it is there. The tags wait for the store, or for a response. So everything ends.

    Latency: `hit_latency` cycles from lookup to result for hits with nothing before them,
    `hint_latency` from lookup to hint. Throughput: a lookup per cycle, of any kind and to any
    place, as long as all hit; a fetch costs 1 + beats more, a write-back beats.

    Resources: for each line, 9/8 of its bits and a tag of about 45 bits in memories, and 2 bits
    and less than 1 of pseudo-LRU in memories that are read without a register; for each slice,
    decoders and encoders for four codewords of 72 bits and for a tag in each way, `misses` lines of
    fill buffer, two lines of write-back buffer, and 2 * `misses` comparators of addresses.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    lookup : `In(stream.Signature(MetadataLookup()))`
    hint : `Out(stream.Signature(1))`
        In order, one for each lookup: its result is behind a memory access.
    o : `Out(stream.Signature(MetadataResult()))`
        In order, one for each lookup, writes too.
    read_request : `Out(stream.Signature(ReadRequest(40)))`
        Lines; at most `slices * misses` are under way.
    read_beats : `In(stream.Signature(ReadBeat(32)))`
    write_request : `Out(stream.Signature(WriteRequest(40)))`
        Lines that give way, or are flushed.
    write_beats : `Out(stream.Signature(WriteBeat(32)))`
    write_response : `In(stream.Signature(BusError))`
    flush : `In(stream.Signature(FlushRequest()))`
        After the lookups that have been taken; those behind it wait until it is done.
    flushed : `Out(1)`
        A flush is done, its writes answered.
    clear : `In(1)`
        All lines are dropped, after the lookups before it; nothing is lost any more.
    lost : `Out(1)`
        Metadata are lost, until `clear`: memory has refused a line, or a tag is beyond correction.
    hit, miss : `Out(1)`
        A result has left, of a lookup that needed no fetch of its own, or that did.
    evicted : `Out(1)`
        A result has left, of a lookup whose line has taken the place of another one.
    corrected, uncorrectable : `Out(1)`
        In some codewords, one bit had flipped, or two.
    """

    hit_latency = MetadataSlice.hit_latency + 1
    hint_latency = 4

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        super().__init__(
            {
                "lookup": In(stream.Signature(MetadataLookup())),
                "hint": Out(stream.Signature(1)),
                "o": Out(stream.Signature(MetadataResult())),
                "read_request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS))),
                "read_beats": In(stream.Signature(ReadBeat(ROW_BYTES))),
                "write_request": Out(stream.Signature(WriteRequest(DEVICE_ADDRESS_BITS))),
                "write_beats": Out(stream.Signature(WriteBeat(ROW_BYTES))),
                "write_response": In(stream.Signature(BusError)),
                "flush": In(stream.Signature(FlushRequest())),
                "flushed": Out(1),
                "clear": In(1),
                "lost": Out(1),
                "hit": Out(1),
                "miss": Out(1),
                "evicted": Out(1),
                "corrected": Out(1),
                "uncorrectable": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape(config)
        count = config.slices
        slices = [MetadataSlice(config) for _ in range(count)]
        for k, part in enumerate(slices):
            m.submodules[f"slice_{k}"] = part
        self._connect_memory(m, slices)

        # Lookups, to the slices of their lines.
        m.submodules.results = results = SkidBuffer(MetadataResult())
        m.submodules.hints = hints = Fifo(1, HINTS)
        asked = self.lookup.payload
        lookup = Signal(SliceLookup(config))
        place = Signal(shape.place_bits)
        slice_of = Signal(shape.slice_bits)
        oldest = Signal(shape.slice_bits)
        unhinted = Signal(range(HINTS + 1))
        accepts = Signal()
        has_room = Signal()
        is_known = Signal()
        takes = Signal()
        commands = Signal()
        ready = Signal(count)
        m.d.comb += [
            place.eq(Cat(asked.upper, asked.address[: shape.offset_bits])),
            slice_of.eq(asked.address[shape.offset_bits :]),
            lookup.line.eq(asked.address[shape.offset_bits + shape.slice_bits :]),
            lookup.place.eq(place),
            lookup.write.eq(asked.write),
            lookup.metadata.eq(asked.metadata),
            accepts.eq((unhinted != HINTS) & has_room & ~commands),
            self.lookup.ready.eq(accepts & ready.bit_select(slice_of, 1)),
            takes.eq(self.lookup.valid & self.lookup.ready),
        ]
        m.d.sync += unhinted.eq(unhinted + takes - (self.hint.valid & self.hint.ready))
        if count > 1:
            depth = min(LOOKUPS, count * shape.steps)
            m.submodules.order = order = Fifo(range(count), depth)
            m.d.comb += [
                has_room.eq(order.i.ready),
                order.i.valid.eq(takes),
                order.i.payload.eq(slice_of),
                oldest.eq(order.o.payload),
                is_known.eq(order.o.valid),
                order.o.ready.eq(results.i.valid & results.i.ready),
            ]
        else:
            m.d.comb += [has_room.eq(1), is_known.eq(1)]

        # Results, in order.
        is_result = Signal(count)
        leaves = Signal()
        result = Signal(SliceResult())
        m.d.comb += [
            results.i.valid.eq(is_known & is_result.bit_select(oldest, 1)),
            results.i.payload.metadata.eq(result.metadata),
            results.i.payload.error.eq(result.error),
            leaves.eq(results.i.valid & results.i.ready),
        ]
        m.d.sync += [
            self.hit.eq(leaves & result.hit),
            self.miss.eq(leaves & result.miss),
            self.evicted.eq(leaves & result.evicted),
        ]
        wiring.connect(m, results.o, wiring.flipped(self.o))

        quick = Signal(count)
        waits = Signal(count)
        for k, part in enumerate(slices):
            is_asked = Signal(name=f"is_asked_{k}")
            is_oldest = Signal(name=f"is_oldest_{k}")
            m.d.comb += [
                is_asked.eq(slice_of == k if count > 1 else 1),
                is_oldest.eq(is_known & (oldest == k if count > 1 else 1)),
                ready[k].eq(part.lookup.ready),
                part.lookup.valid.eq(self.lookup.valid & accepts & is_asked),
                part.lookup.payload.eq(lookup),
                is_result[k].eq(part.o.valid),
                part.o.ready.eq(results.i.ready & is_oldest),
                quick[k].eq(part.quick),
                waits[k].eq(part.waits),
            ]
            with m.If(is_oldest):
                m.d.comb += result.eq(part.o.payload)

        # Hints: two cycles after its lookup, if nothing is in its way, a hit is known for one.
        taken = [Signal(name=f"taken_{k}") for k in range(2)]
        asked_slice = [Signal(shape.slice_bits, name=f"asked_slice_{k}") for k in range(2)]
        m.d.sync += [
            taken[0].eq(takes),
            taken[1].eq(taken[0]),
            asked_slice[0].eq(slice_of),
            asked_slice[1].eq(asked_slice[0]),
        ]
        m.d.comb += [
            hints.i.valid.eq(taken[1]),
            hints.i.payload.eq(~quick.bit_select(asked_slice[1], 1) | waits.any()),
        ]
        wiring.connect(m, hints.o, wiring.flipped(self.hint))

        # Commands, to all slices at once.
        m.submodules.command = command = Fork(Walk(), count)
        for k, part in enumerate(slices):
            wiring.connect(m, command.o[k], part.command)
        clears = Signal()
        clearing = Signal()
        flushing = Signal()
        walk = Signal(Walk())
        m.d.comb += [
            commands.eq(clears | clearing | flushing),
            command.i.valid.eq(clearing | flushing),
            command.i.payload.eq(walk),
            self.flush.ready.eq(~commands),
        ]
        m.d.sync += self.flushed.eq(flushing & command.i.ready)
        with m.If(~clearing & ~flushing):
            with m.If(clears):
                m.d.sync += [
                    clearing.eq(1),
                    clears.eq(0),
                    walk.eq(Walk().const({"invalidate": 1, "blind": 1})),
                ]
            with m.Elif(self.flush.valid):
                m.d.sync += [
                    flushing.eq(1),
                    walk.eq(0),
                    walk.write_back.eq(self.flush.payload.write_back),
                    walk.invalidate.eq(self.flush.payload.invalidate),
                ]
        with m.Elif(command.i.ready):
            m.d.sync += [clearing.eq(0), flushing.eq(0)]
        with m.If(self.clear):
            m.d.sync += clears.eq(1)

        # What is lost before all lines are dropped does not count any more.
        loses = Signal(count)
        m.d.comb += loses.eq(Cat(part.refused | part.tag_lost for part in slices))
        with m.If(self.clear | clears | clearing):
            m.d.sync += self.lost.eq(0)
        with m.Elif(loses.any()):
            m.d.sync += self.lost.eq(1)
        m.d.sync += [
            self.corrected.eq(Cat(part.corrected for part in slices).any()),
            self.uncorrectable.eq(Cat(part.uncorrectable for part in slices).any()),
        ]
        return m

    def _connect_memory(self, m: Module, slices: list[MetadataSlice]) -> None:
        """The slices' reads and writes, to the one source that they are."""
        config = self.config
        if config.slices > 1:
            m.submodules.fetches = fetches = FetchPort(config)
            m.submodules.write_backs = write_backs = WriteBackPort(config)
            for k, part in enumerate(slices):
                wiring.connect(m, part.read_request, fetches.slice_request[k])
                wiring.connect(m, fetches.slice_beats[k], part.read_beats)
                wiring.connect(m, part.write_request, write_backs.slice_request[k])
                wiring.connect(m, part.write_beats, write_backs.slice_beats[k])
                wiring.connect(m, write_backs.slice_response[k], part.write_response)
            wiring.connect(m, fetches.request, wiring.flipped(self.read_request))
            wiring.connect(m, wiring.flipped(self.read_beats), fetches.beats)
            wiring.connect(m, write_backs.request, wiring.flipped(self.write_request))
            wiring.connect(m, write_backs.beats, wiring.flipped(self.write_beats))
            wiring.connect(m, wiring.flipped(self.write_response), write_backs.response)
            return
        shape = LineShape(config)
        (only,) = slices
        for request, line in (
            (self.read_request, only.read_request),
            (self.write_request, only.write_request),
        ):
            m.d.comb += [
                request.valid.eq(line.valid),
                request.payload.address.eq(Cat(Const(0, shape.offset_bits), line.payload)),
                request.payload.beats.eq(shape.rows - 1),
                line.ready.eq(request.ready),
            ]
        wiring.connect(m, wiring.flipped(self.read_beats), only.read_beats)
        wiring.connect(m, only.write_beats, wiring.flipped(self.write_beats))
        wiring.connect(m, wiring.flipped(self.write_response), only.write_response)
