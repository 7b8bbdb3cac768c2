"""Figures of matplotlib: what is drawn in them, and what their legends and labels name."""

from typing import Any

import pytest
from matplotlib.colors import to_rgb

GRID = 3
"""Decimals of a color that are compared."""


def drawn(monkeypatch: pytest.MonkeyPatch, module: str) -> list[Any]:
    """The figures that a module encodes from now on."""
    figures: list[Any] = []

    def keep(figure: Any, *format_and_more: Any, **options: Any) -> bytes:
        figures.append(figure)
        return b""

    monkeypatch.setattr(f"{module}.encoded", keep)
    return figures


def colors_of_axes(figure: Any) -> set[tuple[float, ...]]:
    """Colors of all lines, bars and areas; maps of colors have a color bar instead."""
    colors = set()
    for axes in figure.axes:
        if axes.get_label() == "<colorbar>":
            continue
        colors |= {_rgb(line.get_color()) for line in axes.lines}
        colors |= {_rgb(patch.get_facecolor()) for patch in axes.patches}
        for collection in axes.collections:
            colors |= {_rgb(color) for color in collection.get_facecolor()}
    return colors


def colors_of_legends(figure: Any) -> set[tuple[float, ...]]:
    """Colors that have a name in a legend."""
    colors = set()
    for legend in [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]:
        colors |= {_rgb(line.get_color()) for line in legend.get_lines()}
        colors |= {_rgb(patch.get_facecolor()) for patch in legend.get_patches()}
    return colors


def names_in_legends(figure: Any) -> list[str]:
    """The names, in order."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def labels(figure: Any) -> list[str]:
    """All labels of axes and color bars."""
    found = [text for axes in figure.axes for text in (axes.get_xlabel(), axes.get_ylabel())]
    return [text for text in found if text]


def _rgb(color: Any) -> tuple[float, ...]:
    return tuple(round(part, GRID) for part in to_rgb(color))
