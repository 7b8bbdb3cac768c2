"""Constraints: Tcl reads them, and every port has its delays once."""

import re
import subprocess
from dataclasses import replace
from itertools import pairwise
from shutil import which

import pytest

from cdma.hw.config import CodecConfig, ConfigError, preset
from cdma.hw.emit.ip.constraints import MAX_FANOUT, OUTSIDE, UNCERTAINTY, constraints
from tests.lib.rtl.verilog import verilog_of


@pytest.fixture(scope="module")
def packer():
    return verilog_of("packer", CodecConfig())


def test_clock_has_uncertainty_and_nets_a_largest_fanout(packer):
    text = constraints(packer.sidecar, 400)
    assert "create_clock -name clk -period 2.500 [get_ports clk]\n" in text
    assert f"set_clock_uncertainty {2.5 * UNCERTAINTY:.3f} [get_clocks clk]\n" in text
    assert f"set_max_fanout {MAX_FANOUT} [current_design]\n" in text
    assert "set_false_path" not in text
    assert "set_multicycle_path" not in text


def test_every_port_has_its_delays_once(packer):
    text = constraints(packer.sidecar, 400)
    delays = re.findall(
        r"set_(input|output)_delay -(max|min) ([\d.]+) -clock clk \[get_ports \{([^}]*)\}\]", text
    )
    assert [(way, bound, float(delay)) for way, bound, delay, _ in delays] == [
        ("input", "max", OUTSIDE * 2.5),
        ("input", "min", 0),
        ("output", "max", OUTSIDE * 2.5),
        ("output", "min", 0),
    ]
    top = packer.text[packer.text.index("module packer") :].partition("endmodule")[0]
    declared = re.findall(r"^  (input|output) wire (?:\[\d+:\d+\] )?(\w+),?$", top, re.MULTILINE)
    for way, _, _, names in delays:
        ports = {name for each, name in declared if each == way} - {"clk"}
        assert sorted(names.replace("\\\n", " ").split()) == sorted(ports)


STUBS = """
proc get_ports {names} { foreach name $names { puts "port $name" }; return $names }
proc get_clocks {name} { return $name }
proc current_design {} { return top }
foreach command {create_clock set_clock_uncertainty set_max_fanout set_input_delay \
    set_output_delay set_max_delay set_false_path} { \
    proc $command {args} "puts \\"$command \\[llength \\$args\\]\\"" }
"""


@pytest.mark.skipif(which("tclsh") is None, reason="tclsh missing: apt-get install tcl")
def test_tcl_reads_them(packer, tmp_path):
    script = tmp_path / "read.tcl"
    script.write_text(STUBS + constraints(packer.sidecar, 400))
    done = subprocess.run(["tclsh", script], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.split("\n")
    assert [line for line in said if line and not line.startswith("port ")] == [
        "create_clock 5",
        "set_clock_uncertainty 2",
        "set_max_fanout 2",
        *["set_input_delay 5"] * 2,
        *["set_output_delay 5"] * 2,
    ]


@pytest.fixture(scope="module")
def engine():
    return verilog_of("engine", replace(preset("tiny"), host_clock=True))


LONGEST_LINE = 96
"""Characters before the backslash."""


def test_lists_of_ports_fill_their_lines(engine):
    text = constraints(engine.sidecar, 800, 250)
    lists = re.findall(r"get_ports \{ \\\n(.*?) \\\n\}", text, re.S)
    assert len(lists) == 8
    lines = [[line.rstrip(" \\") for line in listed.splitlines()] for listed in lists]
    assert max(len(line) for listed in lines for line in listed) <= LONGEST_LINE
    for listed in lines:
        for line, following in pairwise(listed):
            assert len(line) + 1 + len(following.split()[0]) > LONGEST_LINE


def test_two_clocks_bound_the_paths_between_them(engine):
    text = constraints(engine.sidecar, 800, 250)
    assert "create_clock -name clk -period 1.250 [get_ports clk]\n" in text
    assert "create_clock -name host_clk -period 4.000 [get_ports host_clk]\n" in text
    for first, second in (("clk", "host_clk"), ("host_clk", "clk")):
        ends = f"-from [get_clocks {first}] -to [get_clocks {second}]\n"
        assert f"\nset_max_delay 1.250 {ends}" in text
        assert f"\nset_false_path -hold {ends}" in text
    assert len(re.findall(r"^set_(?:false_path|max_delay)", text, re.M)) == 4
    assert "set_clock_groups" not in text
    # The faster one, whichever it is; as fast as `clk` if nothing is said.
    assert text.replace("1.250", "x") != constraints(engine.sidecar, 250, 800)
    assert "set_max_delay 1.250 " in constraints(engine.sidecar, 250, 800)
    assert "create_clock -name host_clk -period 1.250 " in constraints(engine.sidecar, 800)


def test_every_port_has_the_delays_of_its_own_clock(engine):
    text = constraints(engine.sidecar, 800, 250)
    delays = re.findall(
        r"set_(\w+)_delay -max ([\d.]+) -clock (\w+) \[get_ports \{([^}]*)\}\]", text
    )
    assert [(way, float(delay), clock) for way, delay, clock, _ in delays] == [
        ("input", 0.375, "clk"),
        ("output", 0.375, "clk"),
        ("input", 1.2, "host_clk"),
        ("output", 1.2, "host_clk"),
    ]
    found = [name for *_, names in delays for name in names.replace("\\\n", " ").split()]
    listed = [port["name"] for one in engine.sidecar["interfaces"] for port in one["ports"]]
    assert sorted(found) == sorted([*listed, "rst", "host_rst"])
    for *_, clock, names in delays:
        ports = names.replace("\\\n", " ").split()
        assert {"host" in port for port in ports} == {clock == "host_clk"}


def test_a_frequency_of_a_clock_that_is_not_there_is_refused(packer, engine):
    with pytest.raises(ConfigError, match="other_clocks_mhz must not be given: the block has one"):
        constraints(packer.sidecar, 400, 100)
    with pytest.raises(ConfigError, match="host_clock_mhz must be above 0 and at most 10000, not"):
        constraints(engine.sidecar, 400, -1)


@pytest.mark.skipif(which("tclsh") is None, reason="tclsh missing: apt-get install tcl")
def test_tcl_reads_those_of_two_clocks(engine, tmp_path):
    script = tmp_path / "read.tcl"
    script.write_text(STUBS + constraints(engine.sidecar, 400, 250))
    done = subprocess.run(["tclsh", script], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = [line.split()[0] for line in done.stdout.split("\n") if line]
    assert said.count("create_clock") == said.count("set_max_delay") == 2
    assert said.count("set_input_delay") == said.count("set_output_delay") == 4


@pytest.mark.parametrize("clock_mhz", [0, -1.0, float("nan"), 1e6])
def test_clock_that_cannot_be(packer, clock_mhz):
    with pytest.raises(ConfigError, match="clock_mhz must be above 0 and at most 10000, not"):
        constraints(packer.sidecar, clock_mhz)
