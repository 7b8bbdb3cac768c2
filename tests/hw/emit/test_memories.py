# amaranth: UnusedElaboratable=no
"""Memories of generated blocks: all are listed, and a user's own take their place."""

import re
from dataclasses import replace

import pytest

from cdma.hw.bus.burst import ReadBeat
from cdma.hw.codec.payloads import LineBeat
from cdma.hw.config import CodecConfig, EngineConfig, preset
from cdma.hw.dma.control.descriptor import Status
from cdma.hw.dma.control.registers import register_map
from cdma.hw.dma.outbound.unit import LineReport
from cdma.hw.emit.memories import own_memories
from cdma.hw.emit.verilog import STYLES, generate
from cdma.hw.lib.protected_fifo import ProtectedFifo
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.kit import change, make, write_kit
from tests.lib.shares import configs, names

SMALL = EngineConfig(units=1, buffer_bytes=4096, read_buffer_bytes=1024)

PORTS = """
module {name}_ram #(parameter DEPTH = 1, parameter WIDTH = 1) (
  input wire clk,
  input wire write_enable,
  input wire [$clog2(DEPTH)-1:0] write_address,
  input wire [WIDTH-1:0] write_data,
  input wire read_enable,
  input wire [$clog2(DEPTH)-1:0] read_address,
  output reg [WIDTH-1:0] read_data
);
"""
"""The beginning of a memory of one's own."""

OWN = (
    PORTS
    + """
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
)


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


FLIPPING = (
    PORTS
    + """  localparam IS_PROTECTED = {protected};
  reg [WIDTH-1:0] cells [0:DEPTH-1];
  integer reads = 0;
  wire [WIDTH-1:0] flips = IS_PROTECTED && {when} ? {{WIDTH{{1'b0}}}} | {bits} : 0;
  always @(posedge clk) begin
    if (write_enable) cells[write_address] <= write_data;
    if (read_enable) begin
      read_data <= cells[read_address] ^ (flips << reads % (WIDTH - 1));
      reads <= reads + 1;
    end
  end
endmodule
"""
)


def simulate_flipping(folder, name, config, when, bits):
    """The bench of an engine's folder with memories that give some bits turned over.

    `when` tells in which of their reads, `bits` which neighbors; their place goes round.

    Returns
    -------
    status, said
        Of its Makefile.
    corrected, uncorrectable
        The engine's counters.
    """
    beat, report = LineBeat(config.codec), LineReport(config.codec)
    queues = [
        ProtectedFifo(beat, config.unit_beats, ("sol", "eol")),
        ProtectedFifo(report, config.unit_beats, ("last",)),
        ProtectedFifo(ReadBeat(config.host_bytes), config.read_beats),
    ]
    widths = " || ".join(f"WIDTH == {queue.stored.size}" for queue in queues)
    bench = next((folder / "bench").glob("*_tb.sv"))
    plain = bench.read_text()
    own = FLIPPING.format(name=name, protected=widths, when=when, bits=bits)
    counts = "dut.registers.ecc_corrected_lo_word, dut.registers.ecc_uncorrectable_lo_word"
    tells = f'$display("COUNTED %0d, %0d", {counts});'
    shown = re.sub(r'(?=\$display\("(PASS|FAIL): )', f"{tells} ", plain)
    bench.write_text(shown + own)
    status, said = make(folder, "sim")
    bench.write_text(plain)
    corrected, uncorrectable = re.search(r"^COUNTED (\d+), (\d+)$", said, re.M).groups()
    return status, said, int(corrected), int(uncorrectable)


ENGINES = {
    "small": SMALL,
    "three rings": replace(SMALL, rings=3),
    "gated clocks": replace(SMALL, clock_gates=True),
    "titanx_gen3": preset("titanx_gen3"),
}


@pytest.mark.parametrize("config", configs(ENGINES, quick=["small", "three rings"]))
def test_an_engine_with_ecc_survives_its_memories(config, tmp_path):
    require(ICARUS)
    config = replace(config, ecc=True)
    name = write_kit("engine", config, tmp_path)
    change(tmp_path / "Makefile", "$(IVERILOG)", f"$(IVERILOG) -D{own_memories(name)}")
    # A bit of every word that is read.
    status, said, corrected, lost = simulate_flipping(tmp_path, name, config, "1", 1)
    assert status == 0, said
    assert f"PASS: {name}, " in said
    assert corrected > 100
    assert lost == 0
    # Two of one word: transfers from then on end as if nothing were known of them.
    status, said, corrected, lost = simulate_flipping(tmp_path, name, config, "reads == 9", 3)
    assert status != 0
    assert "FAIL: " in said
    assert 0 < lost <= 3 * config.units
    assert corrected == 0
    *_, register = (r for r in register_map(config).values() if r.name.endswith("ERROR_STATUS"))
    found = re.search(rf"{register.offset:03x} reads (\S+) with", said)[1]
    assert int(found, 16) == Status.MEMORY_ERROR
