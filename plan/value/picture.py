"""The value map as a picture: gains by step and link, and the break-even line between them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cdma.builds.extras import extra
from cdma.builds.pictures import encoded, literal, new_figure
from cdma.plan.value.break_even import links, rows
from cdma.plan.value.point import Value

GB = 1e9
_CELL_INCHES = (0.85, 0.3)


def value_picture(
    values: Sequence[Value], gain: float, title: str = "", file_format: str = "png"
) -> bytes:
    """The picture as a file of one of `cdma.builds.pictures.FORMATS`.

    A row per step, a column per link, the slowest left; a cell has the engine's gain in percent.
    Black lines are around the links of each step behind which it gains `gain` or more.

    Parameters
    ----------
    values : sequence of Value
    gain : float
        As a part.
    title : str
    file_format : str
    """
    steps, names = list(rows(values)), links(values)
    gains = np.full((len(steps), len(names)), np.nan)
    for i, step in enumerate(steps):
        for value in step.values:
            if value.engine is not None:
                gains[i, names.index(value.point.link)] = 100 * value.gain
    width, height = _CELL_INCHES
    figure = new_figure(4 + width * len(names), 2.2 + height * len(steps))
    axes: Any = figure.subplots()
    image = axes.imshow(gains, cmap="YlGn", vmin=0, aspect="auto")
    for i, j in np.argwhere(np.isfinite(gains)):
        dark = gains[i, j] > 0.6 * np.nanmax(gains)
        axes.text(
            j,
            i,
            f"{gains[i, j]:.1f}",
            ha="center",
            va="center",
            fontsize=7,
            color="white" if dark else "black",
        )
    _draw_outline(axes, gains >= 100 * gain)
    rates = {value.point.link: value.link_bytes_per_s for value in values}
    axes.set_xticks(
        range(len(names)), [f"{n}\n{rates[n] / GB:.3g}" for n in names], rotation=45, fontsize=7
    )
    axes.set_yticks(range(len(steps)), [_label(step.values[0]) for step in steps], fontsize=7)
    axes.set_xlabel("link, and the GB/s that copies get of it")
    figure.colorbar(image, ax=axes, label="gain of the engine, %")
    axes.set_title(literal(title), fontsize=9)
    figure.legend(
        handles=_legend(gain, bool(np.isnan(gains).any())),
        loc="outside lower center",
        ncols=2,
        fontsize=7,
        frameon=False,
    )
    return encoded(figure, file_format, dpi=120)


def _legend(gain: float, holes: bool) -> list[Any]:
    """The outline, and the cells without a figure if there are any."""
    with extra("plan"):
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

    around = f"around gains of {100 * gain:g} % or more"
    return [
        Line2D([], [], color="black", linewidth=2, label=around),
        *([Patch(facecolor="white", edgecolor="gray", label="no engine here")] if holes else []),
    ]


def _draw_outline(axes: Any, inside: np.ndarray) -> None:
    """Lines between cells that are inside and those that are not; the map's edge is none."""
    line = {"color": "black", "linewidth": 2}
    for i, j in np.argwhere(inside[:, 1:] != inside[:, :-1]):
        axes.plot([j + 0.5, j + 0.5], [i - 0.5, i + 0.5], **line)
    for i, j in np.argwhere(inside[1:] != inside[:-1]):
        axes.plot([j - 0.5, j + 0.5], [i + 0.5, i + 0.5], **line)


def _label(value: Value) -> str:
    point = value.point
    return (
        f"{point.network} {point.precision} · {point.device} · {value.memory_bytes / GB:.3g} GB · "
        f"{point.codec}"
    )
