"""The report of `cdma swap` on its round trips: a JSON object and a table."""

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.commands.json_option import json_text
from cdma.outputs import make_folder, open_atomically
from cdma.plan.platform.link import Link
from cdma.sim.swap import BASELINES, EngineFigures, Loss, QueueFigures, RoundTrip, SwapRun
from cdma.sim.swap.encoding import AUTO
from cdma.synth.gates.clock import CODEC, ENGINE, clock_note
from cdma.terminal.console import GB, WIDE_CHARACTERS, figures_table

SAVED = ("swap.txt", "swap.json")
"""What is saved of a run: what was printed, and the JSON object."""

WIDE_ONLY = (
    *("RLE", "CSR", "LZ4", "DEFLATE", "cycles out", "cycles in"),
    *("DRAM", "latency", "µs raw", "status"),
)
"""Columns that a narrow console does not get."""

LOSSLESS_ONLY = ("DRAM", "latency", "status")
LOSSLESS_OR_WIDE = ("density", "B/cycle", "µs out")
"""Columns for which there is no room beside those of a lossy codec, and on a narrow console."""


@dataclass(frozen=True, kw_only=True)
class SwapSettings:
    """Settings of a run, as far as the results depend on them.

    Attributes
    ----------
    engine : str
        "dma" or "codec".
    machine, throttle : str or None
        None without an engine.
    bound : float or None
        Of a lossy codec.
    configuration : dict
        The tables from which `cdma swap --config` makes engine, machine and throttle again.
    """

    engine: str
    machine: str | None
    throttle: str | None
    codec: str
    bound: float | None
    round_to: str | None
    sector_bytes: int
    stalls: float
    seed: int
    layout: str | None
    link: Link
    clock_hz: float
    configuration: dict[str, Any]

    @property
    def rtl(self) -> str:
        """Name for people of what the arrays passed through."""
        if self.engine == "codec":
            return f"the RTL, {self.sector_bytes} B per cycle, and over {self.link.name}"
        limit = "" if self.throttle == "none" else f", reads {self.throttle}"
        where = "" if self.link.name == self.machine else f" and over {self.link.name}"
        return f"the engine of {self.machine}{where}{limit}"


def as_dict(run: SwapRun, settings: SwapSettings) -> dict[str, Any]:
    """The JSON form of a run; docs/guide/swap/swap.md describes the keys."""
    return {
        "engine": settings.engine,
        "machine": settings.machine,
        "throttle": settings.throttle,
        "codec": settings.codec,
        "bound": settings.bound,
        "round_to": settings.round_to,
        "sector_bytes": settings.sector_bytes,
        "stalls": settings.stalls,
        "seed": settings.seed,
        "layout": settings.layout,
        "link": {"name": settings.link.name, "bytes_per_s": settings.link.bytes_per_s},
        "clock_hz": settings.clock_hz,
        "configuration": settings.configuration,
        "arrays": [
            {
                "name": round_trip.name,
                "dtype": round_trip.dtype,
                "shape": list(round_trip.shape),
                "element_bytes": round_trip.element_bytes,
                "codec": round_trip.codec,
                "parameters": dict(round_trip.parameters),
                **_figures([round_trip], None, settings),
                "latency_cycles_out": round_trip.engine and round_trip.engine.latency_cycles_out,
                "latency_cycles_in": round_trip.engine and round_trip.engine.latency_cycles_in,
                "crc32": round_trip.crc32,
                "faults": list(round_trip.faults),
            }
            for round_trip in run.round_trips
        ],
        "total": _figures(run.round_trips, run.queue, settings),
    }


def _figures(
    round_trips: Sequence[RoundTrip], queue: QueueFigures | None, settings: SwapSettings
) -> dict[str, Any]:
    """Figures of one array, or of all of them with those of the queue."""
    link = settings.link
    nbytes = sum(round_trip.nbytes for round_trip in round_trips)
    compressed = sum(round_trip.compressed_bytes for round_trip in round_trips)
    cycles_out = sum(round_trip.cycles_out for round_trip in round_trips)
    cycles_in = sum(round_trip.cycles_in for round_trip in round_trips)
    elements = sum(-(-round_trip.nbytes // round_trip.element_bytes) for round_trip in round_trips)
    nonzero = sum(round_trip.nonzero for round_trip in round_trips)
    compressed_s = link.seconds(compressed)
    # The engine's cycles have the link in them; beside the codec's, it works at the same time.
    link_s = compressed_s if settings.engine == "codec" else 0.0
    return {
        "bytes": nbytes,
        "density": _per(nonzero, elements),
        "compressed_bytes": compressed,
        "ratio": _per(nbytes, compressed),
        "cycles_out": cycles_out,
        "cycles_in": cycles_in,
        "bytes_per_cycle_out": _per(nbytes, cycles_out),
        "bytes_per_cycle_in": _per(nbytes, cycles_in),
        "bit_exact": all(round_trip.bit_exact for round_trip in round_trips),
        **_loss(round_trips),
        "baseline_ratios": {
            name: nbytes / sum(t.baseline_bytes[name] for t in round_trips) if nbytes else None
            for name in BASELINES
        },
        "link_seconds_raw": link.seconds(nbytes),
        "link_seconds_compressed": compressed_s,
        "swap_out_seconds": max(link_s, cycles_out / settings.clock_hz),
        "swap_in_seconds": max(link_s, cycles_in / settings.clock_hz),
        **_engine_figures(round_trips, queue, cycles_out, cycles_in, settings.clock_hz),
    }


def _loss(round_trips: Sequence[RoundTrip]) -> dict[str, Any]:
    """Figures of lossy codecs; null for others. JSON has no number for an error without limit."""
    loss = Loss.joined(each.loss for each in round_trips if each.loss is not None)
    if loss is None:
        return dict.fromkeys(("largest_error", "exact_values", "not_finite_values"))
    return {
        "largest_error": loss.largest_error if math.isfinite(loss.largest_error) else None,
        "exact_values": loss.exact_values,
        "not_finite_values": loss.not_finite_values,
    }


def _engine_figures(
    round_trips: Sequence[RoundTrip],
    queue: QueueFigures | None,
    cycles_out: int,
    cycles_in: int,
    clock_hz: float,
) -> dict[str, Any]:
    """Figures that only an engine has; null without one, and null for a queue's without a queue."""
    parts = [round_trip.engine for round_trip in round_trips if round_trip.engine is not None]
    if not parts:
        keys = (
            "link_utilization_out",
            "link_utilization_in",
            "dram_read_bytes_per_s",
            "buffer_high_water_bytes",
            "stall_cycles",
            "status",
        )
        return dict.fromkeys(keys)
    figures = EngineFigures.joined(parts)
    return {
        "link_utilization_out": _per(figures.link_out_busy_cycles, cycles_out),
        "link_utilization_in": _per(figures.link_in_busy_cycles, cycles_in),
        "dram_read_bytes_per_s": _per(figures.dram_read_bytes * clock_hz, cycles_out),
        "buffer_high_water_bytes": None if queue is None else queue.buffer_high_water_bytes,
        "stall_cycles": None if queue is None else queue.stall_cycles,
        "status": None if figures.status is None else figures.status.name,
    }


def _per(value: float, of: float) -> float | None:
    """None for nothing of nothing, as of an empty array."""
    return value / of if of else None


def _table(report: dict[str, Any], settings: SwapSettings, *, wide: bool) -> Table:
    """All columns, or those that fit into 80 characters."""
    rows = [(row["name"], _cells(row, settings)) for row in report["arrays"]]
    if len(rows) > 1:
        rows.append(("total", _cells(report["total"], settings)))
    left_out: Sequence[str] = () if wide else WIDE_ONLY
    if settings.bound is not None:
        left_out = (*left_out, *(LOSSLESS_ONLY if wide else LOSSLESS_OR_WIDE))
    headings = [heading for heading in rows[0][1] if heading not in left_out]
    title = (
        f"{settings.codec.upper()} through {settings.rtl} ({settings.link.bytes_per_s / GB:g} GB/s)"
    )
    table = figures_table("array", headings, title)
    for name, cells in rows:
        if name == "total":
            table.add_section()
        table.add_row(name, *(cells[heading] for heading in headings))
    return table


def _cells(figures: dict[str, Any], settings: SwapSettings) -> dict[str, str]:
    def number(value: float | None, form: str, unit: float = 1.0) -> str:
        return "–" if value is None else format(value / unit, form)

    def pair(name: str, unit: float = 1.0) -> str:
        return " ".join(number(figures[f"{name}_{way}"], ".1f", unit) for way in ("out", "in"))

    def ratio(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}x"

    cells = {
        "bytes": f"{figures['bytes']:,}",
        "density": number(figures["density"], ".3f"),
        settings.codec.upper(): ratio(figures["ratio"]),
    }
    if settings.codec == AUTO:
        cells = {"codec": figures.get("codec", ""), **cells}
    # Beside the engine's columns there is room for one.
    beside: Sequence[str] = BASELINES if settings.engine == "codec" else BASELINES[:1]
    if settings.bound is not None:
        beside = ()
    cells |= {
        name.upper(): ratio(figures["baseline_ratios"][name])
        for name in beside
        if name != settings.codec
    }
    cells |= {
        "cycles out": f"{figures['cycles_out']:,}",
        "cycles in": f"{figures['cycles_in']:,}",
        "B/cycle": pair("bytes_per_cycle"),
    }
    if settings.engine == "dma":
        cells |= {
            "link %": pair("link_utilization", 0.01),
            "DRAM": number(figures["dram_read_bytes_per_s"], ".1f", 1e9),
            # There is none of all arrays together.
            "latency": number(figures.get("latency_cycles_out"), ",.0f"),
        }
    else:
        cells["µs raw"] = f"{figures['link_seconds_raw'] * 1e6:.1f}"
    cells |= {
        "µs out": f"{figures['swap_out_seconds'] * 1e6:.1f}",
        "bits": "exact" if figures["bit_exact"] else "[bold red]WRONG[/]",
    }
    if settings.bound is not None:
        cells |= {
            "error": number(figures["largest_error"], ".2g"),
            "kept": f"{figures['exact_values']:,}",
            "bits": "golden" if figures["bit_exact"] else "[bold red]WRONG[/]",
        }
    if settings.engine == "dma":
        cells["status"] = figures["status"] or "–"
    return cells


def print_report(console: Console, report: dict[str, Any], settings: SwapSettings) -> None:
    """The table, what its columns mean, and the result in a sentence."""
    total = report["total"]
    table = _table(report, settings, wide=console.width >= WIDE_CHARACTERS)
    console.print(table)
    console.print(f"{_legend(settings, [str(column.header) for column in table.columns])}\n")
    if total["stall_cycles"]:
        stalls = ", ".join(
            f"{cause.replace('_', ' ')} {cycles:,}"
            for cause, cycles in total["stall_cycles"].items()
        )
        console.print(f"Cycles in which something waited, by what it waited for: {stalls}.")
        buffer_kib = total["buffer_high_water_bytes"] / 1024
        console.print(f"Of the DMA buffer, at most {buffer_kib:.1f} KiB were reserved at once.\n")
    exact = f"{sum(row['bit_exact'] for row in report['arrays'])} of {len(report['arrays'])}"
    text = f"{exact} arrays came back bit for bit, their streams the golden model's."
    if settings.bound is not None:
        text = (
            f"{exact} arrays came back as the golden model restores them, bit for bit, their "
            f"streams the golden model's. {_loss_sentence(total, settings.bound)}"
        )
    if total["ratio"] is not None:
        text += (
            f" {total['bytes']:,} bytes left as {total['compressed_bytes']:,}: "
            f"{total['ratio']:.2f}x smaller, "
            f"{total['link_seconds_raw'] / total['swap_out_seconds']:.2f}x faster."
        )
    console.print(text)


def _loss_sentence(total: dict[str, Any], bound: float) -> str:
    """The loss of all arrays in a sentence."""
    most = total["largest_error"]
    error = "A value came back as none" if most is None else f"The largest error is {most:g}"
    text = f"{error}, with a bound of {bound:g}; "
    if not total["exact_values"]:
        return f"{text}no value had to be kept exactly."
    return (
        f"{text}{total['exact_values']:,} values were kept exactly, "
        f"{total['not_finite_values']:,} of them NaN or infinite."
    )


def _legend(settings: SwapSettings, headings: Iterable[str]) -> str:
    """The meaning of these columns."""
    clock = f"{settings.clock_hz / 1e9:g} GHz"
    if settings.engine == "codec":
        return (
            "B/cycle: uncompressed bytes per cycle of the RTL, out and in. µs: raw over the link, "
            f"and out through RTL and link, whichever takes longer, the RTL at {clock}. "
            + clock_note(settings.clock_hz, CODEC)
        ).rstrip()
    sentences = {
        "array": "Arrays are queued across each other. cycles: from the record of the array "
        "before, or the doorbell, to its own.",
        "B/cycle": "B/cycle: uncompressed bytes per cycle, out and in.",
        "link %": "link %: how busy the link was in those cycles, out and in.",
        "µs out": f"µs out: cycles out, the engine at {clock}.",
        "error": "error: the largest of a value that came back.",
        "kept": "kept: values in lines that are kept bit for bit, for NaN, infinity, or a number "
        "too large for the bound.",
        "DRAM": "DRAM: GB/s read in those cycles.",
        "latency": "latency: cycles from descriptor to record on the way out, the wait for arrays "
        "ahead included.",
    }
    shown = [sentence for heading, sentence in sentences.items() if heading in headings]
    return " ".join([*shown, clock_note(settings.clock_hz, ENGINE)]).rstrip()


def save_report(
    directory: Path, report: dict[str, Any], settings: SwapSettings, *, force: bool
) -> None:
    """Write the files of `SAVED` there."""
    text = io.StringIO()
    print_report(Console(file=text, width=WIDE_CHARACTERS), report, settings)
    make_folder(directory)
    contents = (text.getvalue(), f"{json_text(report)}\n")
    for name, content in zip(SAVED, contents, strict=True):
        with open_atomically(directory / name, "w", force=force) as file:
            file.write(content)
