"""The baseline of users of PyTorch: `torch.utils.checkpoint` around each block of a module."""

import copy
from collections.abc import Sequence
from typing import Any

from cdma.plan.timeline.scenario import Scenario
from cdma.plan.training.subject import Subject
from cdma.plan.workload.capture.recorder import require
from cdma.sim.swap.step.step_run import StepRun, run_plain


def blocks_of(module: Any) -> tuple[str, ...]:
    """Paths of a module's blocks: modules of several parts in lists and sequences.

    They are the children of `ModuleList` and `Sequential` that have submodules and are no lists or
    sequences themselves; of those inside of each other, the outermost.
    """
    torch = require("torch")
    lists = torch.nn.ModuleList, torch.nn.Sequential
    found: list[str] = []
    for path, one in module.named_modules():
        if any(path.startswith(f"{block}.") for block in found) or not isinstance(one, lists):
            continue
        for name, child in one.named_children():
            if not isinstance(child, lists) and any(True for _ in child.children()):
                found.append(f"{path}.{name}".lstrip("."))
    return tuple(found)


def run_checkpointed(subject: Subject, blocks: Sequence[str], *, seed: int = 0) -> StepRun:
    """The step of a copy of a subject, whose blocks run again in backward."""
    checkpoint = require("torch.utils.checkpoint").checkpoint
    copied = copy.deepcopy(subject)
    for path in blocks:
        block = copied.module.get_submodule(path)

        def again(*args: Any, forward: Any = block.forward, **kwargs: Any) -> Any:
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)

        block.forward = again
    return run_plain(copied, seed=seed, copied=True)


def checkpointed_seconds(scenario: Scenario, blocks: Sequence[str]) -> float:
    """Modeled time of a step whose blocks run forward twice, and in which nothing waits."""
    names = tuple(f"{path}." for path in blocks)
    again = sum(
        max(scenario.layer_seconds(layer, backward=False))
        for layer in scenario.graph.layers
        if f"{layer.name}.".startswith(names)
    )
    return scenario.compute_seconds + again
