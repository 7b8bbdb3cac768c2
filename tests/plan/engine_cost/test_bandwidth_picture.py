"""The roofline: every line of it is in the legend, with units at the axes."""

from cdma.plan.engine_cost.bandwidth_picture import COLORS, bandwidth_picture
from cdma.plan.engine_cost.setup import Setup
from tests.lib.legends import colors_of_axes, colors_of_legends, drawn, labels, names_in_legends

POINTS = {"out": [(0.5, 2e10)], "in": [(0.5, 2.5e10)]}


def test_every_line_is_in_the_legend(monkeypatch):
    figures = drawn(monkeypatch, "cdma.plan.engine_cost.bandwidth_picture")
    setup = Setup.named("titanx_gen3", throttle="bandwidth-aware")
    bandwidth_picture(setup, POINTS)
    bandwidth_picture(setup, {"out": [], "in": []})
    with_points, without = figures
    assert len(colors_of_axes(with_points)) > 6
    assert colors_of_axes(with_points) <= colors_of_legends(with_points)
    names = [f"let through by {name}" for way in POINTS for name in setup.ceilings(0.5, way)]
    assert names_in_legends(with_points) == [
        *dict.fromkeys(names),
        "least of them, in its color",
        "tensors",
    ]
    assert "tensors" not in names_in_legends(without)
    assert "effective bandwidth, raw GB/s" in labels(with_points)
    assert sum("density" in label for label in labels(with_points)) == 2


def test_no_two_bottlenecks_have_one_color():
    assert len(set(COLORS.values())) == len(COLORS)


def test_it_is_a_file_of_the_format():
    setup = Setup.named("titanx_gen3")
    assert bandwidth_picture(setup, POINTS).startswith(b"\x89PNG")
    assert bandwidth_picture(setup, POINTS, "a $ title", "svg").startswith(b"<?xml")
