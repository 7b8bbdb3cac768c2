"""Plans that decide about saved tensors."""

from dataclasses import replace

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
        Tensor(
            name=f"t{k}",
            nbytes=nbytes,
            kind="input" if k == 0 else "conv",
            values=(f"l{k - 1}#0:conv@0.0",) if k else (),
        )
        for k, nbytes in enumerate(sizes)
    )
    layers = tuple(
        Layer(name=f"l{k}", kind="conv", inputs=(k,), output=k + 1, saved=(k, k + 1))
        for k in range(4)
    )
    names = [value for tensor in tensors for value in tensor.values]
    return Graph(
        name="row", batch=1, tensors=tensors, layers=layers, saved_values=(*names, "l0#0:mask@0.0")
    )


def test_everything_goes_compressed():
    choose = SwapPlan.everything().begin()
    assert choose(saved(4096)) == choose(saved(64, activation=False)) == ZVC
    assert SwapPlan.everything(None).begin()(saved(4096)) == SWAP


def test_a_predicate():
    choose = SwapPlan.where(lambda one: one.nbytes > 2048, None).begin()
    assert choose(saved(4096)) == SWAP
    assert choose(saved(2048)) == RETAIN


def test_a_schedules_choices_are_by_name(graph):
    compress = Choice(Placement.COMPRESS, "zvc-sm")
    plan = SwapPlan.from_plan(
        graph, Plan(policy="test", choices=(ZVC, RECOMPUTE, RETAIN, compress))
    )
    assert plan.choices == {
        "l0#0:conv@0.0": ZVC,
        "l1#0:conv@0.0": RECOMPUTE,
        "l2#0:conv@0.0": RETAIN,
        "l3#0:conv@0.0": compress,
    }
    # What no plan decides about is known all the same.
    assert set(plan.known) == {*plan.choices, "l0#0:mask@0.0"}


def test_a_plan_of_names_is_not_for_tensors_without(graph):
    plan = SwapPlan.from_plan(graph, Plan(policy="test", choices=(SWAP,) * 4))
    with pytest.raises(SwapPlanError, match="carry it out by planned_step"):
        plan.begin()


def test_a_graph_that_was_not_traced_has_no_names(graph):
    bare = replace(graph, tensors=tuple(replace(t, values=()) for t in graph.tensors))
    with pytest.raises(SwapPlanError, match="tensor t1 of row has no name in a step; trace"):
        SwapPlan.from_plan(bare, Plan(policy="test", choices=(SWAP,) * 4))


def test_what_stays_compressed_loses_nothing(graph):
    lossy = Choice(Placement.COMPRESS, "quantize-sm")
    with pytest.raises(
        SwapPlanError, match="compressed with codec 'quantize-sm'; choose from zvc-sm"
    ):
        SwapPlan.from_plan(graph, Plan(policy="test", choices=(lossy,) * 4))


def test_a_plan_of_another_graph(graph):
    with pytest.raises(SwapPlanError, match="has 1 choices, and row 4 tensors"):
        SwapPlan.from_plan(graph, Plan(policy="test", choices=(SWAP,)))


def test_a_codec_that_the_engine_has_not_got(graph):
    lossy = Choice(Placement.SWAP, "zfp-32")
    choices = "choose from None, zvc, xc, .*, zvc-host, xc-host, .*, zvc-sm"
    with pytest.raises(SwapPlanError, match=f"cannot swap with codec 'zfp-32'; {choices}"):
        SwapPlan.from_plan(graph, Plan(policy="test", choices=(lossy,) * 4))
    with pytest.raises(SwapPlanError, match=choices):
        SwapPlan.everything("lz4")
