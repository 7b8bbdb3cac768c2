"""Exhaustive search: every plan once, the best of them, and a limit."""

import itertools

import numpy as np
import pytest

from cdma.plan.search import exact
from cdma.plan.search.exact import exhaustive
from cdma.plan.timeline.errors import ScheduleError
from tests.plan.policies.policy_costs import Interplay


@pytest.mark.parametrize("batch", [7, 1 << 14])
@pytest.mark.parametrize(("tensors", "options"), [(1, 3), (5, 3), (4, 4), (8, 2)])
def test_every_plan_is_asked_for_once(monkeypatch, tensors, options, batch) -> None:
    monkeypatch.setattr(exact, "BATCH", batch)
    evaluator = Interplay(tensors, options, seed=tensors)
    found = exhaustive(evaluator, tensors, options)
    everything = list(itertools.product(range(options), repeat=tensors))
    assert evaluator.asked == everything
    assert found.evaluations == len(everything)
    costs = Interplay(tensors, options, seed=tensors)
    cheapest = min(everything, key=lambda p: costs.seconds(_row(p))[0])
    assert tuple(found.assignment) == cheapest
    assert found.seconds == costs.seconds(_row(cheapest))[0]


def _row(assignment):
    return np.array([assignment], np.int8)


def test_nothing_feasible_is_said() -> None:
    class Never(Interplay):
        def seconds(self, assignments):
            return super().seconds(assignments) + float("inf")

    found = exhaustive(Never(4, seed=0), 4)
    assert not found.feasible
    assert found.assignment.tolist() == [0] * 4


def test_too_many_plans_are_refused_with_how_many_tensors_would_do() -> None:
    with pytest.raises(
        ScheduleError, match=r"30 tensors of 3 options have 2\.06e\+14 plans.* at most 14 tensors"
    ):
        exhaustive(Interplay(30, seed=0), 30)
