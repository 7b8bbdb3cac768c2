"""Clock gates of a generated engine: one module, a user's own, and what tools are told of them."""

import re
import subprocess
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from cdma.hw.config import ConfigError, EngineConfig, preset
from cdma.hw.emit.clock_gates import own_clock_gates
from cdma.hw.emit.ip.component import FileSet, component
from cdma.hw.emit.ip.constraints import constraints
from cdma.hw.emit.ip.template import template
from cdma.hw.emit.verilog import STYLES, generate
from tests.hw.emit.test_verilog import lint
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.kit import change, make, write_kit
from tests.lib.rtl.verilog import verilog_of
from tests.lib.shares import configs, names

TINY = replace(preset("tiny"), clock_gates=True)
SMALL = EngineConfig(units=1, buffer_bytes=4096, read_buffer_bytes=1024)
GATE = "cdma_engine_clock_gate"
PATHS = ("out_path", "in_path")
RTL = FileSet("rtl", "verilogSource", ["rtl/cdma_engine.v"])

COUNTING = f"""
module {GATE} (
  input wire clk,
  input wire enable,
  input wire test_enable,
  output wire gated_clk
);
  reg passes;
  always @(clk or enable or test_enable)
    if (!clk) passes = enable || test_enable;
  assign gated_clk = clk && passes;
  integer edges = 0;
  integer gated_edges = 0;
  always @(posedge clk) edges <= edges + 1;
  always @(posedge gated_clk) gated_edges <= gated_edges + 1;
endmodule
"""
"""A gate of one's own, which counts."""


@pytest.mark.parametrize("style", STYLES)
def test_both_paths_have_a_gate_of_the_same_module(style):
    text = verilog_of("engine", TINY, style=style).text
    gates = re.findall(rf"^  {GATE} (\w+) \($", text, re.M)
    assert sorted(gates) == sorted(f"{path}_clock" for path in PATHS)
    assert text.count(f"module {GATE} (") == 1
    assert f"`ifndef {own_clock_gates('cdma_engine')}\n" in text
    for path in PATHS:
        (instance,) = re.findall(rf"^  cdma_engine_{path} {path} \((.*?)\);$", text, re.M | re.S)
        assert re.search(r"\.clk\((\w+)\)", instance)[1] == f"{path}_clock_gated_clk"
        # Buckets fill while nothing moves.
        assert ("free_clk(clk)" in instance) == (path == "out_path")


@pytest.mark.parametrize("style", STYLES)
def test_without_the_option_there_are_none(style):
    verilog = verilog_of("engine", "tiny", style=style)
    assert verilog.sidecar["clock_gates"] == []
    for word in ("test_enable", "clock_gate ", "gated_clk", "free_clk", "activity"):
        # Comments tell of the option.
        assert word not in re.sub(r"//.*", "", verilog.text)


CLEAN = {
    "tiny": TINY,
    "two clocks": replace(TINY, host_clock=True),
    "small, rings, ecc": replace(SMALL, clock_gates=True, rings=3, ecc=True),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("config", configs(CLEAN, quick=["tiny"]))
def test_both_tools_find_it_clean(config, style, tmp_path):
    verilog = verilog_of("engine", config, style=style)
    lint(verilog.name, verilog.text, tmp_path)


def test_it_is_described():
    sidecar = verilog_of("engine", TINY).sidecar
    assert sidecar["clock_gates"] == [
        {"gated": path, "instance": f"{path}_clock", "module": GATE} for path in PATHS
    ]
    (port,) = (one for one in sidecar["interfaces"] if one["name"] == "test_enable")
    assert port["ports"][0]["direction"] == "input"
    document = component(sidecar, vendor="v", library="l", version="1", files=[RTL], registers=None)
    ports = {
        port.findtext("{*}name"): port.findtext("{*}wire/{*}direction")
        for port in ElementTree.fromstring(document).findall("{*}model/{*}ports/{*}port")
    }
    assert ports["test_enable"] == "in"
    assert ".test_enable(cdma_engine_test_enable)" in template(sidecar)


def test_constraints_are_of_the_engine_at_work_and_make_no_clock_behind_gates():
    text = constraints(verilog_of("engine", TINY).sidecar, 800)
    assert "\nset_case_analysis 0 [get_ports test_enable]\n" in text
    assert text.count("create_clock") == 1
    assert "create_generated_clock" not in text
    assert "set_case_analysis" not in constraints(verilog_of("engine", "tiny").sidecar, 800)


def cycles_of(said: str) -> int:
    return int(re.search(r"^PASS: cdma_engine, \d+ descriptors, (\d+) cycles$", said, re.M)[1])


@pytest.mark.parametrize("reset", names(["sync-high", "async-low"], quick=["sync-high"]))
def test_own_gates_take_their_place_and_clocks_stop(reset, tmp_path):
    """In the self-checking bench, by Icarus: as many cycles as without gates, of which some are
    stopped, unless for a scan test."""
    require(ICARUS)
    write_kit("engine", SMALL, tmp_path / "plain", reset=reset)
    status, said = make(tmp_path / "plain", "sim")
    assert status == 0, said
    cycles = cycles_of(said)

    folder = tmp_path / "gated"
    write_kit("engine", replace(SMALL, clock_gates=True), folder, reset=reset)
    status, said = make(folder, "sim")
    assert status == 0, said
    assert cycles_of(said) == cycles

    bench = folder / "bench" / "cdma_engine_tb.sv"
    counts = [f"dut.{path}_clock.{name}" for path in PATHS for name in ("gated_edges", "edges")]
    tells = f'$display("COUNTED %0d, %0d, %0d, %0d", {", ".join(counts)});'
    shown = re.sub(r'(?=\$display\("(PASS|FAIL): )', f"{tells} ", bench.read_text())
    bench.write_text(shown + COUNTING)
    makefile = folder / "Makefile"
    change(makefile, "$(IVERILOG)", f"$(IVERILOG) -D{own_clock_gates('cdma_engine')}")
    status, stopping = make(folder, "sim")
    assert status == 0, stopping
    simulation = [str(folder / "build" / "cdma_engine_tb.vvp"), "+test_enable"]
    done = subprocess.run(["vvp", "-n", *simulation], cwd=folder, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout
    for said, is_tested in ((stopping, False), (done.stdout, True)):
        assert cycles_of(said) == cycles
        counted = re.search(r"^COUNTED (\d+), (\d+), (\d+), (\d+)$", said, re.M)
        out_gated, out_edges, in_gated, in_edges = map(int, counted.groups())
        assert out_edges == in_edges
        if is_tested:
            assert out_gated == in_gated == out_edges
        else:
            # Behind a fence one path rests while the other one works.
            assert 100 < out_gated < 0.8 * out_edges
            assert 100 < in_gated < 0.8 * in_edges


def test_bench_finds_a_clock_that_never_runs(tmp_path):
    require(ICARUS)
    write_kit("engine", replace(SMALL, clock_gates=True), tmp_path)
    rtl = tmp_path / "rtl" / "cdma_engine.v"
    change(rtl, "if (!clk) passes = enable || test_enable;", "if (!clk) passes = 1'b0;")
    status, said = make(tmp_path, "sim")
    assert status != 0
    assert "PASS" not in said


def test_engine_sleeps_or_has_gated_clocks():
    with pytest.raises(ConfigError, match="sleep must be false for engine with clock_gates"):
        generate("engine", TINY, sleep=True)
