"""The joint plan against all other policies, and against the exact optimum of small graphs."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import joint
from cdma.plan.policies.largest_batch import largest_batches
from cdma.plan.policies.registry import POLICIES, plan_all, possible
from cdma.plan.search.exact import exhaustive
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, SWAP, Choice, Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, simulate, with_memory
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from tests.plan.timeline.small_graphs import random_scenario

# Quick ones for every policy; all printed networks are `make verify`'s.
NETWORKS = (("alexnet", 256, "imagenet"), ("vgg16", 128, "imagenet"), ("plain20", 1024, "cifar"))
OTHERS = (
    ("overfeat", 256, "imagenet"),
    ("nin", 128, "imagenet"),
    ("squeezenet", 512, "imagenet"),
    ("googlenet", 256, "imagenet"),
    ("resnet50", 64, "imagenet"),
    ("inceptionv3", 32, "imagenet"),
    ("mobilenet", 128, "imagenet"),
    ("biglstm", 128, "lm1b"),
)


def tight_scenario(network: str, batch: int, dataset: str, memory_share: float = 0.3) -> Scenario:
    """Memory between what swapping everything needs and what retaining everything does."""
    scenario = Scenario(
        graph=density.apply(Graph.from_table(network, batch, dataset), "digits-cnn"),
        device=device("titanxp"),
        link=link("pcie3x16"),
        memory_bytes=2**60,
    )
    evaluator = TimelineEvaluator(scenario, (RETAIN, SWAP))
    tensors = len(scenario.graph.managed)
    most, least = (
        evaluator.run(np.full(tensors, option, np.int8)).least_bytes for option in (0, 1)
    )
    return with_memory(scenario, least + memory_share * (most - least))


@pytest.mark.parametrize(
    ("element_bytes", "lossy", "more"),
    [(2, False, {"xc"}), (2, True, {"xc"}), (4, False, set()), (4, True, {"quantize"})],
)
def test_an_engines_codecs_are_options_if_they_take_the_elements(element_bytes, lossy, more):
    made = tight_scenario("alexnet", 256, "imagenet")
    shipped = made.placed_engine
    codec = replace(shipped.config.codec, element_bytes=1, codecs=("zvc", "raw", "xc", "quantize"))
    own = replace(shipped, config=replace(shipped.config, codec=codec))
    tensors = tuple(replace(t, element_bytes=element_bytes) for t in made.graph.tensors)
    own_made = replace(made, graph=replace(made.graph, tensors=tensors), own_engine=own)
    before = joint.means(made, lossy=lossy)
    after = joint.means(own_made, lossy=lossy)
    assert set(after) - set(before) == {Choice(Placement.SWAP, name) for name in more}
    assert set(before) <= set(after)


# Policies behind it are no seeds of it.
BEFORE = list(POLICIES)[: list(POLICIES).index("joint-lossy") + 1]


def check_joint_is_fastest(scenario: Scenario, names: list[str]) -> bool:
    """Check that it is as fast as all others; return True if it is strictly faster."""
    results = plan_all(scenario, names)
    seconds = {name: result.trace.seconds for name, result in results.items() if name != "oracle"}
    lossless = {
        name: s for name, s in seconds.items() if results[name].lossless and name != "joint-lossy"
    }
    assert seconds["joint"] <= min(lossless.values()), seconds
    assert seconds["joint-lossy"] <= min(seconds.values()), seconds
    assert results["joint"].trace.feasible
    assert results["joint"].trace.peak_bytes <= scenario.memory_bytes
    others = [s for name, s in lossless.items() if name != "joint"]
    return seconds["joint"] < min(others) * (1 - 1e-9)


@pytest.mark.parametrize(("network", "batch", "dataset"), NETWORKS)
def test_no_policy_is_faster_than_the_joint_plan(network: str, batch: int, dataset: str) -> None:
    scenario = tight_scenario(network, batch, dataset)
    # HOME's swarms are long; theirs are compared in `make verify`.
    check_joint_is_fastest(scenario, [name for name in BEFORE if not name.startswith("home")])


@pytest.mark.verify
def test_the_joint_plan_is_faster_than_all_others_on_most_networks() -> None:
    faster = [
        check_joint_is_fastest(tight_scenario(*network), BEFORE) for network in NETWORKS + OTHERS
    ]
    assert sum(faster) >= len(faster) / 2, faster


@pytest.mark.verify
def test_asked_for_alone_it_has_all_other_plans_to_begin_with() -> None:
    """Without them it was slower than HOME+."""
    scenario = tight_scenario("resnet50", 64, "imagenet")
    home = plan_all(scenario, ["home+"])["home+"].trace
    alone = plan_all(scenario, ["joint"])
    assert list(alone) == ["joint"]
    assert alone["joint"].trace.seconds <= home.seconds
    assert alone["joint"].plan == plan_all(scenario)["joint"].plan
    (largest,) = largest_batches(lambda _batch: scenario, ["joint"], highest=1)
    assert largest.seconds == alone["joint"].trace.seconds


def test_where_no_engine_fits_the_link_nothing_goes_through_one() -> None:
    scenario = replace(tight_scenario(*NETWORKS[0]), link=link("nvlink4"))
    without = [name for name, each in POLICIES.items() if not each.engine]
    assert list(possible(scenario)) == without
    assert set(POLICIES) - set(without) == {"cdma", "cdma-bandwidth-aware", "best-with-engine"}
    results = plan_all(scenario, ["vdnn", "joint", "joint-lossy"])
    for result in results.values():
        assert "zvc" not in {choice.codec for choice in result.plan.choices}
    with pytest.raises(ScheduleError, match=r"^policy cdma: no engine passes the 360 GB/s"):
        plan_all(scenario, ["cdma"])


def test_a_mode_that_is_asked_for_is_kept() -> None:
    scenario = tight_scenario(*NETWORKS[0])
    known = [result.plan for result in plan_all(scenario, ["vdnn", "cdma"]).values()]
    for plan in known:
        assert joint.plan(scenario, known, mode=plan.mode, evaluations=500).mode == plan.mode


def test_plans_are_the_same_for_the_same_seed() -> None:
    scenario = tight_scenario(*NETWORKS[1], memory_share=0.05)
    first, again = (joint.plan(scenario, seed=7, evaluations=5000) for _ in range(2))
    assert first == again


def test_what_is_lossy_is_left_out_unless_asked_for() -> None:
    scenario = tight_scenario(*NETWORKS[0])
    comet = plan_all(scenario, ["comet"])["comet"].plan
    assert not joint.is_lossless(scenario, comet)
    assert joint.is_lossless(scenario, joint.plan(scenario, [comet], evaluations=500))
    lossy = joint.plan(scenario, [comet], lossy=True, evaluations=500)
    assert simulate(scenario, lossy).seconds <= simulate(scenario, comet).seconds


def test_nothing_moves_where_all_fits() -> None:
    scenario = with_memory(tight_scenario(*NETWORKS[1]), 2**60)
    plan = joint.plan(scenario, [], evaluations=2000)
    assert set(plan.choices) == {RETAIN}


SMALL = (
    RETAIN,
    SWAP,
    RECOMPUTE,
    Choice(Placement.SWAP, "zvc"),
    Choice(Placement.COMPRESS, "zvc-sm"),
)


@pytest.mark.parametrize("seed", range(8))
def test_within_1_percent_of_the_exact_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "LOSSLESS", SMALL)
    scenario = random_scenario(seed, 6, options=SMALL)
    evaluator = TimelineEvaluator(scenario, SMALL, ASYNCHRONOUS)
    best = exhaustive(evaluator, 6, len(SMALL))
    found = joint.plan(scenario, mode=ASYNCHRONOUS, seed=seed, evaluations=4000)
    assert simulate(scenario, found).seconds <= best.seconds * 1.01
    # It never claims more than is possible.
    assert simulate(scenario, found).seconds >= best.seconds * (1 - 1e-9)


def test_infeasible_stays_infeasible() -> None:
    scenario = with_memory(tight_scenario(*NETWORKS[0]), 1e6)
    plan = joint.plan(scenario, evaluations=500)
    assert not simulate(scenario, replace(plan)).feasible
