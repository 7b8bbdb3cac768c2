"""Checkpointing: blocks keep what they read, and one more forward pass of them is what it costs."""

from collections.abc import Callable

import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies.recomputing import checkpoint
from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph


def scenario_of(network: str, batch: int) -> Scenario:
    return Scenario(
        graph=density.apply(Graph.from_table(network, batch)),
        device=device("h100"),
        link=link("pcie5x16"),
        memory_bytes=80 * 10**9,
    )


@pytest.fixture(scope="module")
def gpt2() -> Scenario:
    return scenario_of("gpt2", 2)


def kept(scenario: Scenario, plan: Plan) -> list[str]:
    return [
        scenario.graph.tensors[t].name
        for t, choice in zip(scenario.graph.managed, plan.choices, strict=True)
        if choice == RETAIN
    ]


def test_blocks_keep_what_they_read(gpt2: Scenario) -> None:
    plan = checkpoint.plan(gpt2)
    blocks = [f"h{i}.add_2" for i in range(12)]
    assert kept(gpt2, plan) == ["wpe", *blocks, "ln_f", "prob"]
    assert set(plan.choices) == {RETAIN, RECOMPUTE}


def test_blocks_run_once_more(gpt2: Scenario) -> None:
    trace = simulate(gpt2, checkpoint.plan(gpt2))
    in_blocks = [gpt2.graph.tensors[stage.output].name[0] == "h" for stage in gpt2.stages]
    forward = sum(s for s, inside in zip(gpt2.forward_seconds, in_blocks, strict=True) if inside)
    again = trace.seconds - gpt2.compute_seconds
    # A block's last sum is kept, and what nothing but it reads is not needed again.
    assert 0.7 * forward < again <= forward
    plain = simulate(gpt2, Plan(policy="all", choices=(RETAIN,) * len(gpt2.graph.managed)))
    assert trace.peak_bytes < plain.peak_bytes


def test_the_selective_variant_keeps_products_too(gpt2: Scenario) -> None:
    whole, selective = (checkpoint.plan(gpt2, selective=each) for each in (False, True))
    more = set(kept(gpt2, selective)) - set(kept(gpt2, whole))
    expected = {f"h{i}.{name}" for i in range(12) for name in ("qkv", "attn", "fc")}
    assert more == expected
    times = [simulate(gpt2, plan).seconds for plan in (whole, selective)]
    assert gpt2.compute_seconds < times[1] < times[0]


def test_networks_without_blocks_are_cut_into_the_root_of_their_stages() -> None:
    vgg16 = scenario_of("vgg16", 8)
    regions = checkpoint.regions(vgg16)
    # Five of them each.
    assert len(vgg16.stages) == 22
    assert regions == [stage // 5 for stage in range(22)]
    plan = checkpoint.plan(vgg16)
    assert 4 <= len(kept(vgg16, plan)) < len(plan.choices) / 2


@pytest.mark.parametrize(("network", "blocks"), [("resnet50", 16), ("olmoe", 16), ("dit-xl2", 28)])
def test_blocks_are_those_of_the_network(network: str, blocks: int) -> None:
    scenario = scenario_of(network, 1)
    named: dict[int, set[str]] = {}
    for stage, region in zip(scenario.stages, checkpoint.regions(scenario), strict=True):
        named.setdefault(region, set()).add(scenario.graph.tensors[stage.output].name)
    starts: dict[str, Callable[[str], bool]] = {
        "resnet50": lambda name: name.startswith("res"),
        "olmoe": lambda name: name.startswith("layer"),
        "dit-xl2": lambda name: name.startswith("block"),
    }
    whole = [names for region, names in named.items() if region >= 0]
    of_blocks = [names for names in whole if all(map(starts[network], names))]
    assert len(of_blocks) == blocks
    for names in of_blocks:
        assert len({name.split(".")[0] for name in names}) == 1


def test_the_plan_is_the_same_for_every_memory(gpt2: Scenario) -> None:
    assert checkpoint.plan(with_memory(gpt2, 10**9)) == checkpoint.plan(gpt2)
