"""Rows against a baseline, and the committed baseline against the components."""

import dataclasses
import json

import pytest

from cdma.synth.baseline import ECP5, GENERIC, read_baseline
from cdma.synth.components import block, block_names
from cdma.synth.errors import SynthError
from cdma.synth.fpga.ecp5 import Routed
from cdma.synth.fpga.resources import Resources
from cdma.synth.report import GateRow, changes, fpga_row_of

ROW = GateRow(
    name="packer",
    config="tiny",
    parameters={"sector_bytes": 4},
    cells=1000,
    flip_flops=100,
    macro_bits=0,
    kge=2.0,
    area_um2=1596.0,
    area_um2_28nm=734.0,
    depth=10,
    delay_ps=400.0,
    fmax_mhz=2000.0,
    slowest_path=["a", "b"],
)
BASELINE = {("packer", "tiny"): ROW.json()}

FOUND = Resources(cells=1500, luts=1000, flip_flops=100, carries=10, block_rams=2, dsps=0, depth=6)
FPGA_ROW = fpga_row_of(block("packer", "tiny"), FOUND, Routed(120.04, "a", "b"))
FPGA_BASELINE = {("packer", "tiny"): FPGA_ROW.json()}


def test_same_row_has_no_changes():
    assert changes(ROW, BASELINE) == []


def test_a_row_is_compared_with_what_a_file_made_of_it():
    row = dataclasses.replace(ROW, parameters={**ROW.parameters, "codecs": ("zvc", "raw")})
    (kept,) = json.loads(json.dumps([row.json()]))
    assert changes(row, {(row.name, row.config): kept}) == []


@pytest.mark.parametrize(
    ("figure", "value", "relative", "regression"),
    [
        ("kge", 2.08, 0.04, False),
        ("kge", 2.12, 0.06, True),
        ("kge", 1.0, -0.5, False),
        ("fmax_mhz", 1880.0, -0.06, True),
        ("fmax_mhz", 1920.0, -0.04, False),
        ("fmax_mhz", 4000.0, 1.0, False),
        ("flip_flops", 106, 0.06, True),
        ("macro_bits", 1, float("inf"), True),
    ],
)
def test_more_than_a_twentieth_worse_is_a_regression(figure, value, relative, regression):
    (change,) = changes(dataclasses.replace(ROW, **{figure: value}), BASELINE)
    assert (change.component, change.figure) == ("packer", figure)
    assert change.relative == pytest.approx(relative)
    assert change.regression is regression


def test_gated_clocks_are_compared_where_both_rows_have_them():
    gated = {"kge": 1.0, "fmax_mhz": 1000.0, "depth": 9, "slowest_path": ["a", "b"]}
    row = dataclasses.replace(ROW, gated=gated)
    assert changes(row, BASELINE) == []
    worse = dataclasses.replace(ROW, gated={**gated, "kge": 1.1, "fmax_mhz": 990.0})
    larger, slower = changes(worse, {("packer", "tiny"): row.json()})
    assert (larger.figure, larger.relative) == ("gated kge", pytest.approx(0.1))
    assert (slower.figure, slower.relative) == ("gated fmax_mhz", pytest.approx(-0.01))
    assert (larger.regression, slower.regression) == (True, False)


@pytest.mark.parametrize(
    ("figure", "value", "relative", "regression"),
    [
        ("luts", 1040, 0.04, False),
        ("luts", 1060, 0.06, True),
        ("flip_flops", 106, 0.06, True),
        ("block_rams", 3, 0.5, True),
        ("dsps", 1, float("inf"), True),
        # As much as from one seed to another.
        ("fmax_mhz", 103.2, -0.14, False),
        ("fmax_mhz", 100.8, -0.16, True),
        ("fmax_mhz", 240.0, 1.0, False),
    ],
)
def test_more_than_that_worse_on_an_fpga_is_a_regression(figure, value, relative, regression):
    (change,) = changes(dataclasses.replace(FPGA_ROW, **{figure: value}), FPGA_BASELINE)
    assert (change.component, change.figure) == ("packer", figure)
    assert change.relative == pytest.approx(relative)
    assert change.regression is regression


def test_what_does_not_fit_is_compared_by_what_it_takes():
    found = dataclasses.replace(FOUND, luts=90_000)
    row = fpga_row_of(block("packer", "tiny"), found, "does not fit")
    assert (row.fmax_mhz, row.slowest_path, row.no_fmax) == (None, None, "does not fit")
    assert [change.figure for change in changes(row, FPGA_BASELINE)] == ["luts"]


def test_rows_of_all_targets_have_the_same_keys():
    gates, fpga = ROW.json(), FPGA_ROW.json()
    assert list(gates) == list(fpga)
    assert (gates["luts"], gates["block_rams"], gates["no_fmax"]) == (None, None, None)
    assert (fpga["kge"], fpga["area_um2"]) == (None, None)
    assert (fpga["luts"], fpga["fmax_mhz"], fpga["no_fmax"]) == (1000, 120.0, None)


def test_other_parameters_are_not_compared():
    assert changes(dataclasses.replace(ROW, config="wide"), BASELINE) is None
    assert changes(dataclasses.replace(ROW, parameters={"sector_bytes": 8}), BASELINE) is None


@pytest.mark.parametrize("target", [GENERIC, ECP5])
@pytest.mark.parametrize("text", ["", "[]", '{"components": [{}]}'])
def test_what_is_no_baseline_is_told(tmp_path, target, text):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    mend = f"make one with: cdma synth --target {target} --json"
    with pytest.raises(SynthError, match=mend):
        read_baseline(target, path)


def test_baseline_has_every_component_as_it_is_now():
    rows = read_baseline()
    assert [name for name, _config in rows] == block_names()
    for name, config in rows:
        now = block(name, config).parameters
        # As it comes back from a file.
        assert rows[name, config]["parameters"] == json.loads(json.dumps(now)), name


def test_baseline_of_ecp5_has_rows_that_were_routed():
    rows = read_baseline(ECP5)
    assert {"zvc-line-compressor", "zvc-line-decompressor", "token-bucket"} <= {
        name for name, _config in rows
    }
    for (name, config), row in rows.items():
        assert row["fmax_mhz"] > 0, name
        assert row["luts"] > 0, name
        now = block(name, config).parameters
        assert row["parameters"] == json.loads(json.dumps(now)), name
