"""A picture of effective bandwidth against density: a roofline of all that limits the engine."""

import io
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from cdma.builds.extras import extra
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
    "reads": "#da8bc3",
}
"""The colors of the bottlenecks."""

GB = 1e9
_LEAST_DENSITY = 0.005
_POINTS = 400


def bandwidth_png(setup: Setup, tensors: Sequence[TensorEstimate] = (), title: str = "") -> bytes:
    """The picture as a PNG file.

    Raw bytes per second against density, on logarithmic axes: to the host left, back right. Thin
    lines are what each bottleneck would let through, the thick one is their minimum in the color of
    the limiting bottleneck; points are a network's tensors, latency included.

    Parameters
    ----------
    setup : Setup
    tensors : sequence of TensorEstimate
    title : str
    """
    # Here, as it takes a second and little else needs it.
    with extra("plan"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(1, 2, sharey=True)
    _draw(panels[0], setup, "out", [(t.density, t.raw_bytes / t.offload.seconds) for t in tensors])
    _draw(panels[1], setup, "in", [(t.density, t.raw_bytes / t.prefetch.seconds) for t in tensors])
    panels[0].set_title("to the host")
    panels[1].set_title("to the device")
    panels[0].set_ylabel("effective bandwidth, raw GB/s")
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize="medium")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100, metadata={"Software": None})
    return file.getvalue()


def _draw(axes: Any, setup: Setup, way: str, points: Sequence[tuple[float, float]]) -> None:
    densities = np.geomspace(_LEAST_DENSITY, 1, _POINTS)
    roofs = [setup.ceilings(float(density), way) for density in densities]
    limits = [min(roof, key=lambda name: roof[name]) for roof in roofs]
    least = np.array([roof[limit] for roof, limit in zip(roofs, limits, strict=True)]) / GB
    for name in roofs[0]:
        axes.plot(
            densities, [r[name] / GB for r in roofs], color=COLORS[name], linewidth=0.7, alpha=0.7
        )
    labeled: set[str] = set()
    for limit, group in groupby(range(len(limits)), key=lambda i: limits[i]):
        span = list(group)
        # Up to the next one's first point, so that there is no gap.
        span = [*span, min(span[-1] + 1, len(limits) - 1)]
        axes.plot(
            densities[span],
            least[span],
            color=COLORS[limit],
            linewidth=3,
            label=None if limit in labeled else f"limited by {limit}",
        )
        labeled.add(limit)
    if points:
        axes.plot(
            [density for density, _ in points],
            [rate / GB for _, rate in points],
            "o",
            color="black",
            markersize=3.5,
            label="tensors",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.5 * least.min(), 4 * least.max())
    axes.set_xlim(_LEAST_DENSITY, 1)
    axes.set_xlabel("density")
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(fontsize="small", frameon=False)
