"""Each policy decides by its published rule; times are the timeline's."""

import math
from dataclasses import replace

import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import capuchin, cdma, oracle, static, superneurons, vdnn, vdnn_pp
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP, SYNCHRONOUS, Choice, Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph

ZVC = Choice(Placement.SWAP, "zvc")


def scenario_of(network: str = "vgg16", memory_bytes: float = 12e9, **changes: object) -> Scenario:
    graph = density.apply(Graph.from_table(network, 128), "digits-cnn")
    scenario = Scenario(
        graph=graph,
        device=device("titanxp"),
        link=link("pcie3x16"),
        memory_bytes=int(memory_bytes),
    )
    return replace(scenario, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def vgg16() -> Scenario:
    return scenario_of()


def choices_by_name(scenario: Scenario, plan) -> dict[str, Choice]:
    return {
        scenario.graph.tensors[t].name: choice
        for t, choice in zip(scenario.graph.managed, plan.choices, strict=True)
    }


def test_the_oracle_takes_the_computation_and_nothing_else(vgg16: Scenario) -> None:
    trace = simulate(with_memory(vgg16, math.inf), oracle.plan(vgg16))
    assert trace.seconds == pytest.approx(vgg16.compute_seconds, rel=1e-12)
    assert trace.stall_seconds < 1e-12
    assert trace.link_out_bytes == trace.link_in_bytes == 0


def test_vdnn_all_moves_every_tensor_once_each_way(vgg16: Scenario) -> None:
    trace = simulate(vgg16, vdnn.plan(vgg16))
    moved = sum(vgg16.graph.tensors[t].nbytes for t in vgg16.graph.managed)
    assert trace.link_out_bytes == trace.link_in_bytes == trace.host_bytes == moved


def test_vdnn_conv_moves_what_convolutions_read(vgg16: Scenario) -> None:
    plan = vdnn.plan(vgg16, swapped="conv")
    swapped = [
        vgg16.graph.tensors[t].nbytes / 2**20
        for t, choice in zip(vgg16.graph.managed, plan.choices, strict=True)
        if choice == SWAP
    ]
    # CSWAP+, Figure 2: twelve tensors from 1568 to 49 MB.
    assert swapped == [1568, 392, 784, 196, 392, 392, 98, 196, 196, 49, 49, 49]
    assert set(plan.choices) == {SWAP, RETAIN}


def test_an_unknown_swap_set_is_refused(vgg16: Scenario) -> None:
    with pytest.raises(ScheduleError, match="unknown swap set 'most'; choose from all, conv"):
        vdnn.plan(vgg16, swapped="most")


def test_cdma_moves_what_zero_value_compression_leaves(vgg16: Scenario) -> None:
    trace = simulate(vgg16, cdma.plan(vgg16))
    streams = 0
    for t in vgg16.graph.managed:
        tensor = vgg16.graph.tensors[t]
        streams += math.ceil(tensor.nbytes * (tensor.density + 1 / 32))
    assert trace.link_out_bytes == trace.link_in_bytes == streams


def test_cdma_reads_no_faster_than_its_throttle() -> None:
    # On a link of 120 GB/s, both throttles hold what compresses well.
    scenario = scenario_of(link=link("nvlink2"))
    for throttle, limit in (("performance-optimal", 200e9), ("bandwidth-aware", 48e9)):
        trace = simulate(scenario, cdma.plan(scenario, throttle=throttle))
        nbytes = {tensor.name: tensor.nbytes for tensor in scenario.graph.tensors}
        rates = [
            nbytes[event.name] / event.seconds for event in trace.events if event.kind == "offload"
        ]
        assert limit * 0.99 < max(rates) <= limit


def test_cdma_is_vdnn_with_shorter_copies(vgg16: Scenario) -> None:
    slow, fast = simulate(vgg16, vdnn.plan(vgg16)), simulate(vgg16, cdma.plan(vgg16))
    assert vgg16.compute_seconds < fast.seconds < slow.seconds
    aware = simulate(vgg16, cdma.plan(vgg16, throttle="bandwidth-aware"))
    assert fast.seconds <= aware.seconds < slow.seconds


def test_static_compression_pays_computation_for_every_tensor(vgg16: Scenario) -> None:
    trace = simulate(vgg16, static.plan(vgg16))
    coded = {event.name for event in trace.events if event.kind == "compress"}
    assert coded == {vgg16.graph.tensors[t].name for t in vgg16.graph.conv_inputs}
    assert trace.busy("compute") > vgg16.compute_seconds * 1.01


def test_vdnn_plus_plus_compresses_on_the_host_above_60_percent_zeros(vgg16: Scenario) -> None:
    dense = {tensor.name: 0.41 for tensor in vgg16.graph.tensors}
    sparse = next(vgg16.graph.tensors[t].name for t in vgg16.graph.conv_inputs)
    scenario = replace(vgg16, graph=vgg16.graph.with_densities(dense | {sparse: 0.39}))
    plan = vdnn_pp.plan(scenario)
    by_name = choices_by_name(scenario, plan)
    assert [name for name, choice in by_name.items() if choice.codec] == [sparse]

    trace = simulate(scenario, plan)
    raw = simulate(scenario, vdnn.plan(scenario, swapped="conv", mode=plan.mode))
    assert trace.link_out_bytes == raw.link_out_bytes
    assert trace.seconds == raw.seconds
    assert trace.host_bytes < raw.host_bytes


def test_superneurons_goes_by_the_kind_of_layer() -> None:
    scenario = scenario_of("resnet50")
    plan = superneurons.plan(scenario)
    by_kind: dict[str, set[Choice]] = {}
    for t, choice in zip(scenario.graph.managed, plan.choices, strict=True):
        by_kind.setdefault(scenario.stages[scenario.stage_of[t]].kind, set()).add(choice)
    assert by_kind["conv"] == {SWAP}
    assert by_kind["bn"] == by_kind["pool"] == {RECOMPUTE}
    assert by_kind["fc"] | by_kind["softmax"] == {RETAIN} if "fc" in by_kind else True


def test_capuchin_touches_nothing_where_all_fits(vgg16: Scenario) -> None:
    assert set(capuchin.plan(vgg16).choices) == {RETAIN}


def test_capuchin_decides_from_the_first_tensor_on_until_it_fits(vgg16: Scenario) -> None:
    tight = with_memory(vgg16, 9e9)
    plan = capuchin.plan(tight)
    decided = [choice != RETAIN for choice in plan.choices]
    assert any(decided)
    # A prefix: nothing later is touched.
    assert decided == sorted(decided, reverse=True)
    assert simulate(tight, plan).feasible
    last = decided.index(False) - 1 if False in decided else len(decided) - 1
    undone = list(plan.choices)
    undone[last] = RETAIN
    assert not simulate(tight, replace(plan, choices=tuple(undone))).feasible


def test_capuchin_takes_the_cheaper_of_both(vgg16: Scenario) -> None:
    tight = with_memory(vgg16, 9e9)
    for t, choice in zip(vgg16.graph.managed, capuchin.plan(tight).choices, strict=True):
        swap, redo = capuchin.swap_overhead(tight, t), capuchin.recompute_overhead(tight, t)
        if choice == SWAP:
            assert swap <= redo
        elif choice == RECOMPUTE:
            assert redo < swap


def test_a_plan_of_another_graph_is_refused(vgg16: Scenario) -> None:
    plan = vdnn.plan(vgg16)
    with pytest.raises(ScheduleError, match="20 choices, but vgg16 has 21 tensors"):
        simulate(vgg16, replace(plan, choices=plan.choices[1:], mode=SYNCHRONOUS))
