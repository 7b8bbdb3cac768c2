"""A tape of a forward pass's operations, from which what was not kept can be computed again.

The tape has no tensors but the step's leaves: parameters, buffers and inputs. An entry knows which
values its operation reads, in which views, and a value knows the entry that makes it, so that an
entry is forgotten with the last value that could need it.
"""

import weakref
from dataclasses import dataclass
from typing import Any

from cdma.plan.workload.value_names import mutated_arguments, written_tensors


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
