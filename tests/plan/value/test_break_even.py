"""Break-even: between the links where the gain crosses, or beyond all of them."""

import math
from dataclasses import replace

import pytest

from cdma.plan.value.break_even import links, rows
from cdma.plan.value.picture import value_picture
from cdma.plan.value.point import Point, Value
from tests.lib.legends import colors_of_axes, colors_of_legends, drawn, labels, names_in_legends

RATES = {"pcie3x16": 12.8e9, "pcie4x16": 25.6e9, "pcie5x16": 51.2e9}


def _value(link: str, gain: float, **point: object) -> Value:
    made = Point.usual("vgg16", device="titanxp", link=link, codec="zvc", room=0.5)
    return Value(
        point=replace(made, **point),
        engine="titanxp_gen3",
        memory_bytes=10**9,
        fits=True,
        saved_bytes=10**9,
        mean_density=0.5,
        link_bytes_per_s=RATES[link],
        oracle_seconds=1.0,
        without_seconds=1.0 + gain,
        with_seconds=1.0,
    )


def _row(*gains: float):
    values = [_value(link, gain) for link, gain in zip(RATES, gains, strict=True)]
    (row,) = rows(values[::-1])
    return row


def test_values_of_a_step_are_one_row_the_slowest_link_first() -> None:
    row = _row(0.3, 0.2, 0.1)
    assert [value.point.link for value in row.values] == list(RATES)
    assert row.value("pcie4x16").gain == pytest.approx(0.2)
    assert row.value("nvlink2") is None


def test_steps_that_differ_in_anything_but_the_link_are_rows_of_their_own() -> None:
    values = [_value("pcie3x16", 0.1, **{field: x}) for field, x in [("room", 0.1), ("batch", 7)]]
    values += [_value("pcie3x16", 0.1), _value("pcie4x16", 0.1)]
    assert [len(row.values) for row in rows(values)] == [1, 1, 2]
    assert links(values) == ["pcie3x16", "pcie4x16"]


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((0.3, 0.1, 0.0), (0, 25.6e9)),  # at a link itself
        ((0.3, 0.2, 0.0), (0, 25.6e9 * math.sqrt(2))),  # half way between two links
        ((0.05, 0.02, 0.01), None),
        ((0.3, 0.2, 0.1), (0, math.inf)),
        ((0.0, 0.2, 0.2), (12.8e9 * math.sqrt(2), math.inf)),
        ((0.0, 0.3, 0.0), (12.8e9 * 2 ** (1 / 3), 25.6e9 * 2 ** (2 / 3))),
        # What is between two such ranges counts as well.
        ((0.3, 0.0, 0.1), (0, math.inf)),
    ],
)
def test_worth_between(gains: tuple[float, ...], expected: tuple[float, float] | None) -> None:
    found = _row(*gains).worth_between(0.1)
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found == pytest.approx(expected)


def test_the_picture_is_a_png_with_a_row_per_step() -> None:
    values = [_value(link, 0.1) for link in RATES]
    one = value_picture(values, 0.02)
    two = value_picture([*values, *(_value(link, 0.0, room=0.1) for link in RATES)], 0.02)
    assert one[:8] == two[:8] == b"\x89PNG\r\n\x1a\n"
    heights = [int.from_bytes(png[20:24]) for png in (one, two)]
    assert heights[1] > heights[0]


def test_the_outline_and_empty_cells_are_in_the_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(monkeypatch, "cdma.plan.value.picture")
    values = [_value(link, gain) for link, gain in zip(RATES, (0.0, 0.1, 0.2), strict=True)]
    value_picture(values, 0.05)
    value_picture([replace(values[0], engine=None), *values[1:]], 0.05)
    whole, holed = figures
    assert names_in_legends(whole) == ["around gains of 5 % or more"]
    assert names_in_legends(holed) == ["around gains of 5 % or more", "no engine here"]
    assert colors_of_axes(whole) <= colors_of_legends(whole)
    assert "gain of the engine, %" in labels(whole)
