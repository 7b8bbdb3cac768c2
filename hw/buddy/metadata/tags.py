"""The tags of a slice of the cache: which lines it holds, or will hold."""

from typing import NamedTuple

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import LineShape, StoreTask, TagAccess, TagWord
from cdma.hw.buddy.metadata.replacement import TreePlru
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.codes.ecc import EccDecoder, EccEncoder, codeword_bits


class TagArray(wiring.Component):
    """Reads, corrects and writes the tags of all ways of a set.

    Stage 1 reads the memory, stage 2 holds the decoded tags. Both advance together. A write in
    stage 2 is forwarded to an access of the same set in stage 1.

    Latency: 2 cycles. Throughput: an access per cycle. Cost: `ways` codewords for each set, and a
    decoder and an encoder for each way.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    i : `In(stream.Signature(TagAccess(config)))`
    advance : `In(1)`
        Both stages advance.
    valid : `Out(1)`, access : `Out(TagAccess(config))`
        The access in stage 2.
    set : `Out(set_bits)`
        Its set.
    words : `Out(TagWord(config)).array(ways)`
        The tags of the set.
    corrected, uncorrectable : `Out(ways)`
        Ways of which one bit had flipped; of which two had.
    write : `In(ways)`, changed : `In(TagWord(config)).array(ways)`
        Tags to be written to the set.
    idle : `Out(1)`
        Both stages are empty.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        ways = config.ways
        super().__init__(
            {
                "i": In(stream.Signature(TagAccess(config))),
                "advance": In(1),
                "valid": Out(1),
                "access": Out(TagAccess(config)),
                "set": Out(LineShape(config).set_bits),
                "words": Out(TagWord(config)).array(ways),
                "corrected": Out(ways),
                "uncorrectable": Out(ways),
                "write": In(ways),
                "changed": In(TagWord(config)).array(ways),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape(config)
        ways = config.ways
        word_bits = TagWord(config).size
        m.submodules.codewords = tags = memory.Memory(
            shape=data.ArrayLayout(unsigned(codeword_bits(word_bits)), ways),
            depth=max(2, config.sets),
            init=[],
        )
        write = tags.write_port(granularity=1)
        read = tags.read_port(transparent_for=(write,))

        read_valid = Signal()
        read_access = Signal(TagAccess(config), reset_less=True)
        valid = Signal()
        access = Signal(TagAccess(config), reset_less=True)
        corrected = Signal(ways, reset_less=True)
        uncorrectable = Signal(ways, reset_less=True)
        read_set = Signal(shape.set_bits)
        same_set = Signal()
        m.d.comb += [
            self.i.ready.eq(self.advance),
            read.addr.eq(self.i.payload.lookup.line[: shape.set_bits]),
            read.en.eq(self.advance),
            read_set.eq(read_access.lookup.line[: shape.set_bits]),
            self.set.eq(access.lookup.line[: shape.set_bits]),
            same_set.eq(valid & (read_set == self.set if shape.set_bits else 1)),
            write.addr.eq(self.set),
            write.en.eq(self.write),
            self.idle.eq(~read_valid & ~valid),
            self.valid.eq(valid),
            self.access.eq(access),
            self.corrected.eq(corrected),
            self.uncorrectable.eq(uncorrectable),
        ]
        with m.If(self.advance):
            m.d.sync += [
                read_valid.eq(self.i.valid),
                read_access.eq(self.i.payload),
                valid.eq(read_valid),
                access.eq(read_access),
            ]
        for way in range(ways):
            m.submodules[f"decoder_{way}"] = decoder = EccDecoder(word_bits)
            m.submodules[f"encoder_{way}"] = encoder = EccEncoder(word_bits)
            word = Signal(TagWord(config), name=f"word_{way}", reset_less=True)
            forwards = Signal(name=f"forwards_{way}")
            m.d.comb += [
                decoder.i.eq(read.data[way]),
                encoder.i.eq(self.changed[way]),
                write.data[way].eq(encoder.o),
                # The memory was read before this write.
                forwards.eq(same_set & self.write[way]),
                self.words[way].eq(word),
            ]
            with m.If(self.advance):
                m.d.sync += [
                    word.eq(Mux(forwards, self.changed[way].as_value(), decoder.o)),
                    corrected[way].eq(decoder.corrected & ~forwards),
                    uncorrectable[way].eq(decoder.uncorrectable & ~forwards),
                ]
        return m


class MetadataTags(wiring.Component):
    """Looks lines up, selects victims, and issues the tasks of the data array.

    The tags change when the decision is made, in order: a line counts as held from then on, though
    its data come later. A miss replaces an empty way, or the victim of tree pseudo-LRU. A tag of
    which one bit has flipped is corrected, also in memory.

    An access is stalled in its last stage while a resource is missing that it needs: space in the
    task FIFO, an MSHR, an eviction, or the end of an outstanding eviction of the line it fetches.

    Latency: 2 cycles. Throughput: an access per cycle.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    i : `In(stream.Signature(TagAccess(config)))`
    o : `Out(stream.Signature(StoreTask(config)))`
    fetch : `Out(stream.Signature(line_bits))`
        Lines to be fetched; only while `can_fetch`. The fill's task is issued in the same cycle.
    can_fetch : `In(1)`
        An MSHR is free.
    evict : `Out(1)`, evicted_line : `Out(line_bits)`
        The line is evicted. Only while `can_evict`.
    can_evict : `In(1)`
        An eviction is free.
    eviction : `In(eviction_bits)`
        Number of the next eviction, for the task.
    query : `Out(line_bits)`, conflict : `In(1)`
        An eviction of line `query` is outstanding.
    failed_set, failed_way : `Out(...)`, failed : `In(1)`
        The fetch of the line at this position has failed, for walks.
    quick_hit : `Out(1)`
        The lookup accepted two cycles ago hits, and is not stalled.
    stalled : `Out(1)`
        An access is stalled, or was in the previous cycle.
    missed : `Out(1)`
        The access in the last stage is a lookup that misses.
    corrected, uncorrectable : `Out(1)`
        One bit of a tag had flipped; two had.
    idle : `Out(1)`
        Both stages are empty.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        shape = LineShape(config)
        super().__init__(
            {
                "i": In(stream.Signature(TagAccess(config))),
                "o": Out(stream.Signature(StoreTask(config))),
                "fetch": Out(stream.Signature(shape.line_bits)),
                "can_fetch": In(1),
                "evict": Out(1),
                "evicted_line": Out(shape.line_bits),
                "can_evict": In(1),
                "eviction": In(shape.eviction_bits),
                "query": Out(shape.line_bits),
                "conflict": In(1),
                "failed_set": Out(shape.set_bits),
                "failed_way": Out(shape.way_bits),
                "failed": In(1),
                "quick_hit": Out(1),
                "stalled": Out(1),
                "missed": Out(1),
                "corrected": Out(1),
                "uncorrectable": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape(config)
        ways = config.ways
        m.submodules.array = array = TagArray(config)
        m.submodules.plru = plru = TreePlru(config.sets, ways)
        wiring.connect(m, wiring.flipped(self.i), array.i)
        access = array.access
        line = access.lookup.line
        walk = access.walk

        # The lookup.
        tag = Signal(shape.tag_bits)
        matches = Signal(ways)
        tag_error = Signal()
        hit = Signal()
        miss = Signal()
        m.d.comb += [
            tag.eq(line[shape.set_bits :]),
            matches.eq(Cat(word.valid & (word.tag == tag) for word in array.words)),
            tag_error.eq(array.uncorrectable.any()),
            hit.eq(matches.any() & ~tag_error),
            miss.eq(~access.is_walk & ~tag_error & ~hit),
        ]

        # The victim of a miss, or the way of a walk. It does not depend on `hit`, for timing.
        victim = Signal(TagWord(config))
        victim_error = Signal()
        way = self._select_way(m, array, plru, matches, victim, victim_error)

        # The decision.
        victim_known = Signal()
        writes_back = Signal()
        drops = Signal()
        needs_task = Signal()
        resources_free = Signal()
        can_fire = Signal()
        fire = Signal()
        m.d.comb += [
            victim_known.eq(victim.valid & ~victim_error & ~walk.blind),
            writes_back.eq(
                victim.valid
                & victim.dirty
                & Mux(access.is_walk, walk.write_back & victim_known, miss)
            ),
            drops.eq(walk.invalidate & Mux(walk.failed, victim_known & self.failed, 1)),
            needs_task.eq(~access.is_walk | writes_back),
            resources_free.eq(
                (self.can_evict | ~writes_back)
                & ((self.can_fetch & self.fetch.ready & ~self.conflict) | ~miss)
            ),
            can_fire.eq(resources_free & (self.o.ready | ~needs_task)),
            fire.eq(array.valid & can_fire),
            array.advance.eq(~array.valid | can_fire),
        ]

        # The new tags and replacement state.
        self._change_tags(
            m,
            array,
            Decision(
                fire=fire,
                way=way,
                tag=tag,
                matches=matches,
                hit=hit,
                miss=miss,
                tag_error=tag_error,
                victim_error=victim_error,
                drops=drops,
                writes_back=writes_back,
            ),
        )
        m.d.comb += [
            plru.set.eq(array.set),
            plru.way.eq(way),
            plru.touch.eq(fire & (hit | miss) & ~access.is_walk),
            plru.clear.eq(fire & access.is_walk & walk.blind),
        ]

        # The task, the fetch and the eviction.
        task = self.o.payload
        m.d.comb += [
            self.o.valid.eq(array.valid & needs_task & resources_free),
            task.evict.eq(writes_back),
            task.fill.eq(miss),
            task.respond.eq(~access.is_walk),
            task.set.eq(array.set),
            task.way.eq(way),
            task.eviction.eq(self.eviction),
            task.place.eq(access.lookup.place),
            task.write.eq(access.lookup.write),
            task.metadata.eq(access.lookup.metadata),
            task.hit.eq(hit),
            task.replaced.eq(miss & victim.valid),
            task.tag_error.eq(tag_error),
            # `fetch.ready` does not depend on `fetch.valid`.
            self.fetch.valid.eq(fire & miss),
            self.fetch.payload.eq(line),
            self.evict.eq(fire & writes_back),
            self.evicted_line.eq(Cat(array.set, victim.tag)),
            self.query.eq(line),
            self.failed_set.eq(array.set),
            self.failed_way.eq(access.way),
        ]

        # Status.
        was_stalled = Signal()
        reports_errors = Signal()
        m.d.sync += was_stalled.eq(array.valid & ~can_fire)
        m.d.comb += [
            reports_errors.eq(~(access.is_walk & walk.blind)),
            self.stalled.eq(was_stalled | (array.valid & ~can_fire)),
            self.quick_hit.eq(array.valid & hit & ~access.is_walk & ~self.stalled),
            self.missed.eq(array.valid & miss),
            self.corrected.eq(fire & reports_errors & array.corrected.any()),
            self.uncorrectable.eq(
                fire & reports_errors & Mux(access.is_walk, victim_error, tag_error)
            ),
            self.idle.eq(array.idle),
        ]
        one_match = Signal()
        m.d.comb += one_match.eq((matches & (matches - 1)[:ways]) == 0)
        m.d.sync += Assert(~array.valid | access.is_walk | tag_error | one_match)
        return m

    def _select_way(
        self,
        m: Module,
        array: TagArray,
        plru: TreePlru,
        matches: Signal,
        victim: Signal,
        victim_error: Signal,
    ) -> Signal:
        """Drive the victim's tag, and return the way of the access: the hit's, or the victim's."""
        ways = self.config.ways
        way_bits = LineShape(self.config).way_bits
        access = array.access
        way = Signal(way_bits)
        victim_way = Signal(way_bits)
        empty = Signal(ways)
        m.d.comb += empty.eq(Cat(~word.valid for word in array.words))
        with m.If(access.is_walk):
            m.d.comb += victim_way.eq(access.way)
        with m.Elif(empty.any()):
            for k in reversed(range(ways)):
                with m.If(empty[k]):
                    m.d.comb += victim_way.eq(k)
        with m.Else():
            m.d.comb += victim_way.eq(plru.victim)
        with m.Switch(victim_way):
            for k, word in enumerate(array.words):
                with m.Case(k):
                    m.d.comb += [victim.eq(word), victim_error.eq(array.uncorrectable[k])]
        m.d.comb += way.eq(victim_way)
        for k in range(ways):
            with m.If(matches[k] & ~access.is_walk):
                m.d.comb += way.eq(k)
        return way

    def _change_tags(self, m: Module, array: TagArray, access: "Decision") -> None:
        """Write the tags that the access changes or corrects."""
        ways = self.config.ways
        lookup, walk = array.access.lookup, array.access.walk
        is_walk = array.access.is_walk
        dirty = Signal(ways)
        becomes_dirty = Signal()
        m.d.comb += [
            dirty.eq(Cat(word.dirty for word in array.words)),
            becomes_dirty.eq(lookup.write & access.hit & ~(dirty & access.matches).any()),
        ]
        for k, word in enumerate(array.words):
            is_way = Signal(name=f"is_way_{k}")
            changed, write = array.changed[k], array.write[k]
            corrected = array.corrected[k]
            m.d.comb += [is_way.eq(access.way == k if ways > 1 else 1), changed.eq(word)]
            with m.If(is_way & is_walk):
                m.d.comb += changed.dirty.eq(word.dirty & ~walk.write_back)
                with m.If(access.drops):
                    m.d.comb += changed.eq(0)
                rewrites = access.drops | (access.writes_back | corrected) & ~access.victim_error
                m.d.comb += write.eq(access.fire & rewrites)
            with m.Elif(is_way & ~access.tag_error):
                m.d.comb += [
                    changed.tag.eq(access.tag),
                    changed.valid.eq(1),
                    changed.dirty.eq(lookup.write | (access.hit & word.dirty)),
                    write.eq(access.fire & (access.miss | becomes_dirty | corrected)),
                ]
            with m.Else():
                m.d.comb += write.eq(access.fire & corrected & ~(is_walk & walk.blind))


class Decision(NamedTuple):
    """The decision about the access in the tags' last stage."""

    fire: Signal
    way: Signal
    tag: Signal
    matches: Signal
    hit: Signal
    miss: Signal
    tag_error: Signal
    victim_error: Signal
    drops: Signal
    writes_back: Signal
