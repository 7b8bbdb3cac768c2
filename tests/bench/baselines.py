"""Published planners beside each other, without an engine: which of them wins on which network."""

from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.plan.policies.comparison import ORACLE, Comparison, compare
from cdma.plan.value.point import Point

PUBLISHED = (
    "vdnn",
    "vdnn++",
    "superneurons",
    "capuchin",
    "capuchin-free-time",
    "capuchin-feedback",
    "home",
    "home+",
    "checkpoint",
    "checkpoint-selective",
    "dtr",
    "checkmate",
    "poet",
)
"""Policies without an engine that somebody else has published; home+ is ours on top of HOME."""

OURS = ("cdma", "best-without-engine", "best-with-engine")
"""What stands below them: the paper's engine, and the best plans found."""

STEPS = (
    ("vgg16", "titanxp", "pcie3x16"),
    ("resnet50", "titanxp", "pcie3x16"),
    ("gpt2", "h100", "pcie5x16"),
)
ROOMS = (0.3, 0.0)

EQUAL = 1 + 1e-4
"""Steps that are not longer than the shortest by more than that win, too."""


def case(network: str, device: str, link: str, room: float) -> Comparison:
    """A network's usual step, with memory so far from the least to what keeping all takes."""
    scenario = Point.usual(network, device=device, link=link, codec="zvc", room=room).scenario()
    return compare(scenario, [ORACLE, *PUBLISHED, *OURS])


def winners(comparison: Comparison) -> list[str]:
    """The fastest published policies without an engine."""
    seconds = {name: time for name in PUBLISHED if (time := comparison.seconds(name)) is not None}
    return [name for name, time in seconds.items() if time <= min(seconds.values()) * EQUAL]


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures."""
    table = Table(
        title="published planners without an engine: time over the oracle. "
        "* wins its column (to 0.01 %), – does not fit",
        title_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    cases = [(step, room, case(*step, room)) for step in STEPS for room in ROOMS]
    rows: list[dict[str, Any]] = []
    for (network, device, link), room, comparison in cases:
        memory = comparison.scenario.memory_bytes
        heading = f"{network}\n{device}\n{memory / 1e9:.2f} GB"
        table.add_column(heading, justify="right", no_wrap=True)
        bound = comparison.bounds.get(True)
        rows.append(
            {
                "network": network,
                "device": device,
                "link": link,
                "room": room,
                "memory_bytes": memory,
                "winners": winners(comparison),
                "over_oracle": {name: comparison.over_oracle(name) for name in comparison.results},
                "bound_over_oracle": None
                if bound is None
                else max(0.0, bound.seconds / comparison.oracle_seconds - 1),
                "solver_gap": {
                    name: result.plan.solver.gap
                    for name, result in comparison.results.items()
                    if result.plan.solver is not None
                },
            }
        )
    for name in (*PUBLISHED, *OURS):
        cells = []
        for row in rows:
            over = row["over_oracle"][name]
            star = " *" if name in row["winners"] else ""
            cells.append("–" if over is None else f"{100 * over:.2f} %{star}")
        table.add_row(name, *cells, end_section=name in (PUBLISHED[-1], OURS[-1]))
    bounds = [row["bound_over_oracle"] for row in rows]
    table.add_row(
        "no plan beats", *("–" if each is None else f"{100 * each:.2f} %" for each in bounds)
    )
    console.print(table)
    return {"cases": rows}


if __name__ == "__main__":
    run(Console(width=110))
