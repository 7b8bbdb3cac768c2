"""OpenSTA: what it is given, what is taken from it, and that it agrees where it is installed."""

import shutil
from pathlib import Path

import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.timing import slowest_path
from cdma.synth.tools.opensta import EXECUTABLE, LOG, NETLIST, SCRIPT, opensta_period_ps
from tests.synth.gates.netlists import netlist, unit_gates

CLOCK = 1


def chain():
    """Two flip-flops with three inverters between them, and a memory that is left out."""
    cells = {
        "first": ("DFF", {"CK": CLOCK, "D": 2, "Q": 10}),
        **{f"inverter{k}": ("INV_X1", {"A": 10 + k, "Y": 11 + k}) for k in range(3)},
        "last": ("DFF", {"CK": CLOCK, "D": 13, "Q": 14}),
        "memory": ("memory_macro", {"CLK": CLOCK, "RD_DATA": 2}),
    }
    module = netlist(cells, [], [])
    module["ports"]["clk"] = {"direction": "input", "bits": [CLOCK]}
    return module


def stand_in(folder: Path, monkeypatch, *lines: str) -> None:
    """An executable of its name that only prints."""
    path = folder / EXECUTABLE
    path.write_text("\n".join(["#!/bin/sh", *(f"echo '{line}'" for line in lines), ""]))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_it_is_given_the_cells_and_the_clock_and_its_slack_is_taken(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "     -83.000000   slack (VIOLATED)")
    assert opensta_period_ps(chain(), unit_gates(), tmp_path) == 84.0
    text = (tmp_path / NETLIST).read_text()
    assert "DFF c0 (.CK(clk), .D(n2), .Q(n10));" in text
    assert "INV_X1 c2 (.A(n11), .Y(n12));" in text
    assert "memory" not in text
    assert f"read_liberty {{{unit_gates().path.resolve()}}}" in (tmp_path / SCRIPT).read_text()


def test_what_it_does_not_find_is_told_with_its_log(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "No paths found.")
    with pytest.raises(SynthError, match=r"from register to register; see .*opensta\.log"):
        opensta_period_ps(chain(), unit_gates(), tmp_path)
    assert (tmp_path / LOG).read_text() == "No paths found.\n"


def test_where_it_is_not_installed_that_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SynthError, match=r"OpenSTA \(sta\) is not on PATH; install it, "):
        opensta_period_ps(chain(), unit_gates(), tmp_path)


@pytest.mark.skipif(shutil.which(EXECUTABLE) is None, reason="OpenSTA is not installed")
def test_it_agrees_with_our_timing(tmp_path):
    own = slowest_path(chain(), unit_gates(), between_registers=True)
    there = opensta_period_ps(chain(), unit_gates(), tmp_path)
    assert there == pytest.approx(own.period_ps, rel=1e-4)
