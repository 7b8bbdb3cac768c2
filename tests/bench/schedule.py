"""vDNN's loss and cDMA's gain on the paper's six networks, and how far assumptions move them."""

from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.reproduce import roofline

MODES = ("sync", "async")
DENSITIES = {"capture": "digits-cnn", "curve": "curve"}
FIGURES = ("loss", "gain", "bandwidth_aware")


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures."""
    return {
        "networks": _networks(console),
        "sweep": _sweep(console),
        "densities": _densities(console),
    }


def _networks(console: Console) -> dict[str, dict[str, dict[str, float]]]:
    """With the declared efficiencies, synchronous, densities of the shipped capture."""
    table = Table(title="vDNN's loss to the oracle, cDMA's gain over vDNN, and 48 of 200 GB/s")
    table.add_column("network")
    for device in roofline.DEVICES:
        for heading in ("loss", "gain", "BW"):
            table.add_column(f"{device} {heading}", justify="right")
    found = {device: roofline.performance(device) for device in roofline.DEVICES}
    for name in next(iter(found.values())):
        each = [found[device][name] for device in roofline.DEVICES]
        table.add_row(name, *(c for p in each for c in _cells(p.loss, p.gain, p.bandwidth_aware)))
    table.add_section()
    for place, word in enumerate(("mean", "most")):
        cells = []
        for device in roofline.DEVICES:
            values = [roofline.summary(found[device], figure)[place] for figure in FIGURES]
            cells += _cells(*values)
        table.add_row(word, *cells)
    published = []
    for device in roofline.DEVICES:
        loss, gain = roofline.published("loss"), roofline.published(f"gain-{device}")
        published += [f"{loss[0]:.0%}, {loss[1]:.0%}", f"{gain[0]:+.0%}, {gain[1]:+.0%}", "94%"]
    table.add_row("the paper: mean, most", *published)
    console.print(table)
    return {
        device: {
            name: {figure: getattr(each, figure) for figure in FIGURES}
            for name, each in by_name.items()
        }
        for device, by_name in found.items()
    }


def _cells(loss: float, gain: float, bandwidth_aware: float) -> list[str]:
    return [f"{loss:.0%}", f"{gain:+.0%}", f"{bandwidth_aware:.1%}"]


def _sweep(console: Console) -> list[dict[str, Any]]:
    """Over efficiency and mode: means and, in brackets, the most."""
    table = Table(title="the same by what all layers get of the peak: mean (most)")
    for heading in ("device", "mode", "", *(f"{e:g}" for e in roofline.EFFICIENCIES), "the paper"):
        table.add_column(heading, justify="right" if heading[:1] in ("", ".", "0", "1") else "left")
    rows: list[dict[str, Any]] = []
    for device in roofline.DEVICES:
        published = {
            "loss": roofline.published("loss"),
            "gain": roofline.published(f"gain-{device}"),
        }
        for mode in MODES:
            for figure, (mean, most) in published.items():
                found = {
                    e: roofline.summary(roofline.performance(device, mode, efficiency=e), figure)
                    for e in roofline.EFFICIENCIES
                }
                rows += [
                    {
                        "device": device,
                        "mode": mode,
                        "efficiency": e,
                        "figure": figure,
                        "mean": values[0],
                        "most": values[1],
                    }
                    for e, values in found.items()
                ]
                shown = (f"{values[0]:.0%} ({values[1]:.0%})" for values in found.values())
                table.add_row(device, mode, figure, *shown, f"{mean:.0%} ({most:.0%})")
    console.print(table)
    return rows


def _densities(console: Console) -> dict[str, dict[str, float]]:
    """By where densities come from; with the declared efficiencies, synchronous."""
    table = Table(title="the mean gain by where densities come from, mid-training")
    table.add_column("densities")
    for device in roofline.DEVICES:
        table.add_column(device, justify="right")
    figures: dict[str, dict[str, float]] = {}
    for name, source in DENSITIES.items():
        figures[name] = {
            device: roofline.summary(roofline.performance(device, source=source), "gain")[0]
            for device in roofline.DEVICES
        }
        table.add_row(name, *(f"{gain:+.0%}" for gain in figures[name].values()))
    console.print(table)
    return figures
