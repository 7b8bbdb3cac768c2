"""Short forms of written Verilog: what they look like, that they are proven, and faults in them."""

import dataclasses
import re

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.emit.netlist import written_modules
from cdma.hw.emit.verilog import generate
from cdma.hw.emit.writer.module import _wrapped
from cdma.hw.emit.writer.series import FEWEST, Series, find_series
from tests.lib.rtl.equivalence import check_module


class Forms(wiring.Component):
    """Logic that the source makes in loops, and decisions inside each other."""

    data: In(64)
    size: In(4)
    kind: In(3)
    go: In(1)
    kept: Out(64)
    ones: Out(4)
    evens: Out(8)
    group: Out(2)
    seen: Out(2)
    scaled: Out(9)

    def elaborate(self, platform):
        m = Module()
        for place in range(8):
            m.d.comb += self.kept.word_select(place, 8).eq(
                Mux(self.size > place, self.data.word_select(place, 8), 0)
            )
        sums = [self.data[place] for place in range(8)]
        while len(sums) > 1:
            sums = [sums[k] + sums[k + 1] for k in range(0, len(sums), 2)]
        m.d.comb += self.ones.eq(sums[0])
        m.d.comb += self.scaled.eq(self.data[56:60] * 16 + 8 * self.kind)
        first = Signal(8)
        m.d.comb += first.eq(self.data[8:16] ^ self.data[16:24])
        m.d.comb += self.evens.eq(Cat(0, first[0], 1, first[2], 0, first[4], 0, first[6]))
        with m.Switch(self.kind):
            for kind in range(6):
                with m.Case(kind):
                    m.d.comb += self.group.eq(kind % 3)
        with m.If(self.go):
            with m.If(self.kind == 2):
                with m.If(self.size[0]):
                    m.d.sync += self.seen.eq(self.seen + 1)
        return m


class Empty(wiring.Component):
    """Operators on a value without bits, as the number of the only sector of a line."""

    data: In(4)
    up: Out(4)
    down: Out(4)
    arithmetic: Out(signed(4))
    facts: Out(8)
    added: Out(4)

    def elaborate(self, platform):
        m = Module()
        none = Signal(range(1))
        m.d.comb += [
            self.up.eq(self.data << none),
            self.down.eq(self.data >> none),
            self.arithmetic.eq(self.data.as_signed() >> none),
            self.facts.eq(
                Cat(
                    *(none == none, none != none, none <= none, none < none),
                    *(none.any(), none.all(), none.xor(), none.bool()),
                )
            ),
            self.added.eq(self.data + none),
        ]
        return m


def test_values_without_bits_are_equivalent(tmp_path):
    (module,) = written_modules(Empty(), "empty")
    assert check_module(module, [], tmp_path).holds


@pytest.fixture(scope="module")
def forms():
    (module,) = written_modules(Forms(), "forms")
    return module


def test_short_forms_are_equivalent(forms, tmp_path):
    assert check_module(forms, [], tmp_path).holds


def test_what_a_loop_of_the_source_makes_is_a_loop(forms):
    loop = re.search(
        r"for \(k = 0; k < 8; k = k \+ 1\) begin : kept_parts\n(.*)\n +end", forms.text
    )
    assert loop
    assert loop[1].strip() == "assign kept[8*k +: 8] = size > k ? data[8*k +: 8] : 8'd0;"
    assert "  genvar k;" in forms.text.splitlines()


def test_bits_are_counted_in_one_expression(forms):
    assert "assign ones = data[0] + data[1] + data[2] + data[3] + data[4] +" in forms.text


def test_a_product_with_a_power_of_two_moves_bits(forms):
    assert "assign scaled = {data[59:56], 4'd0} + {kind, 3'd0};" in forms.text


def test_scattered_bits_are_a_shift_and_a_mask(forms):
    assert "assign evens = ((first << 1) & 8'd170) | 8'd4;" in forms.text


def test_equal_branches_share_a_label(forms):
    assert "3'd1, 3'd4: group = 2'd1;" in forms.text


def test_an_if_inside_an_if_is_one(forms):
    assert "else if (go && kind == 3'd2 && size[0]) seen <= seen + 2'd1;" in forms.text


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("size > k ?", "size >= k ?"),
        ("k < 8; k", "k < 7; k"),
        ("data[2] + ", ""),
        ("8'd170", "8'd162"),
        ("| 8'd4;", "| 8'd0;"),
        ("3'd1, 3'd4: group", "3'd1: group"),
        (" && size[0])", ")"),
    ],
)
def test_a_fault_in_a_short_form_is_found(forms, right, wrong, tmp_path):
    assert forms.text.count(right) == 1
    damaged = dataclasses.replace(forms, text=forms.text.replace(right, wrong))
    assert not check_module(damaged, [], tmp_path).holds


def test_a_series_has_evenly_growing_places():
    parts = [(4, f"x[{4 * k + 5}:{4 * k + 2}]") for k in range(9)]
    assert find_series([(1, "y"), *parts], "k") == Series(1, 10, "x[4*k + 2 +: 4]")
    parts[4] = (4, "x[20:17]")
    assert find_series(parts, "k") is None


def lanes(name, bits, count):
    return [(bits, f"{name}[{bits * k + bits - 1}:{bits * k}]") for k in range(count)]


def test_the_longest_of_several_series_is_found():
    others = [(1, name) for name in ("a", "b", "c", "d")]
    short, long = lanes("x", 4, FEWEST), lanes("y", 2, FEWEST + 2)
    first = len(others) + len(short)
    found = find_series([*others, *short, *long], "k")
    assert found == Series(first, first + len(long), "y[2*k +: 2]")
    assert find_series([*long, *short], "k") == Series(0, len(long), "y[2*k +: 2]")


def test_a_series_has_all_parts_up_to_the_one_that_is_another():
    parts = [*lanes("x", 4, FEWEST + 1), (4, "y")]
    assert find_series(parts, "k") == Series(0, FEWEST + 1, "x[4*k +: 4]")


def test_a_number_is_an_index_only_where_it_is_compared():
    # As an operand of a sum it would have 32 bits.
    assert find_series([(4, f"x + 4'd{k}") for k in range(9)], "k") is None
    assert find_series([(1, f"x + y > 4'd{k}") for k in range(9)], "k") is None
    found = find_series([(1, f"go && x > 4'd{k}") for k in range(9)], "k")
    assert found == Series(0, 9, "go && x > k")


def test_what_is_not_zero_is_above_it():
    parts = [(1, "x != 4'd0"), *((1, f"x > 4'd{k}") for k in range(1, 8))]
    assert find_series(parts, "k") == Series(0, 8, "x > k")


def test_names_with_numbers_are_no_series():
    assert find_series([(1, f"lane_{k}[{k}]") for k in range(8)], "k") is None


def test_a_broken_line_ends_behind_a_part():
    text = generate("crc32", style="readable").text
    # The terms of the sums that its parities share are in lists, of which a line has whole ones.
    term = r"beat_data\[[\d:]+\],"
    assert len(re.findall(rf"^ +(?:{term} )*{term}$", text, re.M)) > 16
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.verify
@pytest.mark.parametrize(
    ("name", "config", "most"),
    [("zvc-compressor", None, 2_200), ("engine", "titanx_gen3", 12_500)],
)
def test_it_is_short(name, config, most):
    """A thousand lines of each CRC are the terms of the sums that its parities share."""
    text = generate(name, config, style="readable").text
    code = re.sub(r"//.*", "", re.sub(r"/\*.*?\*/", "", text))
    assert sum(bool(line.strip()) for line in code.splitlines()) <= most


@pytest.mark.parametrize("opening", ["", "(", "(((", "((((", "((((("])
def test_a_long_line_is_broken_where_it_is_nested_least_up_to_four_deep(opening):
    """Deeper, it makes no difference, and the first line is as full as may be."""
    closing = ")" * len(opening)
    early, late = "a" * 50, "b" * 20
    line = f"  assign o = {opening}{early} + ({late} + {'c' * 40}){closing};"
    first, second = _wrapped(line)
    broken = f"{early} +" if len(opening) < 4 else f"({late} +"
    assert first.endswith(broken)
    assert " ".join([first, second.strip()]) == line
