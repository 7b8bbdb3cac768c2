"""The beats of a dense stream while lines are found in them."""

from collections.abc import Sequence

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.interface import LineCodec
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import ReceivedBeat
from cdma.hw.lib.count import count_ones_of_word
from cdma.hw.lib.lanes import selected


class CountedElements(data.ArrayLayout):
    """A beat's elements, each with the count of its ones in the bits above."""

    def __init__(self, config: CodecConfig) -> None:
        element_bits = 8 * config.element_bytes
        super().__init__(unsigned(element_bits + element_bits.bit_length()), config.lanes)


class CountedBeat(data.StructLayout):
    """A `ReceivedBeat` whose elements have the counts of their ones."""

    def __init__(self, config: CodecConfig) -> None:
        received = ReceivedBeat(config.sector_bytes)
        others = {name: field.shape for name, field in received if name != "data"}
        super().__init__({"elements": CountedElements(config), **others})


def counted(beat: Value, config: CodecConfig) -> Value:
    """The elements of a beat with the counts of their ones, as `CountedElements`."""
    element_bits = 8 * config.element_bytes
    elements = [beat.word_select(i, element_bits) for i in range(config.lanes)]
    return Cat(Cat(element, count_ones_of_word(element)) for element in elements)


class ElementSlots(wiring.Component):
    """Holds the beats that lines are read from, and shows the elements that come next.

    An element is kept with the length that it announces if a line begins there, as finding that
    takes too long for a cycle in which the next line begins where the length says. Of a head that
    goes on in the next beat it is found when that is stored. The slots are a ring, in which beats
    stay where they were stored. Where reading goes on is known for each length that may be read
    before it is known which one is.

    Latency: an element is seen in the cycle after its beat was stored. Throughput: a beat in, and
    `lanes` + `head_elements` elements out, per cycle, or twice as many.

    Parameters
    ----------
    config : CodecConfig
    codec : LineCodec
        That of the lines.
    chunk_beats
        Line beats, each with a head, that are shown: 1 or 2.
    shows_lengths
        Show what each of the words announces, and not only the first one. Without that, there are
        no pairs: `reads_both` is never set.

    Attributes
    ----------
    head_elements, length_elements : int
        Elements of a line's head, and those that tell its length.
    shown : int
        Elements that are shown.

    Members
    -------
    stores : `In(1)`
        `beat` is stored in this cycle, which needs a free slot.
    beat : `In(CountedElements(config))`
    count : `In(range(config.lanes + 1))`
        Whole elements of `beat`.
    alone, both : `In(range(shown + 1))`
        Lengths, of which one may be read.
    reads, reads_both : `In(1)`
        `alone` elements are read in this cycle; `both` elements, if both are set.
    drop : `In(1)`
        None of the elements that are there will be read. Nothing is stored or read until `clear`.
    clear : `In(1)`
        Forget all elements.
    words : `Out(data.ArrayLayout(...))`
        The next `chunk_beats` × (`lanes` + `head_elements`) elements, each with what it announces
        above it (`announced_by`); what is not held is anything. With one beat shown, a number of
        `lanes` or more is any of those.
    announced : `Out(range(config.elements + 1))`
        What the first of them announces, by a way that is shorter. What a head announces of which
        elements are not held is what it might with some others there.
    level : `Out(...)`
        Elements that are there.
    free : `Out(1)`
        A slot is free.
    """

    def __init__(
        self,
        config: CodecConfig,
        codec: LineCodec,
        *,
        chunk_beats: int = 1,
        shows_lengths: bool = True,
    ) -> None:
        self.config = config
        self.codec = codec
        self.chunk_beats = chunk_beats
        self.shows_lengths = shows_lengths
        self.head_elements = codec.head_bytes(config) // config.element_bytes
        self.length_elements = codec.length_bytes(config) // config.element_bytes
        # One for what is being read, up to two for what a head and a full line beat span beyond it,
        # and one to take a beat in the meantime, since `ready` comes from a register.
        self.slots = 3 if self.head_elements <= 1 else 4
        self.shown = shown = chunk_beats * (config.lanes + self.head_elements)
        self.length_bits = config.elements.bit_length() if self.length_elements else 0
        clipped = len(self.clipped(C(0, self.length_bits)))
        word_bits = 8 * config.element_bytes + (clipped if shows_lengths else 0)
        super().__init__(
            {
                "stores": In(1),
                "beat": In(CountedElements(config)),
                "count": In(range(config.lanes + 1)),
                "alone": In(range(shown + 1)),
                "both": In(range(shown + 1)),
                "reads": In(1),
                "reads_both": In(1),
                "drop": In(1),
                "clear": In(1),
                "words": Out(data.ArrayLayout(unsigned(word_bits), shown)),
                "announced": Out(range(config.elements + 1)),
                "level": Out(range(self.slots * config.lanes + 1)),
                "free": Out(1),
            }
        )

    def announced_by(self, word: Value) -> Value:
        """Elements of payload behind a head that begins with this one of `words`."""
        if not self.length_elements:
            return self.codec.payload_elements([], self.config)
        return word[8 * self.config.element_bytes :]

    def clipped(self, length: Value) -> Value:
        """A length as it is shown: what looks for pairs need not tell those beyond a beat apart."""
        beat_bits = (self.config.lanes - 1).bit_length()
        if self.chunk_beats == 2 or len(length) <= beat_bits:
            return length
        return Cat(length[:beat_bits], length[beat_bits:].any())

    # Four lanes, three slots, where the oldest elements are in slot 1:
    #
    #     slot_0   e  f  g  h        store_is  0 0 1     the next beat goes to slot 2
    #     slot_1   a  b  c  d        first_is  0 1 0
    #     slot_2   .  .  .  .        lane_is   0 0 1 0   start = 2: what comes next is c d e f …

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes, slots = self.config.lanes, self.slots
        element_bits = 8 * self.config.element_bytes
        held = [
            Signal(lanes * element_bits, name=f"slot_{s}", reset_less=True) for s in range(slots)
        ]
        lengths = [
            Signal(lanes * self.length_bits, name=f"announced_{s}", reset_less=True)
            for s in range(slots)
        ]
        held_count = Signal(range(slots + 1))
        start = Signal((lanes - 1).bit_length())
        lane_is = Signal(lanes, init=1)
        first_is = Signal(slots, init=1)
        store_is = Signal(slots, init=1)
        # Both once more, inverted, as synthesis would make one register of two that hold the same.
        # What is shown has these, so that the others, by which lengths are found, drive less.
        shows_start = Signal.like(start, init=lanes - 1)
        shows_first = Signal(slots, init=(1 << slots) - 2)
        if self.shows_lengths:
            shown = [
                Cat(element, length)
                for element, length in zip(
                    self._show(m, held, ~shows_start, ~shows_first, name="view"),
                    self._show(m, self._clip(m, lengths), start, first_is, name="length_view"),
                    strict=True,
                )
            ]
        else:
            shown = self._show(m, held, start, first_is, name="view")
        m.d.comb += self.words.as_value().eq(Cat(shown))
        self._announce(m, lengths, lane_is, first_is)

        arriving = Cat(self.beat[i][:element_bits] for i in range(lanes))
        for s, slot in enumerate(held):
            with m.If(self.stores & store_is[s]):
                m.d.sync += slot.eq(arriving)
        if self.length_elements:
            self._keep_lengths(m, lengths, store_is)
        with m.If(self.stores):
            m.d.sync += store_is.eq(store_is.rotate_left(1))

        # Where reading goes on behind each length, and what is left then.
        stored = Mux(self.stores, self.count, 0)
        after = [_Position(name, lanes, slots, self.level) for name in ("alone", "both")]
        for place, length in zip(after, (self.alone, self.both), strict=True):
            end = Signal(range(lanes + self.shown))
            m.d.comb += [
                end.eq(start + length),
                place.start.eq(end),
                place.lane_is.eq(1 << place.start),
                place.freed.eq(end >> len(start)),
                place.held_count.eq(held_count - place.freed + self.stores),
                place.level.eq(self.level - length + stored),
            ]
            with m.Switch(place.freed):
                for freed in range((lanes + self.shown - 1) // lanes + 1):
                    with m.Case(freed):
                        m.d.comb += place.first_is.eq(first_is.rotate_left(freed % slots))
        alone, both = after
        # Whether both are read is known last, if they can be: it chooses among sums.
        reads_alone = Signal()
        m.d.comb += reads_alone.eq(self.reads & ~self.reads_both)

        def read(name: str, otherwise: Value) -> Value:
            if not self.shows_lengths:
                return Mux(self.reads, getattr(alone, name), otherwise)
            early = Mux(reads_alone, getattr(alone, name), otherwise)
            return Mux(self.reads & self.reads_both, getattr(both, name), early)

        next_start = Signal.like(start)
        next_first_is = Signal.like(first_is)
        m.d.comb += [
            next_start.eq(read("start", start)),
            next_first_is.eq(read("first_is", first_is)),
        ]
        with m.If(self.clear):
            m.d.comb += [next_start.eq(0), next_first_is.eq(1)]
        m.d.sync += [
            start.eq(next_start),
            first_is.eq(next_first_is),
            lane_is.eq(read("lane_is", lane_is)),
            held_count.eq(read("held_count", held_count + self.stores)),
            self.level.eq(read("level", self.level + stored)),
        ]
        if self.shows_lengths:
            m.d.sync += [shows_start.eq(~next_start), shows_first.eq(~next_first_is)]
        with m.If(self.reads):
            m.d.sync += Assert(Mux(self.reads_both, both.freed, alone.freed) <= held_count)
        with m.If(self.drop):
            m.d.sync += self.level.eq(0)
        with m.If(self.clear):
            m.d.sync += [register.eq(0) for register in (held_count, self.level)]
            m.d.sync += [register.eq(1) for register in (lane_is, store_is)]
        m.d.comb += self.free.eq(held_count != slots)
        m.d.sync += Assert(held_count <= slots)
        return m

    # Heads of three elements, four lanes. With e f g h comes what c and d of the beat before lack,
    # and what g and h announce is found again with the next beat:
    #
    #     slot_1   a  b  c  d        a: a b c    b: b c d    c: c d e    d: d e f
    #     slot_2   e  f  g  h        e: e f g    f: f g h    g: g h 0    h: h 0 0

    def _keep_lengths(self, m: Module, lengths: Sequence[Signal], store_is: Value) -> None:
        """Keep what each element of the beat announces, and what those do that it completes."""
        lanes, slots, bits = self.config.lanes, self.slots, self.length_bits
        head = self.length_elements
        before = [
            Signal(self.beat.shape().elem_shape, name=f"before_{k}", reset_less=True)
            for k in reversed(range(1, head))
        ]
        sequence = [*before, *(self.beat[i] for i in range(lanes))]
        with m.If(self.stores):
            m.d.sync += [
                word.eq(later)
                for word, later in zip(before, sequence[len(sequence) - len(before) :], strict=True)
            ]
        unknown = [C(0, len(self.beat[0]))] * (head - 1)
        for place in range(len(sequence)):
            found = Signal(bits, name=f"length_{place}")
            window = [*sequence, *unknown][place : place + head]
            m.d.comb += found.eq(self.codec.payload_elements(window, self.config))
            beats_on, lane = divmod(place - (head - 1), lanes)
            for s, slot in enumerate(lengths):
                with m.If(self.stores & store_is[(s - beats_on) % slots]):
                    m.d.sync += slot[lane * bits : (lane + 1) * bits].eq(found)

    def _clip(self, m: Module, lengths: Sequence[Value]) -> list[Value]:
        """The lengths of all slots as they are shown."""
        bits, lanes = self.length_bits, self.config.lanes
        clipped: list[Value] = []
        for s, slot in enumerate(lengths):
            each = [self.clipped(slot[i * bits : (i + 1) * bits]) for i in range(lanes)]
            shown = Signal(len(Cat(each)), name=f"clipped_{s}")
            m.d.comb += shown.eq(Cat(each))
            clipped.append(shown)
        return clipped

    def _show(
        self, m: Module, held: Sequence[Value], start: Value, first_is: Value, *, name: str
    ) -> list[Value]:
        """Show what stands from `start` in the first slot on, a part of each word."""
        lanes, slots, shown = self.config.lanes, self.slots, self.shown
        bits = len(held[0]) // lanes
        parts = [[slot[i * bits : (i + 1) * bits] for i in range(lanes)] for slot in held]
        view: list[Value] = []
        for position in range(min(lanes + shown - 1, slots * lanes)):
            part = Signal(bits, name=f"{name}_in_order_{position}")
            slot, lane = divmod(position, lanes)
            # As they follow each other, by which slot is the first.
            turned = [parts[(first + slot) % slots][lane] for first in range(slots)]
            m.d.comb += part.eq(selected(first_is, turned))
            view.append(part)
        view += [C(0, bits)] * (lanes + shown - 1 - len(view))
        for k in reversed(range(len(start))):
            distance = 1 << k
            width = shown + distance - 1
            picked = [Signal(bits, name=f"{name}_{distance}_{i}") for i in range(width)]
            for i in range(width):
                far = view[i + distance] if i + distance < len(view) else 0
                m.d.comb += picked[i].eq(Mux(start[k], far, view[i]))
            view = list(picked)
        return view

    def _announce(
        self, m: Module, lengths: Sequence[Value], lane_is: Value, first_is: Value
    ) -> None:
        """Tell what the first element announces, by a way that is shorter."""
        if not self.length_elements:
            m.d.comb += self.announced.eq(self.codec.payload_elements([], self.config))
            return
        bits, lanes = self.length_bits, self.config.lanes
        by_slot = [
            selected(lane_is, [slot[i * bits : (i + 1) * bits] for i in range(lanes)])
            for slot in lengths
        ]
        m.d.comb += self.announced.eq(selected(first_is, by_slot))


class _Position:
    """The position at which reading goes on, and what is held from there."""

    def __init__(self, name: str, lanes: int, slots: int, level: Signal) -> None:
        self.start = Signal((lanes - 1).bit_length(), name=f"start_{name}")
        self.lane_is = Signal(lanes, name=f"lane_is_{name}")
        self.first_is = Signal(slots, name=f"first_is_{name}")
        self.freed = Signal(range(slots + 1), name=f"freed_{name}")
        self.held_count = Signal(range(slots + 1), name=f"held_count_{name}")
        self.level = Signal.like(level, name=f"level_{name}")
