"""Checkmate: the optimum of keeping and computing again, found by an integer program."""

import math

import pytest

from cdma.plan.policies import oracle
from cdma.plan.policies.recomputing import checkmate, dtr
from cdma.plan.search.exact import exhaustive
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, simulate, with_memory
from cdma.plan.value.point import Point
from tests.plan.timeline.small_graphs import random_scenario


def tight(network: str, room: float) -> Scenario:
    return Point.usual(
        network, device="titanxp", link="pcie3x16", codec="zvc", room=room
    ).scenario()


def test_nothing_is_computed_again_where_all_fits() -> None:
    for seed in range(5):
        scenario = with_memory(random_scenario(seed), 10**12)
        assert set(checkmate.plan(scenario).choices) == {RETAIN}


@pytest.mark.parametrize("seed", range(20))
def test_it_fits_where_any_such_plan_does_and_is_near_the_optimum(seed: int) -> None:
    scenario = random_scenario(seed, 8)
    evaluator = TimelineEvaluator(scenario, (RETAIN, RECOMPUTE), ASYNCHRONOUS)
    optimum = exhaustive(evaluator, 8, 2).seconds
    found = simulate(scenario, checkmate.plan(scenario)).seconds
    if math.isfinite(found):
        # It counts a step's tensors as if all of them were there at once.
        assert optimum * (1 - 1e-9) <= found <= 1.25 * optimum
    assert simulate(scenario, oracle.plan(scenario)).link_out_bytes == 0


def test_it_finds_the_optimum_of_most_small_steps() -> None:
    optimal = possible = 0
    for seed in range(20):
        scenario = random_scenario(seed, 8)
        evaluator = TimelineEvaluator(scenario, (RETAIN, RECOMPUTE), ASYNCHRONOUS)
        optimum = exhaustive(evaluator, 8, 2).seconds
        if math.isfinite(optimum):
            possible += 1
            found = simulate(scenario, checkmate.plan(scenario)).seconds
            optimal += found <= optimum * (1 + 1e-9)
    assert possible >= 5
    assert optimal >= 0.7 * possible


@pytest.mark.parametrize(("network", "room"), [("nin", 0.3), ("vgg16", 0.0), ("alexnet", 0.3)])
def test_it_is_no_slower_than_dtr_s_heuristic(network: str, room: float) -> None:
    scenario = tight(network, room)
    mate, evicting = (simulate(scenario, policy.plan(scenario)) for policy in (checkmate, dtr))
    assert mate.feasible
    assert mate.seconds <= evicting.seconds * (1 + 1e-9)


def test_the_relaxation_plans_what_branch_and_bound_cannot() -> None:
    scenario = tight("resnet50", 0.5)
    assert len(scenario.stages) > checkmate.INTEGRAL_STAGES
    plan = checkmate.plan(scenario)
    trace = simulate(scenario, plan)
    assert trace.feasible
    assert {RETAIN, RECOMPUTE} == set(plan.choices)
    assert trace.seconds < 1.3 * scenario.compute_seconds
