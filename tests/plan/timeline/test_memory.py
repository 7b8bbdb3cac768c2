"""The least memory that works, and what a step says that does not fit."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cdma.plan.timeline.memory import explain, least_memory
from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP, Choice, Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, simulate, with_memory
from tests.plan.timeline.cases import (
    BYTES,
    DEVICE,
    LINK,
    UNLIMITED,
    chain,
    everything,
    random_graph,
)

GB = BYTES


def random_scenario(seed: int, stages: int) -> Scenario:
    graph = random_graph(seed, stages)
    return Scenario(graph=graph, device=DEVICE, link=LINK, memory_bytes=UNLIMITED)


@pytest.mark.parametrize("seed", range(25))
def test_no_plan_needs_less_and_swapping_everything_needs_no_more(seed: int) -> None:
    scenario = random_scenario(seed, stages=1 + seed % 6)
    options = (
        RETAIN,
        SWAP,
        RECOMPUTE,
        Choice(Placement.SWAP, "zvc-sm"),
        Choice(Placement.COMPRESS, "quantize-sm"),
    )
    # Where nothing fits, only memory is computed.
    evaluator = TimelineEvaluator(with_memory(scenario, 1), options)
    managed = len(scenario.graph.managed)
    # All of them, but for the last ones of many.
    plans = product(range(len(options)), repeat=min(managed, 4))
    needs = [
        evaluator.run(np.array([*plan, *[1] * (managed - 4)], np.int8)).least_bytes
        for plan in plans
    ]
    least = least_memory(scenario)
    assert min(needs) == least.nbytes
    assert simulate(scenario, everything(scenario, SWAP)).least_bytes == least.nbytes
    assert sum(one.nbytes for one in least.occupants) == least.nbytes


def test_the_pass_that_needs_most_is_named_with_what_is_there() -> None:
    scenario = chain([1, 1, 1], [1, 1, 1], [4, 5])
    least = least_memory(scenario)
    assert (least.way, least.stage) == ("backward", "t2")
    assert [(one.what, one.nbytes) for one in least.occupants] == [
        ("gradient of t2", 5 * GB),
        ("tensor t1", 4 * GB),
        ("gradient of t1", 4 * GB),
        ("input t0", GB),
    ]
    assert least.nbytes == 14 * GB


def test_a_forward_pass_may_need_most() -> None:
    scenario = chain([1, 1], [1, 1], [3])
    layers = (scenario.graph.layers[0], replace(scenario.graph.layers[1], gradients=()))
    graph = replace(scenario.graph, layers=layers)
    least = least_memory(replace(scenario, graph=graph))
    assert (least.way, least.stage, least.nbytes) == ("forward", "t2", (1 + 3 + 1) * GB)


def test_what_alone_exceeds_the_memory_is_named_first() -> None:
    scenario = with_memory(chain([1, 1, 1], [1, 1, 1], [4, 5]), 4 * GB)
    error = explain(scenario)
    assert error.least_bytes == 14 * GB
    assert str(error) == (
        "chain at batch 1 does not fit into 4,000,000,000 bytes; no plan works with less than "
        "14,000,000,000; the backward pass of t2 needs that, where gradient of t2 (5,000,000,000) "
        "alone exceeds the limit, beside tensor t1 (4,000,000,000), gradient of t1 (4,000,000,000),"
        " input t0 (1,000,000,000); give more memory or a smaller batch"
    )


def test_several_that_exceed_the_memory_are_all_named() -> None:
    error = explain(with_memory(chain([1, 1, 1], [1, 1, 1], [4, 5]), 2 * GB))
    assert (
        "gradient of t2 (5,000,000,000), tensor t1 (4,000,000,000), gradient of t1 (4,000,000,000) "
        "alone exceed the limit, beside input t0"
    ) in str(error)


def test_what_exceeds_the_memory_together_only_is_listed() -> None:
    error = explain(with_memory(chain([1, 1, 1], [1, 1, 1], [4, 5]), 13 * GB))
    assert "needs that, for gradient of t2 (5,000,000,000), tensor t1" in str(error)
    assert "alone" not in str(error)


def test_plans_that_do_not_fit_are_told_of_one_that_does() -> None:
    scenario = chain([1, 1, 1], [1, 1, 1], [4, 5])
    retain = replace(everything(scenario, RETAIN), policy="retain")
    recompute = replace(everything(scenario, RECOMPUTE), policy="recompute")
    small = with_memory(scenario, 14 * GB)
    traces = [simulate(small, plan) for plan in (retain, recompute)]
    error = explain(small, traces)
    least = min(trace.least_bytes for trace in traces)
    assert not any(trace.feasible for trace in traces)
    assert error.least_bytes == least == 16 * GB
    assert str(error) == (
        "chain at batch 1 does not fit into 14,000,000,000 bytes; recompute needs 16,000,000,000, "
        "the least; swapping everything as it is needs 14,000,000,000; give more memory or a "
        "smaller batch"
    )
    assert simulate(small, everything(small, SWAP)).feasible
    assert simulate(with_memory(scenario, error.least_bytes), recompute).feasible
