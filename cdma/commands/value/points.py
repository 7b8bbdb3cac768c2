"""Points of the value map as points of a sweep."""

from dataclasses import asdict
from functools import partial

from cdma.plan.value import point as of_value
from cdma.sweep.point import PointResult, SweepPoint

ROOMS = ("builds", "golden", "hw", "plan")
"""Folders of the package that a value depends on: `plan`, and what it may import."""


def sweep_point(point: of_value.Point, files: tuple[tuple[str, str], ...] = ()) -> SweepPoint:
    """The point of a sweep that computes a `Value`, as its `as_dict`.

    Parameters
    ----------
    point : cdma.plan.value.point.Point
    files : tuple of (str, str)
        The user's files that its densities come from, as of `cdma.sweep.point.SweepPoint`.
    """
    step = f"{point.network} {point.batch} {point.precision}"
    return SweepPoint(
        name=f"{step} on {point.device}, {point.link}, room {point.room:g}, {point.codec}",
        content=asdict(point),
        files=files,
        work=partial(_value, point),
    )


def _value(point: of_value.Point) -> PointResult:
    return of_value.evaluate(point).as_dict()
