"""Capuchin by its own paper: the longest free time first, and the link is one copy's at a time."""

import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import capuchin_free_time, oracle
from cdma.plan.policies.capuchin_free_time import recompute_seconds
from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from tests.plan.timeline.small_graphs import random_scenario


@pytest.fixture(scope="module")
def vgg16() -> Scenario:
    return Scenario(
        graph=density.apply(Graph.from_table("vgg16", 128)),
        device=device("titanxp"),
        link=link("pcie3x16"),
        memory_bytes=12 * 10**9,
    )


def test_nothing_is_touched_where_all_fits(vgg16: Scenario) -> None:
    assert set(capuchin_free_time.plan(vgg16).choices) == {RETAIN}


def test_free_time_is_longest_where_forward_begins(vgg16: Scenario) -> None:
    copies = capuchin_free_time._Copies(vgg16)
    managed = vgg16.graph.managed
    free = {vgg16.graph.tensors[t].name: copies.free_seconds(t) for t in managed}
    # The same bytes, and more of the step between their uses.
    assert free["pool4"] > free["relu5_1"] > free["relu5_2"]
    # From the end of forward on there is none: the first layer of backward needs it.
    assert free["prob"] < 0
    # All of the step but its first and its last layers, less both copies.
    relu = vgg16.graph.index["relu1_1"]
    between = vgg16.compute_seconds - sum(vgg16.copy_seconds(relu, SWAP, "none"))
    assert 0.8 * between < free["relu1_1"] < between


def test_it_swaps_the_longest_free_time_until_it_fits(vgg16: Scenario) -> None:
    tight = with_memory(vgg16, 9e9)
    plan = capuchin_free_time.plan(tight)
    assert simulate(tight, plan).feasible
    copies = capuchin_free_time._Copies(tight)
    free = {t: copies.free_seconds(t) for t in tight.graph.managed}
    by_choice = dict(zip(tight.graph.managed, plan.choices, strict=True))
    decided = [free[t] for t, choice in by_choice.items() if choice != RETAIN]
    left = [free[t] for t, choice in by_choice.items() if choice == RETAIN]
    assert decided
    assert min(decided) >= max(left)


def test_copies_are_late_for_each_other(vgg16: Scenario) -> None:
    copies = capuchin_free_time._Copies(vgg16)
    ordered = sorted(vgg16.graph.managed, key=lambda t: -copies.free_seconds(t))
    assert copies.late_seconds(ordered[0]) == 0
    alone = copies.late_seconds(ordered[-1])
    assert alone == pytest.approx(-copies.free_seconds(ordered[-1]))
    copies.swapped += ordered[:-1]
    assert copies._latest(copies.swapped) > 0


def test_computing_again_begins_where_something_is_there(vgg16: Scenario) -> None:
    index = vgg16.graph.index
    forward = {
        name: float(vgg16.forward_seconds[vgg16.stage_of[index[name]]])
        for name in ("relu1_1", "relu1_2", "pool1")
    }
    choices = dict.fromkeys(vgg16.graph.managed, RETAIN)
    assert recompute_seconds(vgg16, index["pool1"], choices) == forward["pool1"]
    choices[index["relu1_2"]] = RECOMPUTE
    both = forward["pool1"] + forward["relu1_2"]
    assert recompute_seconds(vgg16, index["pool1"], choices) == pytest.approx(both)
    choices[index["relu1_1"]] = RECOMPUTE
    assert recompute_seconds(vgg16, index["pool1"], choices) == pytest.approx(sum(forward.values()))


@pytest.mark.parametrize("seed", range(12))
def test_it_fits_where_swapping_all_does(seed: int) -> None:
    scenario = random_scenario(seed, 7)
    swapped = with_memory(scenario, 10**12)
    least = simulate(swapped, capuchin_free_time.plan(with_memory(swapped, 1))).least_bytes
    plan = capuchin_free_time.plan(with_memory(scenario, least))
    assert simulate(with_memory(scenario, least), plan).feasible
    assert simulate(swapped, oracle.plan(swapped)).seconds <= simulate(swapped, plan).seconds * (
        1 + 1e-9
    )
