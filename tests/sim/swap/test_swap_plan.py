"""Plans that decide about saved tensors."""

import pytest

from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP, Choice, Placement, Plan
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import Layer, Tensor
from cdma.sim.swap import Saved, SwapPlan, SwapPlanError

ZVC = Choice(Placement.SWAP, "zvc")


def saved(nbytes, *, activation=True):
    return Saved(nbytes=nbytes, shape=(nbytes // 4,), dtype="float32", activation=activation)


@pytest.fixture
def graph():
    """Four layers in a row; what they make has 4096, 1024, 4096 and 4096 bytes."""
    sizes = (512, 4096, 1024, 4096, 4096)
    tensors = tuple(
        Tensor(name=f"t{k}", nbytes=nbytes, kind="input" if k == 0 else "conv")
        for k, nbytes in enumerate(sizes)
    )
    layers = tuple(
        Layer(name=f"l{k}", kind="conv", inputs=(k,), output=k + 1, saved=(k, k + 1))
        for k in range(4)
    )
    return Graph(name="row", batch=1, tensors=tensors, layers=layers)


def test_everything_goes_compressed():
    choose = SwapPlan.everything().begin()
    assert choose(saved(4096)) == choose(saved(64, activation=False)) == ZVC
    assert SwapPlan.everything(None).begin()(saved(4096)) == SWAP


def test_a_predicate():
    choose = SwapPlan.where(lambda one: one.nbytes > 2048, None).begin()
    assert choose(saved(4096)) == SWAP
    assert choose(saved(2048)) == RETAIN


def test_a_schedule_is_matched_by_size_and_order(graph):
    plan = Plan(policy="test", choices=(ZVC, SWAP, RETAIN, SWAP))
    choose = SwapPlan.from_plan(graph, plan).begin()
    assert [choose(saved(n)) for n in (4096, 4096, 1024, 4096)] == [ZVC, RETAIN, SWAP, SWAP]
    assert choose(saved(4096)) == RETAIN


def test_what_the_graph_does_not_have_takes_no_tensors_place(graph):
    plan = Plan(policy="test", choices=(ZVC, SWAP, RETAIN, SWAP))
    choose = SwapPlan.from_plan(graph, plan).begin()
    assert choose(saved(4096, activation=False)) == RETAIN
    assert choose(saved(2048)) == RETAIN
    assert choose(saved(4096)) == ZVC


def test_each_forward_pass_begins_anew(graph):
    swap_plan = SwapPlan.from_plan(graph, Plan(policy="test", choices=(ZVC, SWAP, RETAIN, SWAP)))
    assert swap_plan.begin()(saved(4096)) == ZVC
    assert swap_plan.begin()(saved(4096)) == ZVC


def test_other_placements_pass(graph):
    choices = (RECOMPUTE, Choice(Placement.COMPRESS, "zvc-sm"), RETAIN, RETAIN)
    choose = SwapPlan.from_plan(graph, Plan(policy="test", choices=choices)).begin()
    assert choose(saved(4096)).placement is Placement.RECOMPUTE


def test_a_plan_of_another_graph(graph):
    with pytest.raises(SwapPlanError, match="has 1 choices, and row 4 tensors"):
        SwapPlan.from_plan(graph, Plan(policy="test", choices=(SWAP,)))


def test_a_codec_that_the_engine_has_not_got(graph):
    lossy = Choice(Placement.SWAP, "zfp-32")
    message = "cannot swap with codec 'zfp-32'; choose from None, zvc, xc, zvc-host, xc-host"
    with pytest.raises(SwapPlanError, match=message):
        SwapPlan.from_plan(graph, Plan(policy="test", choices=(lossy,) * 4))
    with pytest.raises(SwapPlanError, match="choose from None, zvc, xc, zvc-host, xc-host"):
        SwapPlan.everything("lz4")
