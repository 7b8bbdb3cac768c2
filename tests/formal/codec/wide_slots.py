"""The unpacker's slots at any width, by an element that the solver picks by its number.

Where an element stands follows from its number, as beats are stored whole. What it announces, and
the words that its head goes on with, are anything that the solver likes: if those that came are the
same, they have to be what is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib.wiring import Out

from cdma.hw.codec.registry import line_codec
from cdma.hw.codec.stream.slots import ElementSlots
from cdma.hw.config import CodecConfig
from cdma.hw.lib.lanes import selected
from tests.formal.bench import Bench, anything_at
from tests.formal.codec.lane_theorems import at


class AnyLengths:
    """A codec of lines whose lengths are anything; it lists of which words they are.

    Attributes
    ----------
    found : list of (list of Value, Signal)
        A window of words, and what its line announces.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._codec = line_codec("zvc")
        self.found: list[tuple[Sequence[Value], Signal]] = []

    def head_bytes(self, config: CodecConfig) -> int:
        return self._codec.head_bytes(config)

    def length_bytes(self, config: CodecConfig) -> int:
        return self._codec.length_bytes(config)

    def payload_elements(self, head: Sequence[Value], config: CodecConfig) -> Value:
        length = Signal(config.elements.bit_length(), name=f"any_length_{len(self.found)}")
        self._bench.m.d.comb += length.eq(AnySeq(len(length)))
        self.found.append((list(head), length))
        return length


class PickedWindow:
    """An element that the solver picks by its number, and the words of a head that begins there.

    Attributes
    ----------
    number : Signal
    words : list of Signal
        As many as tell a length.
    length : Signal
        What these announce.
    """

    def __init__(self, bench: Bench, slots: ElementSlots, word_bits: int) -> None:
        room = slots.slots * slots.config.lanes
        self.number = Signal((2 * room).bit_length(), name="picked_number")
        self.words = [
            Signal(word_bits, name=f"picked_word_{k}") for k in range(slots.length_elements)
        ]
        self.length = Signal(slots.length_bits, name="picked_length")
        for free in (self.number, *self.words, self.length):
            bench.m.d.comb += free.eq(AnyConst(len(free)))


@dataclass(frozen=True)
class CutView:
    """A network that shows a part of each word, cut out.

    Attributes
    ----------
    held : sequence of Value
        The parts of all words of a slot, of each slot.
    start, first_is : Value
        Where the first one is that is shown.
    shown : sequence of Signal
        Whatever is shown.
    """

    held: Sequence[Value]
    start: Value
    first_is: Value
    shown: Sequence[Signal]


def cut_views(patch: pytest.MonkeyPatch) -> dict[str, CutView]:
    """Put stand-ins in the place of what slots are shown by; they are listed by their names."""
    cuts: dict[str, CutView] = {}

    def stand_in(
        slots: ElementSlots,
        m: Module,
        held: Sequence[Value],
        start: Value,
        first_is: Value,
        *,
        name: str,
    ) -> list[Value]:
        bits = len(held[0]) // slots.config.lanes
        shown = [Signal(bits, name=f"{name}_{i}") for i in range(slots.shown)]
        m.d.comb += [part.eq(AnySeq(bits)) for part in shown]
        cuts[name] = CutView(list(held), start, first_is, shown)
        return list(shown)

    patch.setattr(ElementSlots, "_show", stand_in)
    return cuts


def in_lane(held: Sequence[Value], lanes: range, own: Value, *, all_lanes: int) -> list[Value]:
    """The parts that the slots have in a lane: that of some lanes which is picked."""
    bits = len(held[0]) // all_lanes
    return [at([slot.word_select(lane, bits) for lane in lanes], own) for slot in held]


def slot_of(first_is: Value, rank: Value) -> Value:
    """The slot that comes so many behind the first one: a bit for each."""
    return at([first_is.rotate_left(r) for r in range(len(first_is))], rank)


def shows(shown: Sequence[Value], position: Value, held: Sequence[Value], slot: Value) -> Value:
    """The theorem of what shows words, of which those of a lane are held in the slots.

    Counted from the first slot's first lane on, the position lies so far behind the start that it
    is in this lane and slot; it is one of those that are shown.
    """
    return at(shown, position) == selected(slot, held)


def length_read(slots: ElementSlots) -> Value:
    """Elements that are read in this cycle."""
    return Mux(slots.reads, Mux(slots.reads_both, slots.both, slots.alone), 0)


def input_rules(
    slots: ElementSlots, level: Value, partial: Value, dropped: Value
) -> Iterator[Value]:
    """Conditions of what is asked of slots: assumed in their proof, asserted in that of their user.

    Parameters
    ----------
    partial, dropped
        Since the last time that all was forgotten, a beat has come that was not full, or what was
        there has been dropped.
    """
    yield ~slots.stores | (slots.count <= slots.config.lanes)
    yield ~slots.stores | (slots.free & ~partial & ~dropped & ~slots.drop & ~slots.clear)
    yield length_read(slots) <= level
    yield slots.alone <= slots.shown
    yield ~slots.reads_both | (slots.both <= slots.shown)
    yield ~slots.reads | ~(slots.drop | dropped)
    if not slots.shows_lengths:
        yield ~slots.reads_both


def level_rules(
    slots: ElementSlots, level: Value, partial: Value, dropped: Value
) -> Iterator[Value]:
    """Conditions of how much is there, asserted and assumed the other way round.

    The last one tells what is there for whoever waits for a free slot.
    """
    lanes, all_slots = slots.config.lanes, slots.slots
    yield level <= all_slots * lanes
    yield ~slots.free | (level <= (all_slots - 1) * lanes)
    yield slots.free | partial | dropped | (level > (all_slots - 2) * lanes)


class AnySlots(ElementSlots):
    """Stands for slots in a proof: its outputs are anything."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += anything_at(self, Out)
        return m


class PromisedSlots:
    """Promises of slots, assumed of `AnySlots`: `test_wide_slots.py` proves them.

    As it assumes their inputs to be, these are asserted to be.

    Attributes
    ----------
    value, length : Signal
        An element that the solver picks by its number, and what the head announces that begins
        with it, if one does.
    same : Signal
        That has come.
    ahead : Signal
        Elements before it.
    level : Signal
        Elements that are there.
    """

    def __init__(self, bench: Bench, slots: AnySlots) -> None:
        self.bench, self.slots = bench, slots
        m, lanes = bench.m, slots.config.lanes
        room = slots.slots * lanes
        bits = (2 * room).bit_length()
        number = Signal(bits, name="picked_number")
        self.value = Signal(8 * slots.config.element_bytes, name="picked_value")
        self.length = Signal(slots.length_bits, name="picked_length")
        for free in (number, self.value, self.length):
            m.d.comb += free.eq(AnyConst(len(free)))
        self.came = came = Signal(bits, name="came")
        self.left = Signal(bits, name="left")
        self.ahead = Signal(bits, name="ahead")
        self.same = same = Signal(name="same")
        self.level = level = Signal.like(slots.level, name="level")
        partial, dropped = Signal(name="partial"), Signal(name="dropped")
        stored = Mux(slots.stores, slots.count, 0)
        bench.require(
            *input_rules(slots, level, partial, dropped),
            level == (came - self.left)[:bits],
        )
        m.d.comb += self.ahead.eq(number - self.left)
        m.d.sync += [
            came.eq(came + stored),
            level.eq(Mux(slots.drop, 0, level - length_read(slots) + stored)),
            partial.eq(partial | (slots.stores & (slots.count < lanes))),
            dropped.eq(dropped | slots.drop),
        ]
        with m.If(slots.stores):
            comes = (number - came)[:bits] < slots.count
            m.d.sync += same.eq(AnySeq(1) & (comes | same))
        with m.If(slots.clear):
            m.d.sync += [came.eq(0), level.eq(0), partial.eq(0), dropped.eq(0)]
        bench.assume(slots.level == level, *level_rules(slots, level, partial, dropped))
        self.partial, self.dropped = partial, dropped
        self._assume_shown()
        self._assume_stays(slots.reads | slots.drop | slots.clear)

    def _assume_shown(self) -> None:
        """The picked element is shown as it came, with what the words from there tell."""
        bench, slots, level, length = self.bench, self.slots, self.level, self.length
        bits, head = 8 * slots.config.element_bytes, slots.length_elements
        most = slots.config.elements
        # No codec announces more, so no other head does.
        bench.assume(length <= most, (level < head) | (slots.announced <= most))
        bench.assume(
            ~(self.same & (self.ahead == 0) & (head <= level)) | (slots.announced == length)
        )
        for i in range(slots.shown):
            word, is_it = slots.words[i], self.same & (self.ahead == i)
            bench.assume(~(is_it & (i < level)) | (word[:bits] == self.value))
            if slots.shows_lengths:
                announced = slots.announced_by(word)
                known = i + head <= level
                bench.assume(
                    ~(is_it & known) | (announced == slots.clipped(length)),
                    ~known | (announced <= most),
                )

    def _assume_stays(self, changes: Value) -> None:
        """All that is announced stays while nothing is read, as that of each head does."""
        bench, slots = self.bench, self.slots
        bits, head = 8 * slots.config.element_bytes, slots.length_elements
        parts = [slots.announced, *(slots.words[i][bits:] for i in range(slots.shown))]
        announced = Cat(parts)
        before = Signal.like(announced, name="announced_before")
        level = Signal.like(self.level, name="level_before")
        stays = Signal(name="stays")
        bench.m.d.sync += [before.eq(announced), level.eq(self.level), stays.eq(~changes)]
        place = 0
        for i, now in enumerate(parts):
            known = max(i - 1, 0) + head <= level
            bench.assume(~(stays & known) | (now == before[place : place + len(now)]))
            place += len(now)

    def leaves(self, count: Value, restarts: Value) -> None:
        """So many elements leave, or all are forgotten."""
        m = self.bench.m
        m.d.sync += self.left.eq(Mux(restarts, 0, self.left + count))
