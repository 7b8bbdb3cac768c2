"""Plans carried out by the engine's RTL, beside the timeline: the step, and each direction.

Layers take the timeline's arithmetic, and share the simulated memory with the copies; the memory's
limit is that of what is allocated. Networks of many small tensors are the hardest, as latencies
weigh most there.
"""

from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies.comparison import NO_BOUND, compare
from cdma.plan.timeline.placement import Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.sim.execute.execute import execute

NETWORKS = {"googlenet": 128, "squeezenet": 512}
POLICIES = ("vdnn", "cdma", "cdma-bandwidth-aware", "superneurons", "vdnn++", "capuchin", "joint")
DEVICE, LINK = "titanx", "pcie3x16"
WAYS = ("out", "in")
MEMORY_SHARE = 0.7
"""Of what the device has: plans that fit more computation than copies have something to swap."""


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures."""
    rows = [row for name, batch in NETWORKS.items() for row in _rows(name, batch)]
    table = Table(title="Plans carried out by the RTL, off by", title_justify="left")
    for heading in ("network", "policy", "step", "compute", *WAYS, "memory"):
        table.add_column(heading, justify="left" if heading in ("network", "policy") else "right")
    for row in rows:
        table.add_row(
            row["network"],
            row["policy"],
            f"{row['step']:+.2%}",
            f"{row['compute']:+.2%}",
            *(f"{row[way]:+.2%}" for way in WAYS),
            f"{row['memory']:.1%}",
        )
    most = {
        **{part: max(abs(row[part]) for row in rows) for part in ("step", "compute")},
        "direction": max(abs(row[way]) for row in rows for way in WAYS),
    }
    table.add_section()
    limits = (f"{most[part]:.1%}" for part in ("step", "compute", "direction"))
    table.add_row("at most", "", *limits, "", "")
    console.print(table)
    return {"plans": rows, "most": most}


def _rows(name: str, batch: int) -> list[dict[str, Any]]:
    found = device(DEVICE)
    scenario = Scenario(
        graph=density.apply(Graph.from_table(name, batch)),
        device=found,
        link=link(LINK),
        memory_bytes=round(found.capacity_bytes * MEMORY_SHARE),
    )
    rows = []
    for policy, result in compare(scenario, POLICIES, effort=NO_BOUND).results.items():
        swapped = [c for c in result.plan.choices if c.placement is Placement.SWAP]
        if not swapped or not result.trace.feasible:
            continue
        done = execute(scenario, result.plan)
        rows.append(
            {
                "network": name,
                "policy": policy,
                "step": done.error,
                "compute": done.compute_error,
                "memory": done.peak_bytes / done.trace.memory_bytes,
                **{way: done.error_of(way) for way in WAYS},
            }
        )
    return rows
