"""Algorithm 1 of CSWAP+ with the holes of its print closed."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from cdma.plan.policies.cswap.parameter_range import (
    largest_by_bisection,
    largest_by_scan,
    parameter_range,
)

LEAST, MOST = 9, 128


def _as_printed(holds: Callable[[int], bool], most: int) -> int:
    """Lines 3 to 13, or 15 to 25: the search as the paper prints it."""
    left, right = 1, most
    while left < right:
        middle = (left + right + 1) // 2
        if not holds(middle):
            right = middle - 1
        else:
            left = middle
    return left


def _range(benefit: Sequence[float], cost: Sequence[float], hidden: Sequence[bool]):
    """The parameter range of one tensor, with values for P = 9, 10, …"""
    return parameter_range(
        ["a"],
        benefit=lambda _, bits: benefit[bits - LEAST],
        cost=lambda _, bits: cost[bits - LEAST],
        hidden=lambda _, bits: hidden[bits - LEAST],
        most=LEAST + len(benefit) - 1,
    )


def test_bisection_is_a_scan_where_all_smaller_values_hold():
    for limit in range(LEAST, MOST + 1):
        assert largest_by_bisection(lambda p, limit=limit: p <= limit, LEAST, MOST) == limit


def test_the_printed_direction_of_the_search_is_right():
    for limit in range(1, MOST + 1):
        assert _as_printed(lambda p, limit=limit: p <= limit, MOST) == limit


def test_nothing_helps_is_not_only_the_least_helps():
    """In print both are 1, since the first value is never looked at."""
    assert _as_printed(lambda p: False, MOST) == _as_printed(lambda p: p == 1, MOST) == 1
    assert largest_by_bisection(lambda p: False, LEAST, MOST) is None
    assert largest_by_scan(lambda p: False, LEAST, MOST) is None
    assert largest_by_bisection(lambda p: p == LEAST, LEAST, MOST) == LEAST
    assert largest_by_scan(lambda p: p == LEAST, LEAST, MOST) == LEAST


def test_print_gives_values_that_zfp_does_not_have():
    assert _as_printed(lambda p: p <= 4, MOST) == 4
    assert largest_by_bisection(lambda p: p <= 4, LEAST, MOST) is None


def test_the_scan_mends_what_bisection_misses_where_the_gain_has_steps():
    # Worth it are 9 to 11 and 14: bisection looks at 12 and goes down.
    benefit = [2.0, 2.0, 2.0, 0.0, 0.0, 2.0]
    found = _range(benefit, [1.0] * 6, [True] * 6)
    assert found.top == 14
    assert found.corrected == ("a",)


def test_a_monotone_gain_needs_no_correction():
    rng = np.random.default_rng(7)
    for _ in range(200):
        gain = np.sort(rng.normal(size=20))[::-1]
        found = _range(gain.tolist(), [0.0] * 20, [True] * 20)
        worth = np.flatnonzero(gain >= 0)
        assert found.top == (LEAST + int(worth[-1]) if worth.size else None)
        assert found.corrected == ()


def test_top_is_the_largest_and_bottom_the_least_of_all_tensors():
    tops, bottoms = {"a": 40, "b": 70}, {"a": 30, "b": 20}
    found = parameter_range(
        tops,
        benefit=lambda name, bits: 1.0 if bits <= tops[name] else 0.0,
        cost=lambda name, bits: 0.5,
        hidden=lambda name, bits: bits <= bottoms[name],
    )
    assert (found.top, found.bottom, found.useful) == (70, 20, True)


def test_a_copy_that_is_never_hidden_wants_the_least_value():
    found = _range([1.0] * 4, [0.0] * 4, [False] * 4)
    assert (found.top, found.bottom, found.useful) == (12, LEAST, True)


@pytest.mark.parametrize(
    ("benefit", "hidden"),
    [
        pytest.param([0.0] * 4, [True] * 4, id="nothing gains"),
        pytest.param([1.0, 0.0, 0.0, 0.0], [True] * 4, id="top below bottom"),
    ],
)
def test_compression_without_a_range_is_not_useful(benefit, hidden):
    assert not _range(benefit, [0.5] * 4, hidden).useful


def test_a_benefit_that_is_just_the_cost_counts():
    """Line 8 goes down only if the benefit is less."""
    assert _range([1.0, 1.0], [1.0, 1.0], [True, False]).top == 10
