"""Compressed lines of any length to whole beats, and back.

Lines follow one another in the stream without padding, so that a line may begin anywhere in a beat.
A head always fills whole elements (`CodecConfig.head_elements`): everything moves in elements.
"""

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat, ReceivedBeat
from cdma.hw.lib.count import count_ones

LENGTH_BITS = 32
"""Bits of a transfer's uncompressed length in bytes (DESIGN: descriptors)."""

OFFSET_BITS = 40
"""Bits of a position in a stream: the longest transfer's stream is longer than 2**32 bytes."""


class Chunk(data.StructLayout):
    """Elements to be packed: at most a mask and a sector's width of payload.

    Members
    -------
    elements
        Zero from `count` on.
    count
        How many there are.
    last
        The last ones of the packet.
    """

    def __init__(self, config: CodecConfig) -> None:
        capacity = config.lanes + config.head_elements
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), capacity),
                "count": range(capacity + 1),
                "last": 1,
            }
        )


class ElementPacker(wiring.Component):
    """Packs elements into dense beats: only the last one of a packet may be partial.

    What comes in is moved to the place where the packed elements end, and joins them; a beat leaves
    whenever one is full.

    Latency: 1 cycle. Throughput: a chunk per cycle while the output is taken, and what has come in
    is at no time more than a mask ahead of what could leave.

    Resources: two beats and two masks of registers, a shifting network of as many lanes.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(Chunk(config)))`
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        Bytes beyond `size` are zero. A packet without elements gives one beat of no bytes.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Chunk(config))),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
            }
        )

    # One cycle, with four lanes and a head of one element: h and the payload a b c come in.
    #
    #     packed   p0 p1 p2 p3 | p4 p5          fill = 6: the first four are a beat, and leave
    #     stays    p4 p5  .  . |                rest = 2
    #     moved     .  .  h  a |  b  c          the chunk, by offset = 2 lanes
    #     packed   p4 p5  h  a |  b  c          in the next cycle; fill = 6

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes, mask_elements = config.lanes, config.head_elements
        lane_bits = (lanes - 1).bit_length()
        element_bits = 8 * config.element_bytes
        chunk = self.i.payload
        # A mask makes a line's first beat longer than what can leave in a cycle. That much may stay
        # behind, beside what fills no beat, so that a line which takes no more room than it took
        # uncompressed never has to wait.
        backlog = lanes + mask_elements - 1
        capacity = backlog + lanes + mask_elements

        # Elements join what is there, so a reset must clear what it leaves of a packet.
        packed = [Signal(element_bits, name=f"packed_{j}") for j in range(capacity)]
        fill = Signal(range(capacity + 1))
        ending = Signal()

        full = Signal()
        final = Signal()
        sent = Signal()
        m.d.comb += [
            full.eq(fill >= lanes),
            final.eq(ending & (fill <= lanes)),
            self.o.valid.eq(full | ending),
            self.o.payload.data.eq(Cat(packed[:lanes])),
            self.o.payload.size.eq(Mux(full, lanes, fill) * config.element_bytes),
            self.o.payload.last.eq(final),
            sent.eq(self.o.valid & self.o.ready),
        ]

        # What stays when a beat leaves; nothing does after the last one.
        rest = Signal(range(capacity + 1))
        m.d.comb += rest.eq(Mux(sent, Mux(full, fill - lanes, 0), fill))
        # Only its top bit depends on whether a beat leaves.
        offset = Signal(lane_bits + 1)
        m.d.comb += [
            offset.eq(Cat(Mux(ending, 0, fill[:lane_bits]), rest[lane_bits])),
            # An end without elements must not turn the full beat that is offered into a last one.
            self.i.ready.eq(
                Mux(
                    ending,
                    sent & final,
                    (rest <= backlog) & ~((chunk.count == 0) & (rest == lanes)),
                )
            ),
        ]

        moved: list[Value] = [chunk.elements[j] for j in range(lanes + mask_elements)]
        for k in range(lane_bits + 1):
            distance = 1 << k
            width = min(len(moved) + distance, capacity)
            moving = [Signal(element_bits, name=f"moved_{distance}_{j}") for j in range(width)]
            for j in range(width):
                near = moved[j] if j < len(moved) else 0
                far = moved[j - distance] if j >= distance else 0
                m.d.comb += moving[j].eq(Mux(offset[k], far, near))
            moved = list(moving)

        taken = Signal()
        m.d.comb += taken.eq(self.i.valid & self.i.ready)
        for j, word in enumerate(packed):
            stays = packed[j + lanes] if j + lanes < capacity else 0
            m.d.sync += word.eq(Mux(sent, stays, word) | Mux(taken, moved[j], 0))
        with m.If(taken):
            m.d.sync += [fill.eq(rest + chunk.count), ending.eq(chunk.last)]
        with m.Else():
            m.d.sync += fill.eq(rest)
            with m.If(sent & final):
                m.d.sync += ending.eq(0)
        return m


def mask_and_elements(
    m: Module, config: CodecConfig, beat: data.View, masked: Value, *, name: str
) -> list[Value]:
    """What a line beat puts into the stream: its elements, behind its mask if `masked`."""
    element_bits = 8 * config.element_bytes
    mask = [beat.mask.word_select(j, element_bits) for j in range(config.head_elements)]
    elements = [beat.elements[i] for i in range(config.lanes)]
    stream_elements: list[Value] = []
    for j in range(config.lanes + config.head_elements):
        plain = elements[j] if j < config.lanes else 0
        behind = mask[j] if j < config.head_elements else elements[j - config.head_elements]
        element = Signal(element_bits, name=f"{name}_{j}")
        m.d.comb += element.eq(Mux(masked, behind, plain))
        stream_elements.append(element)
    return stream_elements


class Packer(wiring.Component):
    """Packs lines into dense beats: only the last one of a transfer may be partial.

    Latency: `beat_latency` = 1 cycle from the line beat that fills a beat. Throughput: a line beat
    per cycle while the output is taken, for lines that take no more room than uncompressed ones;
    denser ones are limited by the output, as n beats and a mask come out of n beats.

    Resources: an `ElementPacker`.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    beat_latency : int

    Members
    -------
    i : `In(stream.Signature(LineBeat(config)))`
        Undamaged lines.
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        Bytes beyond `size` are zero. A transfer without a line gives one beat of no bytes.
    """

    beat_latency = 1

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.elements = elements = ElementPacker(config)
        wiring.connect(m, elements.o, wiring.flipped(self.o))

        beat = self.i.payload
        chunk = elements.i.payload
        masked = Signal()
        m.d.comb += [
            masked.eq(beat.sol & ~beat.empty),
            elements.i.valid.eq(self.i.valid),
            self.i.ready.eq(elements.i.ready),
            chunk.elements.as_value().eq(
                Cat(mask_and_elements(m, config, beat, masked, name="chunk"))
            ),
            chunk.count.eq(beat.count + Mux(masked, config.head_elements, 0)),
            chunk.last.eq(beat.last),
        ]
        with m.If(self.i.valid):
            m.d.sync += Assert(beat.truncation == Truncation.NONE)
        return m


class StreamTail(data.StructLayout):
    """How a packet ended, after the lines in it.

    Members
    -------
    trailing
        Bytes followed the last line.
    framing_error
        A beat broke the framing of the packet (`ReceivedBeat.framing_error`) before any byte was
        trailing. The packet's bytes from there on are not looked at.
    size
        Bytes of the packet; until the torn beat's first hole, if there was one.
    """

    def __init__(self) -> None:
        super().__init__({"trailing": 1, "framing_error": 1, "size": OFFSET_BITS})


class LinePair(data.StructLayout):
    """A line beat, and the line behind it if both are short.

    Members
    -------
    first
    paired
        `first` is a whole line, and `second` too: the next one. Else `second` holds nothing.
    second
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"first": LineBeat(config), "paired": 1, "second": LineBeat(config)})


class Unpacker(wiring.Component):
    """Finds the lines in a dense stream.

    Beats wait in a few slots. A line's mask tells where the next one begins, so the mask of the
    next line is found while the decompressor still expands the present one.

    Two lines can leave in one cycle, if that is asked for: those that together, with their masks,
    take no more than a beat and a mask.

    Latency: `line_beat_latency` = 1 cycle from the beat that completes a line beat. Throughput: as
    fast as beats come in; a dense line of n beats and a mask comes in no faster than that. Short
    lines leave `lines_per_cycle` at a time.

    Resources: three beats of registers (four if a mask has more than one element), a picking
    network of two beats and a mask, a population count of each element that comes in. For two lines
    per cycle a network that picks the second line from a beat and a mask.

    Parameters
    ----------
    config : CodecConfig
    codec
        Name of the lines' codec; the configuration's first one if not given.
    lines_per_cycle
        1 or 2.

    Attributes
    ----------
    line_beat_latency : int

    Members
    -------
    command : `In(stream.Signature(...))`
        How many lines the packet should have.
    i : `In(stream.Signature(ReceivedBeat(config.sector_bytes)))`
        A packet per command. All of it is taken, whatever is in it.
    o : `Out(stream.Signature(LineBeat(config)))`
        The lines, as far as they are there. `last` ends each packet. With two lines per cycle, a
        `LinePair`.
    tail : `Out(stream.Signature(StreamTail()))`
        After each packet.
    """

    line_beat_latency = 1

    def __init__(
        self, config: CodecConfig, *, codec: str | None = None, lines_per_cycle: int = 1
    ) -> None:
        self.config = config
        self.codec = line_codec(config.codecs[0] if codec is None else codec)
        self.lines_per_cycle = lines_per_cycle
        line_bits = (config.line_bytes - 1).bit_length()
        super().__init__(
            {
                "command": In(stream.Signature(LENGTH_BITS + 1 - line_bits)),
                "i": In(stream.Signature(ReceivedBeat(config.sector_bytes))),
                "o": Out(
                    stream.Signature(LineBeat(config) if lines_per_cycle == 1 else LinePair(config))
                ),
                "tail": Out(stream.Signature(StreamTail())),
            }
        )

    # One cycle, with four lanes, heads h and h' of one element, and payloads a b and c:
    #
    #     slots    .  .  h  a |  b  h' c  . |    start = 2, level = 5
    #     view     h  a  b  h' c                 what stands from start on
    #     first    head h, elements a b          the codec says: two elements behind h
    #     second   head h', element c            all of it is here, and both fit a beat and a head
    #     read     5 elements: the first slot is free, and start = 3 in the other

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes = config.lanes
        mask_elements = self.codec.head_bytes(config) // config.element_bytes
        lane_bits = (lanes - 1).bit_length()
        element_bits = 8 * config.element_bytes
        # One for what is being read, up to two for what a mask and a full line beat span beyond it,
        # and one to take a beat in the meantime, since `ready` comes from a register.
        slots = 3 if mask_elements <= 1 else 4

        # The packet. It is closed by its last beat, or by a torn one: then the rest is dropped.
        active = Signal()
        lines_left = Signal.like(self.command.payload)
        lines_done = Signal()
        closed = Signal()
        ended = Signal()
        framing_error = Signal()
        ragged = Signal()
        trailing = Signal()
        size = Signal(OFFSET_BITS)

        # The slots: elements from `start` in the first one on, `level` of them. An element is kept
        # with the count of its ones: counting what is picked would take too long for a cycle, in
        # which the next pick begins where the count says.
        word_bits = element_bits + element_bits.bit_length()
        arriving_words = Cat(
            Cat(element, count_ones(element))
            for element in (self.i.payload.data.word_select(i, element_bits) for i in range(lanes))
        )
        held = [Signal(lanes * word_bits, name=f"slot_{s}", reset_less=True) for s in range(slots)]
        held_count = Signal(range(slots + 1))
        start = Signal(lane_bits)
        level = Signal(range(slots * lanes + 1))

        # The next mask, or the next elements: what stands from `start` on.
        view = [slot.word_select(i, word_bits) for slot in held for i in range(lanes)][
            : 2 * lanes + mask_elements - 1
        ]
        for k in reversed(range(lane_bits)):
            distance = 1 << k
            width = lanes + mask_elements + distance - 1
            picked = [Signal(word_bits, name=f"view_{distance}_{i}") for i in range(width)]
            for i in range(width):
                far = view[i + distance] if i + distance < len(view) else 0
                m.d.comb += picked[i].eq(Mux(start[k], far, view[i]))
            view = list(picked)
        words = view
        view = [word[:element_bits] for word in words]

        def payload_in(line: list[Value]) -> Value:
            return self.codec.payload_elements(line[:mask_elements], config)

        # The line: how many of its elements are still to come.
        busy = Signal()
        payload_left = Signal(range(config.elements + 1))
        mask = Signal(config.elements)
        announced = Signal(range(config.elements + 1))
        overhead = Signal(range(mask_elements + 1))
        m.d.comb += [
            mask.eq(Cat(view[:mask_elements])),
            announced.eq(
                Mux(
                    busy,
                    payload_left,
                    payload_in(words),
                )
            ),
            overhead.eq(Mux(busy, 0, mask_elements)),
        ]
        wanted = Signal(range(lanes + 1))
        m.d.comb += wanted.eq(Mux(announced > lanes, lanes, announced))

        # What is there of it; less only if the packet ends here. Where there is no mask, what is
        # announced is unknown; simulators that know X need to be told that it does not matter.
        no_mask = Signal()
        there = Signal(range(lanes + 1))
        short = Signal()
        m.d.comb += [
            no_mask.eq(level < overhead),
            short.eq(no_mask | (level < overhead + wanted)),
            there.eq(Mux(no_mask, 0, Mux(short, level - overhead, wanted))),
        ]

        empty = Signal()
        ends_line = Signal()
        last = Signal()
        m.d.comb += [
            empty.eq(lines_left == 0),
            ends_line.eq(short | (announced <= lanes)),
            last.eq(empty | short | (ends_line & (lines_left == 1))),
        ]
        out = self.o.payload if self.lines_per_cycle == 1 else self.o.payload.first
        given = Signal.like(there)
        m.d.comb += [
            given.eq(Mux(empty, 0, there)),
            self.o.valid.eq(active & ~lines_done & (empty | ~short | closed)),
            out.mask.eq(Mux(busy | empty | no_mask, 0, mask)),
            out.count.eq(given),
            out.sol.eq(~busy),
            out.eol.eq(ends_line | empty),
            out.last.eq(last),
            out.empty.eq(empty),
            out.truncation.eq(
                Mux(
                    empty | ~short,
                    Truncation.NONE,
                    Mux(no_mask, Truncation.MASK, Truncation.PAYLOAD),
                )
            ),
        ]
        for i in range(lanes):
            element = Mux(busy, view[i], view[i + mask_elements])
            m.d.comb += out.elements[i].eq(Mux(i < given, element, 0))

        lines_given: Value = C(1)
        read_given: Value = overhead + there
        ends_packet: Value = last
        if self.lines_per_cycle == 2:
            # The line behind the first one, if that is so short that anything of it is here.
            behind = words[mask_elements:]
            for k in range(lane_bits):
                distance = 1 << k
                nearer = [Signal(word_bits, name=f"behind_{distance}_{i}") for i in range(lanes)]
                for i in range(lanes):
                    far = behind[i + distance] if i + distance < lanes else 0
                    m.d.comb += nearer[i].eq(Mux(announced[k], far, behind[i]))
                behind = list(nearer)
            second_count = Signal(range(config.elements + 1))
            both = Signal(range(2 * (config.elements + mask_elements) + 1))
            two_masks = Signal()
            fits = Signal()
            m.d.comb += [
                second_count.eq(payload_in(behind)),
                both.eq(announced + second_count + 2 * mask_elements),
                two_masks.eq(~no_mask & (announced + 2 * mask_elements <= level)),
                fits.eq(
                    ~busy
                    & (lines_left > 1)
                    & two_masks
                    & (both <= lanes + mask_elements)
                    & (both <= level)
                ),
            ]
            # A line that was offered alone leaves alone: what is offered must not change.
            paired = Signal()
            waits_alone = Signal()
            m.d.comb += [
                paired.eq(fits & ~waits_alone),
                self.o.payload.paired.eq(paired),
            ]
            m.d.sync += waits_alone.eq(self.o.valid & ~self.o.ready & ~paired)

            second = self.o.payload.second
            second_last = Signal()
            m.d.comb += [
                second_last.eq(paired & (lines_left == 2)),
                second.sol.eq(1),
                second.eol.eq(1),
            ]
            with m.If(paired):
                m.d.comb += [
                    second.mask.eq(Cat(word[:element_bits] for word in behind[:mask_elements])),
                    second.count.eq(second_count),
                    second.last.eq(second_last),
                ]
            for i in range(lanes - mask_elements):
                element = behind[mask_elements + i][:element_bits]
                there_too = paired & (i < second_count)
                m.d.comb += second.elements[i].eq(Mux(there_too, element, 0))
            lines_given = Mux(paired, 2, 1)
            read_given = Mux(paired, both, overhead + there)
            ends_packet = last | second_last

        step = Signal()
        m.d.comb += step.eq(self.o.valid & self.o.ready)
        with m.If(step):
            m.d.sync += [
                busy.eq(~ends_line & ~empty),
                payload_left.eq(announced - wanted),
                lines_done.eq(ends_packet),
            ]
            with m.If(ends_line & ~empty):
                m.d.sync += lines_left.eq(lines_left - lines_given)

        # Let go of what was read, and of the slots that it filled.
        read = Signal(range(lanes + mask_elements + 1))
        m.d.comb += read.eq(Mux(step & ~empty & ~no_mask, read_given, 0))
        end = Signal(range(2 * lanes + mask_elements))
        freed = Signal(range(3))
        m.d.comb += [
            end.eq(start + read),
            freed.eq(end >> lane_bits),
        ]
        moved = [
            Mux(
                freed[1],
                held[s + 2] if s + 2 < slots else 0,
                Mux(freed[0], held[s + 1] if s + 1 < slots else 0, held[s]),
            )
            for s in range(slots)
        ]
        kept_count = Signal(range(slots + 1))
        m.d.comb += kept_count.eq(held_count - freed)

        # Take beats in; drop those behind the lines or behind a tear.
        beat = self.i.payload
        drops = Signal()
        taken = Signal()
        kept = Signal()
        m.d.comb += [
            drops.eq(closed | lines_done),
            self.i.ready.eq(active & ~ended & (drops | (held_count != slots))),
            taken.eq(self.i.valid & self.i.ready),
            kept.eq(taken & ~drops),
        ]
        arriving = Signal(range(lanes + 1))
        m.d.comb += arriving.eq(beat.size // config.element_bytes)
        m.d.sync += [
            *(
                held[s].eq(Mux(kept & (kept_count == s), arriving_words, moved[s]))
                for s in range(slots)
            ),
            start.eq(end[:lane_bits]),
            held_count.eq(kept_count + kept),
            level.eq(level - read + Mux(kept, arriving, 0)),
        ]
        with m.If(taken):
            m.d.sync += ended.eq(beat.last)
            with m.If(~closed):
                m.d.sync += [
                    size.eq(size + beat.size),
                    closed.eq(beat.last | beat.framing_error),
                    framing_error.eq(beat.framing_error),
                    ragged.eq(~drops & (beat.size % config.element_bytes != 0)),
                    trailing.eq(trailing | (drops & (beat.size != 0))),
                ]

        tail = self.tail.payload
        m.d.comb += [
            self.tail.valid.eq(lines_done & ended),
            tail.trailing.eq(trailing | (level != 0) | ragged),
            tail.framing_error.eq(framing_error),
            tail.size.eq(size),
        ]
        done = Signal()
        m.d.comb += [
            done.eq(self.tail.valid & self.tail.ready),
            self.command.ready.eq(~active | done),
        ]
        with m.If(self.command.ready):
            m.d.sync += [active.eq(self.command.valid), lines_left.eq(self.command.payload)]
        with m.If(done):
            m.d.sync += [
                register.eq(0)
                for register in (
                    lines_done,
                    closed,
                    ended,
                    framing_error,
                    ragged,
                    trailing,
                    size,
                    busy,
                    held_count,
                    start,
                    level,
                )
            ]

        m.d.sync += [
            Assert(held_count <= slots),
            Assert(freed <= held_count),
        ]
        return m
