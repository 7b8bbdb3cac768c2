"""The lower bound: never above the exact optimum, on any graph, with any options."""

import math

import numpy as np
import pytest

from sim.schedule.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    SWAP,
    SYNCHRONOUS,
    Choice,
    Placement,
)
from sim.schedule.plan import relaxation
from sim.schedule.plan.bound import lower_bound
from sim.schedule.plan.exact import exhaustive
from sim.schedule.timeline import Evaluator, with_memory
from tests.sim.small_graphs import HOME_OPTIONS, random_scenario

MANY_OPTIONS = (
    RETAIN,
    SWAP,
    RECOMPUTE,
    Choice(Placement.SWAP, "zvc"),
    Choice(Placement.SWAP, "zvc-sm"),
    Choice(Placement.COMPRESS, "zvc-sm"),
)


@pytest.mark.parametrize(
    ("options", "tensors", "seeds"), [(HOME_OPTIONS, 6, 25), (MANY_OPTIONS, 4, 20)]
)
@pytest.mark.parametrize("duplex", [True, False])
def test_no_plan_beats_it(options, tensors: int, seeds: int, duplex: bool) -> None:
    gaps, plain = [], []
    for seed in range(seeds):
        scenario = random_scenario(seed, tensors, options=options, duplex=duplex)
        exact = exhaustive(Evaluator(scenario, options), tensors, len(options))
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
        evaluator = Evaluator(scenario, MANY_OPTIONS, mode, throttle)
        exact = exhaustive(evaluator, 4, len(MANY_OPTIONS))
        assert lower_bound(scenario, MANY_OPTIONS).seconds <= exact.seconds


def test_it_is_infinite_where_nothing_fits() -> None:
    scenario = random_scenario(3, 6)
    evaluator = Evaluator(scenario, HOME_OPTIONS)
    particles = np.indices((3,) * 6).reshape(6, -1).T.astype(np.int8)
    least = min(evaluator.run(particle).least_bytes for particle in particles)
    fits, misses = with_memory(scenario, least), with_memory(scenario, 0.7 * least)
    assert math.isfinite(lower_bound(fits, HOME_OPTIONS).seconds)
    nothing = lower_bound(misses, HOME_OPTIONS)
    assert nothing.seconds == math.inf
    assert nothing.particle is None


def test_it_is_the_oracle_where_everything_fits() -> None:
    scenario = with_memory(random_scenario(5, 6), 1e15)
    found = lower_bound(scenario, HOME_OPTIONS)
    assert found.seconds == pytest.approx(scenario.compute_seconds)


@pytest.mark.parametrize("cuts", [0, 7])
def test_fewer_cuts_only_lower_it(monkeypatch, cuts: int) -> None:
    scenarios = [random_scenario(seed, 6) for seed in range(8)]
    full = [lower_bound(scenario, HOME_OPTIONS).seconds for scenario in scenarios]
    monkeypatch.setattr(relaxation, "CUTS", cuts)
    fewer = [lower_bound(scenario, HOME_OPTIONS).seconds for scenario in scenarios]
    assert all(b <= a * (1 + 1e-4) for a, b in zip(full, fewer, strict=True))
    assert sum(fewer) < sum(full)


def test_out_of_time_it_says_what_was_proved() -> None:
    scenario = random_scenario(4, 30)
    hurried = lower_bound(scenario, HOME_OPTIONS, time_limit_s=0.01)
    assert not hurried.tight
    assert scenario.compute_seconds * 0.99 < hurried.seconds
    assert hurried.seconds <= lower_bound(scenario, HOME_OPTIONS, time_limit_s=2).seconds * 1.0001


def test_more_memory_or_more_options_never_raise_it() -> None:
    for seed in range(6):
        scenario = random_scenario(seed, 5)
        less = lower_bound(scenario, HOME_OPTIONS).seconds
        more = lower_bound(with_memory(scenario, 1.1 * scenario.memory_bytes), HOME_OPTIONS)
        choices = lower_bound(scenario, MANY_OPTIONS)
        assert max(more.seconds, choices.seconds) <= less * (1 + 1e-4)
