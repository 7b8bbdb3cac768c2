"""Properties of every plan on every step."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from cdma.plan.timeline.placement import RETAIN, SYNCHRONOUS, Mode
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, simulate, with_memory
from tests.plan.timeline.cases import UNLIMITED, Case, cases, seeded
from tests.plan.timeline.timeline_audit import audit


@seeded
@given(cases())
def test_what_happens_can_happen_in_the_memory_that_there_is(case: Case) -> None:
    trace = simulate(case.scenario, case.plan)
    assert trace.feasible
    audit(case.scenario, case.plan, trace)


@seeded
@given(cases())
def test_no_step_is_faster_than_its_computation_or_than_its_copies(case: Case) -> None:
    scenario = case.scenario
    trace = simulate(scenario, case.plan)
    work = scenario.compute_seconds + trace.seconds_of("compress", "decompress")
    for event in trace.events:
        if event.kind == "recompute":
            work += scenario.forward_seconds[scenario.stage_of[scenario.graph.index[event.name]]]
    link = scenario.link
    out = trace.link_out_bytes / (link.bytes_per_s * link.efficiency)
    back = trace.link_in_bytes / (link.in_bytes_per_s * link.efficiency)
    assert trace.seconds * (1 + 1e-12) >= max(work, out, back)
    if not link.duplex:
        assert trace.seconds * (1 + 1e-12) >= out + back


@seeded
@given(cases())
def test_the_least_memory_is_the_least_memory(case: Case) -> None:
    least = simulate(case.scenario, case.plan).least_bytes
    for memory in (least, least + 1, UNLIMITED):
        trace = simulate(with_memory(case.scenario, memory), case.plan)
        assert trace.feasible
        assert np.isfinite(trace.seconds)
        assert trace.least_bytes == least
    trace = simulate(with_memory(case.scenario, least - 1), case.plan)
    assert not trace.feasible
    assert trace.seconds == np.inf


def without_memory_traffic(scenario: Scenario) -> Scenario:
    layers = [
        replace(layer, bytes_forward=0.0, bytes_backward=0.0) for layer in scenario.graph.layers
    ]
    return replace(scenario, graph=replace(scenario.graph, layers=tuple(layers)))


@seeded
@given(cases())
def test_waiting_less_is_never_slower_if_nothing_else_is_short(case: Case) -> None:
    """The rule holds where memory is not short, and copies take nothing from layers."""
    scenario = without_memory_traffic(with_memory(case.scenario, UNLIMITED))
    seconds = [
        simulate(scenario, replace(case.plan, mode=mode)).seconds
        for mode in (
            Mode(),
            Mode(lookahead=2),
            Mode(lookahead=1),
            Mode(lookahead=1, staging_bytes=1e8),
            SYNCHRONOUS,
            Mode(lookahead=0, staging_bytes=0),
        )
    ]
    assert all(one <= other * (1 + 1e-12) for one, other in pairwise(seconds))


@seeded
@given(cases())
def test_retaining_everything_is_the_oracle(case: Case) -> None:
    scenario = with_memory(case.scenario, UNLIMITED)
    retain = replace(case.plan, choices=(RETAIN,) * len(case.plan.choices))
    trace = simulate(scenario, retain)
    assert trace.seconds == pytest.approx(scenario.compute_seconds, rel=1e-12)
    assert trace.stall_seconds == pytest.approx(0, abs=1e-12)
    assert trace.link_out_bytes == trace.link_in_bytes == trace.host_bytes == 0
    assert trace.peak_bytes == trace.least_bytes


@seeded
@given(cases())
def test_searches_see_the_times_that_traces_have(case: Case) -> None:
    scenario, plan = case.scenario, case.plan
    options = tuple(dict.fromkeys((RETAIN, *plan.choices)))
    evaluator = TimelineEvaluator(scenario, options, plan.mode, plan.throttle)
    assignments = np.stack([evaluator.assignment(plan.choices)] * 2)
    assignments[1] = 0
    retained = simulate(scenario, replace(plan, choices=(RETAIN,) * len(plan.choices)))
    expected = [simulate(scenario, plan).seconds, retained.seconds]
    assert list(evaluator.seconds(assignments)) == expected


@seeded
@given(cases())
def test_events_start_exactly_when_their_reason_is_over(case: Case) -> None:
    trace = simulate(case.scenario, case.plan)
    for index, event in enumerate(trace.events):
        times = [trace.over(wait) for wait in event.waits]
        assert event.start == max(times) == trace.over(event.bound)
        # Of several that are over at the same time, the first one.
        assert event.bound == event.waits[times.index(event.start)]
        assert all(wait.event is None or wait.event < index for wait in event.waits)


ALLOWED = {
    "compute": {"start", "computed", "staging", "memory", "arrived"},
    "d2h": {"computed", "link"},
    "h2d": {"computed", "staging", "memory", "offloaded", "link"},
}


@seeded
@given(cases())
def test_reasons_are_of_events_that_can_be_waited_for(case: Case) -> None:
    trace = simulate(case.scenario, case.plan)
    seen = dict.fromkeys(ALLOWED)
    for index, event in enumerate(trace.events):
        assert {wait.reason for wait in event.waits} <= ALLOWED[event.stream]
        for wait in event.waits:
            cause = None if wait.event is None else trace.events[wait.event]
            match wait.reason:
                case "start":
                    assert cause is None
                    assert seen["compute"] is None
                case "computed":
                    assert wait.event == seen["compute"]
                case "staging" | "memory":
                    assert cause.kind == "offload"
                case "offloaded":
                    assert (cause.kind, cause.name) == ("offload", event.name)
                case "link":
                    one_way = not case.scenario.link.duplex
                    streams = ("d2h", "h2d") if one_way else (event.stream,)
                    assert wait.event in [seen[stream] for stream in streams]
                case "arrived":
                    assert cause.kind == "prefetch"
        seen[event.stream] = index


@seeded
@given(cases())
def test_stalls_of_all_reasons_are_the_stall(case: Case) -> None:
    trace = simulate(case.scenario, case.plan)
    stalls = trace.stall_seconds_by_reason
    assert set(stalls) <= {"staging", "memory", "arrived"}
    assert sum(stalls.values()) == pytest.approx(trace.stall_seconds, abs=1e-9 * trace.seconds)
