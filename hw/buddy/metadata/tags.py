"""Which lines of metadata a slice of the cache has, or will have."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.metadata.line import LineShape, StoreTask, TagAccess, TagWord
from cdma.hw.buddy.metadata.replacement import TreePlru
from cdma.hw.config import MetadataCacheConfig
from cdma.hw.lib.ecc import EccDecoder, EccEncoder, codeword_bits


class MetadataTags(wiring.Component):
    """Looks lines up, decides what gives way, and tells the store what is to be done.

    The tags are changed when the decision is made, in order: a line counts as there from then on,
    though its data will come later. Replaced is a way that has no line, else the one that a tree
    of pseudo-LRU bits names. A tag of which one bit has flipped is corrected, also in memory.

    An access waits in its last stage as long as something is missing that it needs: a place in a
    queue, room for a line, or the end of a write-back of the line that it has to fetch.

    Latency: 2 cycles. Throughput: an access per cycle. Cost: `ways` codewords for each set, and a
    decoder and an encoder for each way.

    Parameters
    ----------
    config : MetadataCacheConfig

    Members
    -------
    i : `In(stream.Signature(TagAccess(config)))`
    o : `Out(stream.Signature(StoreTask(config)))`
    fetch : `Out(stream.Signature(line_bits))`
        Lines to be fetched; only while `room`. A fill's task comes in the same cycle.
    room : `In(1)`
        A line may be fetched.
    evicts : `Out(1)`, evicted : `Out(line_bits)`
        A line has to be written back. Only while `can_evict`.
    can_evict : `In(1)`
    write_back : `In(write_back_bits)`
        Its number, for the task.
    query : `Out(line_bits)`, conflict : `In(1)`
        Whether the line's last write-back is still under way.
    failed_set, failed_way : `Out(...)`, failed : `In(1)`
        Whether the fetch of a line has failed, for walks.
    quick : `Out(1)`
        The lookup that came two cycles ago is a hit, and is going on.
    stalled : `Out(1)`
        An access waits, or has in the cycle before.
    missed : `Out(1)`
        The access at hand is a lookup that is no hit.
    corrected, uncorrectable : `Out(1)`
        A bit of a tag had flipped, or two.
    idle : `Out(1)`
        There is no access here.
    """

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        shape = LineShape(config)
        super().__init__(
            {
                "i": In(stream.Signature(TagAccess(config))),
                "o": Out(stream.Signature(StoreTask(config))),
                "fetch": Out(stream.Signature(shape.line_bits)),
                "room": In(1),
                "evicts": Out(1),
                "evicted": Out(shape.line_bits),
                "can_evict": In(1),
                "write_back": In(shape.write_back_bits),
                "query": Out(shape.line_bits),
                "conflict": In(1),
                "failed_set": Out(shape.set_bits),
                "failed_way": Out(shape.way_bits),
                "failed": In(1),
                "quick": Out(1),
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
        word_bits = TagWord(config).size
        m.submodules.codewords = tags = memory.Memory(
            shape=data.ArrayLayout(unsigned(codeword_bits(word_bits)), ways),
            depth=max(2, config.sets),
            init=[],
        )
        write = tags.write_port(granularity=1)
        read = tags.read_port(transparent_for=(write,))
        m.submodules.plru = plru = TreePlru(config.sets, ways)

        # First the memory, then the decoders, then the decision; all move together.
        moves = Signal()
        read_valid = Signal()
        read_access = Signal(TagAccess(config), reset_less=True)
        valid = Signal()
        access = Signal(TagAccess(config), reset_less=True)
        words = [
            Signal(TagWord(config), name=f"word_{way}", reset_less=True) for way in range(ways)
        ]
        corrected = Signal(ways, reset_less=True)
        uncorrectable = Signal(ways, reset_less=True)
        changed = [Signal(TagWord(config), name=f"changed_{way}") for way in range(ways)]
        changes = Signal(ways)

        set_of = Signal(shape.set_bits)
        read_set = Signal(shape.set_bits)
        same_set = Signal()
        m.d.comb += [
            self.i.ready.eq(moves),
            read.addr.eq(self.i.payload.lookup.line[: shape.set_bits]),
            read.en.eq(moves),
            read_set.eq(read_access.lookup.line[: shape.set_bits]),
            set_of.eq(access.lookup.line[: shape.set_bits]),
            same_set.eq(valid & (read_set == set_of if shape.set_bits else 1)),
            self.idle.eq(~read_valid & ~valid),
        ]
        with m.If(moves):
            m.d.sync += [
                read_valid.eq(self.i.valid),
                read_access.eq(self.i.payload),
                valid.eq(read_valid),
                access.eq(read_access),
            ]
        for way in range(ways):
            m.submodules[f"decoder_{way}"] = decoder = EccDecoder(word_bits)
            m.submodules[f"encoder_{way}"] = encoder = EccEncoder(word_bits)
            current = Signal(name=f"current_{way}")
            m.d.comb += [
                decoder.i.eq(read.data[way]),
                encoder.i.eq(changed[way]),
                write.data[way].eq(encoder.o),
                # What is being written was read too early.
                current.eq(same_set & changes[way]),
            ]
            with m.If(moves):
                m.d.sync += [
                    words[way].eq(Mux(current, changed[way].as_value(), decoder.o)),
                    corrected[way].eq(decoder.corrected & ~current),
                    uncorrectable[way].eq(decoder.uncorrectable & ~current),
                ]

        # The decision.
        line = access.lookup.line
        tag = Signal(shape.tag_bits)
        matches = Signal(ways)
        vacant = Signal(ways)
        hit = Signal()
        broken = Signal()
        misses = Signal()
        way = Signal(shape.way_bits)
        m.d.comb += [
            tag.eq(line[shape.set_bits :]),
            hit.eq(matches.any() & ~broken),
            broken.eq(uncorrectable.any()),
            misses.eq(~access.walks & ~broken & ~hit),
        ]
        for k, word in enumerate(words):
            m.d.comb += [matches[k].eq(word.valid & (word.tag == tag)), vacant[k].eq(~word.valid)]
        # What leaves if the lookup is a miss; it does not wait for that to be known.
        leaving_way = Signal(shape.way_bits)
        leaving = Signal(TagWord(config))
        is_broken = Signal()
        with m.If(access.walks):
            m.d.comb += leaving_way.eq(access.way)
        with m.Elif(vacant.any()):
            for k in reversed(range(ways)):
                with m.If(vacant[k]):
                    m.d.comb += leaving_way.eq(k)
        with m.Else():
            m.d.comb += leaving_way.eq(plru.victim)
        with m.Switch(leaving_way):
            for k, word in enumerate(words):
                with m.Case(k):
                    m.d.comb += [leaving.eq(word), is_broken.eq(uncorrectable[k])]
        m.d.comb += way.eq(leaving_way)
        for k in range(ways):
            with m.If(matches[k] & ~access.walks):
                m.d.comb += way.eq(k)

        walk = access.walk
        known = Signal()
        writes_back = Signal()
        drops = Signal()
        answers = Signal()
        tells = Signal()
        served = Signal()
        can = Signal()
        goes = Signal()
        m.d.comb += [
            known.eq(leaving.valid & ~is_broken & ~walk.blind),
            answers.eq(~access.walks),
            writes_back.eq(
                leaving.valid & leaving.dirty & Mux(access.walks, walk.write_back & known, misses)
            ),
            drops.eq(walk.invalidate & Mux(walk.failed, known & self.failed, 1)),
            tells.eq(answers | writes_back),
            served.eq(
                (self.can_evict | ~writes_back)
                & ((self.room & self.fetch.ready & ~self.conflict) | ~misses)
            ),
            can.eq(served & (self.o.ready | ~tells)),
            goes.eq(valid & can),
            moves.eq(~valid | can),
        ]

        # The tags behind it.
        dirty = Signal(ways)
        dirties = Signal()
        m.d.comb += [
            dirty.eq(Cat(word.dirty for word in words)),
            dirties.eq(access.lookup.write & hit & ~(dirty & matches).any()),
        ]
        for k, word in enumerate(words):
            is_way = Signal(name=f"is_way_{k}")
            m.d.comb += [is_way.eq(way == k if ways > 1 else 1), changed[k].eq(word)]
            with m.If(is_way & access.walks):
                m.d.comb += changed[k].dirty.eq(word.dirty & ~walk.write_back)
                with m.If(drops):
                    m.d.comb += changed[k].eq(0)
                m.d.comb += changes[k].eq(
                    goes & (drops | (writes_back | corrected[k]) & ~is_broken)
                )
            with m.Elif(is_way & ~broken):
                m.d.comb += [
                    changed[k].tag.eq(tag),
                    changed[k].valid.eq(1),
                    changed[k].dirty.eq(access.lookup.write | (hit & word.dirty)),
                    changes[k].eq(goes & (misses | dirties | corrected[k])),
                ]
            with m.Else():
                m.d.comb += changes[k].eq(goes & corrected[k] & ~(access.walks & walk.blind))
        m.d.comb += [
            write.addr.eq(set_of),
            write.en.eq(changes),
            plru.set.eq(set_of),
            plru.way.eq(way),
            plru.uses.eq(goes & (hit | misses) & ~access.walks),
            plru.clear.eq(goes & access.walks & walk.blind),
        ]

        task = self.o.payload
        m.d.comb += [
            self.o.valid.eq(valid & tells & served),
            task.evicts.eq(writes_back),
            task.fills.eq(misses),
            task.answers.eq(answers),
            task.set.eq(set_of),
            task.way.eq(way),
            task.write_back.eq(self.write_back),
            task.place.eq(access.lookup.place),
            task.write.eq(access.lookup.write),
            task.metadata.eq(access.lookup.metadata),
            task.hit.eq(hit),
            task.replaces.eq(misses & leaving.valid),
            task.broken.eq(broken),
            # What is behind `fetch` is ready whether or not something is fetched.
            self.fetch.valid.eq(goes & misses),
            self.fetch.payload.eq(line),
            self.evicts.eq(goes & writes_back),
            self.evicted.eq(Cat(set_of, leaving.tag)),
            self.query.eq(line),
            self.failed_set.eq(set_of),
            self.failed_way.eq(access.way),
        ]

        waited = Signal()
        sound = Signal()
        m.d.sync += waited.eq(valid & ~can)
        m.d.comb += [
            sound.eq(~(access.walks & walk.blind)),
            self.stalled.eq(waited | (valid & ~can)),
            self.quick.eq(valid & hit & ~access.walks & ~self.stalled),
            self.missed.eq(valid & misses),
            self.corrected.eq(goes & sound & corrected.any()),
            self.uncorrectable.eq(goes & sound & Mux(access.walks, is_broken, broken)),
        ]
        one_at_most = Signal()
        m.d.comb += one_at_most.eq((matches & (matches - 1)[:ways]) == 0)
        m.d.sync += Assert(~valid | access.walks | broken | one_at_most)
        return m
