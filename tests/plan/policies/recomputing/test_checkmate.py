"""Checkmate and POET: the optimum of their integer program, and the gap that is left."""

import math
from dataclasses import replace

import pytest

from cdma.plan.platform.link import Link
from cdma.plan.policies import oracle
from cdma.plan.policies.recomputing import checkmate, dtr, program
from cdma.plan.search.exact import exhaustive
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, SWAP, SolverReport
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
    assert math.isfinite(found) == math.isfinite(optimum)
    if math.isfinite(found):
        assert optimum * (1 - 1e-9) <= found <= 1.02 * optimum
    assert simulate(scenario, oracle.plan(scenario)).link_out_bytes == 0


def test_it_is_solved_again_where_its_plan_lacks_memory() -> None:
    """The scratch of a layer that runs again is not in the program."""
    scenario = random_scenario(200, 8)
    first = checkmate._rounded(
        TimelineEvaluator(scenario, checkmate.OPTIONS), program.StepProgram(scenario).solve()
    )
    plan = checkmate.plan(scenario)
    evaluator = TimelineEvaluator(scenario, checkmate.OPTIONS)
    assert evaluator.run(first).least_bytes > scenario.memory_bytes
    assert simulate(scenario, plan).feasible


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
    assert optimal >= 0.9 * possible


@pytest.mark.parametrize(("network", "room"), [("nin", 0.3), ("vgg16", 0.0), ("alexnet", 0.3)])
def test_it_is_no_slower_than_dtr_s_heuristic(network: str, room: float) -> None:
    scenario = tight(network, room)
    mate, evicting = (simulate(scenario, policy.plan(scenario)) for policy in (checkmate, dtr))
    assert mate.feasible
    assert mate.seconds <= evicting.seconds * (1 + 1e-9)


def test_the_relaxation_plans_what_branch_and_bound_cannot() -> None:
    scenario = tight("resnet50", 0.5)
    assert len(scenario.stages) > program.INTEGRAL_STAGES
    plan = checkmate.plan(scenario)
    trace = simulate(scenario, plan)
    assert trace.feasible
    assert {RETAIN, RECOMPUTE} == set(plan.choices)
    assert trace.seconds < 1.3 * scenario.compute_seconds
    assert plan.solver == SolverReport(integral=False, gap=None)


@pytest.mark.parametrize("seed", range(12))
def test_poet_pages_where_computing_again_is_dearer(seed: int) -> None:
    """Its plans are among those of keeping, swapping and computing again."""
    scenario = random_scenario(seed, 6)
    count = len(scenario.graph.managed)
    options = (RETAIN, SWAP, RECOMPUTE)
    optimum = exhaustive(TimelineEvaluator(scenario, options, ASYNCHRONOUS), count, 3).seconds
    plan = checkmate.plan(scenario, paging=True)
    trace = simulate(scenario, plan)
    assert plan.policy == "poet"
    # Swapping all always is a solution, so something fits.
    assert trace.feasible
    assert optimum * (1 - 1e-9) <= trace.seconds
    assert trace.host_bytes == sum(
        scenario.graph.tensors[t].nbytes
        for t, choice in zip(scenario.graph.managed, plan.choices, strict=True)
        if choice == SWAP
    )


def test_poet_pages_behind_a_fast_link_and_computes_again_behind_a_slow_one() -> None:
    paged = []
    for bytes_per_s in (1e7, 1e9, 1e13):
        scenario = replace(tight("alexnet", 0.0), link=Link("toy", bytes_per_s, "made up"))
        paged.append(checkmate.plan(scenario, paging=True).choices.count(SWAP))
    assert paged[0] <= paged[1] <= paged[2]
    assert paged[2] > 0


@pytest.mark.verify
def test_a_solved_program_says_so_and_an_unsolved_one_says_its_gap(monkeypatch) -> None:
    scenario = tight("squeezenet", 0.3)
    solved = program.StepProgram(scenario).solve().report
    assert solved.integral
    assert solved.gap is not None
    assert solved.gap <= program.RELATIVE_GAP
    monkeypatch.setattr(program, "NODES", 1)
    monkeypatch.setattr(program, "RELATIVE_GAP", 0.0)
    stopped = program.StepProgram(tight("squeezenet", 0.1), paging=True).solve().report
    assert stopped.integral
    assert stopped.gap is not None
    assert stopped.gap > program.RELATIVE_GAP
    assert str(replace(stopped, gap=0.034)) == "solved to a gap of 3.4000 %"


def test_more_stages_than_it_takes_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(checkmate, "MOST_STAGES", 5)
    with pytest.raises(ScheduleError, match=r"^policy poet takes .* stages at most; choose dtr"):
        checkmate.plan(random_scenario(1, 8), paging=True)
