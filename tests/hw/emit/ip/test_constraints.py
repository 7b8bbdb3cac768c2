"""Constraints: Tcl reads them, and every port has its delays once."""

import re
import subprocess
from shutil import which

import pytest

from cdma.hw.config import CodecConfig, ConfigError
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
    set_output_delay} { proc $command {args} "puts \\"$command \\[llength \\$args\\]\\"" }
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


@pytest.mark.parametrize("clock_mhz", [0, -1.0, float("nan"), 1e6])
def test_clock_that_cannot_be(packer, clock_mhz):
    with pytest.raises(ConfigError, match="clock_mhz must be above 0 and at most 10000, not"):
        constraints(packer.sidecar, clock_mhz)
