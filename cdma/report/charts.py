"""Pictures of JSON figures: bars and lines with legends and units, as SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cdma.builds.extras import extra
from cdma.builds.pictures import encoded, literal, new_figure
from cdma.report.content import Picture
from cdma.report.units import NOTHING, is_number

_GROUP_INCHES, _BAR_INCHES = 0.14, 0.11
_MOST_BARS = 60
"""Groups that a chart has room for; those with the largest sums stay."""

Values = Mapping[str, Sequence[float | None]]


def bars(
    title: str,
    names: Sequence[str],
    values: Values,
    unit: str,
    *,
    stacked: bool = False,
    lines: Mapping[str, float] | None = None,
    colors: Mapping[str, Any] | str = "tab10",
    log: bool = False,
) -> Picture:
    """Horizontal bars, a group per name, in the order given.

    Parameters
    ----------
    title : str
    names : sequence of str
    values : mapping of sequence
        By the legend's name, a value or None for each name.
    unit : str
        The axis' label.
    stacked : bool
        Behind each other, else below each other.
    lines : mapping of float, optional
        Vertical lines, by the legend's name.
    colors : mapping or str
        Colors by the legend's name, or the name of a colormap whose order is that of `values`.
    log : bool
        Whether the axis is logarithmic.
    """
    kept = _largest(names, values)
    names = [names[i] for i in kept]
    series = {name: [each[i] for i in kept] for name, each in values.items()}
    group_inches = _GROUP_INCHES + _BAR_INCHES * (1 if stacked else max(1, len(series)))
    figure = new_figure(10, 1.4 + max(len(names), 3) * group_inches)
    axes: Any = figure.subplots()
    palette = _palette(list(series), colors)
    places = np.arange(len(names), dtype=float)
    height = 0.8 if stacked else 0.8 / max(1, len(series))
    left = np.zeros(len(names))
    for number, (name, each) in enumerate(series.items()):
        lengths = np.array([0.0 if value is None else value for value in each])
        offset = 0.0 if stacked else (number - (len(series) - 1) / 2) * height
        axes.barh(
            places + offset,
            lengths,
            height,
            left=left if stacked else None,
            color=palette[name],
            label=literal(name),
            edgecolor="white",
            linewidth=0.3,
        )
        if stacked:
            left = left + lengths
    for (name, value), style in zip((lines or {}).items(), ("--", ":", "-."), strict=False):
        axes.axvline(value, color="black", linewidth=1, linestyle=style, label=literal(name))
    axes.set_yticks(places, [literal(name) for name in names], fontsize="small")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(unit)
    if log:
        axes.set_xscale("log")
    axes.grid(visible=True, axis="x", linewidth=0.3)
    axes.set_axisbelow(True)
    _legend(figure, len(series) + len(lines or {}))
    return Picture(title=title, svg=encoded(figure, "svg"), text=_text(title, names, series, unit))


def lines(title: str, places: Sequence[Any], values: Values, axis: str, unit: str) -> Picture:
    """Lines with points over places on an axis: numbers, or names side by side."""
    figure = new_figure(10, 4)
    axes: Any = figure.subplots()
    palette = _palette(list(values), "tab10")
    numeric = all(map(is_number, places))
    xs: Sequence[Any] = places if numeric else range(len(places))
    for name, each in values.items():
        ys = [float("nan") if value is None else value for value in each]
        axes.plot(xs, ys, "o-", markersize=4, color=palette[name], label=literal(name))
    if not numeric:
        turned = 45 if len(places) > 8 else 0
        axes.set_xticks(list(xs), [literal(str(p)) for p in places], rotation=turned)
    axes.set_xlabel(literal(axis))
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, linewidth=0.3)
    _legend(figure, len(values))
    text = _text(title, [str(place) for place in places], values, unit)
    return Picture(title=title, svg=encoded(figure, "svg"), text=text)


def _legend(figure: Any, entries: int) -> None:
    if entries:
        figure.legend(
            loc="outside lower center", ncols=min(entries, 5), fontsize="small", frameon=False
        )


def _palette(names: Sequence[str], colors: Mapping[str, Any] | str) -> dict[str, Any]:
    if not isinstance(colors, str):
        return {name: colors[name] for name in names}
    with extra("plan"):
        from matplotlib import colormaps

    colormap: Any = colormaps[colors]
    if colormap.N <= 20:
        return {name: colormap(i % colormap.N) for i, name in enumerate(names)}
    return {name: colormap(i / max(1, len(names) - 1)) for i, name in enumerate(names)}


def _largest(names: Sequence[str], values: Values) -> list[int]:
    """Indices of the groups that are drawn, in their order."""
    if len(names) <= _MOST_BARS:
        return list(range(len(names)))
    sums = [sum(each[i] or 0.0 for each in values.values()) for i in range(len(names))]
    return sorted(sorted(range(len(names)), key=lambda i: -sums[i])[:_MOST_BARS])


def _text(title: str, names: Sequence[str], values: Values, unit: str) -> str:
    """The picture in words: every figure, as far as a reader would listen."""
    parts = []
    for i, name in enumerate(names[:20]):
        figures = ", ".join(
            f"{legend} {NOTHING if each[i] is None else format(each[i], '.4g')}"
            for legend, each in values.items()
        )
        parts.append(f"{name}: {figures}")
    return f"{title} ({unit}). {'; '.join(parts)}{' …' if len(names) > 20 else ''}"
