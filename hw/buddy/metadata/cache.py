"""The metadata cache: four bits for each entry of compressed memory (§3.2, §3.5)."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import ROW_BYTES, LineShape, SliceLookup, SliceResult, Walk
from cdma.hw.buddy.metadata.ports import EvictionPort, RefillPort
from cdma.hw.buddy.metadata.slice import MetadataSlice
from cdma.hw.buddy.payloads import DEVICE_ADDRESS_BITS, MetadataLookup, MetadataResult
from cdma.hw.bus.burst import BusError, ReadBeat, ReadRequest, WriteBeat, WriteRequest
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import SkidBuffer

HINTS = 8
"""Hints that are buffered."""
LOOKUPS = 256
"""Outstanding lookups, at most."""


class FlushRequest(data.StructLayout):
    """A flush of all lines.

    Members
    -------
    write_back
        Write dirty lines to memory.
    invalidate
        Drop all lines after that.
    """

    def __init__(self) -> None:
        super().__init__({"write_back": 1, "invalidate": 1})


class MetadataCache(wiring.Component):
    """Caches lines of metadata; reads and writes nibbles in them, in order.

    The cache is set-associative, write-back and write-allocate, with tree pseudo-LRU replacement
    and ECC on tags and data. Lines are interleaved over the slices by their address. Each slice has
    `misses` MSHRs, and serves hits under misses; results leave in order, one for each lookup, so
    results behind a miss wait for it.

    If a fetch fails, all lookups that wait for it, and those accepted before the failure is known,
    end with its error, and the line is dropped. Each tag, and each 16 nibbles of data, are a
    codeword that corrects one flipped bit. Two flipped bits in data end reads with UNCORRECTABLE;
    evictions and partial changes replace such nibbles by 15, which no valid entry has. Two flipped
    bits in a tag end lookups in its set with UNCORRECTABLE, and raise `lost`, for a dirty line may
    be gone.

    After reset and after `clear` all lines are dropped, at a line per cycle in each slice; lookups
    are stalled meanwhile.

    Deadlock freedom: assume that results and hints are accepted, and that memory answers, if only
    with an error. A slice's store stalls only on a result that is not accepted, a fill that is
    outstanding, or rows that are not sent. The next result in order is that of the oldest lookup,
    whose slice has no older one, so it does not wait for other results. A fill always arrives, for
    its buffer space was reserved before its request. Rows are sent line by line, once a whole line
    is buffered. The tags stall only on the store or a response. So everything completes.

    Latency: `hit_latency` = 7 cycles from lookup to result for a hit in an idle cache,
    `hint_latency` = 4 from lookup to hint. Throughput: a lookup per cycle of any kind and to any
    address, as long as all hit; a fetch costs 1 + beats cycles more, an eviction beats cycles.

    Resources: for each line, 9/8 of its bits and a tag of about 45 bits in synchronous memories,
    and less than 3 bits in asynchronous ones; for each slice, decoders and encoders for four
    codewords of 72 bits and for a tag in each way, `misses` lines of buffered fills, two lines of
    buffered evictions, and 2 * `misses` address comparators.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    lookup : `In(stream.Signature(MetadataLookup()))`
    hint : `Out(stream.Signature(1))`
        One for each lookup, in order: 1 if its result waits for a memory access.
    o : `Out(stream.Signature(MetadataResult()))`
        One for each lookup, writes too, in order.
    read_request : `Out(stream.Signature(ReadRequest(40)))`
        Fetches of lines; at most `slices * misses` are outstanding.
    read_beats : `In(stream.Signature(ReadBeat(32)))`
    write_request : `Out(stream.Signature(WriteRequest(40)))`
        Evicted and flushed lines.
    write_beats : `Out(stream.Signature(WriteBeat(32)))`
    write_response : `In(stream.Signature(BusError))`
    flush : `In(stream.Signature(FlushRequest()))`
        Executed after the lookups before it; lookups behind it are stalled until it is done.
    flushed : `Out(1)`
        A flush is done, its writes answered.
    clear : `In(1)`
        All lines are dropped after the lookups before it, and `lost` is reset.
    lost : `Out(1)`
        Metadata are lost, until `clear`: memory refused a line, or a tag is uncorrectable.
    hit, miss : `Out(1)`
        A result has left of a lookup that needed no fetch of its own; of one that did.
    evicted : `Out(1)`
        A result has left of a lookup whose line replaced another one.
    corrected, uncorrectable : `Out(1)`
        One bit of some codeword had flipped; two had.
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
        slices = [MetadataSlice(config) for _ in range(config.slices)]
        for k, part in enumerate(slices):
            m.submodules[f"slice_{k}"] = part
        m.submodules.results = results = SkidBuffer(MetadataResult())
        wiring.connect(m, results.o, wiring.flipped(self.o))
        self._connect_memory(m, slices)

        busy = Signal()  # Lookups are stalled by a flush or clear.
        lookup_fire = Signal()
        lookup_slice = Signal(shape.slice_bits)
        oldest = Signal(shape.slice_bits)  # The slice of the oldest outstanding lookup.
        oldest_valid = Signal()
        order_ready = Signal()
        self._keep_order(m, results, lookup_fire, lookup_slice, oldest, oldest_valid, order_ready)
        self._look_up(m, slices, order_ready, busy, lookup_fire, lookup_slice)
        self._collect_results(m, slices, results, oldest, oldest_valid)
        self._give_hints(m, slices, lookup_fire, lookup_slice)
        self._execute_commands(m, slices, busy)
        return m

    def _keep_order(
        self,
        m: Module,
        results: SkidBuffer,
        lookup_fire: Signal,
        lookup_slice: Signal,
        oldest: Signal,
        oldest_valid: Signal,
        order_ready: Signal,
    ) -> None:
        """Remember the slices of outstanding lookups, oldest first."""
        slices = self.config.slices
        if slices == 1:
            m.d.comb += [order_ready.eq(1), oldest_valid.eq(1)]
            return
        depth = min(LOOKUPS, slices * LineShape(self.config).tasks)
        m.submodules.order = order = Fifo(range(slices), depth)
        m.d.comb += [
            order_ready.eq(order.i.ready),
            order.i.valid.eq(lookup_fire),
            order.i.payload.eq(lookup_slice),
            oldest.eq(order.o.payload),
            oldest_valid.eq(order.o.valid),
            order.o.ready.eq(results.i.valid & results.i.ready),
        ]

    def _look_up(
        self,
        m: Module,
        slices: list[MetadataSlice],
        order_ready: Signal,
        busy: Signal,
        lookup_fire: Signal,
        lookup_slice: Signal,
    ) -> None:
        """Pass lookups to the slices of their lines."""
        shape = LineShape(self.config)
        request = self.lookup.payload
        lookup = Signal(SliceLookup(self.config))
        place = Signal(shape.place_bits)
        hints_pending = Signal(range(HINTS + 1))
        accepts = Signal()
        ready = Signal(len(slices))
        m.d.comb += [
            place.eq(Cat(request.upper, request.address[: shape.offset_bits])),
            lookup_slice.eq(request.address[shape.offset_bits :]),
            lookup.line.eq(request.address[shape.offset_bits + shape.slice_bits :]),
            lookup.place.eq(place),
            lookup.write.eq(request.write),
            lookup.metadata.eq(request.metadata),
            accepts.eq((hints_pending != HINTS) & order_ready & ~busy),
            self.lookup.ready.eq(accepts & ready.bit_select(lookup_slice, 1)),
            lookup_fire.eq(self.lookup.valid & self.lookup.ready),
        ]
        m.d.sync += hints_pending.eq(
            hints_pending + lookup_fire - (self.hint.valid & self.hint.ready)
        )
        for k, part in enumerate(slices):
            selected = Signal(name=f"selected_{k}")
            m.d.comb += [
                selected.eq(lookup_slice == k if len(slices) > 1 else 1),
                ready[k].eq(part.lookup.ready),
                part.lookup.valid.eq(self.lookup.valid & accepts & selected),
                part.lookup.payload.eq(lookup),
            ]

    def _collect_results(
        self,
        m: Module,
        slices: list[MetadataSlice],
        results: SkidBuffer,
        oldest: Signal,
        oldest_valid: Signal,
    ) -> None:
        """Collect the slices' results in the order of the lookups."""
        result_valid = Signal(len(slices))
        result_fire = Signal()
        result = Signal(SliceResult())
        m.d.comb += [
            results.i.valid.eq(oldest_valid & result_valid.bit_select(oldest, 1)),
            results.i.payload.metadata.eq(result.metadata),
            results.i.payload.error.eq(result.error),
            result_fire.eq(results.i.valid & results.i.ready),
        ]
        m.d.sync += [
            self.hit.eq(result_fire & result.hit),
            self.miss.eq(result_fire & result.miss),
            self.evicted.eq(result_fire & result.evicted),
        ]
        for k, part in enumerate(slices):
            is_oldest = Signal(name=f"is_oldest_{k}")
            m.d.comb += [
                is_oldest.eq(oldest_valid & (oldest == k if len(slices) > 1 else 1)),
                result_valid[k].eq(part.o.valid),
                part.o.ready.eq(results.i.ready & is_oldest),
            ]
            with m.If(is_oldest):
                m.d.comb += result.eq(part.o.payload)

    def _give_hints(
        self, m: Module, slices: list[MetadataSlice], lookup_fire: Signal, lookup_slice: Signal
    ) -> None:
        """Give the hint of each lookup, two cycles after it: by then an unstalled hit is known."""
        shape = LineShape(self.config)
        m.submodules.hints = hints = Fifo(1, HINTS)
        wiring.connect(m, hints.o, wiring.flipped(self.hint))
        quick_hit = Signal(len(slices))
        memory_stall = Signal(len(slices))
        m.d.comb += [
            quick_hit.eq(Cat(part.quick_hit for part in slices)),
            memory_stall.eq(Cat(part.memory_stall for part in slices)),
        ]
        fired = [Signal(name=f"fired_{k}") for k in range(2)]
        fired_slice = [Signal(shape.slice_bits, name=f"fired_slice_{k}") for k in range(2)]
        m.d.sync += [
            fired[0].eq(lookup_fire),
            fired[1].eq(fired[0]),
            fired_slice[0].eq(lookup_slice),
            fired_slice[1].eq(fired_slice[0]),
        ]
        m.d.comb += [
            hints.i.valid.eq(fired[1]),
            hints.i.payload.eq(~quick_hit.bit_select(fired_slice[1], 1) | memory_stall.any()),
        ]

    def _execute_commands(self, m: Module, slices: list[MetadataSlice], busy: Signal) -> None:
        """Execute flushes and clears in all slices at once, and report what is lost."""
        m.submodules.command = command = Fork(Walk(), len(slices))
        for k, part in enumerate(slices):
            wiring.connect(m, command.o[k], part.command)
        clear_pending = Signal()
        clearing = Signal()
        flushing = Signal()
        walk = Signal(Walk())
        m.d.comb += [
            busy.eq(clear_pending | clearing | flushing),
            command.i.valid.eq(clearing | flushing),
            command.i.payload.eq(walk),
            self.flush.ready.eq(~busy),
        ]
        m.d.sync += self.flushed.eq(flushing & command.i.ready)
        with m.If(~clearing & ~flushing):
            with m.If(clear_pending):
                m.d.sync += [
                    clearing.eq(1),
                    clear_pending.eq(0),
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
            m.d.sync += clear_pending.eq(1)

        # Losses before all lines are dropped are forgotten.
        loss = Signal(len(slices))
        m.d.comb += loss.eq(Cat(part.refused | part.tag_lost for part in slices))
        with m.If(self.clear | clear_pending | clearing):
            m.d.sync += self.lost.eq(0)
        with m.Elif(loss.any()):
            m.d.sync += self.lost.eq(1)
        m.d.sync += [
            self.corrected.eq(Cat(part.corrected for part in slices).any()),
            self.uncorrectable.eq(Cat(part.uncorrectable for part in slices).any()),
        ]

    def _connect_memory(self, m: Module, slices: list[MetadataSlice]) -> None:
        """Connect the slices to device memory: through arbiters if there are several."""
        config = self.config
        if config.slices > 1:
            m.submodules.refills = refills = RefillPort(config)
            m.submodules.evictions = evictions = EvictionPort(config)
            for k, part in enumerate(slices):
                wiring.connect(m, part.read_request, refills.slice_request[k])
                wiring.connect(m, refills.slice_beats[k], part.read_beats)
                wiring.connect(m, part.write_request, evictions.slice_request[k])
                wiring.connect(m, part.write_beats, evictions.slice_beats[k])
                wiring.connect(m, evictions.slice_response[k], part.write_response)
            wiring.connect(m, refills.request, wiring.flipped(self.read_request))
            wiring.connect(m, wiring.flipped(self.read_beats), refills.beats)
            wiring.connect(m, evictions.request, wiring.flipped(self.write_request))
            wiring.connect(m, evictions.beats, wiring.flipped(self.write_beats))
            wiring.connect(m, wiring.flipped(self.write_response), evictions.response)
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
