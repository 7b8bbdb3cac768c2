"""The engine beside good plans: more means are never worse, and the optimum of small graphs."""

import pytest

from cdma.plan.platform.link import link
from cdma.plan.policies.engine_worth import ENGINE, MEANS, engine_worth
from cdma.plan.policies.registry import plan_all
from cdma.plan.search.exact import exhaustive
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import ASYNCHRONOUS
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator
from tests.bench.engine_worth import CASES, Case
from tests.plan.timeline.small_graphs import random_scenario


@pytest.mark.verify
def test_more_means_are_never_worse() -> None:
    for case in CASES[:2]:
        scenario = case.scenario()
        worth = engine_worth(scenario, evaluations=4000)
        for means in MEANS:
            assert scenario.compute_seconds <= worth.with_engine[means] <= worth.without[means]
            assert worth.gain(means) >= 0
        for found in (worth.without, worth.with_engine):
            assert found["swap"] >= found["swap, recompute"] >= found["all"]
        assert worth.without["swap, recompute"] <= min(
            result.trace.seconds for result in plan_all(scenario, ["capuchin", "home+"]).values()
        )


@pytest.mark.verify
def test_beside_good_plans_the_engine_gains_a_tenth_of_what_it_gains_beside_vdnn() -> None:
    """ResNet-50 on a Titan Xp behind PCIe 3."""
    worth = engine_worth(CASES[0].scenario(), evaluations=20_000)
    assert worth.vdnn_seconds / worth.cdma_seconds - 1 > 0.25
    assert 0.01 < worth.gain("swap, recompute") < 0.04


@pytest.mark.parametrize("seed", range(4))
def test_on_small_graphs_it_compares_the_optima(seed: int) -> None:
    scenario = random_scenario(seed, 5, options=(*MEANS["all"], ENGINE))
    worth = engine_worth(scenario, evaluations=4000)
    for name, means in MEANS.items():
        for options, found in (
            (means, worth.without[name]),
            ((*means, ENGINE), worth.with_engine[name]),
        ):
            evaluator = TimelineEvaluator(scenario, options, ASYNCHRONOUS)
            best = exhaustive(evaluator, 5, len(options)).seconds
            assert best * (1 - 1e-9) <= found <= best * 1.01


def test_the_memory_of_a_case_is_between_the_least_and_the_most() -> None:
    least, more = (
        Case("alexnet", "titanxp", "pcie3x16", memory_share).scenario() for memory_share in (0, 0.5)
    )
    swapped = plan_all(least, ["vdnn"])["vdnn"].trace
    assert swapped.least_bytes == least.memory_bytes < more.memory_bytes


def test_without_an_engine_there_is_nothing_to_compare() -> None:
    scenario = CASES[0].scenario()
    fast = Scenario(
        graph=scenario.graph,
        device=scenario.device,
        link=link("nvlink4"),
        memory_bytes=scenario.memory_bytes,
    )
    with pytest.raises(ScheduleError, match=r"^no engine passes the 360 GB/s"):
        engine_worth(fast)
