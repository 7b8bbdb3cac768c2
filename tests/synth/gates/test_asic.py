"""Small modules through Yosys, whose cells are known by hand."""

import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.asic import synthesize
from tests.synth.gates.netlists import CLOCK_TO_Q, SETUP, TAU_PS, unit_gates

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


WITH_A_BLACK_BOX = """
(* blackbox *)
module inside (input clk, input [7:0] i, output [7:0] o);
endmodule

module around (input clk, input [7:0] a, output reg [7:0] held);
  wire [7:0] from, to;
  assign to = ~a;
  inside box (.clk(clk), .i(to), .o(from));
  always @(posedge clk) held <= ~from;
endmodule
"""


def test_black_boxes_are_in_no_figure_and_end_paths(tmp_path):
    library = unit_gates()
    found = synthesize(
        WITH_A_BLACK_BOX, "around", library, tmp_path / "known", black_boxes=["inside"]
    )
    assert found.cell_counts == {"DFF": 8, "INV_X1": 16}
    # Were its ports no ends, nothing would come to the flip-flops, and the outputs be the ends.
    assert found.timing.depth == 1
    with pytest.raises(SynthError, match="has no cell for inside; give a library with it"):
        synthesize(WITH_A_BLACK_BOX, "around", library, tmp_path / "unknown")


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
