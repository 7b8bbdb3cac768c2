"""A training step planned by several policies, in one call: `cdma.schedule`."""

import os
from collections.abc import Sequence

from cdma.config import DEVICE, LINK, find
from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.policies.registry import Result, plan_all, possible
from cdma.plan.timeline.placement import Mode
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph


def schedule(
    graph: Graph,
    device: Device | str = "titanxp",
    *,
    link: Link | str = "pcie3x16",
    policies: Sequence[str] | None = None,
    memory_bytes: int | None = None,
    densities: density.Source | str | os.PathLike[str] = "digits-cnn",
    mode: Mode | None = None,
    seed: int = 0,
) -> dict[str, Result]:
    """Plan a training step by each policy, and run each plan on one timeline.

    Parameters
    ----------
    graph : Graph
        The step, as of `Graph.from_table` or `Graph.from_module`.
    device : Device or str
        The GPU, or a name, file or hook, as `cdma.config.find` takes it.
    link : Link or str
        The link to the host, or a name, file or hook.
    policies : sequence of str, optional
        Names in `cdma.plan.policies.registry`; if not given, all that need nothing which the device
        lacks.
    memory_bytes : int, optional
        Memory that the step may use; all of the device's if not given.
    densities : Source, str or path
        How many elements are not zero, for a graph in which a tensor that plans decide about does
        not say so itself; what `cdma.plan.workload.density.density.find` takes.
    mode : Mode, optional
        The same for all policies; each one's published one if not given.
    seed : int
        Seed of the policies that draw.

    Returns
    -------
    dict of str to Result
        By policy: the plan, its trace on the timeline (`trace.seconds`, `trace.feasible`, …), and
        whether every tensor comes back as it was.

    Raises
    ------
    ScheduleError
        There is no such device or policy, or a policy needs an engine and none fits the link.
    LinkError
        There is no such link.
    GraphError
        There are no such densities.
    UserError
        A file or a hook is wrong.

    Examples
    --------
    >>> graph = cdma.Graph.from_table("alexnet", 128)
    >>> results = cdma.schedule(graph, "titanxp", policies=["vdnn", "cdma"])
    >>> results["cdma"].trace.seconds < results["vdnn"].trace.seconds
    True
    """
    found = find(DEVICE, device).value if isinstance(device, str) else device
    if any(graph.tensors[t].density is None for t in graph.managed):
        graph = density.apply(graph, densities)
    scenario = Scenario(
        graph=graph,
        device=found,
        link=find(LINK, link).value if isinstance(link, str) else link,
        memory_bytes=found.capacity_bytes if memory_bytes is None else memory_bytes,
    )
    names = possible(scenario) if policies is None else policies
    return plan_all(scenario, names, mode=mode, seed=seed)
