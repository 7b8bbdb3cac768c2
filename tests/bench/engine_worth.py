"""Gain of the engine beside good plans: networks, devices, links and memories."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.plan.policies import vdnn
from cdma.plan.policies.engine_worth import MEANS, engine_worth
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import with_memory
from cdma.plan.workload.networks import NETWORKS
from cdma.reproduce import scenarios


@dataclass(frozen=True)
class Case:
    """A step; `memory_share` says where its memory is between the least and what keeping all takes.

    The least is what the step needs if everything is swapped; densities are of mid-training.
    """

    network: str
    device: str
    link: str
    memory_share: float

    def scenario(self) -> Scenario:
        batch = next(iter(NETWORKS[self.network].batches.values()))
        made = scenarios.scenario(scenarios.graph(self.network, batch), self.device, self.link)
        least = scenarios.run(made, vdnn.plan(made)).least_bytes
        most = scenarios.retained_bytes(made)
        return with_memory(made, least + self.memory_share * (most - least))


CASES = (
    Case("resnet50", "titanxp", "pcie3x16", 0.3),
    Case("resnet50", "titanxp", "pcie3x16", 0.0),
    Case("resnet50", "titanxp", "pcie3x16-shared", 0.3),
    Case("squeezenet", "titanxp", "pcie3x16", 0.3),
    Case("vgg16", "titanxp", "pcie3x16", 0.0),
    Case("resnet50", "h100", "pcie5x16", 0.3),
)


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures."""
    table = Table(
        title="what the engine is worth beside good plans: time over the oracle of vDNN and cDMA, "
        "and of the best plans with some means, without → with the engine; and what it gains there",
        title_justify="left",
    )
    for heading in ("network", "device, link"):
        table.add_column(heading)
    for heading in ("GB", "vdnn", "cdma", *MEANS):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = []
    for case in CASES:
        scenario = case.scenario()
        worth = engine_worth(scenario)
        row: dict[str, Any] = {
            "network": case.network,
            "device": case.device,
            "link": case.link,
            "memory_bytes": scenario.memory_bytes,
            "oracle_s": worth.oracle_seconds,
            "vdnn_s": worth.vdnn_seconds,
            "cdma_s": worth.cdma_seconds,
            "without_s": dict(worth.without),
            "with_s": dict(worth.with_engine),
            "gain": {means: worth.gain(means) for means in MEANS},
        }
        cells = [f"{worth.over_oracle(s):.0%}" for s in (worth.vdnn_seconds, worth.cdma_seconds)]
        for means in MEANS:
            times = worth.without[means], worth.with_engine[means]
            before, after = (f"{100 * worth.over_oracle(s):.1f}" for s in times)
            cells.append(f"{before} → {after} %\n{100 * worth.gain(means):.1f} % gain")
        where = f"{case.device},\n{case.link}"
        table.add_row(case.network, where, f"{scenario.memory_bytes / 1e9:.2f}", *cells)
        rows.append(row)
    console.print(table)
    return {"cases": rows}


if __name__ == "__main__":
    run(Console(width=110))
