"""Lines of any length, found in a dense stream of beats: the inverse of `pack`."""

from collections.abc import Sequence

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Truncation
from cdma.hw.codec.registry import line_codec
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.codec.stream.packet import PacketStates
from cdma.hw.codec.stream.slots import CountedBeat, ElementSlots, counted
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import ReceivedBeat
from cdma.hw.lib.countdown import LateCountdown
from cdma.hw.lib.lanes import selected
from cdma.hw.lib.pipeline import PipelineRegister


class StreamTail(data.StructLayout):
    """The end of a packet, after the lines in it.

    Members
    -------
    trailing
        Bytes followed the last line.
    framing_error
        A beat broke the framing of the packet (`ReceivedBeat.framing_error`) before any byte was
        trailing. The packet's bytes from there on are not looked at.
    size
        Bytes of the packet; with a framing error, those before the first hole.
    """

    def __init__(self) -> None:
        super().__init__({"trailing": 1, "framing_error": 1, "size": OFFSET_BITS})


class LinePair(data.StructLayout):
    """A line beat, and the line behind it if both are short.

    Members
    -------
    first
        The line beat.
    paired
        `first` is a whole line, and `second` too: the next one. Else `second` holds nothing. From
        an unpacker with chunks of two beats, `first` ends a line, and `second` begins the next one.
    second
        The line behind it, or its first beat.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"first": LineBeat(config), "paired": 1, "second": LineBeat(config)})


class _Packet:
    """States and registers of the packet that lines are found in."""

    def __init__(self, command: Signal) -> None:
        self.states = PacketStates()
        self.empty = Signal(name="packet_empty")
        self.lines_left = LateCountdown(len(command))
        self.lines_done = Signal()
        self.framing_error = Signal()
        self.partial_element = Signal()
        self.trailing = Signal()
        self.size = Signal(OFFSET_BITS)


class _Line:
    """The line beat that is found in this cycle, and registers of the line.

    `announced` of its elements are still to come: as many as its head says, `in_head`, or fewer if
    the line is `busy`. They stand behind `overhead` elements of head;
    `beat_elements` of them belong to this beat and are `there` if the packet does not end before.
    `second_announced` are those of the line behind it, `second_count` of them in its first beat,
    and `second_ends` if that is all.
    """

    def __init__(self, config: CodecConfig, head_elements: int) -> None:
        self.busy = Signal()
        self.payload_left = Signal(range(config.elements + 1))
        self.in_head = Signal(range(config.elements + 1))
        self.announced = Signal(range(config.elements + 1))
        self.overhead = Signal(range(head_elements + 1))
        self.beat_elements = Signal(range(config.lanes + 1))
        self.held = Signal(range(4 * config.lanes + 1))
        self.there = Signal(range(config.lanes + 1))
        self.no_mask = Signal()
        self.short = Signal()
        self.empty = Signal()
        self.ends_line = Signal()
        self.last = Signal()
        self.second_announced = Signal(range(config.elements + 1))
        self.second_count = Signal(range(config.lanes + 1))
        self.second_ends = Signal()


class Unpacker(wiring.Component):
    """Finds the lines in a dense stream.

    Beats wait in a few slots. A line's head tells where the next one begins, so the head of the
    next line is found while the decompressor still expands the present one.

    Two lines can leave in one cycle, if that is asked for: those that together, with their heads,
    take no more than a beat and a head. With chunks of two beats, the first beat of a line leaves
    with the last one of the line before it, whatever their sizes.

    Latency: `line_beat_latency` cycles from the beat that completes a line beat, 1 if a line's
    first element tells its length, 2 if that takes more. Throughput: as fast as beats come in; a
    dense line of n beats and a head comes in no faster than that. Short lines leave
    `lines_per_cycle` at a time, a line of n beats in chunks of two takes n - 1 cycles.

    Resources: three beats of registers (four if a head has more than one element, and one more if
    its length does), a picking network of two beats and a head, a population count of each element
    that comes in, and the length of a line that begins there, with a register. For two lines
    per cycle a network that picks the second line from a beat and a head. For chunks of two beats
    both networks are as wide again.

    Parameters
    ----------
    config : CodecConfig
    codec
        Name of the lines' codec; the configuration's first one if not given.
    lines_per_cycle
        1 or 2.
    chunk_beats
        Line beats, each with a head, that may leave in a cycle: 1, or 2 with two lines per cycle.

    Attributes
    ----------
    line_beat_latency : int

    Members
    -------
    command : `In(stream.Signature(...))`
        Lines that the packet should have.
    i : `In(stream.Signature(ReceivedBeat(config.sector_bytes)))`
        A packet per command. All of it is taken, whatever is in it.
    o : `Out(stream.Signature(LineBeat(config)))`
        The lines, as far as they are there. `last` ends each packet. With two lines per cycle, a
        `LinePair`.
    tail : `Out(stream.Signature(StreamTail()))`
        The end of each packet, after all of it was taken.
    second : `Out(LineBeat(config))`
        Only with two lines per cycle: `o.payload.second` before it is known whether there is one,
        which takes longer. If `o.payload.paired` is not set, it is anything.
    """

    def __init__(
        self,
        config: CodecConfig,
        *,
        codec: str | None = None,
        lines_per_cycle: int = 1,
        chunk_beats: int = 1,
    ) -> None:
        self.config = config
        self.codec = line_codec(config.codecs[0] if codec is None else codec)
        self.lines_per_cycle = lines_per_cycle
        self.chunk_beats = chunk_beats if lines_per_cycle == 2 else 1
        # Ones are counted a cycle before lengths are found from the counts.
        self.counts_apart = self.codec.length_bytes(config) > config.element_bytes
        self.line_beat_latency = 1 + self.counts_apart
        line_bits = (config.line_bytes - 1).bit_length()
        second = {"second": Out(LineBeat(config))} if lines_per_cycle == 2 else {}
        super().__init__(
            {
                "command": In(stream.Signature(LENGTH_BITS + 1 - line_bits)),
                "i": In(stream.Signature(ReceivedBeat(config.sector_bytes))),
                "o": Out(
                    stream.Signature(LineBeat(config) if lines_per_cycle == 1 else LinePair(config))
                ),
                "tail": Out(stream.Signature(StreamTail())),
                **second,
            }
        )

    # One cycle, with four lanes, heads h and h' of one element, and payloads a b and c:
    #
    #     slots    .  .  h  a |  b  h' c  . |    start = 2, level = 5
    #     words    h  a  b  h' c                 what stands from start on
    #     first    head h, elements a b          the codec says: two elements behind h
    #     second   head h', element c            all of it is here, and both fit a beat and a head
    #     read     5 elements: the first slot is free, and start = 3 in the other

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.slots = slots = ElementSlots(
            self.config,
            self.codec,
            chunk_beats=self.chunk_beats,
            shows_lengths=self.lines_per_cycle == 2,
        )
        packet = _Packet(self.command.payload)
        m.submodules.packet = packet.states
        m.submodules.lines_left = packet.lines_left
        line = _Line(self.config, slots.head_elements)

        self._find_line(m, packet, line, slots)
        self._give_line(m, packet, line, slots)
        second_given: Value = C(0)
        paired: Value = C(0)
        both: Value = C(0)
        ends_packet: Value = line.last
        goes_on: Value = ~line.ends_line
        payload_left: Value = line.announced - line.beat_elements
        if self.lines_per_cycle == 2:
            paired, both, second_last = self._second_line(m, packet, line, slots)
            second_given = paired & line.second_ends
            ends_packet = line.last | second_last
            if self.chunk_beats == 2:
                goes_on = Mux(paired, ~line.second_ends, goes_on)
                payload_left = Mux(paired, line.second_announced - self.config.lanes, payload_left)

        step = Signal()
        m.d.comb += [
            step.eq(self.o.valid & self.o.ready),
            slots.alone.eq(line.overhead + line.beat_elements),
            slots.both.eq(both),
            slots.reads.eq(step & ~line.empty & ~line.short),
            slots.reads_both.eq(paired),
            # Of a line that is cut off, what is there is the rest of the packet.
            slots.drop.eq(step & ~line.empty & line.short & ~line.no_mask),
        ]
        with m.If(step):
            m.d.sync += [
                line.busy.eq(goes_on & ~line.empty),
                line.payload_left.eq(payload_left),
                packet.lines_done.eq(ends_packet),
            ]
            with m.If(line.ends_line & ~line.empty):
                m.d.comb += [
                    packet.lines_left.one.eq(~second_given),
                    packet.lines_left.two.eq(second_given),
                ]
        self._take_packet(m, packet, line, slots)
        return m

    def _find_line(self, m: Module, packet: _Packet, line: _Line, slots: ElementSlots) -> None:
        """Find what is there of the line, less only if the packet ends here.

        Where there is no head, what is announced is unknown; simulators that know X need to be told
        that it does not matter.
        """
        lanes, level = self.config.lanes, slots.level
        m.d.comb += [
            line.in_head.eq(slots.announced),
            line.announced.eq(Mux(line.busy, line.payload_left, line.in_head)),
            line.overhead.eq(Mux(line.busy, 0, slots.head_elements)),
            line.beat_elements.eq(Mux(line.announced > lanes, lanes, line.announced)),
            # All that the level tells is there before what is announced.
            line.no_mask.eq(level < line.overhead),
            line.held.eq(Mux(line.no_mask, 0, level - line.overhead)),
            line.short.eq(line.no_mask | ((line.held < lanes) & (line.announced > line.held))),
            line.there.eq(Mux(line.short, line.held, line.beat_elements)),
            line.empty.eq(packet.empty),
            line.ends_line.eq(line.short | (line.announced <= lanes)),
            line.last.eq(line.empty | line.short | (line.ends_line & packet.lines_left.is_one)),
        ]

    def _give_line(self, m: Module, packet: _Packet, line: _Line, slots: ElementSlots) -> None:
        """Offer the line beat, as soon as all of it is there or never will be."""
        element_bits = 8 * self.config.element_bytes
        head_elements = slots.head_elements
        elements = [slots.words[i][:element_bits] for i in range(slots.shown)]
        out = self.o.payload if self.lines_per_cycle == 1 else self.o.payload.first
        mask = Signal(self.config.head_bits)
        given = Signal.like(line.there)
        m.d.comb += [
            mask.eq(Cat(elements[:head_elements])),
            given.eq(Mux(line.empty, 0, line.there)),
            self.o.valid.eq(
                packet.states.active
                & ~packet.lines_done
                & (line.empty | ~line.short | packet.states.closed)
            ),
            out.mask.eq(Mux(line.busy | line.empty | line.no_mask, 0, mask)),
            out.count.eq(given),
            out.sol.eq(~line.busy),
            out.eol.eq(line.ends_line | line.empty),
            out.last.eq(line.last),
            out.empty.eq(line.empty),
            out.truncation.eq(
                Mux(
                    line.empty | ~line.short,
                    Truncation.NONE,
                    Mux(line.no_mask, Truncation.MASK, Truncation.PAYLOAD),
                )
            ),
        ]
        for i in range(self.config.lanes):
            element = Mux(line.busy, elements[i], elements[i + head_elements])
            is_there = ~line.empty & (i < line.held) & (i < line.announced)
            m.d.comb += out.elements[i].eq(Mux(is_there, element, 0))

    def _second_line(
        self, m: Module, packet: _Packet, line: _Line, slots: ElementSlots
    ) -> tuple[Value, Value, Value]:
        """Offer the line behind the first one too, if both are so short that all of it is here.

        In chunks of two beats, offer the next line's first beat with a line's last one.

        Returns
        -------
        paired
            There is a second line.
        both
            Elements of both lines, with their heads.
        last
            The second line is the packet's last, and all of it is here.
        """
        lanes, head_elements = self.config.lanes, slots.head_elements
        element_bits = 8 * self.config.element_bytes
        wide = self.chunk_beats == 2
        # A whole line is not busy.
        announced = line.announced if wide else line.in_head
        overhead = line.overhead if wide else head_elements
        words = [slots.words[i] for i in range(slots.shown)]
        if wide:
            # A line that is busy has had its head.
            words = [
                *words[:head_elements],
                *(
                    Mux(line.busy, words[i], words[i + head_elements])
                    for i in range(slots.shown - head_elements)
                ),
            ]
        # The first line's payload, and the second line behind it.
        follows = words[head_elements:]
        paired, second_there, both = self._find_second(
            m, packet, line, slots, follows, announced, overhead
        )

        shown = lanes + head_elements if wide else lanes
        behind = self._behind(m, [word[:element_bits] for word in follows], announced, shown)

        ahead = self.second
        second = self.o.payload.second
        second_last = Signal()
        m.d.comb += [
            self.o.payload.paired.eq(paired),
            second_last.eq(packet.lines_left.is_two & line.second_ends),
            ahead.sol.eq(1),
            ahead.eol.eq(line.second_ends),
            ahead.mask.eq(Cat(behind[:head_elements])),
            ahead.count.eq(line.second_count),
            ahead.last.eq(second_last),
            second.sol.eq(1),
            second.eol.eq(line.second_ends & (paired if wide else 1)),
        ]
        for i in range(shown - head_elements):
            element = behind[head_elements + i]
            m.d.comb += ahead.elements[i].eq(Mux(second_there[i], element, 0))
        with m.If(paired):
            m.d.comb += second.eq(ahead)
        return paired, both, paired & second_last

    def _behind(
        self, m: Module, follows: Sequence[Value], announced: Value, shown: int
    ) -> list[Value]:
        """Pick as many elements as are shown behind those that the first line announces.

        Where it announces more than a second line can be behind, they are anything.
        """
        wide = self.chunk_beats == 2
        most = self.config.lanes - (not wide)
        behind = list(follows)
        for k in range(most.bit_length()):
            distance = 1 << k
            # What later stages can still reach.
            width = shown + (most & ~(2 * distance - 1)) if wide else shown
            nearer = [Signal(len(follows[0]), name=f"behind_{distance}_{i}") for i in range(width)]
            for i in range(width):
                far = behind[i + distance] if i + distance < len(behind) else 0
                m.d.comb += nearer[i].eq(Mux(announced[k], far, behind[i]))
            behind = list(nearer)
        return behind

    # Lengths behind the first line's head, and what stands there, four lanes:
    #
    #     follows   a  b  h' c  .        the first line announces two elements, a and b
    #     n         0  1  2  3           were it n, the second line's head would be `follows[n]`:
    #                                    whether that fits is found for each n, and n chooses last

    def _find_second(
        self,
        m: Module,
        packet: _Packet,
        line: _Line,
        slots: ElementSlots,
        follows: Sequence[Value],
        announced: Value,
        overhead: Value | int,
    ) -> tuple[Signal, Signal, Signal]:
        """Find whether a second line can leave, before it is known where it begins.

        Returns whether the lines are paired, which lanes the second one has elements for, and those
        of both lines with their heads. If they are not paired, the others are anything.
        """
        lanes, head_elements = self.config.lanes, slots.head_elements
        level = slots.level
        wide = self.chunk_beats == 2
        shown = slots.shown
        # With more elements of the first line, no second head would fit.
        places = range(1 + (lanes if wide else lanes - head_elements))
        is_place = Signal(len(places))
        fits_there = Signal(len(places))
        lengths: list[Value] = []
        counts: list[Value] = []
        present: list[Value] = []
        reaches: list[Value] = []
        for n in places:
            length = Signal.like(line.second_announced, name=f"second_announced_{n}")
            count = Signal.like(length, name=f"second_count_{n}")
            # The second head stands before its payload, too.
            before = Signal(range(1 + head_elements + n + head_elements), name=f"before_second_{n}")
            reach = Signal(range(2 * (self.config.elements + head_elements) + 1), name=f"both_{n}")
            rest = Signal.like(level, name=f"rest_{n}")
            most = lanes if wide else lanes - head_elements - n
            bits = most.bit_length()
            m.d.comb += [
                is_place[n].eq(announced == n),
                length.eq(slots.announced_by(follows[n])),
                count.eq(Mux(length > lanes, lanes, length) if wide else length),
                before.eq(overhead + (n + head_elements)),
                reach.eq(before + count[:bits]),
                # More would not have a place in this cycle.
                fits_there[n].eq(
                    (count <= most) & (before <= level) & (count[:bits] <= rest if most else 1)
                ),
                rest.eq(level - before),
            ]
            lengths.append(length)
            counts.append(count[:bits])
            present.append(Cat(count > i for i in range(most)))
            reaches.append(reach)
        second_there = Signal(lanes)
        both = Signal(range(2 * shown + 1))
        fits = Signal()
        m.d.comb += [
            line.second_announced.eq(selected(is_place, lengths)),
            line.second_ends.eq(line.second_announced <= lanes if wide else 1),
            line.second_count.eq(selected(is_place, counts)),
            second_there.eq(selected(is_place, present)),
            both.eq(selected(is_place, reaches)),
            fits.eq(
                (1 if wide else ~line.busy)
                & ~(packet.lines_left.is_zero | packet.lines_left.is_one)
                & ~line.no_mask
                & (is_place & fits_there).any()
            ),
        ]
        # A line that was offered alone leaves alone: what is offered must not change.
        paired = Signal()
        waits_alone = Signal()
        m.d.comb += paired.eq(fits & ~waits_alone)
        m.d.sync += waits_alone.eq(self.o.valid & ~self.o.ready & ~paired)
        return paired, second_there, both

    def _count(self, m: Module, packet: _Packet) -> stream.Interface:
        """The packet's beats with the counts of their elements' ones."""
        arriving = stream.Signature(CountedBeat(self.config)).create(path=("arriving",))
        received = self.i.payload
        m.d.comb += [
            arriving.valid.eq(self.i.valid),
            arriving.payload.elements.eq(counted(received.data, self.config)),
            arriving.payload.size.eq(received.size),
            arriving.payload.last.eq(received.last),
            arriving.payload.framing_error.eq(received.framing_error),
            self.i.ready.eq(arriving.ready),
        ]
        if not self.counts_apart:
            return arriving
        m.submodules.counting = register = PipelineRegister(CountedBeat(self.config))
        # The beats behind the packet's last one are not for this codec, maybe.
        last_taken = Signal()
        takes = Signal()
        m.d.comb += [
            takes.eq(packet.states.active & ~last_taken),
            register.i.valid.eq(arriving.valid & takes),
            register.i.payload.eq(arriving.payload),
            arriving.ready.eq(register.i.ready & takes),
        ]
        with m.If(self.i.valid & self.i.ready & self.i.payload.last):
            m.d.sync += last_taken.eq(1)
        with m.If(packet.states.reported):
            m.d.sync += last_taken.eq(0)
        return register.o

    def _take_packet(self, m: Module, packet: _Packet, line: _Line, slots: ElementSlots) -> None:
        """Take beats in, drop those behind the lines or a framing error, and tell of the end."""
        element_bytes = self.config.element_bytes
        states = packet.states
        beats = self._count(m, packet)
        beat = beats.payload
        drops = Signal()
        beat_fire = Signal()
        kept = Signal()
        arriving = Signal(range(self.config.lanes + 1))
        m.d.comb += [
            drops.eq(states.closed | packet.lines_done),
            beats.ready.eq(states.active & ~states.ended & (drops | slots.free)),
            beat_fire.eq(beats.valid & beats.ready),
            kept.eq(beat_fire & ~drops),
            arriving.eq(beat.size // element_bytes),
            slots.stores.eq(kept),
            slots.beat.eq(beat.elements),
            slots.count.eq(arriving),
        ]
        with m.If(beat_fire & ~states.closed):
            m.d.sync += [
                packet.size.eq(packet.size + beat.size),
                packet.framing_error.eq(beat.framing_error),
                packet.partial_element.eq(~drops & (beat.size % element_bytes != 0)),
                packet.trailing.eq(packet.trailing | (drops & (beat.size != 0))),
            ]

        tail = self.tail.payload
        done = Signal()
        m.d.comb += [
            self.tail.valid.eq(packet.lines_done & states.ended),
            tail.trailing.eq(packet.trailing | (slots.level != 0) | packet.partial_element),
            tail.framing_error.eq(packet.framing_error),
            tail.size.eq(packet.size),
            done.eq(self.tail.valid & self.tail.ready),
            slots.clear.eq(done),
            states.command_valid.eq(self.command.valid),
            states.beat_fire.eq(beat_fire),
            states.beat_last.eq(beat.last),
            states.beat_framing_error.eq(beat.framing_error),
            states.reported.eq(done),
            self.command.ready.eq(states.command_ready),
        ]
        m.d.comb += [
            packet.lines_left.load.eq(self.command.ready),
            packet.lines_left.value.eq(self.command.payload),
        ]
        with m.If(self.command.ready):
            m.d.sync += packet.empty.eq(self.command.payload == 0)
        with m.If(done):
            m.d.sync += [
                register.eq(0)
                for register in (
                    packet.lines_done,
                    packet.framing_error,
                    packet.partial_element,
                    packet.trailing,
                    packet.size,
                    line.busy,
                )
            ]
