"""A tape of a forward pass's operations, and their replay: what was not kept is computed again.

The tape has no tensors but the step's leaves: parameters, buffers and inputs. An entry knows which
values its operation reads, in which views, and a value knows the entry that makes it, so that an
entry is forgotten with the last value that could need it. A replay runs the operations that lead
from what there is to what is wanted, in their first order, and frees each value behind its last
reader.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cdma.plan.workload.value_names import mutated_arguments, written_tensors


class SavedTensorError(RuntimeError):
    """A tensor was changed after autograd had saved it: "cause; mend"."""


@dataclass(eq=False, kw_only=True)
class Value:
    """One content of one memory.

    Attributes
    ----------
    name : str
        As of `cdma.plan.workload.value_names`; of leaves, what they are.
    nbytes : int
    entry : Entry or None
        What makes it; None for leaves.
    place : int
        Its place among what the entry's operation writes.
    leaf : tensor or None
        Of leaves: a tensor in their memory.
    saved : weak reference or None
        To what autograd saves of it.
    """

    name: str
    nbytes: int
    entry: "Entry | None" = None
    place: int = 0
    leaf: Any = None
    saved: "weakref.ref[Any] | None" = None


@dataclass(frozen=True)
class View:
    """A tensor as a view of a value: type, size, strides and first element in the memory."""

    value: Value
    dtype: Any
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    version: int

    def of(self, base: Any) -> Any:
        """The same view of another tensor's memory, which has the value."""
        if base.dtype != self.dtype:
            count = base.untyped_storage().nbytes() // base.element_size()
            base = base.as_strided((count,), (1,), 0).view(self.dtype)
        return base.as_strided(self.size, self.stride, self.offset)


@dataclass(eq=False, kw_only=True)
class Entry:
    """An operation of the forward pass.

    Attributes
    ----------
    number : int
        Of the operations that ran before.
    name : str
    function : callable
        An operator of ATen, under autograd and under automatic casts.
    args, kwargs
        Its arguments, with a `View` for each tensor.
    inputs : tuple of Value
        What it reads, and what it writes over, each once.
    mutated : tuple of Value
        Those of `inputs` over which it writes.
    random_state : bytes or None
        Of PyTorch's generator before a random operation.
    """

    number: int
    name: str
    function: Any
    args: Any
    kwargs: Any
    inputs: tuple[Value, ...] = ()
    mutated: tuple[Value, ...] = ()
    random_state: bytes | None = None


class Tape:
    """The operations of one forward pass, and the values that are in memory.

    Parameters
    ----------
    torch : module
    random : bool
        Note the generator's state before random operations, so that a replay draws the same; not
        where tensors have no values.
    """

    def __init__(self, torch: Any, *, random: bool = True) -> None:
        self._torch = torch
        self._random = random
        self._values: dict[int, Value] = {}
        self._count = 0

    def value_of(self, tensor: Any) -> Value | None:
        """The value that a tensor shows now; None for a leaf."""
        return self._values.get(tensor.untyped_storage()._cdata)

    def begin(self, name: str, function: Any, args: Any, kwargs: Any) -> Entry:
        """The entry of an operation that is about to run."""
        torch = self._torch
        inputs: dict[int, Value] = {}

        def view(tensor: Any) -> View:
            storage = tensor.untyped_storage()
            value = inputs.get(storage._cdata) or self._values.get(storage._cdata)
            if value is None:
                value = Value(
                    name=f"a parameter, buffer or input of shape {tuple(tensor.shape)}",
                    nbytes=storage.nbytes(),
                    leaf=tensor,
                )
            inputs[storage._cdata] = value
            return View(
                value,
                tensor.dtype,
                tuple(tensor.shape),
                tensor.stride(),
                tensor.storage_offset(),
                tensor._version,
            )

        viewed_args, viewed_kwargs = torch.utils._pytree.tree_map_only(
            torch.Tensor, view, (args, kwargs)
        )
        over = mutated_arguments(torch, function, args, kwargs)
        entry = Entry(
            number=self._count,
            name=name,
            function=function,
            args=viewed_args,
            kwargs=viewed_kwargs,
            inputs=tuple(inputs.values()),
            mutated=tuple({inputs[t.untyped_storage()._cdata]: None for t in over}),
        )
        if self._random and torch.Tag.nondeterministic_seeded in function.tags:
            entry.random_state = torch.get_rng_state().numpy().tobytes()
        self._count += 1
        return entry

    def end(self, entry: Entry, args: Any, kwargs: Any, output: Any) -> None:
        """Note what the operation has written."""
        # Of leaves that are written over, the version tells which content an operation has read.
        leaves = {
            value.leaf.untyped_storage()._cdata for value in entry.mutated if value.leaf is not None
        }
        written = written_tensors(self._torch, entry.function, args, kwargs, output)
        for place, tensor in enumerate(written):
            storage = tensor.untyped_storage()
            if storage._cdata in leaves:
                continue
            if storage._cdata not in self._values:
                weakref.finalize(storage, self._values.pop, storage._cdata, None).atexit = False
            self._values[storage._cdata] = Value(
                name=f"{entry.name}.{place}", nbytes=storage.nbytes(), entry=entry, place=place
            )


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
