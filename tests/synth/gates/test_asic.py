"""Small modules through Yosys, whose cells are known by hand."""

from dataclasses import replace

import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.asic import PERIOD_PS, PartArea, synthesize, synthesize_parts
from cdma.synth.gates.library import Library
from cdma.synth.parts import Part
from tests.synth.gates.netlists import CLOCK_TO_Q, SETUP, TAU_PS, unit_gates, written

INVERTING_AND_KEEPING = """
module small (
  input clk,
  input [7:0] a, b,
  input [2:0] write_address, read_address,
  input write,
  output reg [7:0] inverted, different,
  output reg [255:0] word
);
  reg [255:0] memory [7:0];
  reg [7:0] held_a, held_b;
  always @(posedge clk) begin
    held_a <= a;
    held_b <= b;
    inverted <= ~held_a;
    different <= held_a ^ held_b;
    if (write) memory[write_address] <= {32{a}};
    word <= memory[read_address];
  end
endmodule
"""

ADDER = """
module adder (input [7:0] a, b, output [7:0] sum);
  assign sum = a + b;
endmodule
"""


REGISTERED_READ = """
module registered_read (
  input clk, rst,
  input [2:0] write_address, read_address,
  input write, read,
  input [255:0] i,
  output reg [255:0] o
);
  reg [255:0] memory [7:0];
  reg [255:0] next;
  always @* begin
    next = o;
    if (read) next = memory[read_address];
  end
  always @(posedge clk) begin
    if (write) memory[write_address] <= i;
    o <= next;
  end
endmodule
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    return synthesize(INVERTING_AND_KEEPING, "small", unit_gates(), folder)


def test_cells_are_those_of_the_functions(small):
    # Registers of 8 bits: two that hold, two that compute; the memory and its output are a macro.
    assert small.flip_flops == small.cell_counts["DFF"] == 32
    assert small.cell_counts["INV_X1"] == 8
    assert small.cell_counts["XOR2"] == 8
    assert small.cells == 48
    assert small.area == pytest.approx(32 * 17 / 3 + 8 * 2 / 3 + 8 * 2, abs=0.02)
    assert small.kge == small.area / 1000


def test_large_memories_are_macros(small):
    assert small.macros == [(8, 256)]
    assert small.macro_bits == 2048


def test_a_macro_s_output_register_is_the_macro_s(tmp_path):
    # Written as Amaranth's memories are emitted: the enable is a multiplexer before the register.
    found = synthesize(REGISTERED_READ, "registered_read", unit_gates(), tmp_path)
    assert found.macros == [(8, 256)]
    assert found.flip_flops == 0
    assert found.cells == 0


INVERTING = """
module inverting (input [7:0] i, output [7:0] o);
  assign o = ~i;
endmodule
"""

AROUND = """
(* blackbox *)
module inverting (input [7:0] i, output [7:0] o);
endmodule

module around (input clk, input [7:0] a, output reg [7:0] held, once);
  wire [7:0] first, second;
  inverting box_0 (.i(once), .o(first));
  inverting box_1 (.i(first), .o(second));
  always @(posedge clk) begin
    once <= a;
    held <= second;
  end
endmodule
"""


def test_parts_are_mapped_once_and_paths_lead_through_all_of_them(tmp_path):
    parts = [Part("around", AROUND, ("inverting",)), Part("inverting", INVERTING)]
    found = synthesize_parts(parts, unit_gates(), tmp_path)
    # Flat, the two inversions would be none.
    assert found.cell_counts == {"DFF": 16, "INV_X1": 16}
    assert found.timing.depth == 2
    assert (found.timing.start[:5], found.timing.end[:5]) == ("once[", "held[")
    inside = PartArea("box", 2, kge=16 * 0.667 / 1000, flip_flops=0, macro_bits=0)
    around = PartArea("", 1, kge=16 * 17 / 3 / 1000, flip_flops=16, macro_bits=0)
    assert [part.name for part in found.parts] == ["", "box"]
    for part, expected in zip(found.parts, (around, inside), strict=True):
        assert replace(part, kge=0) == replace(expected, kge=0)
        assert part.kge == pytest.approx(expected.kge, abs=1e-4)
    assert sum(part.kge for part in found.parts) == pytest.approx(found.kge)
    text = (tmp_path / "netlist.v").read_text()
    assert text.count("module inverting(") == text.count("module around(") == 1


CHAIN = """
module chain (input clk, input [15:0] a, b, c, output reg [15:0] sum);
  reg [15:0] held_a, held_b, held_c;
  wire [15:0] half, whole;
  always @(posedge clk) begin
    held_a <= a;
    held_b <= b;
    held_c <= c;
    sum <= whole;
  end
  link one (.a(held_a), .b(held_b), .sum(half));
  link two (.a(half), .b(held_c), .sum(whole));
endmodule
"""
LINK = """
module link (input [15:0] a, b, output [15:0] sum);
  assign sum = a + b;
endmodule
"""
LINK_BOX = "(* blackbox *) module link (input [15:0] a, b, output [15:0] sum); endmodule"


def test_parts_on_the_slowest_path_are_mapped_once_more_for_speed(tmp_path, monkeypatch):
    """An adder alone is fast enough, and two of them behind one another are not."""
    parts = [Part("chain", LINK_BOX + CHAIN, ("link",)), Part("link", LINK)]
    found = synthesize_parts(parts, unit_gates(), tmp_path / "tight")
    monkeypatch.setattr("cdma.synth.gates.asic.TIGHT_PERIOD_PS", PERIOD_PS)
    plain = synthesize_parts(parts, unit_gates(), tmp_path / "plain")
    assert found.timing.period_ps < 0.97 * plain.timing.period_ps
    assert found.kge > plain.kge
    faster = (tmp_path / "tight" / "tight" / "link" / "netlist.v").read_text()
    assert faster in (tmp_path / "tight" / "netlist.v").read_text()


def test_modules_that_are_no_parts_are_unknown_cells(tmp_path):
    with pytest.raises(SynthError, match="has no cell for inverting; give a library with it"):
        synthesize(AROUND, "around", unit_gates(), tmp_path)


def test_netlist_comes_from_the_cache_where_nothing_has_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))
    first = synthesize(ADDER, "adder", unit_gates(), tmp_path / "first")

    def no_yosys(*_arguments):
        raise AssertionError("the cache has it")

    monkeypatch.setattr("cdma.synth.gates.asic.run_yosys", no_yosys)
    again = synthesize(ADDER, "adder", unit_gates(), tmp_path / "again")
    assert again == first
    for name in ("adder.v", "netlist.v", "netlist.json", "yosys.log"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()
    with pytest.raises(AssertionError, match="the cache has it"):
        synthesize(ADDER.replace("+", "-"), "adder", unit_gates(), tmp_path / "other")


def test_a_corner_times_the_same_netlist_in_another_library(tmp_path):
    text = unit_gates().path.read_text()
    slow = Library(written(tmp_path, text.replace('time_unit : "1ps"', 'time_unit : "1.5ps"')))
    found = synthesize(ADDER, "adder", unit_gates(), tmp_path / "adder", corners=[slow])
    (corner,) = found.corners
    assert corner.timing.period_ps == pytest.approx(1.5 * found.timing.period_ps)
    assert corner.timing_with_wires is None
    other = Library(written(tmp_path, text.replace("XOR2", "YOR2").replace("XNOR2", "YNOR2")))
    with pytest.raises(SynthError, match=r"has no cell for X.*; give a library with it"):
        synthesize(ADDER, "adder", unit_gates(), tmp_path / "adder", corners=[other])


def test_slowest_path_is_that_of_the_only_gates_with_two_loads(small):
    assert small.timing.depth == 1
    # A register drives an inverter and an XOR2; that drives a register.
    load = 1 + 11 / 3
    xor = 6 + 1
    expected = (CLOCK_TO_Q + load + xor + SETUP) * TAU_PS
    assert small.timing.period_ps == pytest.approx(expected, abs=0.2)
    assert small.timing.start.startswith("held_")
    assert small.timing.end.startswith("different")


def test_adder_is_at_least_its_carries_and_sums(tmp_path):
    adder = synthesize(ADDER, "adder", unit_gates(), tmp_path)
    assert adder.flip_flops == 0
    # A sum bit is two XORs, or more of smaller gates; a carry chain of 7 gates at most is as good
    # as a tree.
    assert 8 * 2 <= adder.cells <= 8 * 10
    assert 4 <= adder.timing.depth <= 16


def test_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SynthError, match=r"cannot write .*file.*; check the path"):
        synthesize(ADDER, "adder", unit_gates(), tmp_path / "file" / "below")
