"""The tables of `cdma estimate`: what was assumed, one row per tensor, and one per swept value."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from cdma.commands.estimate.report import Report, as_dict
from cdma.plan.engine_cost.captured_sizes import KIND, OWN, WORST
from cdma.synth.gates.clock import ENGINE
from cdma.terminal.console import (
    GB,
    WIDE_CHARACTERS,
    clock_fact,
    facts_grid,
    figures_table,
    link_rates,
    terminal,
)

KIB = 1024

LIMITS = {
    "link": "the link's bandwidth",
    "port": "what the engine's port to the link takes per cycle",
    "units": "units, a sector per cycle each",
    "dram": "DRAM",
    "throttle": "the cap on reads of device memory",
    "lines": "lines in flight between units and DRAM, so the buffer's size",
    "writes": "write bursts outstanding to the host",
    "reads": "the buffer for reads from the host",
}

WIDE_ONLY = ("density", "GB/s out", "cycles out", "cycles in")
"""Columns that a narrow console does not get."""


@dataclass(frozen=True)
class _Unit:
    """The unit of a column, chosen so that its largest figure has about three digits."""

    name: str
    scale: float

    def text(self, value: float) -> str:
        return f"{value * self.scale:,.2f}"


def _time(seconds: float) -> _Unit:
    return _Unit("ms", 1e3) if seconds >= 1e-3 else _Unit("µs", 1e6)


def _size(nbytes: float) -> _Unit:
    return _Unit("MB", 1e-6) if nbytes >= 1e6 else _Unit("kB", 1e-3)


def print_report(report: Report) -> None:
    """Print the assumptions, the tensors, their sum and a legend; after a sweep, its table."""
    console = terminal()
    content = as_dict(report)
    console.print(f"{report.title}\n", style="bold", highlight=False)
    console.print(_assumed(content))
    wide = console.width >= WIDE_CHARACTERS
    console.print(_tensors(content, wide=wide))
    console.print(_legend(content), highlight=False)
    if content["sweep"] is not None:
        console.print()
        console.print(_sweep(content["sweep"]))


def _assumed(content: dict[str, Any]) -> Table:
    facts = content["assumptions"]
    engine, machine, throttle = facts["engine"], facts["machine"], facts["throttle"]
    density = facts["density"]
    count = machine["engines"]
    several = f"{count} side by side, each " if count > 1 else ""
    units = engine["units"] * engine["sector_bytes"] * machine["clock_hz"]
    rates = link_rates(machine["link_out_bytes_per_s"], machine["link_in_bytes_per_s"])
    assumed = {
        "engine": f"{facts['config']}: {several}{engine['units']} units of "
        f"{engine['sector_bytes']} B at "
        f"{machine['clock_hz'] / GB:g} GHz take {units / GB:g} GB/s; buffer of "
        f"{engine['buffer_bytes'] / KIB:g} KiB",
        **clock_fact(machine["clock_hz"], ENGINE),
        "memory": f"{machine['dram_bytes_per_s'] / GB:g} GB/s, {machine['dram_latency_ns']:g} ns",
        "link": f"{machine['link'] or 'its own'}: {rates}, {machine['link_latency_ns']:g} ns",
        "throttle": throttle["name"]
        + (f": {throttle['bytes_per_s'] / GB:g} GB/s" if throttle["bytes_per_s"] else ""),
        "density": f"{density['source']}, epoch {density['epoch']} of {density['epochs']}: "
        f"{density['mean']:.3f} on average",
    }
    if facts["bound"] is not None:
        assumed["codec"] = _lossy(facts["codec"], facts["bound"], content["tensors"])
    return facts_grid(assumed)


def _lossy(codec: str, bound: float, rows: list[dict[str, Any]]) -> str:
    """A lossy codec's bound, and what the sizes of its streams are of."""
    counts = {on: sum(row["measured_on"] == on for row in rows) for on in (OWN, KIND, WORST)}
    told = {
        OWN: "of the tensor's own captured arrays",
        KIND: "of those of its kind of layer",
        WORST: "without any, every line kept whole",
    }
    text = ", ".join(f"{count} {told[on]}" for on, count in counts.items() if count)
    return f"{codec}, bound {bound:g}; tensors: {text}"


def _tensors(content: dict[str, Any], *, wide: bool) -> Table:
    rows, total = content["tensors"], content["total"]
    time = _time(max(row["offload_seconds"] for row in rows))
    size = _size(max(row["raw_bytes"] for row in rows))

    def cells(row: dict[str, Any]) -> dict[str, str]:
        return {
            f"raw {size.name}": size.text(row["raw_bytes"]),
            "density": f"{row['density']:.3f}",
            "ratio": f"{row['ratio']:.2f}",
            f"stream {size.name}": size.text(row["stream_bytes"]),
            f"out {time.name}": time.text(row["offload_seconds"]),
            "limit out": row["offload_limit"],
            "GB/s out": f"{row['offload_bytes_per_s'] / GB:.1f}",
            "vs raw": f"{row['offload_speedup']:.2f}x",
            "cycles out": f"{row['offload_cycles']:,.0f}",
            f"in {time.name}": time.text(row["prefetch_seconds"]),
            "limit in": row["prefetch_limit"],
            "cycles in": f"{row['prefetch_cycles']:,.0f}",
        }

    sums = {
        **total,
        "density": content["assumptions"]["density"]["mean"],
        "offload_limit": _most(total["offload_limits"]),
        "prefetch_limit": _most(total["prefetch_limits"]),
    }
    lines = {row["name"]: cells(row) for row in rows}
    table = figures_table("tensor", [h for h in cells(sums) if wide or h not in WIDE_ONLY])
    for name, line in lines.items():
        table.add_row(name, *(v for h, v in line.items() if wide or h not in WIDE_ONLY))
    table.add_section()
    table.add_row("total", *(v for h, v in cells(sums).items() if wide or h not in WIDE_ONLY))
    return table


def _legend(content: dict[str, Any]) -> str:
    total = content["total"]
    met = dict.fromkeys([*total["offload_limits"], *total["prefetch_limits"]])
    limits = "; ".join(f"{limit}: {LIMITS[limit]}" for limit in met)
    return (
        "out, in: to the host and back, each tensor alone, from the doorbell to its record. "
        "vs raw: how many times as fast as the engine's plain copy to the host. "
        f"Limits: {limits}. The total's is the one that the most time goes to."
    )


def _sweep(sweep: dict[str, Any]) -> Table:
    rows = sweep["rows"]
    time = _time(max(row["offload_seconds"] for row in rows))
    headings = []
    for way in ("out", "in"):
        headings += [f"{way} {time.name}", f"GB/s {way}", f"vs raw {way}", f"limit {way}"]
    table = figures_table(sweep["parameter"], headings)
    for row in rows:
        texts = []
        for way in ("offload", "prefetch"):
            texts += [
                time.text(row[f"{way}_seconds"]),
                f"{row[f'{way}_bytes_per_s'] / GB:.1f}",
                f"{row[f'{way}_speedup']:.2f}x",
                _most(row[f"{way}_limits"]),
            ]
        value = row["value"]
        table.add_row(value if isinstance(value, str) else f"{value:,g}", *texts)
    return table


def _most(limits: dict[str, float]) -> str:
    return max(limits, key=lambda name: limits[name])
