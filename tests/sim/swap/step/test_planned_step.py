"""Steps of PyTorch that keep plans by name: `make test-torch`."""

import copy
import gc
import random
import re
from functools import cache
from typing import Any

import pytest

from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP, Choice, Placement, Plan
from cdma.plan.workload.graph import Graph
from cdma.sim.driver import Engine
from cdma.sim.swap import (
    DeviceMemory,
    DeviceMemoryError,
    EngineHost,
    SavedTensorError,
    Stash,
    SwapPlan,
    SwapPlanError,
    planned_step,
    rehearse,
)
from tests.sim.machine.engine.model import ModelMachine

pytestmark = pytest.mark.torch

ZVC = Choice(Placement.SWAP, "zvc")
COMPRESS = Choice(Placement.COMPRESS, "zvc-sm")
CHOICES = (RETAIN, SWAP, ZVC, RECOMPUTE, COMPRESS)
NAMES = ("gpt", "llama", "resnet")


@pytest.fixture(autouse=True)
def _one_thread():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class ArrayHost:
    """Host memory of arrays: quick, where nothing is asked of the engine."""

    def __init__(self) -> None:
        self.out = 0

    def put(self, data, codec):
        self.out += 1
        return data.numpy().copy()

    def prefetch(self, out):
        return out

    def get(self, out, arriving, data):
        data.numpy()[:] = out

    def drop(self, out, arriving):
        self.out -= 1


@cache
def subject(name: str) -> Any:
    from tests.sim.swap.step import torch_subjects

    return torch_subjects.SUBJECTS[name]()


@cache
def graph(name: str) -> Graph:
    found = subject(name)
    return Graph.from_module(found.module, found.example, name, target="cpu")


def plan_of(name: str, choices) -> SwapPlan:
    return SwapPlan.from_plan(graph(name), Plan(policy="test", choices=tuple(choices)))


def alike(name: str, choice: Choice) -> SwapPlan:
    return plan_of(name, [choice] * len(graph(name).managed))


def results(found: Any, loss: Any) -> dict[str, bytes]:
    """The bytes of the loss, the gradients and the buffers."""
    tensors = {"loss": loss.detach(), **dict(found.module.named_buffers())}
    tensors |= {name: p.grad for name, p in found.module.named_parameters()}
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


@cache
def plain(name: str) -> dict[str, bytes]:
    import torch

    found = copy.deepcopy(subject(name))
    torch.manual_seed(1)
    loss = found.loss()
    loss.backward()
    return results(found, loss)


def carried_out(name: str, plan: SwapPlan, host=None, capacity_bytes=None, **options):
    """A step's results, memory and counts."""
    import torch

    found = copy.deepcopy(subject(name))
    memory = DeviceMemory(capacity_bytes)
    torch.manual_seed(1)
    step = planned_step(
        found.module,
        plan,
        host or ArrayHost(),
        memory,
        inputs=found.example,
        **options,
    )
    with step as counts:
        loss = found.loss()
        loss.backward()
    return results(found, loss), memory, counts


class TestBits:
    @pytest.mark.parametrize("choice", [SWAP, RECOMPUTE, COMPRESS], ids=str)
    @pytest.mark.parametrize("name", NAMES)
    def test_each_tensor_alone(self, name, choice):
        managed = len(graph(name).managed)
        for i in range(managed):
            choices = [choice if k == i else RETAIN for k in range(managed)]
            found, _, _ = carried_out(name, plan_of(name, choices))
            assert found == plain(name), graph(name).tensors[graph(name).managed[i]].name

    @pytest.mark.parametrize("choice", CHOICES, ids=str)
    @pytest.mark.parametrize("name", NAMES)
    def test_all_tensors_alike(self, name, choice):
        found, _, _ = carried_out(name, alike(name, choice))
        assert found == plain(name)

    @pytest.mark.parametrize("name", NAMES)
    def test_random_mixes(self, name):
        draw = random.Random(7)
        for _ in range(20):
            choices = [draw.choice(CHOICES) for _ in graph(name).managed]
            found, _, _ = carried_out(name, plan_of(name, choices))
            assert found == plain(name), choices

    @pytest.mark.parametrize("name", NAMES)
    def test_through_the_engines_driver(self, name):
        import torch

        machine = ModelMachine()
        stash = Stash(Engine(machine))
        before = stash.engine.host.free_bytes, stash.engine.device.free_bytes
        managed = graph(name).managed
        sizes = sorted((graph(name).tensors[t].nbytes for t in managed), reverse=True)
        choices = [
            ZVC if graph(name).tensors[t].nbytes <= sizes[len(sizes) // 2] else RETAIN
            for t in managed
        ]
        plan = plan_of(name, choices)
        rehearsed = rehearse(subject(name), plan)
        first, *others = (one.name for one in rehearsed.counts.unpackings)
        everything = tuple(other for other in others if other != first)
        found, _, counts = carried_out(
            name, plan, EngineHost(torch, stash), prefetches={0: everything}
        )
        gc.collect()
        assert found == plain(name)
        assert stash.out.arrays == stash.back.arrays > 5
        assert counts.prefetches > 5
        assert stash.out.nbytes == stash.back.nbytes
        assert (stash.engine.host.free_bytes, stash.engine.device.free_bytes) == before


class TestMemory:
    @pytest.mark.parametrize("name", NAMES)
    def test_rehearsal_has_the_steps_bytes_at_every_moment(self, name):
        draw = random.Random(11)
        mixes = [[draw.choice(CHOICES) for _ in graph(name).managed] for _ in range(4)]
        plans = [*(alike(name, choice) for choice in CHOICES), *(plan_of(name, m) for m in mixes)]
        from cdma.sim.swap.step.scratch import measure_scratch

        scratch = measure_scratch(subject(name))
        for plan in plans:
            _, memory, counts = carried_out(name, plan, scratch=scratch)
            rehearsed = rehearse(
                subject(name), plan, stream_bytes=counts.stream_bytes, scratch=scratch
            )
            assert rehearsed.peak_bytes == memory.peak_bytes
            assert rehearsed.counts.unpackings == counts.unpackings
            assert rehearsed.counts.saved == counts.saved

    @pytest.mark.parametrize("name", NAMES)
    def test_keeping_all_counts_what_plain_pytorch_has(self, name):
        from cdma.sim.swap import run_plain
        from cdma.sim.swap.step.scratch import measure_scratch

        kept = rehearse(
            subject(name), alike(name, RETAIN), scratch=measure_scratch(subject(name))
        ).peak_bytes
        assert kept == pytest.approx(run_plain(subject(name)).allocator_bytes, rel=1e-3)

    @pytest.mark.parametrize("name", NAMES)
    def test_swapping_frees_memory(self, name):
        _, kept, _ = carried_out(name, alike(name, RETAIN))
        _, swapped, counts = carried_out(name, alike(name, SWAP))
        assert swapped.peak_bytes < 0.8 * kept.peak_bytes
        assert not counts.replays

    def test_recomputing_all_but_what_blocks_read_frees_memory(self):
        last = re.compile(r"model\.blocks\.\d+(\.(fc_proj|drop))?$")
        tensors = graph("gpt").tensors
        choices = [
            RETAIN if last.match(tensors[t].name) else RECOMPUTE for t in graph("gpt").managed
        ]
        _, memory, counts = carried_out("gpt", plan_of("gpt", choices))
        _, kept, _ = carried_out("gpt", alike("gpt", RETAIN))
        assert memory.peak_bytes < 0.8 * kept.peak_bytes
        assert counts.replays > 1

    def test_capacity_is_kept_to_the_byte(self):
        _, memory, _ = carried_out("gpt", alike("gpt", SWAP))
        carried_out("gpt", alike("gpt", SWAP), capacity_bytes=memory.peak_bytes)
        host = ArrayHost()
        with pytest.raises(DeviceMemoryError, match=r"the step holds .* bytes with the .* of \w+"):
            carried_out("gpt", alike("gpt", SWAP), host, capacity_bytes=memory.peak_bytes - 1)
        gc.collect()
        assert host.out == 0

    def test_nothing_is_left_behind_a_step(self):
        host = ArrayHost()
        carried_out("llama", alike("llama", SWAP), host)
        assert host.out == 0


class TestNames:
    def test_names_do_not_depend_on_the_batch(self):
        from tests.sim.swap.step import torch_subjects

        small = torch_subjects.gpt(2)
        assert (
            Graph.from_module(small.module, small.example, target="cpu").saved_values
            == graph("gpt").saved_values
        )

    def test_names_tell_module_call_operator_ordinal_and_place(self):
        assert "model.blocks.0.fc#0:addmm@0.0" in graph("gpt").saved_values
        # Query, then key.
        rotated = [
            name for name in graph("llama").saved_values if "model.0.attention.rotary#1" in name
        ]
        assert rotated

    def test_another_steps_plan_is_refused_with_what_does_not_match(self):
        from tests.sim.swap.step import torch_subjects

        deeper = torch_subjects.gpt(layers=3)
        with (
            pytest.raises(
                SwapPlanError,
                match=r"none of the plan's values are not saved, and \d+ \(model\.blocks\.2",
            ),
            planned_step(deeper.module, alike("gpt", SWAP), ArrayHost(), DeviceMemory()),
        ):
            deeper.loss().backward()

    def test_a_plan_without_names_is_refused(self):
        found = subject("gpt")
        with (
            pytest.raises(SwapPlanError, match="the plan has no names"),
            planned_step(found.module, SwapPlan.everything(), ArrayHost(), DeviceMemory()),
        ):
            pass


class TestGraphs:
    @pytest.mark.parametrize("choice", [SWAP, RECOMPUTE, COMPRESS], ids=str)
    def test_a_second_backward_pass(self, choice):
        import torch

        found = copy.deepcopy(subject("gpt"))
        torch.manual_seed(1)
        with planned_step(found.module, alike("gpt", choice), ArrayHost(), DeviceMemory()):
            loss = found.loss()
            loss.backward(retain_graph=True)
            for parameter in found.module.parameters():
                parameter.grad = None
            loss.backward()
        assert results(found, loss) == plain("gpt")

    def test_a_changed_parameter_is_found(self):
        import torch

        found = copy.deepcopy(subject("resnet"))
        with planned_step(found.module, alike("resnet", RECOMPUTE), ArrayHost(), DeviceMemory()):
            loss = found.loss()
            with torch.no_grad():
                # The last product's backward asks for its input, which all layers before made.
                next(found.module.parameters()).mul_(2)
            with pytest.raises(SavedTensorError, match="was changed in place after the forward"):
                loss.backward()

    def test_a_changed_tensor_that_stayed_is_found(self):
        import torch

        module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid())
        rows = torch.randn(4, 8)
        traced = Graph.from_module(module, rows, target="cpu")
        plan = SwapPlan.from_plan(
            traced, Plan(policy="test", choices=(RETAIN,) * len(traced.managed))
        )
        with planned_step(module, plan, ArrayHost(), DeviceMemory()):
            output = module(rows)
            loss = output.sum()
            with torch.no_grad():
                output.mul_(2)
            with pytest.raises(SavedTensorError, match=r"1#0:sigmoid@0\.0 was changed in place"):
                loss.backward()
