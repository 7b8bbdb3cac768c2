"""A picture of effective bandwidth against density: a roofline of all that limits the engine."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from cdma.builds.extras import extra
from cdma.builds.pictures import encoded, literal, new_figure
from cdma.plan.engine_cost.network import TensorEstimate
from cdma.plan.engine_cost.setup import Setup

COLORS = {
    "link": "#4878a8",
    "port": "#8c6bb1",
    "units": "#5a9e6f",
    "dram": "#c44e52",
    "throttle": "#dd9a3c",
    "lines": "#937860",
    "writes": "#da8bc3",
    "reads": "#4fb0b8",
}
"""The colors of the bottlenecks."""

GB = 1e9
_LEAST_DENSITY = 0.005
_POINTS = 400

Point = tuple[float, float]
"""A tensor: its density, and raw bytes per second, latency included."""


def points_of(tensors: Sequence[TensorEstimate]) -> dict[str, list[Point]]:
    """The points of a network's tensors, out and in."""
    return {
        "out": [(t.density, t.raw_bytes / t.offload.seconds) for t in tensors],
        "in": [(t.density, t.raw_bytes / t.prefetch.seconds) for t in tensors],
    }


def bandwidth_picture(
    setup: Setup, points: dict[str, list[Point]], title: str = "", file_format: str = "png"
) -> bytes:
    """The picture as a file of one of `cdma.builds.pictures.FORMATS`.

    Raw bytes per second against density, on logarithmic axes: to the host left, back right. Thin
    lines are what each bottleneck would let through, the thick one is their minimum in the color of
    the limiting bottleneck; points are a network's tensors, latency included. The legend names all
    of them.

    Parameters
    ----------
    setup : Setup
    points : dict of list
        By way, "out" and "in", as of `points_of`.
    title : str
    file_format : str
    """
    figure = new_figure(11, 5.2)
    panels: Any = figure.subplots(1, 2, sharey=True)
    names = dict.fromkeys(
        name
        for axes, way in zip(panels, ("out", "in"), strict=True)
        for name in _draw(axes, setup, way, points[way])
    )
    panels[0].set_title("to the host")
    panels[1].set_title("to the device")
    panels[0].set_ylabel("effective bandwidth, raw GB/s")
    if title:
        figure.suptitle(literal(title), fontsize="medium")
    handles = _legend(list(names), tensors=any(points.values()))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=5, fontsize="small", frameon=False
    )
    return encoded(figure, file_format)


def _legend(names: Sequence[str], *, tensors: bool) -> list[Any]:
    with extra("plan"):
        from matplotlib.lines import Line2D

    point: dict[str, Any] = {
        "color": "black",
        "marker": "o",
        "markersize": 3.5,
        "linestyle": "none",
    }
    least = Line2D([], [], color="#404040", linewidth=3, label="least of them, in its color")
    return [
        *(
            Line2D([], [], color=COLORS[n], linewidth=1.2, label=f"let through by {n}")
            for n in names
        ),
        least,
        *([Line2D([], [], label="tensors", **point)] if tensors else []),
    ]


def _draw(axes: Any, setup: Setup, way: str, points: Sequence[Point]) -> list[str]:
    """Draw a direction, and return the names of its bottlenecks."""
    densities = np.geomspace(_LEAST_DENSITY, 1, _POINTS)
    roofs = [setup.ceilings(float(density), way) for density in densities]
    limits = [min(roof, key=lambda name: roof[name]) for roof in roofs]
    least = np.array([roof[limit] for roof, limit in zip(roofs, limits, strict=True)]) / GB
    for name in roofs[0]:
        axes.plot(
            densities, [r[name] / GB for r in roofs], color=COLORS[name], linewidth=0.7, alpha=0.7
        )
    for limit, group in groupby(range(len(limits)), key=lambda i: limits[i]):
        span = list(group)
        # Up to the next one's first point, so that there is no gap.
        span = [*span, min(span[-1] + 1, len(limits) - 1)]
        axes.plot(densities[span], least[span], color=COLORS[limit], linewidth=3)
    if points:
        axes.plot(
            [density for density, _ in points],
            [rate / GB for _, rate in points],
            "o",
            color="black",
            markersize=3.5,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.5 * least.min(), 4 * least.max())
    axes.set_xlim(_LEAST_DENSITY, 1)
    axes.set_xlabel("density: elements that are not zero, as a part")
    axes.grid(visible=True, which="major", linewidth=0.3)
    return list(roofs[0])
