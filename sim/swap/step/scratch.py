"""Scratch memory that operators take while they run, and give back: a convolution's, mostly.

Nobody outside of an operator sees it but the allocator. So it is measured once, by PyTorch's
profiler in a step of its own, for each operator with each shape of its arguments; rehearsals and
steps add it to what they count. The same step tells which results have larger memories than their
elements take, as the mean of `mse_loss` has all of its squares'; fake tensors have not. Needs
PyTorch.
"""

import copy
import gc
from collections.abc import Mapping
from typing import Any

from cdma.plan.training.subject import Subject
from cdma.plan.workload.capture.recorder import reproducible, require
from cdma.plan.workload.value_names import written_tensors

Key = tuple[Any, ...]

_LABEL = "cdma operation "


class Scratch:
    """Scratch memory by operator.

    Parameters
    ----------
    nbytes : mapping of tuple to int
        By what `key_of` makes of an operator and its arguments; of those that are not in it, 0.
    results : mapping of tuple to dict
        By the same, for operators with results in larger memories: the memories' bytes by the
        result's place.
    """

    def __init__(
        self,
        nbytes: Mapping[Key, int] | None = None,
        results: Mapping[Key, Mapping[int, int]] | None = None,
    ) -> None:
        self._nbytes = dict(nbytes or {})
        self._results = dict(results or {})

    def result_bytes(self, torch: Any, function: Any, args: Any, kwargs: Any) -> Mapping[int, int]:
        """Bytes of results' memories that are larger than their elements take, by place."""
        if not self._results:
            return {}
        return self._results.get(key_of(torch, function, args, kwargs), {})

    def of(self, torch: Any, function: Any, args: Any, kwargs: Any) -> int:
        """Bytes that an operator takes with these arguments, beside its results."""
        if not self._nbytes:
            return 0
        return self._nbytes.get(key_of(torch, function, args, kwargs), 0)


def key_of(torch: Any, function: Any, args: Any, kwargs: Any) -> Key:
    """An operator with the types and shapes of its tensors, and its other arguments."""

    def part(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return str(leaf.dtype), tuple(leaf.shape)
        return leaf if isinstance(leaf, bool | int | float | str | None) else str(leaf)

    return (str(function), *map(part, torch.utils._pytree.tree_leaves((args, kwargs))))


def measure_scratch(subject: Subject, *, seed: int = 0) -> Scratch:
    """Measure the scratch memory of a subject's step, by a step of a copy."""
    torch = require("torch")
    profiler = require("torch.profiler")
    dispatch: Any = require("torch.utils._python_dispatch").TorchDispatchMode
    keys: list[Key] = []
    results: dict[Key, dict[int, int]] = {}

    class Labels(dispatch):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            label = f"{_LABEL}{len(keys)}"
            key = key_of(torch, function, args, kwargs or {})
            keys.append(key)
            with profiler.record_function(label):
                output = function(*args, **(kwargs or {}))
            for place, tensor in enumerate(
                written_tensors(torch, function, args, kwargs or {}, output)
            ):
                nbytes = tensor.untyped_storage().nbytes()
                if nbytes > tensor.numel() * tensor.element_size():
                    results.setdefault(key, {})[place] = nbytes
            return output

    copied = copy.deepcopy(subject)
    gc.collect()
    with reproducible(torch, seed):
        torch.set_num_threads(1)
        with (
            profiler.profile(
                activities=[profiler.ProfilerActivity.CPU], profile_memory=True
            ) as profile,
            Labels(),
        ):
            copied.loss().backward()
    found: dict[Key, int] = {}
    pending: list[Any] = list(profile.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending += event.children
        if event.name.startswith(_LABEL):
            key = keys[int(event.name.removeprefix(_LABEL))]
            found[key] = max(found.get(key, 0), _scratch_of(event))
    return Scratch({key: nbytes for key, nbytes in found.items() if nbytes}, results)


def _scratch_of(event: Any) -> int:
    """Most bytes that were allocated within an event, less those that are left behind it."""
    kinds = require("torch._C._profiler")._EventType
    changes: list[tuple[int, int]] = []
    pending: list[Any] = list(event.children)
    while pending:
        inner = pending.pop()
        pending += inner.children
        if inner.tag == kinds.Allocation:
            changes.append((inner.start_time_ns, inner.extra_fields.alloc_size))
    now = most = 0
    for _, nbytes in sorted(changes, key=lambda change: change[0]):
        now += nbytes
        most = max(most, now)
    return max(0, most - max(0, now))
