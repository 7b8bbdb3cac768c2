"""Rows against a baseline, and the committed baseline against the components."""

import dataclasses
import json

import pytest

from synth.components import block, block_names
from synth.errors import SynthError
from synth.report import Row, changes, read_baseline

ROW = Row(
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


def test_same_row_has_no_changes():
    assert changes(ROW, BASELINE) == []


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


def test_other_parameters_are_not_compared():
    assert changes(dataclasses.replace(ROW, config="wide"), BASELINE) is None
    assert changes(dataclasses.replace(ROW, parameters={"sector_bytes": 8}), BASELINE) is None


@pytest.mark.parametrize("text", ["", "[]", '{"components": [{}]}'])
def test_what_is_no_baseline_is_told(tmp_path, text):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(SynthError, match="make one with: cdma synth --all --json"):
        read_baseline(path)


def test_baseline_has_every_component_as_it_is_now():
    rows = read_baseline()
    assert [name for name, _config in rows] == block_names()
    for name, config in rows:
        now = block(name, config).parameters
        # As it comes back from a file.
        assert rows[name, config]["parameters"] == json.loads(json.dumps(now)), name
