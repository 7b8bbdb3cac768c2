"""The combinational kernels, each against what it says: codes, trees, places."""

import random

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data

from cdma.golden.formats.xc.patterns import EXTRA_BITS, PATTERNS, code_table, distance_table
from cdma.hw.codec.xc.classes import Code, code_of, distance_of, is_escape, width_of
from cdma.hw.codec.xc.trees import block_sums
from cdma.hw.lib.fields import merge_level, split_level
from cdma.hw.lib.places import landed, picked, turned_down, turned_up
from tests.lib.rtl.kernels import outputs

ESCAPE = 63


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_distance_has_the_code_of_the_golden_table(pattern):
    m = Module()
    distance, number = Signal(8), Signal(2)
    code = code_of(m, distance, number, name="code")
    rows = [(d, pattern) for d in range(256)]
    got = outputs(m, code.as_value(), (distance, number), rows)
    np.testing.assert_array_equal(got, code_table(pattern))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_code_has_the_distance_of_the_golden_table(pattern):
    m = Module()
    value, number = Signal(6), Signal(2)
    code = data.View(Code(), value)
    distance = distance_of(m, code, number, name="distance")
    found = Signal(9)
    m.d.comb += found.eq(Cat(distance, is_escape(code)))
    codes = [c for c in range(64) if c >> 2 < 1 << EXTRA_BITS[pattern][c & 3] and c != ESCAPE]
    got = outputs(m, found, (value, number), [(c, pattern) for c in [*codes, ESCAPE]])
    assert [distance % 256 for distance in got[:-1]] == [distance_table(pattern)[c] for c in codes]
    assert [flag >> 8 for flag in got] == [0] * len(codes) + [1]


def test_widths_are_those_of_the_classes():
    m = Module()
    group, number = Signal(2), Signal(2)
    width = width_of(m, group, number, name="width")
    cases = [(g, p) for p in PATTERNS for g in range(4)]
    got = outputs(m, width, (group, number), cases)
    assert got == [EXTRA_BITS[p][g] for g, p in cases]


@pytest.mark.parametrize("lanes", [2, 16, 32, 64])
def test_trees_merge_and_split(lanes):
    m = Module()
    widths = [Signal(3, name=f"width_{i}") for i in range(lanes)]
    fields = [Signal(4, name=f"field_{i}") for i in range(lanes)]
    junk = Signal(4 * lanes)
    sums = block_sums(m, widths, name="sum")
    merged = list(fields)
    for level in range(len(sums) - 1):
        merged = merge_level(m, merged, sums[level], name=f"merge_{level}")
    # Above its end the field may hold anything.
    split = [Signal(4 * lanes, name="field")]
    m.d.comb += split[0].eq(merged[0] | (junk << sums[-1][0]))
    pieces = list(split)
    for level in reversed(range(len(sums) - 1)):
        pieces = split_level(m, pieces, sums[level], name=f"split_{level}")
    rng = random.Random(lanes)
    rows, want = [], []
    for most in [0, 1, 2, 4, *(rng.choice((1, 4)) for _ in range(200))]:
        sizes = [rng.randint(0, most) for _ in range(lanes)]
        values = [rng.getrandbits(4) & ((1 << size) - 1) for size in sizes]
        rows.append((*sizes, *values, rng.getrandbits(4 * lanes)))
        field, place = 0, 0
        for value, size in zip(values, sizes, strict=True):
            field |= value << place
            place += size
        want.append((field, sizes, values))
    got = outputs(m, Cat(merged[0], *pieces), (*widths, *fields, junk), rows)
    for found, (field, sizes, values) in zip(got, want, strict=True):
        assert found % (1 << 4 * lanes) == field
        for lane, (size, value) in enumerate(zip(sizes, values, strict=True)):
            assert found >> 4 * lanes + 4 * lane & ((1 << size) - 1) == value


@pytest.mark.parametrize("lanes", [4, 16])
def test_what_lands_at_a_place_is_picked_from_there(lanes):
    groups = 64 // lanes
    m = Module()
    ring = Signal(8 * lanes)
    place = Signal(7)
    bits = (lanes - 1).bit_length()
    turned = turned_up(
        m, [ring.word_select(i, 8) for i in range(lanes)], place[:bits], name="turned"
    )
    line = Cat(landed(m, turned, place, groups, name="landed"))
    held = Signal(512)
    m.d.comb += held.eq(line)
    back = picked(m, [held.word_select(j, 8) for j in range(64)], place, lanes, name="picked")
    again = Cat(turned_down(m, back, place[:bits], name="again"))
    rng = random.Random(5)
    rows = [(rng.getrandbits(8 * lanes), at) for at in range(64)]
    got = outputs(m, Cat(held, again), (ring, place), rows)
    for (value, at), found in zip(rows, got, strict=True):
        kept = value << 8 * at & ((1 << 512) - 1)
        assert found % (1 << 512) == kept
        assert found >> 512 == kept >> 8 * at
