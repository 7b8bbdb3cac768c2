"""The lower bound: never above the exact optimum, on any graph, with any options."""

import math

import numpy as np
import pytest
import scipy.optimize

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.search import step_tables
from cdma.plan.search.bound import EFFORTS, lower_bound
from cdma.plan.search.exact import exhaustive
from cdma.plan.search.linear import Answer
from cdma.plan.search.relaxation import Relaxation
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    SYNCHRONOUS,
)
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, with_memory
from cdma.plan.workload.builder import Builder
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from tests.plan.timeline.small_graphs import HOME_OPTIONS, MANY_OPTIONS, random_scenario


@pytest.mark.parametrize(
    ("options", "tensors", "seeds"), [(HOME_OPTIONS, 6, 25), (MANY_OPTIONS, 4, 20)]
)
@pytest.mark.parametrize("duplex", [True, pytest.param(False, marks=pytest.mark.verify)])
def test_no_plan_beats_it(options, tensors: int, seeds: int, duplex: bool) -> None:
    gaps, plain = [], []
    for seed in range(seeds):
        scenario = random_scenario(seed, tensors, options=options, duplex=duplex)
        exact = exhaustive(TimelineEvaluator(scenario, options), tensors, len(options))
        found = lower_bound(scenario, options)
        assert found.tight
        assert found.seconds <= exact.seconds, seed
        if exact.feasible:
            gaps.append(1 - found.seconds / exact.seconds)
            plain.append(1 - scenario.compute_seconds / exact.seconds)
    # And it is worth having: the oracle is much further away.
    # And it is nearer than the oracle.
    assert np.mean(gaps) < 0.9 * np.mean(plain)


@pytest.mark.parametrize("mode", [SYNCHRONOUS, ASYNCHRONOUS])
@pytest.mark.parametrize("throttle", ["none", "bandwidth-aware"])
def test_it_holds_in_every_mode_and_under_every_throttle(mode, throttle: str) -> None:
    for seed in range(10):
        scenario = random_scenario(seed, 4, options=MANY_OPTIONS)
        evaluator = TimelineEvaluator(scenario, MANY_OPTIONS, mode, throttle)
        exact = exhaustive(evaluator, 4, len(MANY_OPTIONS))
        assert lower_bound(scenario, MANY_OPTIONS).seconds <= exact.seconds


def test_it_is_infinite_where_nothing_fits() -> None:
    scenario = random_scenario(3, 6)
    evaluator = TimelineEvaluator(scenario, HOME_OPTIONS)
    assignments = np.indices((3,) * 6).reshape(6, -1).T.astype(np.int8)
    least = min(evaluator.run(assignment).least_bytes for assignment in assignments)
    fits, misses = with_memory(scenario, least), with_memory(scenario, 0.7 * least)
    assert math.isfinite(lower_bound(fits, HOME_OPTIONS).seconds)
    nothing = lower_bound(misses, HOME_OPTIONS)
    assert nothing.seconds == math.inf
    assert nothing.assignment is None


def test_it_is_the_oracle_where_everything_fits() -> None:
    scenario = with_memory(random_scenario(5, 6), 1e15)
    found = lower_bound(scenario, HOME_OPTIONS)
    assert found.seconds == pytest.approx(scenario.compute_seconds)


@pytest.mark.parametrize("cuts", [0, 7])
def test_fewer_cuts_only_lower_it(monkeypatch, cuts: int) -> None:
    scenarios = [random_scenario(seed, 6) for seed in range(8)]
    full = [lower_bound(scenario, HOME_OPTIONS).seconds for scenario in scenarios]
    monkeypatch.setattr(step_tables, "CUTS", cuts)
    fewer = [lower_bound(scenario, HOME_OPTIONS).seconds for scenario in scenarios]
    assert all(b <= a * (1 + 1e-4) for a, b in zip(full, fewer, strict=True))
    assert sum(fewer) < sum(full)


def test_with_less_effort_it_is_lower_and_says_so() -> None:
    scenario = random_scenario(2, 8)
    linear, integral, automatic = (
        lower_bound(scenario, HOME_OPTIONS, effort=effort) for effort in EFFORTS
    )
    assert not linear.tight
    assert integral.tight
    assert scenario.compute_seconds * 1.001 < linear.seconds < integral.seconds
    assert (automatic.seconds, automatic.tight) == (integral.seconds, True)


def test_out_of_nodes_it_says_what_was_proved(monkeypatch) -> None:
    scenario = random_scenario(2, 8)
    linear, solved = (
        lower_bound(scenario, HOME_OPTIONS, effort=effort) for effort in ("linear", "integral")
    )
    between = (linear.seconds + solved.seconds) / 2 / scenario.compute_seconds
    solve = Relaxation.solve

    def stop(self: Relaxation, nodes: int = 0) -> Answer:
        if not nodes:
            return solve(self)
        return Answer(solved=False, infeasible=False, proved=between, solution=None)

    monkeypatch.setattr(Relaxation, "solve", stop)
    stopped = lower_bound(scenario, HOME_OPTIONS, effort="integral")
    assert not stopped.tight
    assert linear.seconds < stopped.seconds < solved.seconds
    assert np.array_equal(stopped.assignment, linear.assignment)


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(ScheduleError, match="effort '3'; choose from linear, integral, auto"):
        lower_bound(random_scenario(4, 3), HOME_OPTIONS, effort="3")


def test_a_deep_network_has_a_bound_that_is_more_than_the_oracle() -> None:
    """A solver with 25 seconds had proved nothing about so many tensors."""
    net = Builder(8)
    x = net.input("data", 64, 56, 56)
    for i in range(270):
        x = net.relu(f"relu{i}", net.conv(f"conv{i}", x, 64, 3, pad=1))
    table = net.table()
    graph = Graph(name="deep", batch=8, tensors=table.tensors, layers=table.layers)
    scenario = Scenario(
        graph=density.apply(graph, density.Declared({"relu": 0.5})),
        device=device("h100"),
        link=link("pcie3x16"),
        memory_bytes=2 * 10**8,
    )
    assert len(graph.managed) == 270
    found = lower_bound(scenario, MANY_OPTIONS)
    assert not found.tight
    assert found.seconds > 1.05 * scenario.compute_seconds


@pytest.mark.parametrize("effort", EFFORTS)
def test_the_solver_is_given_no_time(monkeypatch, effort: str) -> None:
    """A limit in seconds would make bounds those of a machine."""
    given: list[dict] = []

    def milp(*arguments, options, **named):
        given.append(options)
        return solve(*arguments, options=options, **named)

    solve = scipy.optimize.milp
    monkeypatch.setattr(scipy.optimize, "milp", milp)
    lower_bound(random_scenario(4, 6), HOME_OPTIONS, effort=effort)
    assert len(given) == (1 if effort == "linear" else 2)
    assert set().union(*given) <= {"node_limit", "mip_rel_gap"}


def test_more_memory_or_more_options_never_raise_it() -> None:
    for seed in range(6):
        scenario = random_scenario(seed, 5)
        less = lower_bound(scenario, HOME_OPTIONS).seconds
        more = lower_bound(with_memory(scenario, 1.1 * scenario.memory_bytes), HOME_OPTIONS)
        choices = lower_bound(scenario, MANY_OPTIONS)
        assert max(more.seconds, choices.seconds) <= less * (1 + 1e-4)
