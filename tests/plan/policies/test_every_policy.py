"""Whatever a policy plans, can happen: in memory, and no faster than the best plan of its means."""

import math

import pytest

from cdma.plan.policies.registry import POLICIES, plan_all, possible
from cdma.plan.search.exact import exhaustive
from cdma.plan.timeline.timeline import TimelineEvaluator
from tests.lib.shares import widths
from tests.plan.timeline.small_graphs import random_scenario
from tests.plan.timeline.timeline_audit import audit

TENSORS = 5


@pytest.mark.parametrize("seed", widths(*range(12), quick=[0, 1, 2, 3]))
def test_plans_of_small_steps(seed: int) -> None:
    """Memory is replayed from events by the audit, the optimum is that of all plans."""
    scenario = random_scenario(seed, TENSORS, duplex=seed % 2 == 0)
    results = plan_all(scenario, [name for name in possible(scenario) if name != "oracle"])
    assert set(results) == set(POLICIES) - {"oracle"}
    fitting = 0
    for name, result in results.items():
        plan = result.plan
        assert plan.policy == name
        options = tuple(dict.fromkeys(plan.choices))
        evaluator = TimelineEvaluator(scenario, options, plan.mode, plan.throttle)
        optimum = exhaustive(evaluator, len(scenario.graph.managed), len(options)).seconds
        if not result.trace.feasible:
            assert result.trace.seconds == math.inf
            continue
        fitting += 1
        audit(scenario, plan, result.trace)
        assert optimum <= result.trace.seconds
    assert fitting >= len(results) // 2
    best = results["best-without-engine"].trace.seconds
    for name in (
        "capuchin-feedback",
        "checkpoint",
        "checkpoint-selective",
        "dtr",
        "checkmate",
        "poet",
    ):
        assert best <= results[name].trace.seconds
