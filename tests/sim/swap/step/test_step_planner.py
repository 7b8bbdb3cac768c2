"""Plans for real steps, within a memory, beside PyTorch's own: `make test-torch`."""

import copy
from functools import cache
from typing import Any

import pytest

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.timeline.errors import InfeasibleError
from cdma.plan.timeline.placement import Placement
from cdma.sim.driver import Engine
from cdma.sim.swap import StepPlan, StepRun, plan_step, run_plain, run_planned
from cdma.sim.swap.step.checkpointed import blocks_of, checkpointed_seconds, run_checkpointed
from cdma.sim.swap.step.step_run import resident_bytes
from tests.sim.machine.engine.model import ModelMachine

pytestmark = pytest.mark.torch

NAMES = ("gpt", "llama", "resnet")
CLOSE = 1e-3
"""Planned peaks are those of PyTorch's allocator, but for this part."""


@cache
def subject(name: str) -> Any:
    from tests.sim.swap.step import torch_subjects

    return torch_subjects.SUBJECTS[name]()


def planned(name: str, capacity_bytes: int, policy: str = "joint") -> StepPlan:
    return plan_step(
        subject(name), policy, capacity_bytes, device("titanx"), link("pcie3x16"), name=name
    )


@cache
def plain(name: str) -> StepRun:
    return run_plain(subject(name))


@cache
def checkpointed(name: str) -> StepRun:
    return run_checkpointed(subject(name), blocks_of(subject(name).module))


@cache
def as_checkpointed(name: str) -> StepPlan:
    """A plan within the memory that `torch.utils.checkpoint` around each block takes."""
    return planned(name, checkpointed(name).allocator_bytes)


def run(name: str, step_plan: StepPlan) -> StepRun:
    return run_planned(subject(name), step_plan, Engine(ModelMachine()))


@pytest.mark.parametrize("name", NAMES)
def test_no_more_memory_and_no_more_time_than_checkpointed_blocks(name):
    step_plan = as_checkpointed(name)
    blocks = blocks_of(subject(name).module)
    assert step_plan.rehearsal.peak_bytes <= checkpointed(name).allocator_bytes
    assert step_plan.seconds <= checkpointed_seconds(step_plan.scenario, blocks)
    assert checkpointed(name).allocator_bytes < plain(name).allocator_bytes


@pytest.mark.parametrize("name", NAMES)
def test_planned_counted_and_allocated_are_the_same_and_bits_are_equal(name):
    step_plan = as_checkpointed(name)
    found = run(name, step_plan)
    assert found.differing(plain(name)) == []
    assert len(found.digests) > 10
    assert found.peak_bytes == step_plan.rehearsal.peak_bytes
    assert found.allocator_bytes == pytest.approx(step_plan.rehearsal.peak_bytes, rel=CLOSE)
    assert found.counts.prefetches == sum(map(len, step_plan.prefetches.values()))


@pytest.mark.parametrize("name", NAMES)
def test_checkpointed_steps_have_the_same_gradients(name):
    """Batch normalization in a checkpointed block counts its minibatch twice."""
    differing = checkpointed(name).differing(plain(name))
    assert all(one.startswith("buffer ") for one in differing)
    assert bool(differing) == (name == "resnet")


def test_what_fits_is_kept():
    step_plan = planned("llama", 2 * plain("llama").allocator_bytes)
    assert {choice.placement for choice in step_plan.plan.choices} == {Placement.RETAIN}
    assert step_plan.prefetches == {}


def test_a_policy_that_swaps_all_does_so_whatever_fits(monkeypatch):
    monkeypatch.setattr("tests.sim.machine.engine.model.MEMORY", 4 << 20)
    step_plan = planned("llama", 2 * plain("llama").allocator_bytes, "vdnn")
    assert {choice.placement for choice in step_plan.plan.choices} == {Placement.SWAP}
    found = run("llama", step_plan)
    assert found.out.arrays == found.back.arrays == len(step_plan.swap_plan.choices)
    assert found.peak_bytes == step_plan.rehearsal.peak_bytes
    # With all that memory, every value but the first ones comes before it is asked for.
    assert found.counts.prefetches > found.out.arrays / 2


def test_prefetches_keep_within_the_memory():
    free = planned("llama", 2 * plain("llama").allocator_bytes, "vdnn")
    least = min(moment.while_bytes for moment in free.rehearsal.counts.unpackings)
    tight = planned("llama", plain("llama").allocator_bytes * 3 // 4, "vdnn")
    assert least < tight.rehearsal.peak_bytes <= tight.capacity_bytes
    assert sum(map(len, tight.prefetches.values())) <= sum(map(len, free.prefetches.values()))


def test_too_little_memory_is_refused_with_the_least_found():
    with pytest.raises(InfeasibleError, match="the least that a plan of joint was found to need"):
        planned("gpt", resident_bytes(subject("gpt")))


def test_the_subject_is_not_changed():
    found = subject("resnet")
    before = copy.deepcopy(found.module.state_dict())
    as_checkpointed("resnet")
    assert all(
        bool((value == before[key]).all()) for key, value in found.module.state_dict().items()
    )
    assert all(parameter.grad is None for parameter in found.module.parameters())
