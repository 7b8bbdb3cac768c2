"""The steps of a plan: what each computes, reserves, wants, and may fetch in advance.

They follow from the graph, the plan and the order of the timeline's events, not from its times: how
long something takes, and what has to wait for memory, is for whoever carries the steps out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdma.plan.timeline.memory import fixed_occupants, last_forward_uses
from cdma.plan.timeline.placement import Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.trace import Event, Trace


@dataclass(frozen=True, kw_only=True)
class Step:
    """A stage's forward or backward pass, with all that is computed for it.

    Tensors are those that plans decide about, by index into the graph's.

    Attributes
    ----------
    events : tuple of Event
        Of the computation, in order.
    counted_bytes : int
        Memory of what no plan decides about.
    made : int or None
        The tensor that a forward pass makes.
    ending : tuple of int
        Tensors whose last forward use this is.
    needed : tuple of int
        Tensors that backward wants here first, and that were not kept.
    lasting : tuple of int
        Tensors that backward wants here last.
    prefetches : tuple of int
        What may be fetched from here on, in order.
    """

    events: tuple[Event, ...]
    counted_bytes: int
    made: int | None
    ending: tuple[int, ...]
    needed: tuple[int, ...]
    lasting: tuple[int, ...]
    prefetches: tuple[int, ...]


def steps_of(scenario: Scenario, plan: Plan, trace: Trace) -> tuple[Step, ...]:
    """List the steps of a plan.

    Parameters
    ----------
    scenario : Scenario
    plan : Plan
    trace : Trace
        Of the plan on the timeline: feasible.
    """
    graph, stages = scenario.graph, scenario.stages
    choices = dict(zip(graph.managed, plan.choices, strict=True))
    kept = {t for t, choice in choices.items() if choice.placement is Placement.RETAIN}
    groups = _groups(trace)
    past = 2 * len(stages)
    assert len(groups) == past, f"{len(groups)} steps of {past}"
    fixed = [0] * past
    for occupant in fixed_occupants(scenario):
        for k in range(occupant.first, occupant.last + 1):
            fixed[k] += occupant.nbytes
    wanted = [
        _wanted(scenario, past - 1 - k, groups[k].events) if k >= len(stages) else set()
        for k in range(past)
    ]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, tensors in enumerate(wanted):
        for t in tensors:
            first.setdefault(t, k)
            last[t] = k
    last_forward = last_forward_uses(scenario)
    steps = []
    for k, group in enumerate(groups):
        forward = k < len(stages)
        output = stages[k].output if forward else None
        steps.append(
            Step(
                events=tuple(group.events),
                counted_bytes=fixed[k] + (0 if forward else _passing(scenario, k, group.events)),
                made=output if output in choices else None,
                ending=tuple(t for t in choices if forward and last_forward[t] == k),
                needed=tuple(t for t in choices if first.get(t) == k and t not in kept),
                lasting=tuple(t for t in choices if last.get(t) == k),
                prefetches=tuple(graph.index[event.name] for event in group.prefetches),
            )
        )
    return tuple(steps)


@dataclass
class _Group:
    events: list[Event]
    prefetches: list[Event]


def _groups(trace: Trace) -> list[_Group]:
    """The events of each step, and the copies to the device that were issued before them."""
    groups: list[_Group] = []
    prefetches: list[Event] = []
    begun = False
    for event in trace.events:
        if event.stream == "h2d":
            prefetches.append(event)
        elif event.kind == "compress":
            groups[-1].events.append(event)
        elif event.stream == "compute":
            if not begun:
                groups.append(_Group([], prefetches))
                prefetches = []
            groups[-1].events.append(event)
            # Of backward, what is decompressed and recomputed comes before.
            begun = event.kind not in ("forward", "backward")
    assert not prefetches
    return groups


def _redone(scenario: Scenario, events: Sequence[Event]) -> Iterator[int]:
    """The stages that are run again."""
    for event in events:
        if event.kind == "recompute":
            yield scenario.stage_of[scenario.graph.index[event.name]]


def _wanted(scenario: Scenario, s: int, events: Sequence[Event]) -> set[int]:
    """The tensors that a stage's backward pass reads, and what is made of them again."""
    stages = scenario.stages
    read = {*stages[s].saved}
    for u in _redone(scenario, events):
        read |= {*stages[u].inputs}
    return read & {*scenario.graph.managed}


def _passing(scenario: Scenario, k: int, events: Sequence[Event]) -> int:
    """Bytes that only what is run again takes: tensors on the way, and scratch."""
    graph, stages = scenario.graph, scenario.stages
    redone = list(_redone(scenario, events))
    outputs = [stages[u].output for u in redone]
    passing = sum(graph.tensors[t].nbytes for t in outputs if t not in graph.managed)
    own = _scratch(scenario, 2 * len(stages) - 1 - k)
    return passing + max([own, *(_scratch(scenario, u) for u in redone)]) - own


def _scratch(scenario: Scenario, s: int) -> int:
    return max(scenario.graph.layers[i].workspace_bytes for i in scenario.stages[s].layers)
