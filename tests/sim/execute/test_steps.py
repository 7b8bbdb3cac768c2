"""The steps of plans, beside those of the simulator of discrete events."""

import numpy as np
import pytest

from cdma.plan.timeline.placement import Plan
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.sim.execute.steps import steps_of
from tests.plan.timeline.cases import UNLIMITED
from tests.plan.timeline.simpy_timeline import Needs
from tests.plan.timeline.small_graphs import MANY_OPTIONS, random_scenario


@pytest.mark.parametrize("seed", range(60))
def test_needs_and_counted_bytes_are_those_of_another_simulator(seed):
    rng = np.random.default_rng(seed)
    scenario = with_memory(random_scenario(seed, 7, options=MANY_OPTIONS), UNLIMITED)
    choices = tuple(MANY_OPTIONS[i] for i in rng.integers(0, len(MANY_OPTIONS), 7))
    plan = Plan(policy="random", choices=choices)
    needs = Needs(scenario, plan)
    trace = simulate(scenario, plan)
    steps = steps_of(scenario, plan, trace)
    assert [step.counted_bytes for step in steps] == needs.fixed
    for k, step in enumerate(steps):
        kept = {t for t, choice in needs.choices.items() if choice.placement.name == "RETAIN"}
        first = {t for t, at in needs.first.items() if at == k and t in needs.choices} - kept
        assert {*step.needed} == first
        assert {*step.lasting} == {t for t, at in needs.last.items() if at == k}
    fetched = [t for step in steps for t in step.prefetches]
    swapped = [t for t, choice in needs.choices.items() if choice.placement.name == "SWAP"]
    assert sorted(fetched) == sorted(swapped)
