"""The report of `cdma calibrate`: a JSON object, and tables."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.config import tables_of
from cdma.plan.calibration.calibrate import Calibration
from cdma.plan.calibration.fit import Fit
from cdma.terminal.console import GB, facts_grid, figures_table, link_rates


def as_dict(found: Calibration, where: str) -> dict[str, Any]:
    """The JSON form; docs/guide/plan/calibrate.md describes the keys."""
    return {
        "on": where,
        "source": found.device.source,
        "configuration": tables_of(found.device, found.link),
        "layers": [_fit(fit, "efficiency") for fit in found.layers],
        "narrow_layers": [_fit(fit, "efficiency") for fit in found.narrow_layers],
        "copies": [_fit(fit, "bytes_per_s") for fit in found.copies],
        "codecs": [_fit(fit, "bytes_per_s") for fit in found.codecs],
        "codecs_left_out": list(found.codecs_left_out),
        "networks": [
            {
                "name": network.name,
                "precision": network.precision,
                "seconds": network.seconds,
                "planned_seconds": network.planned_seconds,
                "error": network.error,
                "saved_bytes": network.saved_bytes,
                "planned_saved_bytes": network.planned_saved_bytes,
            }
            for network in found.networks
        ],
        "timings": [
            {
                "kind": timing.kind,
                "name": timing.name,
                "seconds": list(timing.seconds),
                "flops": timing.flops,
                "bytes": timing.nbytes,
                "narrow": timing.narrow,
            }
            for timing in found.timings
        ],
    }


def _fit(fit: Fit, value: str) -> dict[str, Any]:
    return {
        "kind": fit.kind,
        value: fit.value,
        "error": fit.error,
        "spread": fit.spread,
        "timings": fit.timings,
    }


def print_report(console: Console, found: Calibration, where: str, out: Path) -> None:
    """Print what was timed, what was fitted to it, and by how much that is off."""
    device, link = found.device, found.link
    narrow = "" if device.narrow_flops is None else f", {device.narrow_flops / 1e12:.3g} of bf16"
    facts = {
        "device": f"{where}; {device.source}",
        "peaks": f"{device.peak_flops / 1e12:.3g} TFLOP/s of fp32{narrow}, "
        f"{device.dram_bytes_per_s / GB:.3g} GB/s of memory, {device.capacity_bytes / GB:.3g} GB",
        "copies": link_rates(round(link.bytes_per_s, -7), round(link.in_bytes_per_s, -7)),
    }
    console.print(facts_grid(facts))
    console.print()
    narrow_fits = (replace(fit, kind=f"{fit.kind}, bf16") for fit in found.narrow_layers)
    fits = (*found.layers, *narrow_fits)
    console.print(_table("layer", "of its peak", fits, "{:.3f}", 1.0))
    console.print(_table("copy", "GB/s", found.copies, "{:.2f}", GB))
    console.print(_table("codec", "GB/s", found.codecs, "{:.2f}", GB))
    columns = ("precision", "ms", "planned ms", "off by", "saved GB", "planned GB")
    networks = figures_table("step", columns)
    for network in found.networks:
        networks.add_row(
            network.name,
            network.precision,
            f"{network.seconds * 1e3:,.2f}",
            f"{network.planned_seconds * 1e3:,.2f}",
            f"{100 * network.error:+.1f} %",
            f"{network.saved_bytes / GB:,.3f}",
            f"{network.planned_saved_bytes / GB:,.3f}",
        )
    console.print(networks)
    console.print(
        "off by: the part of their time that timings are longer or shorter than fitted. spread: "
        "by how much the median of an operation's times is longer than the shortest, at most. "
        "Nothing was fitted to the steps.",
        highlight=False,
    )
    console.print(
        f"Declared rates are left to {', '.join(found.codecs_left_out)}: PyTorch has no operations "
        f"for them. {out} has a [device] and a [link]: give it to --device and --link.",
        highlight=False,
        markup=False,
    )


def _table(first: str, value: str, fits: Iterable[Fit], form: str, unit: float) -> Table:
    table = figures_table(first, (value, "off by", "spread", "timings"))
    for fit in fits:
        table.add_row(
            fit.kind,
            form.format(fit.value / unit),
            f"{100 * fit.error:.0f} %",
            f"{100 * fit.spread:.0f} %",
            str(fit.timings),
        )
    return table
