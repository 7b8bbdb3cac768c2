"""The unpacker's ring of slots at the shapes that ship: what is shown is what came, and stays.

Of a word that the solver picks by its number (`wide_slots.py`). So any element that is shown is the
one that came so many elements after the last one that was read, and what is announced of a head is
the length that its words tell.
"""

from collections.abc import Sequence

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.codec.registry import line_codec
from cdma.hw.codec.stream.slots import ElementSlots
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones, count_ones_of_word
from cdma.hw.lib.lanes import selected
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.test_lanes import any_counts
from tests.formal.codec.wide_slots import (
    AnyLengths,
    PickedWindow,
    cut_views,
    in_lane,
    input_rules,
    length_read,
    level_rules,
    shows,
    slot_of,
)
from tests.formal.lines import NARROW, SHIPPED
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs, widths

LONG_HEAD = CodecConfig(element_bytes=1, sector_bytes=2, line_bytes=16)
"""Its head is as long as a beat."""

KINDS = {"alone": (1, False), "pairs": (1, True), "wide": (2, True)}
"""Beats that are shown, and whether their lengths are."""


def wide_slots_proof(
    bench: Bench,
    config: CodecConfig,
    kind: tuple[int, bool],
    picked: range,
    patch: pytest.MonkeyPatch,
) -> None:
    """Whatever is stored and read; of a word in one of some lanes.

    What a bench requires is where the word is kept, and what it claims is what is shown of it.
    """
    lanes, element_bits = config.lanes, 8 * config.element_bytes
    lane_bits = (lanes - 1).bit_length()
    m = bench.m
    chunk_beats, shows_lengths = kind
    codec = AnyLengths(bench)
    views = cut_views(patch)
    ring = ElementSlots(config, codec, chunk_beats=chunk_beats, shows_lengths=shows_lengths)
    # Its own assertions are said again, for a proof in parts.
    inside = bench.add(ring, ignored=True)
    slots, head, shown, level = ring.slots, ring.length_elements, ring.shown, ring.level
    window = PickedWindow(bench, ring, len(ring.beat[0]))
    own = Signal(range(len(picked)), name="picked_own")
    m.d.comb += own.eq(AnyConst(len(own)))
    lane = Signal(lane_bits, name="picked_lane")
    m.d.comb += lane.eq(picked.start + own)
    bench.assume(own < len(picked), window.number[:lane_bits] == lane)

    for name in (
        "stores",
        "beat",
        "count",
        "alone",
        "both",
        "reads",
        "reads_both",
        "drop",
        "clear",
    ):
        given = Value.cast(getattr(ring, name))
        m.d.comb += given.eq(AnySeq(len(given)))
    partial, dropped = Signal(), Signal()
    read = length_read(ring)
    bench.assume(*input_rules(ring, level, partial, dropped))

    # By their numbers.
    bits = len(window.number)
    came, left = Signal(bits, name="came"), Signal(bits, name="left")
    index, ahead = Signal(bits, name="index"), Signal(bits, name="ahead")
    age = Signal(bits, name="age")
    m.d.comb += [
        index.eq(window.number - came),
        ahead.eq(window.number - left),
        age.eq(came - window.number),
    ]
    m.d.sync += [
        came.eq(came + Mux(ring.stores, ring.count, 0)),
        left.eq(left + read),
        partial.eq(partial | (ring.stores & (ring.count < lanes))),
        dropped.eq(dropped | ring.drop),
    ]
    with m.If(ring.clear):
        m.d.sync += [came.eq(0), left.eq(0), partial.eq(0), dropped.eq(0)]

    # What has come of the picked words is the same: those in this beat, and those in the next one.
    same = Signal()
    coming = [ring.beat[k] for k in range(lanes)]

    def are_same(turn: int) -> Value:
        """Those words that come in this beat, if they are those of that beat of the window."""
        differ: list[Value] = []
        for k, word in enumerate(window.words):
            places = [place + k for place in picked]
            is_here = at([Const(place // lanes == turn, 1) for place in places], own)
            comes = (index + k)[:bits] < ring.count
            its = at([coming[place % lanes] for place in places], own)
            differ.append(is_here & comes & (its != word))
        return ~Cat(differ).any()

    with m.If(ring.stores & (index < ring.count)):
        m.d.sync += same.eq(are_same(0))
    with m.Elif(ring.stores & (age < head)):
        m.d.sync += same.eq(same & are_same(1))
    for words_of, length in codec.found:
        bench.assume((Cat(words_of) != Cat(window.words)) | (length == window.length))

    # The ring.
    first_is, store_is = inside["first_is"], inside["store_is"]
    held_count, start = inside["held_count"], inside["start"]
    bench.require(
        count_ones(first_is) == 1,
        inside["lane_is"] == Const(1) << start,
        held_count <= slots,
        ring.free == (held_count != slots),
    )
    bench.implies(~dropped, (start + read) >> lane_bits <= held_count)
    for held in range(slots + 1):
        bench.implies(held_count == held, store_is == first_is.rotate_left(held % slots))
    bench.implies(dropped, level == 0)
    bench.implies(
        ~dropped,
        start == left[:lane_bits],
        level == (came - left)[:bits],
        start + level <= held_count * lanes,
        start + level + lanes >= held_count * lanes,
    )
    bench.implies(~dropped & ~partial, came[:lane_bits] == 0, start + level == held_count * lanes)
    if shows_lengths:
        bench.require(inside["shows_start"] == ~start, inside["shows_first"] == ~first_is)

    # Where the picked word is, as long as it is to be read.
    is_there, slot = Signal(), Signal(slots, name="picked_slot")
    rank = Signal(range(2 * slots), name="picked_rank")
    m.d.comb += [is_there.eq(ahead < level), rank.eq((start + ahead) >> lane_bits)]
    with m.If(ring.stores & (index < ring.count)):
        m.d.sync += slot.eq(store_is)
    bench.implies(is_there, rank < held_count, slot == slot_of(first_is, rank))
    is_held = is_there & same
    is_known = is_held & (ahead + head <= level)

    def held_of(parts: Sequence[Value]) -> list[Value]:
        return in_lane(parts, picked, own, all_lanes=lanes)

    value = window.words[0][:element_bits]
    elements = held_of([inside[f"slot_{s}"] for s in range(slots)])
    lengths = held_of([inside[f"announced_{s}"] for s in range(slots)])
    bench.implies(is_held, selected(slot, elements) == value)
    bench.implies(is_known, selected(slot, lengths) == window.length)
    for j in range(1, head):
        bench.implies(
            is_held & ~partial & (age < head) & (age >= j),
            inside[f"before_{j}"] == at(window.words, age - j),
        )

    # What is shown.
    is_shown = ahead < shown
    for view in views.values():
        its = slot_of(view.first_is, (view.start + ahead) >> lane_bits)
        theorem = shows(view.shown, ahead, held_of(view.held), its)
        bench.assume(~(is_there & is_shown) | theorem)
    words = [ring.words[i] for i in range(shown)]
    bench.claim(~(is_held & is_shown) | (at([w[:element_bits] for w in words], ahead) == value))
    if shows_lengths:
        length = at([ring.announced_by(word) for word in words], ahead)
        bench.claim(~(is_known & is_shown) | (length == ring.clipped(window.length)))
    bench.claim(~(is_known & (ahead == 0)) | (ring.announced == window.length))
    bench.claim(*level_rules(ring, level, partial, dropped))

    wrapped = first_is[slots - 1] & (held_count == slots)
    bench.cover(is_known & (ahead == 0) & wrapped, is_known & is_shown & (rank == 1))


LANES_AT_ONCE = 16
"""The solver is quick to decide a few lanes at a time."""

SHAPES = {
    f"{name}-{kind}-{first}": (
        config,
        KINDS[kind],
        range(first, min(first + LANES_AT_ONCE, config.lanes)),
    )
    for name, config in SHIPPED.items()
    for kind in KINDS
    for first in range(0, config.lanes, LANES_AT_ONCE)
}


class Kept(Bench):
    """Asks only where words are kept."""

    def require(self, *conditions: Value) -> None:
        super().claim(*conditions)

    def claim(self, *conditions: Value) -> None:
        """Leave it to a bench that relies on what is proven here."""


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_ring_keeps_a_picked_word_of_any_stream(shape, tmp_path, monkeypatch):
    bench = Kept()
    wide_slots_proof(bench, *shape, patch=monkeypatch)
    prove(bench, tmp_path, depth=1, cover_depth=12)


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_ring_shows_the_word_that_it_keeps(shape, tmp_path, monkeypatch):
    bench = Bench(relies=True)
    wide_slots_proof(bench, *shape, patch=monkeypatch)
    check(bench, tmp_path, depth=1, cover_depth=1)


def view_proof(config: CodecConfig, chunk_beats: int) -> Bench:
    """Words are shown as a stand-in is said to show them; a bit of each is enough."""
    bench = Bench()
    ring = ElementSlots(config, line_codec("zvc"), chunk_beats=chunk_beats)
    # It is not elaborated.
    ring._MustUse__used = True
    lanes, slots = config.lanes, ring.slots
    lane_bits = (lanes - 1).bit_length()
    held = [Signal(lanes, name=f"held_{s}") for s in range(slots)]
    start, first = Signal(lane_bits), Signal(range(slots))
    position, end = Signal(range(ring.shown)), Signal(range(lanes + ring.shown))
    for free in (*held, start, first, position):
        bench.m.d.comb += free.eq(AnyConst(len(free)))
    bench.assume(first < slots, position < ring.shown)
    bench.m.d.comb += end.eq(start + position)
    first_is = (Const(1, slots) << first)[:slots]
    shown = ring._show(bench.m, held, start, first_is, name="view")
    lane, rank = end[:lane_bits], end >> lane_bits
    theirs = in_lane(held, range(lanes), lane, all_lanes=lanes)
    bench.implies(rank < slots, shows(shown, position, theirs, slot_of(first_is, rank)))
    bench.cover((rank == 1) & (first == slots - 1) & at(shown, position))
    return bench


VIEWS = {
    f"{name}-{chunk_beats}": (config, chunk_beats)
    for name, config in SHIPPED.items()
    for chunk_beats in (1, 2)
}


@pytest.mark.parametrize("shape", configs(VIEWS, quick=()))
def test_stand_ins_of_what_shows_words_are_right(shape, tmp_path):
    check(view_proof(*shape), tmp_path, depth=1, cover_depth=1)


def ones_proof(bits: int) -> Bench:
    """The count that comes with an element is that of its ones."""
    bench = Bench()
    word = Signal(bits)
    counts = any_counts(bench, bits, word, "counts")
    bench.require(count_ones_of_word(word) == counts.all)
    bench.cover(counts.all == bits)
    return bench


def length_proof(config: CodecConfig) -> Bench:
    """ZVC's head announces as many elements as its words have ones, by the counts with them."""
    bench = Bench()
    codec, bits = line_codec("zvc"), 8 * config.element_bytes
    words = [
        Signal(bits + bits.bit_length(), name=f"word_{k}")
        for k in range(codec.length_bytes(config) // config.element_bytes)
    ]
    # So many ones are before each word, and behind the last one.
    before = [
        Signal(config.elements.bit_length(), name=f"before_{k}") for k in range(len(words) + 1)
    ]
    for free in (*words, *before):
        bench.m.d.comb += free.eq(AnyConst(len(free)))
    bench.assume(before[0] == 0)
    for word, own, behind in zip(words, before, before[1:], strict=False):
        bench.assume(word[bits:] <= bits, own + word[bits:] == behind)
    bench.require(codec.payload_elements(words, config) == before[-1])
    bench.cover(before[-1] == config.elements)
    return bench


@pytest.mark.parametrize("element_bytes", widths(1, 2, 4, quick=[]))
def test_head_announces_its_ones(element_bytes, tmp_path):
    (tmp_path / "ones").mkdir()
    check(ones_proof(8 * element_bytes), tmp_path / "ones", depth=1, cover_depth=1)
    check(length_proof(SHIPPED[f"E{element_bytes}-S32"]), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
def test_count_that_drops_a_carry_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("cdma.hw.lib.count._majority", lambda bits: bits[0] & bits[1])
    find_fault(ones_proof(8), tmp_path, depth=1)


FAULTS = {
    "keeps a length of a head that goes on in the wrong slot": ("(s - beats_on)", "(s + beats_on)"),
    "goes on where it was": ("end.eq(start + length)", "end.eq(start + 0 * length)"),
    "takes a beat more than there is room": ("held_count != slots", "held_count != slots + 1"),
    "shows the length behind the first": ("lane_is.eq(read(", "lane_is.eq(2 * read("),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_ring_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, ElementSlots, *fault)
    bench = Bench()
    wide_slots_proof(bench, LONG_HEAD, KINDS["pairs"], range(2), monkeypatch)
    find_fault(bench, tmp_path, depth=10)


@pytest.mark.verify
def test_view_that_begins_a_lane_too_far_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, ElementSlots, "view[i + distance] if", "view[i + 1] if")
    find_fault(view_proof(NARROW["4x4"], 1), tmp_path, depth=1)
