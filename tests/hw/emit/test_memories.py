"""Memories of generated blocks: all are listed, and a user's own take their place."""

import re

import pytest

from cdma.hw.config import CodecConfig, EngineConfig, preset
from cdma.hw.emit.memories import own_memories
from cdma.hw.emit.verilog import STYLES, generate
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.kit import change, make, write_kit
from tests.lib.shares import names

SMALL = EngineConfig(units=1, buffer_bytes=4096, read_buffer_bytes=1024)

OWN = """
module {name}_ram #(parameter DEPTH = 1, parameter WIDTH = 1) (
  input wire clk,
  input wire write_enable,
  input wire [$clog2(DEPTH)-1:0] write_address,
  input wire [WIDTH-1:0] write_data,
  input wire read_enable,
  input wire [$clog2(DEPTH)-1:0] read_address,
  output reg [WIDTH-1:0] read_data
);
  reg [WIDTH-1:0] cells [0:DEPTH-1];
  always @(posedge clk) begin
    if (write_enable) cells[write_address] <= write_data;
    if (read_enable) read_data <= cells[read_address]{spoils};
    if (write_enable && read_enable && write_address == read_address) $fatal(1, "COLLISION");
    if (write_enable && write_address > DEPTH - 1) $fatal(1, "OUTSIDE");
    if (read_enable && read_address > DEPTH - 1) $fatal(1, "OUTSIDE");
  end
endmodule
"""


@pytest.mark.parametrize("style", STYLES)
def test_all_are_listed(style):
    verilog = generate("engine", "titanx_gen3", style=style)
    listed = {(m["words"], m["bits"]): m["instances"] for m in verilog.sidecar["memories"]}
    config = preset("titanx_gen3")
    assert listed[config.read_beats, 8 * config.host_bytes + 3] == 1
    assert listed[config.unit_beats, 298] == config.units
    # Nothing else in it is an array.
    arrays = re.findall(r"^\s*reg (?:\[\S+\] )?\w+ \[.*\];", verilog.text, re.M)
    assert len(arrays) == (1 if style == "readable" else len(listed))
    assert verilog.text.count(f"`ifndef {own_memories(verilog.name)}\n") == len(arrays)


def test_a_block_without_memories_lists_none():
    verilog = generate("crc32", CodecConfig())
    assert verilog.sidecar["memories"] == []
    assert "`ifndef" not in verilog.text


@pytest.mark.parametrize("name", names(["small", "titanx_gen3"], quick=["small"]))
def test_own_memories_take_their_place(name, tmp_path):
    require(ICARUS)
    config = SMALL if name == "small" else preset(name)
    name = write_kit("engine", config, tmp_path)
    bench = next((tmp_path / "bench").glob("*.sv"))
    plain = bench.read_text()
    makefile = tmp_path / "Makefile"
    change(makefile, "$(IVERILOG)", f"$(IVERILOG) -D{own_memories(name)}")
    bench.write_text(plain + OWN.format(name=name, spoils=""))
    status, said = make(tmp_path, "sim")
    assert status == 0, said
    assert f"PASS: {name}, " in said
    # They are in use.
    bench.write_text(plain + OWN.format(name=name, spoils=" ^ 1'b1"))
    status, said = make(tmp_path, "sim")
    assert status != 0
    assert "PASS" not in said
