"""Timelines as trace files: nothing overlaps on a thread, and times and memory are the trace's."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import oracle, vdnn
from cdma.plan.timeline.chrome_trace import COUNTER, chrome_trace
from cdma.plan.timeline.placement import (
    MODES,
    RECOMPUTE,
    RETAIN,
    SWAP,
    SYNCHRONOUS,
    Choice,
    Placement,
)
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, simulate, with_memory
from cdma.plan.timeline.trace import KINDS, STREAMS, Trace
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph

OPTIONS = (
    RETAIN,
    SWAP,
    RECOMPUTE,
    Choice(Placement.SWAP, "zvc"),
    Choice(Placement.SWAP, "zvc-sm"),
    Choice(Placement.COMPRESS, "quantize-sm"),
)


@pytest.fixture(scope="module")
def alexnet() -> Scenario:
    return Scenario(
        graph=density.apply(Graph.from_table("alexnet")),
        device=device("titanx"),
        link=link("pcie3x16"),
        memory_bytes=4 * 10**9,
    )


@pytest.fixture(scope="module")
def traces(alexnet: Scenario) -> list[Trace]:
    """Traces that have every kind of event."""
    rng = np.random.default_rng(5)
    evaluator = TimelineEvaluator(alexnet, OPTIONS, SYNCHRONOUS)
    mixed = rng.integers(0, len(OPTIONS), len(alexnet.graph.managed)).astype(np.int8)
    made = [
        simulate(alexnet, vdnn.plan(alexnet)),
        simulate(alexnet, evaluator.plan("mixed", mixed)),
    ]
    assert {event.kind for trace in made for event in trace.events} == set(KINDS)
    return made


def of(content, phase: str) -> list[dict]:
    return [event for event in content["traceEvents"] if event["ph"] == phase]


def test_a_policy_is_a_process_and_a_stream_a_thread(traces: list[Trace]) -> None:
    content = chrome_trace(traces, {"seed": 3})
    assert json.loads(json.dumps(content)) == content
    assert content["otherData"] == {"seed": 3}
    names = [e["args"]["name"] for e in of(content, "M") if e["name"] == "process_name"]
    assert names == [f"{trace.policy}: {trace.seconds * 1e3:.1f} ms" for trace in traces]
    threads = {(e["pid"], e["tid"]) for e in of(content, "M") if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in of(content, "X")} <= threads
    assert len(threads) == len(traces) * len(STREAMS)


def test_every_event_is_there_and_none_overlaps_another_on_its_thread(traces: list[Trace]) -> None:
    content = chrome_trace(traces)
    slices = of(content, "X")
    assert len(slices) == sum(len(trace.events) for trace in traces)
    for pid, trace in enumerate(traces, 1):
        for tid, stream in enumerate(STREAMS, 1):
            own = [e for e in slices if (e["pid"], e["tid"]) == (pid, tid)]
            # In whole nanoseconds, as a viewer has them.
            starts = np.array([round(e["ts"] * 1000) for e in own])
            ends = starts + [round(e["dur"] * 1000) for e in own]
            assert (starts[1:] >= ends[:-1]).all()
            busy = sum(e["dur"] for e in own) / 1e6
            assert math.isclose(busy, trace.busy(stream), rel_tol=1e-6, abs_tol=1e-7)
            link_bytes = sum(e["args"]["bytes"] for e in own)
            if stream != "compute":
                assert link_bytes == (trace.link_out_bytes, trace.link_in_bytes)[stream == "h2d"]


def test_every_event_says_what_it_waited_for(traces: list[Trace]) -> None:
    content = chrome_trace(traces)
    for pid, trace in enumerate(traces, 1):
        slices = [e for e in of(content, "X") if e["pid"] == pid]
        reasons = Counter(e["args"]["reason"] for e in slices)
        assert reasons == Counter(event.bound.reason for event in trace.events)
        assert reasons["start"] == 1
        for e in slices:
            if e["args"]["reason"] in ("computed", "link"):
                cause = e["args"]["waited_for"]
                ends = [one["ts"] + one["dur"] for one in slices if one["name"] == cause]
                assert pytest.approx(e["ts"], abs=1.5e-3) in ends


def test_the_counter_is_the_memory_and_reaches_its_peak(traces: list[Trace]) -> None:
    content = chrome_trace(traces)
    for pid, trace in enumerate(traces, 1):
        points = [e for e in of(content, "C") if e["pid"] == pid]
        assert {e["name"] for e in points} == {COUNTER}
        assert max(e["args"]["bytes"] for e in points) == trace.peak_bytes
        times = [e["ts"] for e in points]
        assert times == sorted(set(times))
        assert times[0] == 0
        assert times[-1] == pytest.approx(trace.seconds * 1e6, abs=1e-3)


def test_what_does_not_fit_has_nothing_to_show(alexnet: Scenario, traces: list[Trace]) -> None:
    nothing = simulate(with_memory(alexnet, 10**8), oracle.plan(alexnet))
    assert not nothing.feasible
    assert chrome_trace([nothing, traces[0]]) == chrome_trace([traces[0]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", ["alexnet", "googlenet"])
def test_memory_of_any_plan_reaches_its_peak_and_returns(network: str, mode: str) -> None:
    scenario = Scenario(
        graph=density.apply(Graph.from_table(network)),
        device=device("titanxp"),
        link=link("pcie3x16"),
        memory_bytes=10**11,
    )
    rng = np.random.default_rng(7)
    evaluator = TimelineEvaluator(scenario, OPTIONS, MODES[mode])
    managed = len(scenario.graph.managed)
    kept = simulate(scenario, evaluator.plan("kept", np.zeros(managed, np.int8)))
    for _ in range(5):
        assignment = rng.integers(0, len(OPTIONS), managed).astype(np.int8)
        # With as little memory as it works with, so that it waits for it, too.
        least = simulate(scenario, evaluator.plan("any", assignment)).least_bytes
        tight = TimelineEvaluator(with_memory(scenario, least), OPTIONS, MODES[mode])
        trace = simulate(with_memory(scenario, least), tight.plan("any", assignment))
        times, levels = np.array(trace.memory).T
        assert (np.diff(times) >= 0).all()
        assert levels.max() == trace.peak_bytes == least
        # All that a plan decides about is gone at the end, whatever it decided.
        assert levels[-1] == kept.memory[-1][1]
