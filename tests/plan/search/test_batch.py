"""The largest batch: bisection."""

import pytest

from cdma.plan.search.batch import largest_batch
from cdma.plan.timeline.errors import ScheduleError


@pytest.mark.parametrize("most", [0, 1, 2, 3, 64, 65, 1000])
def test_bisection_finds_the_last_feasible_batch(most: int) -> None:
    asked = []

    def feasible(batch: int) -> bool:
        asked.append(batch)
        return batch <= most

    assert largest_batch(feasible) == most
    assert len(asked) <= 2 * most.bit_length() + 1
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("highest", [1, 5, 8])
def test_nothing_above_the_highest_is_tried(highest: int) -> None:
    asked = []

    def feasible(batch: int) -> bool:
        asked.append(batch)
        return True

    assert largest_batch(feasible, highest=highest) == highest
    assert max(asked) == highest


def test_a_highest_batch_below_one_is_refused() -> None:
    with pytest.raises(ScheduleError, match="must be at least 1, not 0"):
        largest_batch(lambda batch: True, highest=0)
