"""A subject's step as it is, and as a plan has it, with all that tells them apart."""

import copy
import gc
import hashlib
from dataclasses import dataclass
from typing import Any

from cdma.plan.training.subject import Subject
from cdma.plan.workload.capture.recorder import reproducible, require
from cdma.sim.driver import Engine
from cdma.sim.swap.stash import Stash, SwapTotals
from cdma.sim.swap.step.allocator import allocator_watched
from cdma.sim.swap.step.device_memory import DeviceMemory
from cdma.sim.swap.step.host_memory import EngineHost
from cdma.sim.swap.step.planned_step import planned_step
from cdma.sim.swap.step.step_counts import StepCounts
from cdma.sim.swap.step.step_planner import StepPlan


@dataclass(frozen=True, kw_only=True)
class StepRun:
    """A step's results.

    Attributes
    ----------
    digests : dict of str to str
        SHA-256 of the bytes of the loss, of each gradient and of each buffer behind the step.
    allocator_bytes : int
        Most bytes on the device as PyTorch's allocator has it, parameters, buffers and minibatch
        included.
    peak_bytes : int or None
        The same as the step has counted it; None of a plain step, which does not count.
    counts : StepCounts or None
    out, back : SwapTotals or None
        What the engine has moved.
    """

    digests: dict[str, str]
    allocator_bytes: int
    peak_bytes: int | None = None
    counts: StepCounts | None = None
    out: SwapTotals | None = None
    back: SwapTotals | None = None

    def differing(self, other: "StepRun") -> list[str]:
        """What is not equal to another step's, to the bit."""
        names = dict.fromkeys([*self.digests, *other.digests])
        return [name for name in names if self.digests.get(name) != other.digests.get(name)]


def run_plain(subject: Subject, *, seed: int = 0, copied: bool = False) -> StepRun:
    """The step of a copy of a subject, by PyTorch alone; if it is `copied` already, its own."""
    torch = require("torch")
    if not copied:
        subject = copy.deepcopy(subject)
    resident = resident_bytes(subject)
    gc.collect()
    with reproducible(torch, seed):
        torch.set_num_threads(1)
        with allocator_watched() as allocator:
            loss = subject.loss()
            loss.backward()
    return StepRun(
        digests=_digests(subject, loss),
        allocator_bytes=resident + allocator.nbytes,
    )


def run_planned(
    subject: Subject, step_plan: StepPlan, engine: Engine, *, verify: bool = False, seed: int = 0
) -> StepRun:
    """The step of a copy of a subject, as planned; what is swapped goes through an engine.

    Raises
    ------
    DeviceMemoryError
        The step holds more than the plan's capacity.
    SwapPlanError
        The step saves other values than it was traced to.
    StashError
        A memory of the engine's machine has no room.
    TransferError, MachineError
        The engine failed.
    """
    torch = require("torch")
    copied = copy.deepcopy(subject)
    stash = Stash(engine, verify=verify)
    memory = DeviceMemory(step_plan.capacity_bytes)
    resident = resident_bytes(copied)
    # What others have left is not to be freed while the allocator is watched.
    gc.collect()
    step = planned_step(
        copied.module,
        step_plan.swap_plan,
        EngineHost(torch, stash),
        memory,
        inputs=copied.example,
        prefetches=step_plan.prefetches,
        scratch=step_plan.scratch,
    )
    with reproducible(torch, seed):
        torch.set_num_threads(1)
        with allocator_watched() as allocator, step as counts:
            loss = copied.loss()
            loss.backward()
    return StepRun(
        digests=_digests(copied, loss),
        allocator_bytes=resident + allocator.nbytes,
        peak_bytes=memory.peak_bytes,
        counts=counts,
        out=stash.out,
        back=stash.back,
    )


def resident_bytes(subject: Subject) -> int:
    """Bytes of a subject's parameters, buffers and minibatch."""
    torch = require("torch")
    memory = DeviceMemory()
    leaves = torch.utils._pytree.tree_leaves(subject.example)
    for tensor in [*subject.module.parameters(), *subject.module.buffers(), *leaves]:
        if isinstance(tensor, torch.Tensor):
            memory.watch(tensor, "a tensor")
    return memory.live_bytes


def _digests(subject: Subject, loss: Any) -> dict[str, str]:
    torch = require("torch")
    tensors = {"loss": loss.detach()}
    for name, parameter in subject.module.named_parameters():
        if parameter.grad is not None:
            tensors[f"gradient of {name}"] = parameter.grad
    for name, buffer in subject.module.named_buffers():
        tensors[f"buffer {name}"] = buffer
    return {
        name: hashlib.sha256(
            tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        ).hexdigest()
        for name, tensor in tensors.items()
    }
