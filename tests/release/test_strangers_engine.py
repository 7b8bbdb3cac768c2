"""A stranger's engine.toml through generate, synth, swap, estimate, schedule and report."""

import json
import os
import re

import pytest

from tests.lib.paths import ROOT
from tests.release.checkout import ok

SCRIPT = ROOT / "tests" / "release" / "strangers_engine.sh"
REPORTS = ("synth", "swap", "estimate", "schedule")


@pytest.fixture(scope="module")
def left(environment, tmp_path_factory):
    """The folder, after the script."""
    folder = tmp_path_factory.mktemp("stranger")
    path = f"{environment}{os.pathsep}{os.environ['PATH']}"
    ok("bash", SCRIPT, cwd=folder, env={**os.environ, "PATH": path})
    return folder


@pytest.fixture(scope="module")
def reports(left):
    return {name: json.loads((left / f"{name}.json").read_text("utf-8")) for name in REPORTS}


def test_script_has_every_command_that_takes_an_engine():
    used = re.findall(r"^cdma (\w+).*?(?<!\\)$", SCRIPT.read_text("utf-8"), re.M | re.S)
    assert set(used) >= {"generate", *REPORTS, "report"}


@pytest.mark.verify
def test_verilog_has_a_port_for_each_of_three_units_and_sectors_of_64_bytes(left):
    text = (left / "rtl" / "cdma_engine.v").read_text("utf-8")
    ports = set(re.findall(r"input wire \[(\d+):0\] m_axi_mem(\d)_rdata", text))
    assert ports == {("511", "0"), ("511", "1"), ("511", "2")}


@pytest.mark.verify
def test_every_report_is_of_that_engine(reports):
    for name in REPORTS:
        engine = reports[name]["configuration"]["engine"]
        assert (engine["units"], engine["codec"]["sector_bytes"]) == (3, 64), name


@pytest.mark.verify
def test_swap_brings_every_bit_back(reports):
    total = reports["swap"]["total"]
    assert total["bit_exact"] is True
    # Half of a normal distribution is zero, and each line of 32 values has 4 B of mask.
    assert 1.85 < total["ratio"] < 1.92


@pytest.mark.verify
def test_page_has_all_four_reports(left):
    page = (left / "report.html").read_text("utf-8")
    for told in ("token-bucket", "relu.npy", "conv1.relu", "vdnn"):
        assert told in page
