"""Blocks with each kind of reset: equivalent, clean, simulated, and reset when they should be."""

import subprocess
from dataclasses import replace

import pytest

from cdma.hw.components import find_component
from cdma.hw.config import ConfigError, EngineConfig
from cdma.hw.emit.netlist import written_modules
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS
from cdma.hw.emit.verilog import STYLES, generate
from tests.hw.emit.test_verilog import lint
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.equivalence import check_module, prove_design
from tests.lib.rtl.kit import make, write_kit
from tests.lib.rtl.verilog import verilog_of
from tests.lib.shares import configs, names

OTHERS = [name for name in RESETS if name != DEFAULT_RESET]
BOTH = "(posedge clk or posedge rst)"


def asynchronous(name, config=None):
    component = find_component(name)
    made = component.make(component.config(config))
    return written_modules(made, component.top, async_reset=True)


DESIGNS = {
    "crc32": ("crc32", None),
    "zvc-compressor": ("zvc-compressor", "tiny"),
    "engine": ("engine", "titanx_gen3"),
    "buddy": ("buddy", "tiny"),
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("design", configs(DESIGNS, quick=["crc32"]))
def test_asynchronous_registers_are_equivalent_to_amaranths(design, tmp_path):
    prove_design(asynchronous(*design), tmp_path, timeout_s=300)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(BOTH, "(posedge clk)"), (BOTH, "(posedge clk or negedge rst)"), ("if (rst)", "if (!rst)")],
)
def test_a_register_that_is_reset_in_another_way_is_found(right, wrong, tmp_path):
    module, *_ = modules = asynchronous("crc32")
    assert right in module.text
    damaged = replace(module, text=module.text.replace(right, wrong, 1))
    assert not check_module(damaged, modules, tmp_path).holds


def test_a_synchronous_module_has_no_other_edge_than_the_clocks(tmp_path):
    for reset in ("sync-high", "sync-low"):
        assert BOTH not in verilog_of("crc32", reset=reset).text
    component = find_component("crc32")
    (module, *_) = modules = written_modules(component.make(None), "crc32")
    assert "@(posedge clk)" in module.text
    damaged = replace(module, text=module.text.replace("@(posedge clk)", f"@{BOTH}", 1))
    assert not check_module(damaged, modules, tmp_path).holds


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("reset", OTHERS)
def test_blocks_are_clean(reset, style, tmp_path):
    verilog = verilog_of("zvc-compressor", "wide", style=style, reset=reset)
    lint(verilog.name, verilog.text, tmp_path)


@pytest.mark.parametrize("reset", names(OTHERS, quick=["async-low"]))
def test_a_kits_bench_passes(reset, tmp_path):
    require(ICARUS)
    write_kit("zvc-compressor", None, tmp_path, reset=reset)
    status, said = make(tmp_path, "sim")
    assert status == 0, said
    assert "PASS: zvc_compressor, " in said


@pytest.mark.verify
@pytest.mark.parametrize("reset", OTHERS)
def test_an_engines_kit_passes_and_is_clean(reset, tmp_path):
    require(ICARUS)
    write_kit("engine", None, tmp_path, reset=reset)
    status, said = make(tmp_path, "sim")
    assert status == 0, said
    assert "PASS: cdma_engine, 9 descriptors, " in said
    status, said = make(tmp_path, "lint")
    assert status == 0, said


@pytest.mark.parametrize("reset", names(RESETS, quick=["async-low"]))
def test_an_engine_with_two_clocks_passes(reset, tmp_path):
    require(ICARUS)
    small = EngineConfig(units=1, buffer_bytes=4096, read_buffer_bytes=1024, host_clock=True)
    write_kit("engine", small, tmp_path, reset=reset)
    status, said = make(tmp_path, "sim")
    assert status == 0, said
    assert "PASS: cdma_engine, 9 descriptors, " in said


BENCH = """
module bench;
  reg clk = 1'b0;
  reg in_reset = 1'b1;
  crc32 dut (.clk(clk), @reset@, .fires(1'b1), .beat_size(6'd32), .beat_last(1'b0),
    .result_ready(1'b1));
  initial begin
    repeat (6) #1 clk = !clk;
    in_reset = 1'b0;
    repeat (6) #1 clk = !clk;
    $display("running %b", dut.share_valid);
    in_reset = 1'b1;
    #5 $display("without a clock %b", dut.share_valid);
    repeat (2) #1 clk = !clk;
    $display("after an edge %b", dut.share_valid);
  end
endmodule
"""


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("reset", RESETS)
def test_registers_are_reset_with_or_without_a_clock(reset, style, tmp_path):
    require(ICARUS)
    way = RESETS[reset]
    verilog = verilog_of("crc32", style=style, reset=reset)
    bench = BENCH.replace("@reset@", way.connection("in_reset"))
    (tmp_path / "bench.v").write_text(f"{verilog.text}\n{bench}")
    build = ["iverilog", "-g2005", "-s", "bench", "-o", "bench.vvp", "bench.v"]
    subprocess.run(build, cwd=tmp_path, check=True)
    run = ["vvp", "-n", "bench.vvp"]
    said = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    at_once = 0 if way.is_asynchronous else 1
    assert said == f"running 1\nwithout a clock {at_once}\nafter an edge 0\n"


def test_another_reset_is_refused():
    with pytest.raises(ConfigError, match=r"reset must be one of sync-high, .*, not 'both'"):
        generate("crc32", reset="both")
