"""Width converters: the parts of beats in order, at their places, none lost or made up."""

from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from cdma.hw.lib.beat import Beat
from cdma.hw.lib.width_converter import PacketNarrower, PacketWidener
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.order import Order, Run, one
from tests.formal.rules import beat_sizes
from tests.formal.smtbmc import prove

SHAPES = [(1, 2), (1, 4), (4, 32), (32, 64), (32, 128)]
"""Bytes of the narrower and of the wider beats: the widths at the ends, and all ratios up to 8."""


def parts_of(m: Module, beat: Any, width: int, behind: Value) -> list[Value]:
    """The parts of a beat before `behind`: bytes, size, and whether the packet ends with it."""
    parts = []
    wide = len(beat.data) // 8
    for k in range(wide // width):
        rest = Signal(range(wide + 1), name="rest_of_beat")
        m.d.comb += rest.eq(Mux(beat.size > k * width, beat.size - k * width, 0))
        size = Mux(rest > width, width, rest)[: width.bit_length()]
        ends = beat.last & (behind == k + 1)
        parts.append(Cat(beat.data.word_select(k, 8 * width), size, ends))
    return parts


def item_of(beat: Any) -> Value:
    return Cat(beat.data, beat.size, beat.last)


def widener_proof(narrow: int, wide: int) -> Bench:
    """Any packets, each from any place on."""
    bench = Bench()
    m = bench.m
    places = wide // narrow
    widener = PacketWidener(narrow, wide)
    inside = bench.add(widener)
    first = bench.drive(widener.first)
    i = bench.drive(widener.i, beat_sizes(narrow))
    o = bench.watch(widener.o, beat_sizes(wide))
    next_place = inside["next_place"]
    begins = Signal(init=1)
    with m.If(i.moves):
        m.d.sync += begins.eq(i.payload.last)

    # Where the wide beat begins that is collected, and the one that is offered, with its parts.
    start, given_start = Signal(range(places)), Signal(range(places))
    given = Signal(range(places + 1))
    place, here = Signal(range(places)), Signal(range(places))
    m.d.comb += [
        place.eq(Mux(begins, first.payload, next_place)),
        here.eq(Mux(begins, first.payload, start)),
    ]
    with m.If(i.moves):
        m.d.sync += start.eq(here)
        with m.If(i.payload.last | (place == places - 1)):
            m.d.sync += [start.eq(0), given_start.eq(here), given.eq(place - here + 1)]

    order = Order(bench, len(item_of(i.payload)), count_bits=places.bit_length() + 1)
    order.comes(one(i.moves, item_of(i.payload)))
    parts = parts_of(m, o.payload, narrow, given_start + given)
    order.leaves(Run(Mux(o.moves, given, 0), parts, given_start))
    size = Const(narrow, narrow.bit_length())
    whole = [Cat(inside[f"held_{k}"], size, Const(0)) for k in range(places - 1)]
    collected = Run(Mux(begins, 0, next_place - start), whole, start)
    order.on_the_way(Run(Mux(o.valid, given, 0), parts, given_start), collected)

    bench.require(inside["begins"] == begins, first.moves == (i.moves & begins))
    bench.implies(~begins, start <= next_place)
    bench.implies(~begins & (next_place == 0), start == 0)
    bench.implies(o.valid, given != 0, given_start + given <= places)
    bench.implies(o.valid & ~o.payload.last, given_start + given == places)
    for k in range(places):
        outside = (given_start > k) | (given_start + given <= k)
        bench.implies(o.valid & outside, o.payload.data.word_select(k, 8 * narrow) == 0)
        if k < places - 1:
            bench.implies(~begins & (start > k), inside[f"held_{k}"] == 0)
    size = o.payload.size
    bench.implies(o.valid, size <= (given_start + given) * narrow)
    bench.implies(o.valid, size >= (given_start + given - 1) * narrow)
    bench.implies(first.valid & i.valid & o.ready, i.ready)
    bench.cover(
        o.moves & (given_start != 0) & (given > 1 if places > 2 else 1),
        o.moves & o.payload.last & (given == places),
        o.moves & o.payload.last & (size == 0),
    )
    return bench


def narrower_proof(narrow: int, wide: int) -> Bench:
    """Any packets."""
    bench = Bench()
    m = bench.m
    places = wide // narrow
    narrower = PacketNarrower(wide, narrow)
    inside = bench.add(narrower)
    i = bench.drive(narrower.i, beat_sizes(wide))
    o = bench.watch(narrower.o, beat_sizes(narrow))
    place, held_valid = inside["place"], inside["beats.held_valid"]
    held = data.View(Beat(wide), inside["beats.held"])

    def parts(beat: Any, name: str) -> tuple[Value, list[Value]]:
        count = Signal(range(places + 1), name=name)
        whole = (beat.size + (narrow - 1)) >> (narrow - 1).bit_length()
        m.d.comb += count.eq(Mux(whole == 0, 1, whole))
        return count, parts_of(m, beat, narrow, count)

    order = Order(bench, len(item_of(o.payload)), count_bits=places.bit_length() + 1)
    coming, given = parts(i.payload, "coming")
    order.comes(Run(Mux(i.moves, coming, 0), given))
    order.leaves(one(o.moves, item_of(o.payload)))
    count, kept = parts(held, "count")
    order.on_the_way(Run(Mux(held_valid, count - place, 0), kept, place))
    bench.implies(held_valid, place < count, held.size <= wide)
    bench.implies(held_valid & ~held.last, held.size == wide)
    bench.implies(~held_valid, place == 0)
    bench.implies(i.valid & o.ready, i.ready | (place + 1 < count))
    bench.cover(
        o.moves & o.payload.last & (o.payload.size == 0),
        o.moves & o.payload.last & (place == 0),
        o.moves & (place == places - 1) & i.moves,
    )
    return bench


@pytest.mark.parametrize(("narrow", "wide"), SHAPES)
def test_widener_gives_all_parts_in_order_and_zeros_around_them(narrow, wide, tmp_path):
    prove(widener_proof(narrow, wide), tmp_path, depth=1)


@pytest.mark.parametrize(("narrow", "wide"), SHAPES)
def test_narrower_gives_all_parts_in_order(narrow, wide, tmp_path):
    prove(narrower_proof(narrow, wide), tmp_path, depth=1)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Mux(begins, 0, held)", "held"),
        ("Mux(begins, self.first.payload, next_place)", "next_place"),
        ("begins.eq(self.i.payload.last)", "begins.eq(completes)"),
        ("(place == self.places - 1)", "(place == self.places - 2)"),
        ("Mux(place > k, before, 0)", "before"),
    ],
)
def test_fault_of_a_widener_is_found(right, wrong, monkeypatch, tmp_path):
    break_elaborate(monkeypatch, PacketWidener, right, wrong)
    find_fault(widener_proof(1, 4), tmp_path, depth=10)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(whole <= place) | ((whole == place + 1) & (rest == 0))", "(whole <= place)"),
        ("Mux(whole > place, width, rest)", "rest"),
        ("beat.last & is_final", "beat.last"),
        ("Mux(is_final, 0, place + 1)", "place + 1"),
    ],
)
def test_fault_of_a_narrower_is_found(right, wrong, monkeypatch, tmp_path):
    break_elaborate(monkeypatch, PacketNarrower, right, wrong)
    find_fault(narrower_proof(2, 8), tmp_path, depth=10)
