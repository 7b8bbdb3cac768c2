"""The report of `cdma buddy replay`: a JSON object and a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdma.golden.buddy.address_map import Target
from cdma.sim.buddy.content import Content
from cdma.sim.buddy.replay import Replay
from cdma.synth.gates.clock import BUDDY, clock_note
from cdma.terminal.console import plain_table, terminal

_COUNTERS = (
    "reads",
    "writes",
    "partial_writes",
    "device_sectors_read",
    "device_sectors_written",
    "buddy_sectors_read",
    "buddy_sectors_written",
    "overfetched_sectors",
    "spilled",
    "metadata_hits",
    "metadata_misses",
    "metadata_evictions",
    "stall_hazard",
    "stall_buddy",
)


@dataclass(frozen=True)
class ReplayRun:
    """A replay, and what tells it from the others."""

    name: str
    replay: Replay


def as_dict(
    baseline: ReplayRun, runs: Sequence[ReplayRun], content: Content, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON form; docs/guide/buddy/buddy-replay.md describes the keys."""
    return {
        **options,
        "allocations": [
            {"name": region.name, "bytes": region.before.size, "target": region.target.ratio}
            for region in content.regions
        ],
        "bytes": baseline.replay.nbytes,
        "bit_exact": all(run.replay.bit_exact for run in (baseline, *runs)),
        "baseline": _figures(baseline, baseline),
        "runs": [_figures(run, baseline) for run in runs],
    }


def print_report(
    baseline: ReplayRun, runs: Sequence[ReplayRun], content: Content, options: Mapping[str, Any]
) -> None:
    """A table with a column for each run."""
    table = plain_table(
        f"{options['accesses']:,} accesses, {baseline.replay.nbytes:,} bytes, "
        f"on {options['config']} beside {_memory(options['channels'])}",
    )
    table.add_column("", no_wrap=True)
    for run in (baseline, *runs):
        table.add_column(run.name, justify="right")
    rows = [_row(_figures(run, baseline)) for run in (baseline, *runs)]
    for name in rows[0]:
        table.add_row(name, *(row[name] for row in rows))
    console = terminal()
    console.print(table)
    targets = [region.target for region in content.regions]
    named = [
        f"{targets.count(target)} with {target.ratio:.3g}x"
        for target in Target
        if target in targets
    ]
    exact = all(run.replay.bit_exact for run in (baseline, *runs))
    console.print(
        f"Allocations: {', '.join(named)}. What was read, and both memories after a flush, are "
        + ("those of the golden model, bit for bit." if exact else "NOT those of the golden model.")
        + f" {clock_note(baseline.replay.machine.clock_hz, BUDDY)}".rstrip(),
        highlight=False,
    )


def _memory(channels: int) -> str:
    return "a channel of memory" if channels == 1 else f"each of {channels} channels of memory"


def _figures(run: ReplayRun, baseline: ReplayRun) -> dict[str, Any]:
    replay = run.replay
    return {
        "name": run.name,
        "bit_exact": replay.bit_exact,
        "cycles": replay.cycles,
        "bytes_per_s": replay.bytes_per_s,
        "slowdown": replay.cycles / baseline.replay.cycles - 1,
        "mean_read_latency_cycles": replay.mean_read_latency,
        "buddy_access_fraction": replay.buddy_access_fraction,
        "metadata_hit_rate": replay.hit_rate,
        "metadata_cache_bytes": replay.config.cache.capacity_bytes,
        "link_gb_per_s": replay.machine.link_bytes_per_s / 1e9,
        "link_out_busy": replay.link_out_busy,
        "link_in_busy": replay.link_in_busy,
        **{name: replay.counters[name] for name in _COUNTERS},
    }


def _row(figures: Mapping[str, Any]) -> dict[str, str]:
    def sectors(where: str) -> str:
        return f"{figures[f'{where}_sectors_read']:,} / {figures[f'{where}_sectors_written']:,}"

    return {
        "cycles": f"{figures['cycles']:,}",
        "GB/s": f"{figures['bytes_per_s'] / 1e9:.2f}",
        "slowdown": f"{figures['slowdown']:+.1%}",
        "cycles until read": _number(figures["mean_read_latency_cycles"], ".0f"),
        "device sectors read / written": sectors("device"),
        "of them overfetched": f"{figures['overfetched_sectors']:,}",
        "buddy sectors read / written": sectors("buddy"),
        "buddy accesses": f"{figures['buddy_access_fraction']:.2%}",
        "metadata hits": _number(figures["metadata_hit_rate"], ".1%"),
        "link busy in / out": f"{figures['link_in_busy']:.0%} / {figures['link_out_busy']:.0%}",
        "bit-exact": "yes" if figures["bit_exact"] else "NO",
    }


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
