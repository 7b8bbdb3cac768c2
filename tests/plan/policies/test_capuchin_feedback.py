"""Capuchin's feedback: measured waits, and plans that are never slower for them."""

import pytest

from cdma.plan.policies import capuchin_feedback, capuchin_free_time, vdnn
from cdma.plan.policies.capuchin_feedback import waits
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, SWAP
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.value.point import Point
from tests.plan.timeline.small_graphs import random_scenario


@pytest.mark.parametrize("seed", range(20))
def test_waits_are_the_stalls_of_the_computation(seed: int) -> None:
    scenario = random_scenario(seed, 8)
    trace = simulate(scenario, vdnn.plan(scenario, mode=ASYNCHRONOUS))
    assert sum(waits(scenario, trace).values()) == pytest.approx(trace.stall_seconds, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_it_is_never_slower_than_the_plan_it_begins_with(seed: int) -> None:
    scenario = random_scenario(seed, 8)
    first, last = (
        simulate(scenario, policy.plan(scenario))
        for policy in (capuchin_free_time, capuchin_feedback)
    )
    assert last.seconds <= first.seconds
    assert last.feasible == first.feasible


@pytest.mark.verify
def test_only_swaps_that_are_waited_for_are_computed_again() -> None:
    scenario = Point.usual(
        "resnet50", device="h100", link="pcie3x16", codec="zvc", room=0.3
    ).scenario()
    first, last = (policy.plan(scenario) for policy in (capuchin_free_time, capuchin_feedback))
    changed = {(a, b) for a, b in zip(first.choices, last.choices, strict=True) if a != b}
    assert changed == {(SWAP, RECOMPUTE)}
    assert simulate(scenario, last).seconds < simulate(scenario, first).seconds


def test_nothing_is_touched_where_all_fits() -> None:
    scenario = with_memory(random_scenario(3, 8), 10**12)
    assert set(capuchin_feedback.plan(scenario).choices) == {RETAIN}
