"""A planned step on fake tensors: its memory to the byte, before anything is computed.

The rehearsal is the plan's memory model. It runs the same code as the step, with tensors that have
sizes but no values, so that what a plan needs is known before it is carried out, and when backward
asks for what.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdma.plan.training.subject import Subject, call
from cdma.plan.workload.capture.recorder import require
from cdma.plan.workload.module_trace import fake_copies
from cdma.sim.swap.step.device_memory import DeviceMemory
from cdma.sim.swap.step.host_memory import RehearsalHost
from cdma.sim.swap.step.planned_step import planned_step
from cdma.sim.swap.step.scratch import Scratch
from cdma.sim.swap.step.step_counts import StepCounts
from cdma.sim.swap.swap_plan import SwapPlan


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What a plan's step will do.

    Attributes
    ----------
    peak_bytes : int
        Most bytes on the device at once: parameters, buffers, minibatch, gradients, and all that
        operators leave between each other.
    counts : StepCounts
    """

    peak_bytes: int
    counts: StepCounts


def rehearse(
    subject: Subject,
    plan: SwapPlan,
    *,
    prefetches: Mapping[int, Sequence[str]] | None = None,
    stream_bytes: Mapping[str, int] | None = None,
    scratch: Scratch | None = None,
) -> Rehearsal:
    """Rehearse a step.

    Parameters
    ----------
    subject : Subject
        Is not changed: a copy of its module runs.
    plan : SwapPlan
        Of names.
    prefetches : mapping of int to sequence of str
        As of `planned_step`.
    stream_bytes : mapping of str to int
        Bytes that values which stay compressed will have; what is not in it is taken to be
        incompressible.
    scratch : Scratch
        Of the subject's step (`measure_scratch`); without it, operators take nothing beside their
        results.

    Raises
    ------
    SwapPlanError
        The step saves other values than the plan knows.
    """
    torch = require("torch")
    mode = require("torch._subclasses.fake_tensor").FakeTensorMode()
    module, example = fake_copies(torch, mode, subject.module, subject.example)
    memory = DeviceMemory()
    step = planned_step(
        module,
        plan,
        RehearsalHost(),
        memory,
        inputs=example,
        prefetches=prefetches,
        planned_streams=stream_bytes or {},
        scratch=scratch,
    )
    with mode, step as counts:
        call(module, example).backward()
    return Rehearsal(peak_bytes=memory.peak_bytes, counts=counts)
