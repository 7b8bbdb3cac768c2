"""The replay of a tape: what a step has not kept is computed again.

A replay runs the operations that lead from what there is to what is wanted, in their first order,
on the same values, and frees each value behind its last reader.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cdma.plan.workload.value_names import written_tensors
from cdma.sim.swap.saved_tensor_error import SavedTensorError
from cdma.sim.swap.step.tape import Entry, Value, View


class Replay:
    """Computes a value again from what there is.

    Parameters
    ----------
    torch : module
    source : callable
        Gives a tensor in the memory of a value that is there or can be brought, or None.
    keep : callable
        Takes each value that is computed on the way, and a tensor in its memory; True if the
        memory is kept, so that nothing may write over it.
    """

    def __init__(
        self, torch: Any, source: Callable[[Value], Any], keep: Callable[[Value, Any], bool]
    ) -> None:
        self._torch = torch
        self._source = source
        self._keep = keep

    def run(self, wanted: Value) -> Any:
        """A tensor in a memory with the wanted value.

        Raises
        ------
        SavedTensorError
            A parameter, a buffer or an input that it needs has been changed.
        """
        torch = self._torch
        entries, have = self._needed(wanted)
        left = Counter(value for entry in entries for value in entry.inputs)
        left[wanted] += 1
        outputs: dict[tuple[Entry | None, int], list[Value]] = {}
        for value in left:
            outputs.setdefault((value.entry, value.place), []).append(value)
        shared = set(have)
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for entry in entries:
                written = self._run(entry, have, left, shared)
                for place, tensor in enumerate(written):
                    for value in outputs.get((entry, place), ()):
                        have[value] = tensor
                        if self._keep(value, tensor):
                            shared.add(value)
                del written
        return have[wanted]

    def _needed(self, wanted: Value) -> tuple[list[Entry], dict[Value, Any]]:
        """The entries to run, in order, and tensors of the values from which they start."""
        entries: dict[Entry, None] = {}
        have: dict[Value, Any] = {}
        stack = [wanted]
        while stack:
            value = stack.pop()
            if value in have or value.entry in entries:
                continue
            base = None if value is wanted else self._source(value)
            if base is not None:
                have[value] = base
            elif value.entry is None:
                have[value] = value.leaf
            else:
                entries[value.entry] = None
                stack += value.entry.inputs
        return sorted(entries, key=lambda entry: entry.number), have

    def _run(
        self, entry: Entry, have: dict[Value, Any], left: Counter[Value], shared: set[Value]
    ) -> tuple[Any, ...]:
        """Run an operation, and return a tensor of each memory that it has written."""
        torch = self._torch
        # Batch normalization writes its running statistics, though its schema does not say so.
        hidden = "batch_norm" in entry.function.overloadpacket.__name__
        leaves = torch.utils._pytree.tree_leaves((entry.args, entry.kwargs))
        if not hidden:
            _require_unchanged([leaf for leaf in leaves if isinstance(leaf, View)])
        bases: dict[Value, Any] = {}
        for value in entry.inputs:
            base = have[value]
            over = value in entry.mutated and (value in shared or left[value] > 1)
            if over or (hidden and value.leaf is not None):
                # What somebody else reads is not written over.
                base = _flat(base).clone()
            bases[value] = base
            left[value] -= 1
            if not left[value]:
                del have[value]
        args, kwargs = torch.utils._pytree.tree_map_only(
            View, lambda view: view.of(bases[view.value]), (entry.args, entry.kwargs)
        )
        bases.clear()
        with _random_state(torch, entry.random_state):
            output = entry.function(*args, **kwargs)
        return written_tensors(torch, entry.function, args, kwargs, output)


def _flat(tensor: Any) -> Any:
    """All elements of a tensor's memory."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0)


@contextmanager
def _random_state(torch: Any, state: bytes | None) -> Iterator[None]:
    """Within it, PyTorch's generator goes on from a state; then from where it was."""
    if state is None:
        yield
        return
    now = torch.get_rng_state()
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    try:
        yield
    finally:
        torch.set_rng_state(now)


def _require_unchanged(views: list[View]) -> None:
    for view in views:
        leaf = view.value.leaf
        if leaf is not None and leaf._version != view.version:
            raise SavedTensorError(
                f"{view.value.name} was changed in place after the forward pass had read it, and "
                "backward computes from it again; change it behind backward, or a clone of it"
            )
