"""A policy's plan for a real step, found by rehearsals within the device's memory.

A policy plans on the timeline, whose memory is an estimate by layers: it knows no views, no
temporaries of backward and no order of frees within a layer. So the planner asks the policy for
plans at several limits, rehearses each, and takes the fastest that stays within the device.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.policies.registry import plan_all
from cdma.plan.policies.registry import policy as policy_of
from cdma.plan.timeline.errors import InfeasibleError
from cdma.plan.timeline.memory import least_memory
from cdma.plan.timeline.placement import RETAIN, SWAP, Choice, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.training.subject import Subject
from cdma.plan.workload.capture.recorder import reproducible, require
from cdma.plan.workload.graph import Graph
from cdma.sim.swap.step.device_memory import DeviceMemory
from cdma.sim.swap.step.host_memory import RehearsalHost
from cdma.sim.swap.step.planned_step import planned_step
from cdma.sim.swap.step.prefetching import prefetches_of
from cdma.sim.swap.step.rehearsal import Rehearsal, rehearse
from cdma.sim.swap.step.scratch import Scratch, measure_scratch
from cdma.sim.swap.swap_plan import KEPT, SwapPlan

ROUNDS = 4
"""Limits at which a policy is asked."""

COPIES = 2
"""Arrays of the weights' size in a step: weights and their gradients. An optimizer runs behind it.
"""

LINE_BYTES = 128
"""Of ZVC, which has a bit for each element of a line beside those that are not zero."""


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """A plan, and what its step will do.

    Attributes
    ----------
    scenario : Scenario
        The step as it was traced, with the densities that a step has had, on a device without
        limit.
    plan : Plan
    swap_plan : SwapPlan
        The plan by names.
    rehearsal : Rehearsal
        Of the plan with its prefetches: the planned peak.
    prefetches : mapping of int to tuple of str
    scratch : Scratch
        As of `planned_step`.
    capacity_bytes : int
    timeline_bytes : int
        The peak that the policy's timeline has.
    seconds : float
        Modeled time of the step on the device.
    """

    scenario: Scenario
    plan: Plan
    swap_plan: SwapPlan
    rehearsal: Rehearsal
    prefetches: Mapping[int, Sequence[str]]
    scratch: Scratch
    capacity_bytes: int
    timeline_bytes: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    plan: Plan
    swap_plan: SwapPlan
    rehearsal: Rehearsal
    timeline_bytes: int
    seconds: float


def plan_step(
    subject: Subject,
    policy: str,
    capacity_bytes: int,
    device: Device,
    link: Link,
    *,
    name: str = "module",
    seed: int = 0,
) -> StepPlan:
    """Plan a subject's step so that it stays within a device's memory.

    Parameters
    ----------
    subject : Subject
        Is not changed. One step of a copy measures the sizes of its streams.
    policy : str
        Of `cdma.plan.policies.registry.POLICIES`.
    capacity_bytes : int
        What parameters, gradients, the minibatch and all between may take at once.
    device, link : Device, Link
        Whose times the policy plans with; the device's own memory does not matter.
    name : str
        Of the graph.
    seed : int
        Of the measuring step's random numbers, and of policies that draw.

    Raises
    ------
    InfeasibleError
        No plan of the policy stays within the memory; the message tells the least found.
    ScheduleError
        There is no such policy.
    SwapPlanError
        The policy wants a codec that the step has not got.
    GraphError
        The module cannot be traced.
    """
    graph = Graph.from_module(subject.module, subject.example, name, target="cpu")
    graph = replace(graph, parameter_copies=COPIES)
    streams = stream_sizes(subject, graph, seed=seed)
    graph = graph.with_densities(_densities(graph, streams))
    scratch = measure_scratch(subject, seed=seed)
    scenario = Scenario(graph=graph, device=device, link=link, memory_bytes=1 << 62)

    def candidate(plan: Plan, limit: float) -> _Candidate:
        trace = simulate(with_memory(scenario, limit), plan)
        swap_plan = SwapPlan.from_plan(graph, plan)
        return _Candidate(
            plan=plan,
            swap_plan=swap_plan,
            rehearsal=rehearse(subject, swap_plan, stream_bytes=streams, scratch=scratch),
            timeline_bytes=trace.peak_bytes,
            seconds=trace.seconds,
        )

    kept = candidate(_alike(graph, policy, RETAIN), float("inf"))
    found = {kept.plan.choices: kept}

    def ask(limit: float) -> bool:
        """Whether the plan that the policy makes for a limit of the timeline's fits."""
        limited = with_memory(scenario, limit)
        plan = plan_all(limited, [policy], seed=seed)[policy].plan
        if plan.choices not in found:
            found[plan.choices] = candidate(plan, limit)
        return fits(found[plan.choices])

    def fits(one: _Candidate) -> bool:
        return one.rehearsal.peak_bytes <= capacity_bytes

    low, high = float(least_memory(scenario).nbytes), float(kept.timeline_bytes)
    if fits(kept):
        ask(high)
    elif ask(low):
        for _ in range(ROUNDS):
            middle = (low + high) / 2
            low, high = (middle, high) if ask(middle) else (low, middle)
    elif policy_of(policy).chooses:
        _swap_more(graph, list(found.values())[-1].plan, candidate, fits, found)
    fitting = [one for one in found.values() if fits(one)]
    if not policy_of(policy).chooses:
        # Who swaps all whatever the memory does not keep all.
        fitting = [one for one in fitting if one is not kept] or fitting
    if not fitting:
        least = min(one.rehearsal.peak_bytes for one in found.values())
        raise InfeasibleError(
            f"the step of {name} does not fit into {capacity_bytes:,} bytes: the least that a plan "
            f"of {policy} was found to need is {least:,}; give more memory or a smaller minibatch",
            least,
        )
    best = min(fitting, key=lambda one: (one.seconds, one.rehearsal.peak_bytes))
    counts = best.rehearsal.counts
    prefetches = prefetches_of(
        counts.unpackings, counts.after_bytes, best.swap_plan.choices or {}, capacity_bytes
    )
    return StepPlan(
        scenario=scenario,
        plan=best.plan,
        swap_plan=best.swap_plan,
        rehearsal=rehearse(
            subject, best.swap_plan, prefetches=prefetches, stream_bytes=streams, scratch=scratch
        ),
        prefetches=prefetches,
        scratch=scratch,
        capacity_bytes=capacity_bytes,
        timeline_bytes=best.timeline_bytes,
        seconds=best.seconds,
    )


def stream_sizes(subject: Subject, graph: Graph, *, seed: int = 0) -> dict[str, int]:
    """Bytes of the values that a step saves, as they are when they stay compressed, by name.

    A step of a copy of the subject's module runs, with all of the graph's values compressed. What
    is incompressible has its own size.
    """
    torch = require("torch")
    copied = copy.deepcopy(subject)
    choice = Choice(Placement.COMPRESS, KEPT[0])
    plan = SwapPlan.from_plan(graph, _alike(graph, "streams", choice))
    with reproducible(torch, seed):
        torch.set_num_threads(1)
        step = planned_step(
            copied.module, plan, RehearsalHost(), DeviceMemory(), inputs=copied.example
        )
        with step as counts:
            copied.loss().backward()
    return counts.stream_bytes


def _densities(graph: Graph, streams: Mapping[str, int]) -> dict[str, float]:
    """Densities of the graph's tensors that give streams of these sizes with ZVC."""
    densities: dict[str, float] = {}
    for t in graph.managed:
        tensor = graph.tensors[t]
        sizes = [streams[value] for value in tensor.values if value in streams]
        lines = -(-tensor.nbytes // LINE_BYTES)
        masks = lines * LINE_BYTES // (8 * tensor.element_bytes)
        share = (max(sizes, default=tensor.nbytes) - masks) / tensor.nbytes
        stays = not sizes or max(sizes) >= tensor.nbytes
        densities[tensor.name] = 1.0 if stays else min(1.0, max(0.0, share))
    return densities


def _alike(graph: Graph, policy: str, choice: Choice) -> Plan:
    return Plan(policy=policy, choices=(choice,) * len(graph.managed))


def _swap_more(
    graph: Graph,
    plan: Plan,
    candidate: Callable[[Plan, float], _Candidate],
    fits: Callable[[_Candidate], bool],
    found: dict[tuple[Choice, ...], _Candidate],
) -> None:
    """Add plans below the timeline's least memory: the largest of what stays leaves, too.

    The timeline takes a step to need more than it does, so it plans nothing there itself.
    """
    order = sorted(
        (i for i, choice in enumerate(plan.choices) if choice.placement is not Placement.SWAP),
        key=lambda i: -graph.tensors[graph.managed[i]].nbytes,
    )
    few, many = 0, len(order)
    while few < many:
        count = (few + many) // 2
        leaving = set(order[:count])
        choices = tuple(SWAP if i in leaving else c for i, c in enumerate(plan.choices))
        one = found[choices] = candidate(replace(plan, choices=choices), float("inf"))
        few, many = (few, count) if fits(one) else (count + 1, many)
    choices = tuple(
        SWAP if i in set(order[:many]) else choice for i, choice in enumerate(plan.choices)
    )
    if choices not in found:
        found[choices] = candidate(replace(plan, choices=choices), float("inf"))
