"""The training steps that shape rows are about. All that is assumed is declared here, for all rows.

Devices have their declared efficiencies, PCIe gives copies 80 % of its peak unless it was measured
with copies, densities are those of the shipped capture in the middle of its training, mapped on the
network's layers by depth. None of it is fitted to what a paper prints.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import oracle
from cdma.plan.timeline.placement import Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.timeline.trace import Trace
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph

EPOCH, EPOCHS = 45, 90
CAPTURE = "digits-cnn"
UNLIMITED = 2**62

COPIES = {"v100": "v100-pcie", "2080ti": "2080ti-pcie"}
"""The links that CSWAP+ measured with copies (§6.1)."""


@cache
def graph(
    name: str,
    batch: int,
    dataset: str = "imagenet",
    activation: str = "relu",
    source: str = CAPTURE,
) -> Graph:
    """A network with densities of the middle of the training."""
    return density.apply(Graph.from_table(name, batch, dataset, activation), source, EPOCH, EPOCHS)


def scenario(
    graph: Graph,
    device_name: str,
    link_name: str,
    *,
    efficiency: float | None = None,
    layer_time: float = 1.0,
    memory_bytes: int = UNLIMITED,
    epoch: int = EPOCH,
) -> Scenario:
    """A step on a device behind a link; with an efficiency, all kinds of layers get that.

    Layers take `layer_time` of the time that they have by their efficiency, if they do not get
    more than the peak then.
    """
    found = device(device_name)
    if efficiency is not None:
        found = found.with_efficiency(efficiency)
    if layer_time != 1:
        parts = {kind: min(1.0, part / layer_time) for kind, part in found.efficiency.items()}
        found = replace(found, efficiency=parts)
    return Scenario(
        graph=graph,
        device=found,
        link=link(link_name),
        memory_bytes=memory_bytes,
        epoch=epoch,
        epochs=EPOCHS,
    )


@cache
def swapping(
    name: str, batch: int, dataset: str, device_name: str, activation: str = "relu"
) -> Scenario:
    """A step of CSWAP+'s: behind its measured copies, with as much memory as it takes."""
    found = graph(name, batch, dataset, activation)
    return scenario(found, device_name, COPIES[device_name])


def short_of_memory(scenario: Scenario, share: float) -> Scenario:
    """With this share of the memory that the step takes if everything stays."""
    return with_memory(scenario, share * retained_bytes(scenario))


def retained_bytes(scenario: Scenario) -> int:
    """Memory of the step if everything stays."""
    return run(with_memory(scenario, UNLIMITED), oracle.plan(scenario)).peak_bytes


def run(scenario: Scenario, plan: Plan) -> Trace:
    """The plan on the timeline."""
    return simulate(scenario, plan)


def mean(values: Mapping[str, float]) -> float:
    """The arithmetic mean of a figure by network, as the papers' averages."""
    return float(np.mean(list(values.values())))


def listed(values: Mapping[str, float], form: str = "+.0%") -> str:
    """A figure by network, as a row shows it."""
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
