"""Errors of the closed form of a transfer's time against the RTL, over a grid of transfers."""

from collections import defaultdict
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.plan.engine_cost import Setup
from tests.plan.engine_cost.cases import SETUPS, Rig, grid

LARGE = 64 << 10

_PATTERNS = ("uniform", "captured", "clustered")


def run(console: Console) -> dict[str, Any]:
    """Print the worst error of each kind of transfer, and return them.

    The first run builds three engines, `v100_nvlink2` takes up to eight minutes.
    """
    found = {}
    others = {name: Setup.named(name) for name in ("v100_nvlink2", "pcie5x16")}
    for name, setup in (SETUPS | others).items():
        rig = Rig(setup)
        worst: dict[tuple[str, str, str, str], float] = defaultdict(float)
        for case in grid():
            kind = next((p for p in _PATTERNS if case.pattern.startswith(p)), "captured")
            size = "from 64 KiB" if case.array.size >= LARGE else "from 4 KiB"
            for (way, knows), error in rig.errors(case).items():
                key = size, kind, knows, way
                worst[key] = max(worst[key], error, key=abs)
        rig.close()
        found[name] = worst
    for size in ("from 64 KiB", "from 4 KiB"):
        title = f"Estimate against RTL, both ways, {size}: the worst error, %"
        console.print(_table(title, found, size))
    return {
        name: [
            {"size": size, "pattern": kind, "knows": knows, "way": way, "error": error}
            for (size, kind, knows, way), error in worst.items()
        ]
        for name, worst in found.items()
    }


def _table(
    title: str, found: dict[str, dict[tuple[str, str, str, str], float]], size: str
) -> Table:
    table = Table(title=title)
    table.add_column("environment")
    columns = [(kind, knows) for kind in _PATTERNS for knows in ("density", "lines")]
    for kind, knows in columns:
        table.add_column(f"{kind}, by {knows}", justify="right")
    for name, worst in found.items():
        errors = (
            max((worst[(size, *column, way)] for way in ("out", "in")), key=abs)
            for column in columns
        )
        table.add_row(name, *(f"{100 * error:+.2f}" for error in errors))
    return table
