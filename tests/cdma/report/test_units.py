"""Units by the names of keys: what a column is called, and how its figures are written."""

import pytest

from cdma.report.units import quantity


@pytest.mark.parametrize(
    ("key", "values", "title", "unit", "texts"),
    [
        ("seconds", [0.1462, 0.02], "time", "ms", ["146.200", "20.000"]),
        ("offload_seconds", [3.2e-05], "offload", "µs", ["32.000"]),
        ("swap_out_seconds", [2.0], "swap out", "s", ["2.000"]),
        ("stall_seconds_by_reason.staging", [0.5], "stall by reason: staging", "ms", ["500.000"]),
        ("peak_bytes", [2_320_000_000, 5_000], "peak", "GB", ["2.32", "0.00"]),
        ("bytes", [128], "size", "B", ["128"]),
        ("bytes_per_cycle_out", [31.94], "out", "B/cycle", ["31.94"]),
        ("link_bytes_per_s", [1.6e10], "link", "GB/s", ["16.00"]),
        ("density", [0.25, 1], "density", "%", ["25.00", "100.00"]),
        ("baseline_ratios.rle", [2.5], "baseline ratios: rle", "×", ["2.50"]),
        ("density.epoch", [45], "density: epoch", "", ["45"]),
        ("histogram.16", [0.5], "histogram: 16", "%", ["50.00"]),
        ("cycles_out", [12345], "cycles out", "cycles", ["12,345"]),
        ("clock_hz", [8.75e8], "clock", "MHz", ["875.000"]),
        ("fmax_mhz", [1234.5], "fmax", "MHz", ["1,234.5"]),
        ("kge", [1.5], "area", "kGE", ["1.50"]),
        ("batch", [1000], "batch", "", ["1,000"]),
        ("policy", ["vdnn"], "policy", "", ["vdnn"]),
        ("bit_exact", [True, False], "bit exact", "", ["yes", "no"]),
        ("shape", [[2, 3]], "shape", "", ["2, 3"]),
    ],
)
def test_a_key_says_unit_and_title(key, values, title, unit, texts):
    found = quantity(key, values)
    assert (found.title, found.unit) == (title, unit)
    assert [found.text(value) for value in values] == texts


def test_a_column_has_the_unit_of_its_largest_value():
    found = quantity("seconds", [1e-6, 3.0, None])
    assert [found.text(value) for value in (1e-6, 3.0, None)] == ["0.000", "3.000", "–"]
    assert found.unit == "s"
    assert quantity("seconds", [0.0]).unit == "s"
    assert quantity("seconds", [float("inf"), 1e-3]).text(float("inf")) == "inf"
