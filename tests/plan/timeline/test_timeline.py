"""The timeline on steps that one can compute by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    SWAP,
    SYNCHRONOUS,
    Choice,
    Mode,
    Placement,
    Plan,
)
from cdma.plan.timeline.timeline import TimelineEvaluator, simulate, with_memory
from cdma.plan.timeline.trace import Trace
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Layer, Tensor
from tests.plan.timeline.cases import BYTES, DRAM, FLOPS, chain, everything, plan, seeded

GB = BYTES
SECONDS = st.floats(0, 10)


def times(trace: Trace, kind: str) -> dict[str, tuple[float, float]]:
    """Starts and ends by tensors, to a microsecond."""
    return {
        event.name: (round(event.start, 6), round(event.end, 6))
        for event in trace.events
        if event.kind == kind
    }


@seeded
@given(st.data())
def test_synchronous_swapping_costs_the_longer_of_layer_and_copy(data: st.DataObject) -> None:
    """vDNN in closed form: sum of max(F_i, o_i), and of max(B_i, p_{i-1}), i's input being i's."""
    n = data.draw(st.integers(2, 8))
    forward, backward = (data.draw(st.lists(SECONDS, min_size=n, max_size=n)) for _ in range(2))
    copies = data.draw(st.lists(st.floats(0.001, 10), min_size=n - 1, max_size=n - 1))
    scenario = chain(forward, backward, copies)
    # Whole bytes: at most half a nanosecond each.
    out = [0.0, *copies]
    expected = sum(max(f, o) for f, o in zip(forward, out, strict=True))
    # The last layer's input is the first one to come back, and nothing hides that.
    expected += out[-1]
    expected += sum(max(b, p) for b, p in zip(backward, [0.0, *out[:-1]], strict=True))
    trace = simulate(scenario, everything(scenario, SWAP, SYNCHRONOUS))
    assert trace.seconds == pytest.approx(expected, rel=1e-6, abs=1e-7)


@seeded
@given(off=st.floats(0.001, 10), f3=SECONDS, b4=SECONDS)
def test_homes_example_of_a_swapped_tensors_cost(off: float, f3: float, b4: float) -> None:
    """HOME, §3.4: (OFF2 - FWD3) + (PRE2 - BWD4), neither less than nothing."""
    scenario = chain([1, 1, f3, 1], [1, 1, 1, b4], [1, off, 1])
    trace = simulate(scenario, plan(scenario, SYNCHRONOUS, t2=SWAP))
    cost = max(off - f3, 0) + max(off - b4, 0)
    assert trace.seconds - scenario.compute_seconds == pytest.approx(cost, abs=1e-6)


def test_asynchronous_swapping_hides_copies_behind_all_of_the_computation() -> None:
    scenario = chain([1, 1, 4, 1], [1, 1, 1, 4], [1, 3, 1])
    trace = simulate(scenario, plan(scenario, t1=SWAP, t2=SWAP))
    assert times(trace, "offload") == {"t1": (1, 2), "t2": (2, 5)}
    # As soon as backward begins, the one that is wanted first at the head.
    assert times(trace, "prefetch") == {"t2": (7, 10), "t1": (10, 11)}
    assert trace.seconds == scenario.compute_seconds


def test_a_prefetch_waits_until_its_offload_is_over() -> None:
    scenario = chain([1, 1], [1, 1], [5])
    trace = simulate(scenario, plan(scenario, t1=SWAP))
    assert times(trace, "offload") == {"t1": (1, 6)}
    assert times(trace, "prefetch") == {"t1": (6, 11)}
    assert times(trace, "backward") == {"t2": (11, 12), "t1": (12, 13)}
    assert trace.stall_seconds == pytest.approx(9)


@pytest.mark.parametrize(
    ("lookahead", "start"), [(None, 5), (0, 8), (1, 7), (2, 6), (3, 5), (9, 5)]
)
def test_a_prefetch_begins_so_many_steps_before_its_need(
    lookahead: int | None, start: float
) -> None:
    # Backward begins at 5, and wants t1 at 8; it takes 4 s.
    scenario = chain([1] * 5, [1] * 5, [2, 1, 1, 1])
    scenario = replace(scenario, link=replace(scenario.link, in_bytes_per_s=GB / 2))
    trace = simulate(scenario, plan(scenario, Mode(lookahead=lookahead), t1=SWAP))
    assert times(trace, "prefetch") == {"t1": (start, start + 4)}
    assert trace.seconds == pytest.approx(start + 4 + 2)


def test_a_link_that_is_not_duplex_copies_one_way_at_a_time() -> None:
    scenario = chain([1, 1, 1], [1, 1, 1], [4, 4])
    both = simulate(scenario, plan(scenario, t1=SWAP, t2=SWAP))
    assert times(both, "offload") == {"t1": (1, 5), "t2": (5, 9)}
    assert times(both, "prefetch") == {"t2": (9, 13), "t1": (13, 17)}
    # Another order: what went first is wanted again while the other one is leaving.
    crossing = chain([1, 1, 1], [1, 1, 1], [1, 8])
    crossing = replace(crossing, graph=_saved_late(crossing.graph))
    duplex = simulate(crossing, plan(crossing, t1=SWAP, t2=SWAP))
    assert times(duplex, "offload") == {"t1": (1, 2), "t2": (2, 10)}
    assert times(duplex, "prefetch") == {"t1": (3, 4), "t2": (10, 18)}
    one_way = replace(crossing, link=replace(crossing.link, duplex=False))
    trace = simulate(one_way, plan(one_way, t1=SWAP, t2=SWAP))
    assert times(trace, "prefetch") == {"t1": (10, 11), "t2": (11, 19)}


def _saved_late(graph: Graph) -> Graph:
    """The second layer's backward pass wants t2, the third one's t1, and no other one anything."""
    first, second, third, *more = graph.layers
    return replace(
        graph,
        layers=(
            replace(first, saved=()),
            replace(second, saved=(2,)),
            replace(third, inputs=(1, 2), saved=(1,)),
            *(replace(layer, saved=()) for layer in more),
        ),
    )


def test_a_chain_is_recomputed_from_what_is_there() -> None:
    scenario = chain([1, 2, 4, 8, 16], [1, 1, 1, 1, 1], [1, 1, 1, 1])
    trace = simulate(scenario, plan(scenario, t2=RECOMPUTE, t3=RECOMPUTE, t4=RECOMPUTE))
    # The last layer wants t4, so all of them are made again, from t1, and stay.
    assert times(trace, "recompute") == {"t2": (31, 33), "t3": (33, 37), "t4": (37, 45)}
    assert trace.seconds == 31 + 14 + 5


def test_a_tensor_that_backward_does_not_need_is_recomputed_for_one_step_only() -> None:
    scenario = chain([1, 2, 4, 8], [1, 1, 1, 1], [5, 7, 11])
    layers = list(scenario.graph.layers)
    layers[2] = replace(layers[2], saved=())
    scenario = replace(scenario, graph=replace(scenario.graph, layers=tuple(layers)))
    assert [scenario.graph.tensors[t].name for t in scenario.graph.managed] == ["t1", "t3"]
    trace = simulate(scenario, plan(scenario, t3=RECOMPUTE))
    assert times(trace, "recompute") == {"t2": (15, 17), "t3": (17, 21)}
    # The minibatch, t1, t2 on its way, t3, and the gradients of t3 and t4.
    assert trace.peak_bytes == round((1 + 5 + 7 + 11 + 11 + 1) * GB)


def test_a_recomputed_tensor_whose_source_is_out_brings_that_back_first() -> None:
    scenario = chain([1, 2, 4, 8], [1, 1, 1, 1], [3, 1, 1])
    trace = simulate(scenario, plan(scenario, t1=SWAP, t2=RECOMPUTE, t3=RECOMPUTE))
    assert times(trace, "prefetch") == {"t1": (15, 18)}
    assert times(trace, "recompute") == {"t2": (18, 20), "t3": (20, 24)}
    assert trace.seconds == 18 + 6 + 4


def test_a_layer_in_place_is_recomputed_with_the_one_before_it() -> None:
    scenario = chain([1, 2, 4], [1, 1, 1], [1, 1])
    relu = Layer(
        name="relu", kind="relu", inputs=(2,), output=2, saved=(2,), flops_forward=0.5 * FLOPS
    )
    graph = scenario.graph
    graph = replace(graph, layers=(*graph.layers[:2], relu, graph.layers[2]))
    scenario = replace(scenario, graph=graph)
    trace = simulate(scenario, plan(scenario, t2=RECOMPUTE))
    assert times(trace, "forward") == {"t1": (0, 1), "t2": (1, 3.5), "t3": (3.5, 7.5)}
    assert times(trace, "recompute") == {"t2": (7.5, 10)}


@pytest.mark.parametrize(
    ("staging", "starts"),
    [
        # Nothing may wait: the third layer begins when t1 is out.
        (0, {"t1": 0, "t2": 1, "t3": 6, "t4": 11}),
        # t1 may, but not with t2 beside it.
        (4, {"t1": 0, "t2": 1, "t3": 2, "t4": 6}),
        (8, {"t1": 0, "t2": 1, "t3": 2, "t4": 3}),
    ],
)
def test_computation_waits_while_the_staging_pool_is_full(
    staging: float, starts: dict[str, float]
) -> None:
    scenario = chain([1, 1, 1, 1], [1, 1, 1, 1], [4, 4, 4])
    scenario = replace(scenario, link=replace(scenario.link, bytes_per_s=0.8 * GB))
    mode = Mode(staging_bytes=staging * GB)
    trace = simulate(scenario, plan(scenario, mode, t1=SWAP, t2=SWAP))
    assert {name: start for name, (start, _) in times(trace, "forward").items()} == starts


def test_computation_waits_for_offloads_where_memory_is_short() -> None:
    scenario = chain([1, 1, 1, 1], [1, 1, 1, 1], [3, 3, 3])
    swap = everything(scenario, SWAP)
    plenty = simulate(scenario, swap)
    assert times(plenty, "forward")["t4"] == (3, 4)
    # The minibatch, t2, its gradient and that of t3.
    assert plenty.least_bytes == (1 + 3 + 3 + 3) * GB
    trace = simulate(with_memory(scenario, 10 * GB), swap)
    # The minibatch and three tensors may be there while the third layer runs; t4 has to wait until
    # the first one is out.
    assert times(trace, "forward") == {"t1": (0, 1), "t2": (1, 2), "t3": (2, 3), "t4": (4, 5)}
    assert trace.peak_bytes == 10 * GB


def reasons(trace: Trace, kind: str) -> dict[str, tuple[str, str | None]]:
    """For each event of a kind, by its tensor: why it started then, and the tensor behind that."""
    return {
        event.name: (
            event.bound.reason,
            None if event.bound.event is None else trace.events[event.bound.event].name,
        )
        for event in trace.events
        if event.kind == kind
    }


def test_reasons_of_a_chain_that_waits_for_memory_and_copies() -> None:
    scenario = chain([1, 1, 1, 1], [1, 1, 1, 1], [3, 3, 3])
    trace = simulate(with_memory(scenario, 10 * GB), everything(scenario, SWAP))
    assert reasons(trace, "forward") == {
        "t1": ("start", None),
        "t2": ("computed", "t1"),
        "t3": ("computed", "t2"),
        "t4": ("memory", "t1"),
    }
    assert reasons(trace, "offload") == {
        "t1": ("computed", "t1"),
        "t2": ("link", "t1"),
        "t3": ("link", "t2"),
    }
    # When t3 is out there is memory for it, too; of several reasons the first one is told.
    assert reasons(trace, "prefetch")["t3"] == ("memory", "t3")
    assert reasons(trace, "backward")["t4"] == ("arrived", "t3")
    stalls = trace.stall_seconds_by_reason
    assert stalls == {"memory": 1, "arrived": trace.stall_seconds - 1}
    synchronous = simulate(scenario, everything(scenario, SWAP, SYNCHRONOUS))
    assert reasons(synchronous, "forward")["t3"] == ("staging", "t1")


def test_memory_that_does_not_suffice_refuses_the_plan_and_says_what_would() -> None:
    scenario = chain([1, 1, 1], [1, 1, 1], [3, 3])
    retain = everything(scenario, RETAIN)
    # The minibatch, both tensors, the gradients of t2 and of t3.
    least = (1 + 3 + 3 + 3 + 1) * GB
    assert simulate(scenario, retain).peak_bytes == least
    trace = simulate(with_memory(scenario, least - 1), retain)
    assert trace.seconds == math.inf
    assert not trace.feasible
    assert trace.least_bytes == trace.peak_bytes == least
    assert trace.events == ()
    assert trace.stall_seconds == 0


def test_copies_slow_layers_that_wait_for_memory_piece_by_piece() -> None:
    """A layer of 4 s of memory traffic beside two copies that take 40 % and then 90 %."""
    scenario = chain([1, 1, 0, 0], [0, 0, 0, 0], [80, 180, 1])
    layers = list(scenario.graph.layers)
    layers[2] = replace(layers[2], bytes_forward=4 * DRAM)
    # The second one's stream is 80 GB long, too.
    graph = replace(scenario.graph, layers=tuple(layers)).with_densities({"t2": 4 / 9 - 1 / 32})
    scenario = replace(scenario, graph=graph, link=replace(scenario.link, bytes_per_s=0.4 * DRAM))
    trace = simulate(scenario, plan(scenario, t1=SWAP, t2=Choice(Placement.SWAP, "zvc")))
    assert times(trace, "offload") == {"t1": (1, 3), "t2": (3, 5)}
    # A second at 60 %, two at 10 %, and what is left of it, 3.2 s, alone.
    assert times(trace, "forward")["t3"] == (2, 8.2)


def test_copies_of_both_directions_take_their_shares_together() -> None:
    scenario = chain([1, 1, 0.5, 0.5], [0, 0, 0, 1], [60, 60, 1])
    layers = list(scenario.graph.layers)
    layers[3] = replace(layers[3], bytes_backward=1.6 * DRAM)
    scenario = replace(
        scenario,
        graph=_saved_late(replace(scenario.graph, layers=tuple(layers))),
        link=replace(scenario.link, bytes_per_s=0.3 * DRAM, in_bytes_per_s=0.5 * DRAM),
    )
    trace = simulate(scenario, plan(scenario, t1=SWAP, t2=SWAP))
    assert times(trace, "offload") == {"t1": (1, 3), "t2": (3, 5)}
    assert times(trace, "prefetch") == {"t1": (3, 4.2), "t2": (5, 6.2)}
    # Beside both of them until 4.2, beside 30 % until 5 and 50 % until 6.2, then alone.
    left = 1.6 - 1.2 * 0.2 - 0.8 * 0.7 - 1.2 * 0.5
    assert times(trace, "backward")["t4"] == (3, round(6.2 + left, 6))


def test_copies_leave_a_tenth_of_the_memorys_bandwidth_at_least() -> None:
    scenario = chain([1, 1, 0], [0, 0, 0], [1, 60])
    layers = list(scenario.graph.layers)
    layers[2] = replace(layers[2], bytes_forward=0.5 * DRAM)
    scenario = replace(
        scenario,
        graph=replace(scenario.graph, layers=tuple(layers)),
        link=replace(scenario.link, bytes_per_s=3 * DRAM),
    )
    trace = simulate(scenario, plan(scenario, t2=SWAP))
    # The copy takes 0.2 s, and more than there is.
    assert times(trace, "forward")["t3"] == (2, round(2 + 0.2 + 0.5 - 0.02, 6))


def test_codecs_on_the_device_take_its_time_and_memory() -> None:
    scenario = chain([1, 1], [1, 1], [16])
    codec = Choice(Placement.SWAP, "zfp-32")
    seconds = scenario.codec_seconds(1, codec)
    assert seconds > 1
    trace = simulate(scenario, plan(scenario, t1=codec))
    end = round(1 + seconds, 6)
    # A quarter of the bytes.
    assert times(trace, "compress") == {"t1": (1, end)}
    assert times(trace, "offload") == {"t1": (end, round(end + 4, 6))}
    assert times(trace, "forward")["t2"] == (end, round(end + 1, 6))
    back = round(1 + seconds + 4 + 4, 6)
    assert times(trace, "prefetch") == {"t1": (round(back - 4, 6), back)}
    assert times(trace, "decompress") == {"t1": (back, round(back + seconds, 6))}
    assert trace.seconds == pytest.approx(back + seconds + 2)
    # The minibatch, the tensor and its stream; backward, the tensor, its stream, its gradient and
    # that of t2.
    assert trace.least_bytes == (1 + 16 + 4 + 16 + 1) * GB
    # Memory for what comes back is reserved while it is still leaving.
    assert trace.peak_bytes == trace.least_bytes + 4 * GB
    kept = simulate(scenario, plan(scenario, t1=Choice(Placement.COMPRESS, "zfp-32")))
    # Compressed when it has been read.
    assert times(kept, "compress") == {"t1": (2, round(2 + seconds, 6))}
    assert times(kept, "decompress") == {"t1": (round(2 + seconds, 6), round(2 + 2 * seconds, 6))}
    assert kept.seconds == pytest.approx(4 + 2 * seconds)


def test_compressing_on_the_way_takes_no_time_of_the_computation() -> None:
    scenario = chain([1, 1], [1, 1], [16])
    scenario = replace(scenario, graph=scenario.graph.with_densities({"t1": 0.25 - 1 / 32}))
    trace = simulate(scenario, plan(scenario, t1=Choice(Placement.SWAP, "zvc")))
    assert times(trace, "offload") == {"t1": (1, 5)}
    assert times(trace, "prefetch") == {"t1": (5, 9)}
    assert trace.seconds == pytest.approx(11)
    assert trace.link_out_bytes == trace.link_in_bytes == trace.host_bytes == 4 * GB
    host = simulate(scenario, plan(scenario, t1=Choice(Placement.SWAP, "zvc-host")))
    assert host.link_out_bytes == 16 * GB
    assert host.host_bytes == 4 * GB


def test_many_plans_at_once_have_the_times_that_each_has_alone() -> None:
    scenario = chain([1, 2, 1, 2], [2, 4, 2, 4], [3, 1, 2])
    scenario = with_memory(scenario, 9 * GB)
    options = (RETAIN, SWAP, RECOMPUTE)
    assignments = np.array(np.meshgrid(*[range(3)] * 3), np.int8).reshape(3, -1).T
    for mode in (SYNCHRONOUS, ASYNCHRONOUS):
        evaluator = TimelineEvaluator(scenario, options, mode)
        seconds = evaluator.seconds(assignments)
        alone = [simulate(scenario, evaluator.plan("one", row)).seconds for row in assignments]
        assert list(seconds) == alone
        assert 0 < np.isfinite(seconds).sum() < len(seconds)


def test_a_plan_of_another_graph_is_refused() -> None:
    scenario = chain([1, 1], [1, 1], [1])
    with pytest.raises(ScheduleError, match="plan of joint has 2 choices, but chain has 1 tensor"):
        simulate(scenario, Plan(policy="joint", choices=(SWAP, SWAP)))


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([[0, 0]], r"plans must be \(plans, 1\), not \(1, 2\)"),
        ([0], r"plans must be \(plans, 1\), not \(1,\)"),
        ([[2]], "plans are of options 0 to 1, not 2 to 2"),
        ([[0], [-1]], "plans are of options 0 to 1, not -1 to 0"),
    ],
)
def test_assignments_that_are_no_plans_are_refused(assignments: list, message: str) -> None:
    scenario = chain([1, 1], [1, 1], [1])
    with pytest.raises(ValueError, match=message):
        TimelineEvaluator(scenario, (RETAIN, SWAP)).seconds(np.array(assignments, np.int8))


def test_a_step_without_anything_to_decide_is_the_oracles() -> None:
    tensors = (
        Tensor(name="x", nbytes=GB, kind="input"),
        Tensor(name="y", nbytes=GB, kind="fc"),
    )
    layer = Layer(name="fc", kind="fc", inputs=(0,), output=1, saved=(0,), flops_forward=FLOPS)
    scenario = replace(
        chain([1], [1], []),
        graph=Graph(name="one", batch=1, tensors=tensors, layers=(layer,)),
    )
    trace = simulate(scenario, Plan(policy="none", choices=()))
    assert trace.seconds == scenario.compute_seconds == 1
    # The output, or its gradient.
    assert trace.peak_bytes == 2 * GB
