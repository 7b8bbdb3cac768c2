"""DTR: nothing is evicted while there is room, and then what is cheap, large and stale."""

import pytest

from cdma.plan.platform.link import Link
from cdma.plan.policies import oracle
from cdma.plan.policies.recomputing import dtr
from cdma.plan.timeline.memory import least_memory
from cdma.plan.timeline.placement import RECOMPUTE, RETAIN
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Layer, Tensor
from tests.plan.timeline.small_graphs import DEVICE, random_scenario

MB = 10**6


def chain(sizes: list[int], works: list[float]) -> Scenario:
    """A tensor after the other, each saved by the next layer; enough memory."""
    tensors = [Tensor(name="x", nbytes=MB, kind="input")]
    layers = []
    for i, (size, work) in enumerate(zip(sizes, works, strict=True)):
        tensors.append(Tensor(name=f"t{i}", nbytes=size * MB, kind="conv", density=1.0))
        layers.append(
            Layer(
                name=f"t{i}",
                kind="conv",
                inputs=(i,),
                output=i + 1,
                saved=(i,),
                gradients=(i,) if i else (),
                flops_forward=work,
                flops_backward=2 * work,
            )
        )
    graph = Graph(name="chain", batch=1, tensors=tuple(tensors), layers=tuple(layers))
    return Scenario(
        graph=graph, device=DEVICE, link=Link("toy", 1e9, "made up"), memory_bytes=2**50
    )


def evicted(scenario: Scenario) -> list[str]:
    plan = dtr.plan(scenario)
    return [
        scenario.graph.tensors[t].name
        for t, choice in zip(scenario.graph.managed, plan.choices, strict=True)
        if choice == RECOMPUTE
    ]


def just_less(scenario: Scenario) -> Scenario:
    """With so little less memory that something must go."""
    return with_memory(scenario, simulate(scenario, oracle.plan(scenario)).least_bytes - 1)


def test_nothing_goes_while_there_is_room() -> None:
    for seed in range(5):
        scenario = with_memory(random_scenario(seed), 10**12)
        assert set(dtr.plan(scenario).choices) == {RETAIN}


@pytest.mark.parametrize(
    ("sizes", "works", "first"),
    [
        # Alike in size and cost: the stalest.
        ([10] * 6, [1e9] * 6, "t0"),
        # The largest.
        ([10, 10, 20, 10, 10, 10], [1e9] * 6, "t2"),
        # The cheapest.
        ([10] * 6, [1e9, 1e9, 1e7, 1e9, 1e9, 1e9], "t2"),
    ],
)
def test_the_first_to_go_is_stale_large_and_cheap(sizes, works, first) -> None:
    scenario = just_less(chain(sizes, works))
    assert evicted(scenario) == [first]


def test_neighbors_of_what_is_gone_are_dearer() -> None:
    """With t0 gone, t1 would be computed from two layers, so t3 goes before it."""
    scenario = chain([10] * 8, [1e9] * 8)
    most = simulate(scenario, oracle.plan(scenario)).least_bytes
    gone = evicted(with_memory(scenario, most - 15 * MB))
    assert gone[0] == "t0"
    assert "t1" not in gone
    assert len(gone) >= 2


@pytest.mark.parametrize("seed", range(12))
def test_it_fits_wherever_computing_all_again_does(seed: int) -> None:
    scenario = random_scenario(seed, 7)
    plan = dtr.plan(scenario)
    trace = simulate(scenario, plan)
    if set(plan.choices) != {RECOMPUTE}:
        assert trace.feasible
    assert trace.link_out_bytes == trace.link_in_bytes == 0
    assert trace.least_bytes >= least_memory(scenario).nbytes
