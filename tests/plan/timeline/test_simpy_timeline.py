"""A simulator of discrete events finds the same times."""

from dataclasses import replace

import pytest
from hypothesis import given

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    SWAP,
    SYNCHRONOUS,
    Choice,
    Mode,
    Placement,
    Plan,
)
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.timeline.trace import Event, Trace, Wait
from cdma.plan.workload.graph import Graph
from tests.plan.timeline.cases import UNLIMITED, Case, cases, seeded
from tests.plan.timeline.simpy_timeline import SecondEvent, simulate_with_simpy


def check(scenario: Scenario, plan: Plan) -> None:
    trace, second = simulate(scenario, plan), simulate_with_simpy(scenario, plan)
    assert second is not None
    assert trace.seconds == pytest.approx(second.seconds, rel=1e-9)
    assert trace.peak_bytes == second.peak_bytes
    ours, theirs = (sorted(events, key=_place) for events in (trace.events, second.events))
    assert [_what(event) for event in ours] == [_what(event) for event in theirs]
    for when in ("start", "end"):
        assert [getattr(event, when) for event in ours] == pytest.approx(
            [getattr(event, when) for event in theirs], rel=0, abs=1e-9 * trace.seconds
        )
    for event, other in zip(ours, theirs, strict=True):
        check_reason(trace, event, other)


def check_reason(trace: Trace, event: Event, second: SecondEvent) -> None:
    """The reason is what the process waited for last, or is over at the same time as that."""
    if _cause(trace, event.bound) == (second.reason, second.cause):
        return
    same = [
        trace.over(wait)
        for wait in event.waits
        if _cause(trace, wait) == (second.reason, second.cause)
    ]
    assert same == pytest.approx([event.start], rel=0, abs=1e-9 * trace.seconds)


def _cause(trace: Trace, wait: Wait) -> tuple[str, tuple[str, str] | None]:
    if wait.event is None:
        return wait.reason, None
    event = trace.events[wait.event]
    return wait.reason, (event.kind, event.name)


def _place(event: Event | SecondEvent) -> tuple[str, str, float]:
    return event.kind, event.name, event.start


def _what(event: Event | SecondEvent) -> tuple[str, str, str, int]:
    return event.stream, event.kind, event.name, event.nbytes


@seeded
@given(cases())
def test_random_plans_take_the_same_times(case: Case) -> None:
    check(case.scenario, case.plan)


@seeded
@given(cases())
def test_memory_suffices_for_both_or_for_none(case: Case) -> None:
    least = simulate(case.scenario, case.plan).least_bytes
    assert simulate_with_simpy(with_memory(case.scenario, least), case.plan) is not None
    assert simulate_with_simpy(with_memory(case.scenario, least - 1), case.plan) is None


ZVC = Choice(Placement.SWAP, "zvc")
PACKED = Choice(Placement.COMPRESS, "quantize-sm")
MIXED = (ZVC, RECOMPUTE, SWAP, PACKED, RETAIN, Choice(Placement.SWAP, "zvc-sm"))


@pytest.mark.parametrize(
    ("choices", "mode", "memory"),
    [
        ((SWAP,), SYNCHRONOUS, "plenty"),
        ((SWAP,), ASYNCHRONOUS, "least"),
        ((ZVC,), SYNCHRONOUS, "plenty"),
        ((ZVC,), Mode(staging_bytes=1e9), "least"),
        ((RECOMPUTE,), ASYNCHRONOUS, "least"),
        (MIXED, ASYNCHRONOUS, "least"),
        (MIXED, SYNCHRONOUS, "plenty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_vgg16_takes_the_same_times(choices: tuple[Choice, ...], mode: Mode, memory: str) -> None:
    graph = Graph.from_table("vgg16", 128)
    densities = {graph.tensors[t].name: 0.2 + 0.03 * i for i, t in enumerate(graph.managed)}
    scenario = Scenario(
        graph=graph.with_densities(densities),
        device=device("titanxp"),
        link=link("pcie3x16"),
        memory_bytes=UNLIMITED,
    )
    plan = Plan(
        policy="vgg16",
        choices=tuple(choices[i % len(choices)] for i in range(len(graph.managed))),
        mode=mode,
    )
    if memory == "least":
        scenario = with_memory(scenario, simulate(scenario, plan).least_bytes)
    check(scenario, plan)
    check(replace(scenario, link=replace(scenario.link, duplex=False)), plan)
