"""The report of `cdma train`: a JSON object, and tables."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from cdma.sim.swap.stash import SwapTotals
from cdma.sim.swap.step.checkpointed import checkpointed_seconds
from cdma.sim.swap.step.step_planner import StepPlan
from cdma.sim.swap.step.step_run import StepRun
from cdma.terminal.console import figures_table

STEP, CHECKPOINT = "as it is", "torch.utils.checkpoint"


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """A subject's step, planned and carried out, beside others of it.

    Attributes
    ----------
    subject, device, link, machine : str
        Names.
    seed : int
    configuration : dict
        The tables of engine, machine, device and link.
    step_plan : StepPlan
    planned, plain : StepRun
        The step as planned, and as it is.
    blocks : tuple of str
        Paths of the blocks that `torch.utils.checkpoint` is around in `checkpointed`.
    checkpointed : StepRun or None
        None of a module without blocks.
    """

    subject: str
    device: str
    link: str
    machine: str
    seed: int
    configuration: dict[str, Any]
    step_plan: StepPlan
    planned: StepRun
    plain: StepRun
    blocks: tuple[str, ...]
    checkpointed: StepRun | None


def as_dict(result: TrainResult) -> dict[str, Any]:
    """The JSON form; docs/guide/plan/train.md describes the keys."""
    plan, planned = result.step_plan, result.planned
    scenario = plan.scenario
    counts = planned.counts
    assert counts is not None
    assert planned.out is not None
    assert planned.back is not None
    choices = plan.swap_plan.choices or {}
    checkpoint = result.checkpointed and {
        "blocks": list(result.blocks),
        "allocator_bytes": result.checkpointed.allocator_bytes,
        "seconds": checkpointed_seconds(scenario, result.blocks),
    }
    return {
        "subject": result.subject,
        "policy": plan.plan.policy,
        "device": result.device,
        "link": result.link,
        "machine": result.machine,
        "seed": result.seed,
        "configuration": result.configuration,
        "memory_bytes": plan.capacity_bytes,
        "timeline_bytes": plan.timeline_bytes,
        "planned_bytes": plan.rehearsal.peak_bytes,
        "counted_bytes": planned.peak_bytes,
        "allocator_bytes": planned.allocator_bytes,
        "seconds": plan.seconds,
        "plain": {
            "allocator_bytes": result.plain.allocator_bytes,
            "seconds": scenario.compute_seconds,
        },
        "checkpoint": checkpoint,
        "out": _totals(planned.out),
        "back": _totals(planned.back),
        "prefetches": counts.prefetches,
        "replays": counts.replays,
        "replayed_bytes": counts.replayed_bytes,
        "choices": dict(Counter(map(str, plan.plan.choices))),
        "values": [
            {
                "name": name,
                "bytes": nbytes,
                "choice": str(choices[name]) if name in choices else "retain",
            }
            for name, nbytes in counts.saved.items()
        ],
        "compared": len(planned.digests),
        "differing": planned.differing(result.plain),
    }


def _totals(totals: SwapTotals) -> dict[str, int]:
    return {
        "values": totals.arrays,
        "bytes": totals.nbytes,
        "stream_bytes": totals.stream_bytes,
        "cycles": totals.cycles,
    }


def print_report(console: Console, result: TrainResult) -> None:
    """The steps' peaks, what the engine has moved, and the result in a sentence."""
    report = as_dict(result)
    console.print(
        f"{report['subject']} in {report['memory_bytes']:,} B; times are of {report['device']} "
        f"behind {report['link']}\n"
    )
    headings = ("planned B", "counted B", "allocator B", "µs")
    table = figures_table("step", headings)
    rows = [(STEP, report["plain"])]
    if report["checkpoint"]:
        rows.append((CHECKPOINT, report["checkpoint"]))
    rows.append((report["policy"], report))
    for name, row in rows:
        sizes = [row.get(key) for key in ("planned_bytes", "counted_bytes", "allocator_bytes")]
        cells = ["–" if size is None else f"{size:,}" for size in sizes]
        table.add_row(name, *cells, f"{row['seconds'] * 1e6:,.1f}")
    console.print(table)
    moved = figures_table("way", ("values", "B", "stream B", "cycles"))
    for way in ("out", "back"):
        totals = report[way]
        moved.add_row(
            way,
            *(f"{totals[key]:,}" for key in ("values", "bytes", "stream_bytes", "cycles")),
        )
    console.print(moved)
    decided = ", ".join(f"{number} {choice}" for choice, number in report["choices"].items())
    blocks = f" {CHECKPOINT} is around {len(result.blocks)} blocks." if result.blocks else ""
    console.print(
        f"The plan: {decided}. {report['prefetches']} values were prefetched; {report['replays']} "
        f"times something was computed again. The policy's timeline takes the peak for "
        f"{report['timeline_bytes']:,} B.{blocks}"
    )
    differing = report["differing"]
    equal = report["compared"] - len(differing)
    console.print(
        f"{equal} of {report['compared']} are equal to the bit: the loss, all gradients, all "
        "buffers."
        if not differing
        else f"[bold red]{len(differing)} of {report['compared']} differ.[/]"
    )
