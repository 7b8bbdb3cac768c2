"""Policies beside each other: ratios that fit together, and bounds that hold."""

import math
from dataclasses import replace

import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies.best import takes_engine
from cdma.plan.policies.comparison import ORACLE, Comparison, compare
from cdma.plan.policies.registry import POLICIES
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import ASYNCHRONOUS, SYNCHRONOUS
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph

SIMPLE = ("oracle", "vdnn", "cdma", "comet", "superneurons")


@pytest.fixture(scope="module")
def alexnet() -> Scenario:
    """With less memory than its tensors take, or the inputs of its convolutions leave."""
    return Scenario(
        graph=density.apply(Graph.from_table("alexnet", dataset="cifar")),
        device=device("titanxp"),
        link=link("pcie3x16"),
        memory_bytes=1400 * 10**6,
    )


@pytest.fixture(scope="module")
def simple(alexnet: Scenario) -> Comparison:
    return compare(alexnet, SIMPLE)


@pytest.fixture(scope="module")
def everyone(alexnet: Scenario) -> Comparison:
    return compare(alexnet)


def test_ratios_are_those_of_the_seconds(simple: Comparison) -> None:
    assert list(simple.results) == list(SIMPLE)
    vdnn = simple.results["vdnn"].trace.seconds
    for name in SIMPLE:
        seconds = simple.seconds(name)
        assert seconds is not None
        assert simple.speedup(name) == vdnn / seconds
        assert simple.over_oracle(name) == pytest.approx(seconds / simple.oracle_seconds - 1)
    assert simple.speedup("vdnn") == 1
    assert simple.over_oracle(ORACLE) == pytest.approx(0, abs=1e-12)


def test_the_reference_is_there_even_if_nobody_asks_for_it(
    alexnet: Scenario, simple: Comparison
) -> None:
    alone = compare(alexnet, ("comet",), effort="none")
    assert list(alone.results) == ["comet"]
    assert alone.speedup("comet") == simple.speedup("comet")
    assert alone.bounds == {}
    assert alone.over_bound("comet") is None


def test_no_policy_beats_the_bound_of_its_kind(everyone: Comparison) -> None:
    assert list(everyone.results) == list(POLICIES)
    assert set(everyone.bounds) == {True, False}
    unfit = {name for name in everyone.results if everyone.seconds(name) is None}
    assert "vdnn-conv" in unfit
    for name in everyone.results:
        gap = everyone.over_bound(name)
        if name == ORACLE or name in unfit:
            assert gap is None
        else:
            assert gap is not None
            assert gap >= -1e-9
    assert everyone.bounds[False].seconds <= everyone.bounds[True].seconds * (1 + 1e-9)


def test_the_joint_plan_is_the_same_whoever_else_is_asked_for(
    alexnet: Scenario, everyone: Comparison
) -> None:
    alone = compare(alexnet, ("joint",), effort="none")
    assert alone.results["joint"].plan == everyone.results["joint"].plan
    # Those behind it begin with its plan.
    before = list(POLICIES)[: list(POLICIES).index("joint") + 1]
    assert everyone.results["joint"].trace.seconds == min(
        everyone.results[name].trace.seconds
        for name in before
        if everyone.results[name].lossless and name != ORACLE
    )


def test_the_best_plans_are_the_fastest_without_the_engine_and_of_all(
    everyone: Comparison,
) -> None:
    seconds = {
        name: result.trace.seconds
        for name, result in everyone.results.items()
        if result.lossless and name != ORACLE
    }
    plain = [
        name for name in seconds if not takes_engine(everyone.scenario, everyone.results[name].plan)
    ]
    assert "best-without-engine" in plain
    assert seconds["best-without-engine"] == min(seconds[name] for name in plain)
    assert seconds["best-with-engine"] == min(seconds.values())


def test_the_best_plan_without_the_engine_would_not_take_one(alexnet: Scenario) -> None:
    alone = compare(alexnet, ("vdnn", "best-without-engine"), effort="none")
    assert alone.best(engine=False) == "best-without-engine"
    assert alone.best(engine=True) is None


def test_a_mode_is_everyones(alexnet: Scenario) -> None:
    published = compare(alexnet, SIMPLE, effort="none")
    assert published.results["comet"].plan.mode == POLICIES["comet"].mode == ASYNCHRONOUS
    for name, result in compare(alexnet, SIMPLE, mode=SYNCHRONOUS).results.items():
        assert result.plan.mode == SYNCHRONOUS or name == ORACLE


def test_where_the_oracle_is_reached_it_is_the_bound(alexnet: Scenario) -> None:
    roomy = compare(replace(alexnet, memory_bytes=10**10), ("vdnn", "capuchin"))
    assert roomy.bounds[True].seconds == roomy.oracle_seconds
    assert roomy.bounds[True].tight
    assert roomy.over_bound("capuchin") == pytest.approx(0, abs=1e-9)
    assert (roomy.over_bound("vdnn") or 0) > 0.01


def test_what_does_not_fit_has_no_time_but_a_need(alexnet: Scenario) -> None:
    needs = compare(alexnet, ("vdnn",), effort="none").results["vdnn"].trace.least_bytes
    tight = compare(replace(alexnet, memory_bytes=needs - 1), ("oracle", "vdnn"), effort="none")
    assert tight.seconds("vdnn") is tight.speedup("vdnn") is tight.over_oracle("vdnn") is None
    assert tight.seconds(ORACLE) == pytest.approx(alexnet.compute_seconds)
    assert not tight.usable
    error = tight.infeasible()
    assert error.least_bytes == needs
    assert f"{needs:,}" in str(error)
    assert compare(replace(alexnet, memory_bytes=needs), ("vdnn",), effort="none").usable


def test_the_oracle_alone_needs_no_memory(alexnet: Scenario) -> None:
    alone = compare(replace(alexnet, memory_bytes=1000), (ORACLE,))
    assert alone.usable
    assert math.isfinite(alone.seconds(ORACLE) or math.inf)


def test_an_unknown_policy_is_refused_with_those_there_are(alexnet: Scenario) -> None:
    with pytest.raises(ScheduleError, match="unknown policy 'dvnn'; choose from oracle, vdnn,"):
        compare(alexnet, ("vdnn", "dvnn"))


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_the_top_has_the_fastest_and_both_best_ones(everyone: Comparison, count: int) -> None:
    top = everyone.top(count)
    best = {everyone.best(engine=False), everyone.best(engine=True)}
    assert best <= set(top)
    assert len(top) == max(count, len(best))
    assert ORACLE not in top
    assert top == [name for name in everyone.results if name in top]
    seconds = {name: everyone.results[name].trace.seconds for name in everyone.results}
    left = {
        name
        for name, result in everyone.results.items()
        if name not in top and name != ORACLE and result.trace.feasible
    }
    others = set(top) - best
    if others:
        assert max(seconds[name] for name in others) <= min(seconds[name] for name in left)


def test_the_top_of_few_is_all_of_them(simple: Comparison) -> None:
    assert simple.top(len(SIMPLE)) == list(SIMPLE)
    assert ORACLE not in simple.top(len(SIMPLE) - 1)
