"""The bound of thousands of tensors: never above the optimum, and no larger for more blocks."""

import math

import numpy as np
import pytest

from cdma.plan.policies import vdnn
from cdma.plan.policies.recomputing import checkpoint
from cdma.plan.search import bound
from cdma.plan.search.bound import lower_bound
from cdma.plan.search.coarse import CoarseRelaxation
from cdma.plan.search.exact import exhaustive
from cdma.plan.search.relaxation import Relaxation
from cdma.plan.timeline.memory import least_memory
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RETAIN,
    SWAP,
    Choice,
    Mode,
    Placement,
)
from cdma.plan.timeline.problem_arrays import options_of, problem_of
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, simulate, with_memory
from cdma.plan.value.point import Point
from tests.lib.shares import widths
from tests.plan.search.repeated_blocks import repeated_blocks
from tests.plan.timeline.small_graphs import HOME_OPTIONS, MANY_OPTIONS, random_scenario

SWAPPING = (RETAIN, SWAP, Choice(Placement.SWAP, "zvc-sm"), Choice(Placement.COMPRESS, "zvc-sm"))


def program(scenario: Scenario, options: tuple[Choice, ...], points: int) -> CoarseRelaxation:
    return CoarseRelaxation(problem_of(scenario), options_of(scenario, options, "none"), points)


def seconds(scenario: Scenario, options: tuple[Choice, ...], points: int) -> float:
    made = program(scenario, options, points)
    answer = made.solve()
    return math.inf if answer.infeasible else answer.proved * made.unit_s


@pytest.mark.parametrize(
    ("options", "tensors"), [(HOME_OPTIONS, 6), (MANY_OPTIONS, 4), (SWAPPING, 5)]
)
@pytest.mark.parametrize("duplex", [True, False])
@pytest.mark.parametrize("points", widths(2, 6, 100, quick=[6]))
def test_no_plan_beats_it(options, tensors: int, duplex: bool, points: int) -> None:
    """Whatever the points are."""
    for seed in range(25):
        scenario = random_scenario(seed, tensors, options=options, duplex=duplex)
        count = len(scenario.graph.managed)
        exact = exhaustive(TimelineEvaluator(scenario, options), count, len(options))
        # The solver's tolerances, which `lower_bound` takes off, too.
        most = exact.seconds + bound.TOLERANCE * scenario.compute_seconds
        assert seconds(scenario, options, points) <= most, seed


@pytest.mark.parametrize("mode", [Mode(staging_bytes=0, lookahead=1), ASYNCHRONOUS])
def test_no_plan_of_longer_steps_beats_it(mode: Mode) -> None:
    """Random plans of forty tensors, which are too many to try all plans."""
    rng = np.random.default_rng(1)
    for seed in range(6):
        scenario = random_scenario(seed, 40)
        evaluator = TimelineEvaluator(scenario, HOME_OPTIONS, mode)
        tensors = len(scenario.graph.managed)
        shares = rng.dirichlet([1, 1, 1], size=300)
        plans = np.array([rng.choice(3, tensors, p=share) for share in shares], np.int8)
        found = evaluator.seconds(plans).min()
        for points in (4, 20, 100):
            assert seconds(scenario, HOME_OPTIONS, points) <= found * (1 + 1e-5)


def test_it_is_worth_having() -> None:
    """With all steps as points it is nearer to the optimum than to the oracle."""
    gaps, plain = [], []
    for seed in range(25):
        scenario = random_scenario(seed, 6)
        exact = exhaustive(
            TimelineEvaluator(scenario, HOME_OPTIONS), len(scenario.graph.managed), 3
        )
        if exact.feasible:
            gaps.append(1 - seconds(scenario, HOME_OPTIONS, 100) / exact.seconds)
            plain.append(1 - scenario.compute_seconds / exact.seconds)
    assert np.mean(gaps) < 0.8 * np.mean(plain)


def test_it_is_infinite_only_where_nothing_fits() -> None:
    for seed in range(8):
        scenario = random_scenario(seed, 6)
        least = least_memory(scenario).nbytes
        assert math.isfinite(seconds(with_memory(scenario, least), HOME_OPTIONS, 100))
        assert seconds(with_memory(scenario, 0.7 * least), HOME_OPTIONS, 100) == math.inf


def test_repeated_blocks_are_one_column() -> None:
    few, many = (program(repeated_blocks(count), MANY_OPTIONS, 20) for count in (60, 240))
    assert len(repeated_blocks(240).graph.managed) > 3 * len(repeated_blocks(60).graph.managed)
    assert many.groups < 1.5 * few.groups
    assert many.coefficients < 1.5 * few.coefficients


@pytest.mark.verify
def test_two_thousand_tensors_have_a_bound_that_is_more_than_the_oracle() -> None:
    scenario = repeated_blocks(700, 6e9)
    assert len(scenario.graph.managed) > 2000
    found = lower_bound(scenario, MANY_OPTIONS)
    assert not found.tight
    assert found.seconds > 1.1 * scenario.compute_seconds
    traces = [simulate(scenario, each.plan(scenario)) for each in (checkpoint, vdnn)]
    assert all(trace.feasible for trace in traces)
    best = min(trace.seconds for trace in traces)
    assert 0.95 * best < found.seconds <= best
    assert found.assignment is not None
    assert found.assignment.shape == (len(scenario.graph.managed),)


def test_large_networks_get_it_and_small_ones_the_whole_program(monkeypatch) -> None:
    scenario = random_scenario(2, 8)
    whole = lower_bound(scenario, HOME_OPTIONS, effort="linear").seconds
    monkeypatch.setattr(bound, "LARGE", 0)
    coarse = lower_bound(scenario, HOME_OPTIONS, effort="linear").seconds
    proved = seconds(scenario, HOME_OPTIONS, 64) - bound.TOLERANCE * scenario.compute_seconds
    assert coarse == pytest.approx(max(proved, scenario.compute_seconds))
    assert coarse > scenario.compute_seconds
    integral = lower_bound(scenario, HOME_OPTIONS, effort="integral")
    assert integral.tight
    assert max(coarse, whole) <= integral.seconds * (1 + 1e-4)


def test_of_networks_between_the_greater_bound_holds() -> None:
    """ResNet-50 in the least memory that any plan works with."""
    scenario = Point.usual(
        "resnet50", device="titanxp", link="pcie3x16", codec="zvc", room=0.0
    ).scenario()
    problem, costs = problem_of(scenario), options_of(scenario, HOME_OPTIONS, "none")
    both = [
        made.solve().proved
        for made in (Relaxation(problem, costs), CoarseRelaxation(problem, costs))
    ]
    assert both[0] < both[1]
    found = lower_bound(scenario, HOME_OPTIONS, effort="linear")
    proved = (max(both) - bound.TOLERANCE) * scenario.compute_seconds
    assert found.seconds == pytest.approx(proved)
