"""Fitted rates: against rates that times were made with, and a solver of the same equation."""

import numpy as np
import pytest
from scipy.optimize import brentq

from cdma.plan.calibration.fit import Timing, fit_efficiency, fit_rate, peak


def timing(*seconds: float, flops: float = 0.0, nbytes: float = 0.0, narrow: bool = False):
    return Timing(kind="conv", name="x", seconds=seconds, flops=flops, nbytes=nbytes, narrow=narrow)


def test_times_of_one_efficiency_give_it_without_an_error():
    ideal = [1.0, 0.25, 3.0]
    fit = fit_efficiency([timing(seconds / 0.4) for seconds in ideal], ideal)
    assert fit.value == pytest.approx(0.4)
    assert fit.error == pytest.approx(0.0, abs=1e-12)
    assert (fit.kind, fit.timings, fit.spread) == ("conv", 3, 0.0)


def test_fitted_times_are_as_long_as_the_times_together():
    rng = np.random.default_rng(1)
    ideal = rng.uniform(1, 10, 20)
    took = ideal / rng.uniform(0.2, 0.9, 20)
    fit = fit_efficiency([timing(seconds) for seconds in took], list(ideal))
    root = brentq(lambda part: (ideal / part).sum() - took.sum(), 0.1, 1)
    assert fit.value == pytest.approx(root)
    assert fit.error == pytest.approx(np.abs(took - ideal / root).sum() / took.sum())
    assert fit.error > 0.1


def test_an_efficiency_is_at_most_one_and_what_is_faster_is_an_error():
    fit = fit_efficiency([timing(1.0)], [1.5])
    assert (fit.value, fit.error) == (1.0, 0.5)


def test_a_rate_is_that_of_what_is_left_of_times_after_the_overhead():
    timings = [timing(0.5 + nbytes / 200, nbytes=nbytes) for nbytes in (100, 1000)]
    fit = fit_rate(timings, 0.5)
    assert (fit.value, fit.error) == (pytest.approx(200), pytest.approx(0, abs=1e-12))


def test_the_shortest_time_counts_and_the_spread_is_the_median_s_beyond_it():
    slow = timing(4.0, 2.0, 3.0, nbytes=10)
    assert (slow.fastest, slow.spread) == (2.0, 0.5)
    assert fit_rate([slow, timing(2.0, nbytes=10)]).spread == 0.5


def test_peak_is_the_fastest_of_a_width():
    work = [timing(2.0, 1.0, flops=4.0), timing(1.0, flops=3.0), timing(1, flops=9, narrow=True)]
    assert (peak(work), peak(work, narrow=True), peak(work[:2], narrow=True)) == (4.0, 9.0, 0.0)
