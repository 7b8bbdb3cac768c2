"""Lower bounds: what both of their programs prove, how large they are, and what they take."""

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.plan.policies import joint
from cdma.plan.search.coarse import CoarseRelaxation
from cdma.plan.search.relaxation import Relaxation
from cdma.plan.timeline.problem_arrays import options_of, problem_of
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.value.point import Point
from tests.plan.search.repeated_blocks import repeated_blocks

WHOLE = 150_000
"""Tensors times stages up to which the whole program is solved, too."""


def scenarios() -> dict[str, Scenario]:
    """Steps by name."""

    def step(network: str, device: str, room: float) -> Scenario:
        point = Point.usual(network, device=device, link="pcie3x16", codec="zvc", room=room)
        return point.scenario()

    return {
        "resnet50": step("resnet50", "titanxp", 0.3),
        "resnet50, least": step("resnet50", "titanxp", 0.0),
        "gpt2": step("gpt2", "h100", 0.3),
        "llama3-8b": step("llama3-8b", "h100", 0.3),
        "100 blocks": repeated_blocks(100, 1e9),
        "700 blocks": repeated_blocks(700, 6e9),
    }


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures."""
    table = Table(
        title="lower bounds over the oracle; size: coefficients of the program; s: seconds to "
        "write and solve it",
        title_justify="left",
    )
    table.add_column("network")
    for heading in ("tensors", "stages", "whole", "size", "s"):
        table.add_column(heading, justify="right")
    for heading in ("coarse", "columns", "size", "s"):
        table.add_column(heading, justify="right")
    rows = []
    for name, scenario in scenarios().items():
        problem = problem_of(scenario)
        costs = options_of(scenario, joint.means(scenario), "none")
        begin = time.perf_counter()
        coarse = CoarseRelaxation(problem, costs)
        row: dict[str, Any] = {
            "network": name,
            "tensors": problem.managed,
            "stages": problem.stages,
            "coarse": {"over_oracle": coarse.solve().proved - 1},
        }
        row["coarse"] |= {
            "coefficients": coarse.coefficients,
            "columns": coarse.groups,
            "seconds": time.perf_counter() - begin,
        }
        if problem.managed * problem.stages <= WHOLE:
            begin = time.perf_counter()
            whole = Relaxation(problem, costs)
            row["whole"] = {
                "over_oracle": whole.solve().proved - 1,
                "coefficients": whole.coefficients,
                "seconds": time.perf_counter() - begin,
            }
        cells = [name, f"{problem.managed:,}", f"{problem.stages:,}"]
        for kind in ("whole", "coarse"):
            if kind not in row:
                cells += ["–"] * 3
                continue
            found = row[kind]
            cells.append(f"{100 * max(0.0, found['over_oracle']):.2f} %")
            cells += [f"{found['columns']:,}"] if "columns" in found else []
            cells += [f"{found['coefficients']:,}", f"{found['seconds']:.1f}"]
        table.add_row(*cells)
        rows.append(row)
    console.print(table)
    return {"steps": rows}


if __name__ == "__main__":
    run(Console(width=110))
