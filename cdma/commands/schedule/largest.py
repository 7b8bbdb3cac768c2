"""`cdma schedule --largest-batch`: how large a minibatch each policy can train."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from cdma.commands.schedule.report import ScheduleSettings, configuration
from cdma.plan.policies.largest_batch import Largest, largest_batches
from cdma.plan.timeline.placement import Mode
from cdma.plan.timeline.scenario import Scenario
from cdma.terminal.console import figures_table


def find_largest(
    scenario_of: Callable[[int], Scenario], names: Sequence[str], mode: Mode | None, seed: int
) -> list[Largest]:
    """Find the largest minibatch of each policy in turn; a search may plan dozens of batches."""
    console = Console(stderr=True)
    found: list[Largest] = []
    for name in names:
        with console.status(f"{name}: looking for its largest batch"):
            found += largest_batches(scenario_of, [name], mode=mode, seed=seed)
    return found


def largest_as_dict(
    found: Sequence[Largest], usual: Scenario, settings: ScheduleSettings
) -> dict[str, Any]:
    """The JSON form; docs/guide/plan/schedule.md describes the keys.

    Parameters
    ----------
    found : sequence of Largest
    usual : Scenario
        With the network's usual batch, for what the batches have in common.
    settings : ScheduleSettings
    """
    return {
        "memory_bytes": usual.memory_bytes,
        "mode": settings.mode or "published",
        "density": settings.density,
        "seed": settings.seed,
        "configuration": configuration(usual, settings),
        "largest_batches": [
            {
                "policy": one.policy,
                "batch": one.batch,
                "seconds": one.seconds,
                "per_second": one.per_second,
            }
            for one in found
        ],
    }


def print_largest(console: Console, found: Sequence[Largest], title: str) -> None:
    """Print a table of the policies."""
    console.print(f"{title}\n", style="bold", highlight=False)
    table = figures_table("policy", ("largest batch", "ms", "per second"))
    for one in found:
        table.add_row(
            one.policy,
            f"{one.batch:,}" if one.batch else "no room",
            "–" if one.seconds is None else f"{1000 * one.seconds:,.1f}",
            "–" if one.per_second is None else f"{one.per_second:,.1f}",
        )
    console.print(table)
    console.print(
        "ms: the step at that batch. per second: images, or sequences. The oracle keeps everything "
        "within the device's memory, as the framework alone.",
        highlight=False,
    )
