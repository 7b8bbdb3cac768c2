"""PyTorch's operations in a training step of a module, one by one. Needs PyTorch.

The module runs on fake tensors: they have sizes, types and a device but no values, so that a step
of any size takes no memory and little time, and yet PyTorch chooses among its operators as it does
on a CPU, automatic casts included. Where a GPU would run another operator, the trace runs that one
(`cdma.plan.workload.gpu_operators`), unless it is asked for a CPU's step.

The trace records three things: every operation under autograd's surface with the storages that it
reads and writes, every tensor that autograd saves for backward, and every operation of the backward
pass. Autograd numbers its nodes, and the current number says to which operation a saved tensor, or
an operation of the backward pass, belongs.
"""

import copy
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from cdma.plan.workload.gpu_operators import gpu_operators, replaced
from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.value_names import (
    ValueNames,
    mutated_arguments,
    tensors_in,
    written_tensors,
)

TARGETS = ("gpu", "cpu")
"""Devices whose operators a trace may have."""

# They only reserve memory; whoever writes it first makes the tensor.
_RESERVE = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


@dataclass(eq=False)
class Storage:
    """Memory behind one tensor or several, as views of each other share it."""

    nbytes: int
    shape: tuple[int, ...]
    element_bytes: int
    role: str = "activation"
    """Or `parameter`, `buffer` or `input`."""
    content: str = ""
    """Name of the value in it (`cdma.plan.workload.value_names`); empty before anything writes."""
    saved_values: list[str] = field(default_factory=list)
    """Names of the values that autograd saves of it, in their order."""


@dataclass(eq=False, kw_only=True)
class Operation:
    """One operation of the forward pass, as it was traced."""

    module: str
    """Path of the innermost module that runs it; empty in the root."""
    function: str
    """Its name in ATen, as `convolution`."""
    channelwise: bool
    """Whether each channel of a convolution is a group of its own."""
    reads: list[Storage]
    writes: list[Storage]
    differentiated: list[Storage]
    """Those of `reads` that get a gradient."""
    number: int
    """Autograd's count of nodes when it ran."""
    saved: list[Storage] = field(default_factory=list)
    flops_forward: float = 0.0
    flops_backward: float = 0.0
    bytes_forward: float = 0.0
    bytes_backward: float = 0.0
    keeps: float = 1.0
    """The share of elements that a dropout does not zero."""
    narrow: bool = False
    """Whether it multiplies elements of two bytes."""


def record_step(
    torch: Any, module: Any, example_input: Any, *, target: str = "gpu", autocast: Any = None
) -> tuple[int, list[Operation]]:
    """A module's operations, in the order in which forward runs them, and the batch.

    Parameters
    ----------
    torch : module
    module : torch.nn.Module
        A copy of it runs, in the mode that it is in (`train` or `eval`).
    example_input : torch.Tensor, tuple or dict
        One argument, all positional ones, or all by keyword. The first dimension of the first
        tensor is the batch.
    target : str
        One of `TARGETS`.
    autocast : torch.dtype or None
        The type to which the forward pass casts automatically, by the rules of a CPU's autocast.

    Raises
    ------
    GraphError
        It does not run on fake tensors, or has nothing to differentiate; or the target is unknown.
    """
    if target not in TARGETS:
        raise GraphError(f"unknown target {target!r}; choose {' or '.join(TARGETS)}")
    if not isinstance(module, torch.nn.Module):
        raise GraphError(f"cannot trace a {type(module).__name__}; give a torch.nn.Module")
    name = type(module).__name__
    leaves = torch.utils._pytree.tree_leaves(example_input)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.ndim]
    if not tensors:
        raise GraphError(f"cannot trace {name} without a tensor for input; give its minibatch")
    recording = _Recording(torch, target)
    try:
        mode = torch._subclasses.fake_tensor.FakeTensorMode()
        copied, example = fake_copies(torch, mode, module, example_input)
        casts = nullcontext() if autocast is None else torch.autocast("cpu", dtype=autocast)
        with mode:
            recording.run(copied, example, casts)
    except GraphError:
        raise
    except Exception as error:
        # Whatever the user's module raises: a value is asked of a tensor that has none, or an
        # operation has no implementation for fake ones.
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise GraphError(
            f"cannot trace {name}: {cause}; the example must fit the module, whose forward must "
            "run on fake tensors, without reading values of tensors"
        ) from error
    if not recording.operations:
        raise GraphError(f"cannot trace {name}: it does nothing; give a module with layers")
    return len(tensors[0]), recording.operations


def fake_copies(torch: Any, mode: Any, module: Any, example_input: Any) -> tuple[Any, Any]:
    """The module and its input with fake tensors of a CPU, whatever device theirs are on.

    Tensors of a CPU keep what they share; a GPU's fake ones would need a build of PyTorch for it.
    """

    def fake(tensor: Any) -> Any:
        if tensor.device.type == "cpu":
            made = mode.from_tensor(tensor.detach())
        else:
            with mode:
                made = torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu"
                )
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        return made

    # Deep copies of fake tensors fail, so that they must be known before the module is copied.
    memo = {id(tensor): fake(tensor) for tensor in [*module.parameters(), *module.buffers()]}
    example = torch.utils._pytree.tree_map_only(torch.Tensor, fake, example_input)
    return copy.deepcopy(module, memo), example


class _Recording:
    """The operations of one step as they come."""

    def __init__(self, torch: Any, target: str) -> None:
        self.operations: list[Operation] = []
        self._torch = torch
        self._target = target
        self._storages: dict[int, Storage] = {}
        # An address could be given to another storage if this one were freed.
        self._alive: list[Any] = []
        self._written: set[Storage] = set()
        self._packed: list[tuple[int, Storage]] = []
        self._names: ValueNames
        self._backward = False

    def run(self, module: Any, example: Any, casts: Any) -> None:
        torch = self._torch
        for parameter in module.parameters():
            self._storage(parameter).role = "parameter"
        for buffer in module.buffers():
            self._storage(buffer).role = "buffer"
        for leaf in torch.utils._pytree.tree_leaves(example):
            if isinstance(leaf, torch.Tensor):
                self._storage(leaf).role = "input"
        self._names = ValueNames(module)
        with self._names.watching(), self._modes():
            hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
            with hooks, casts:
                if isinstance(example, dict):
                    output = module(**example)
                elif isinstance(example, tuple):
                    output = module(*example)
                else:
                    output = module(example)
            outputs = [
                leaf
                for leaf in torch.utils._pytree.tree_leaves(output)
                if isinstance(leaf, torch.Tensor) and leaf.requires_grad
            ]
            if not outputs:
                raise GraphError(
                    f"cannot trace {type(module).__name__}: no output has a gradient; give a "
                    "module with parameters that returns tensors, or tuples, lists and dictionaries"
                )
            self._assign_saved()
            gradients = [torch.empty_like(leaf) for leaf in outputs]
            self._backward = True
            torch.autograd.backward(outputs, gradients)

    @contextmanager
    def _modes(self) -> Iterator[None]:
        """Sees every operation, and has a GPU's operators run where the target is one."""
        dispatch: Any = self._torch.utils._python_dispatch.TorchDispatchMode
        recording = self

        class Operations(dispatch):
            def __torch_dispatch__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                output = function(*args, **(kwargs or {}))
                recording._operation(function, args, kwargs or {}, output)
                return output

        operators = gpu_operators(self._torch) if self._target == "gpu" else {}
        with replaced(self._torch, operators), Operations():
            yield

    def _operation(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        torch = self._torch
        name = function.overloadpacket.__name__
        if name == "_safe_softmax" and self._target == "gpu":
            raise GraphError(
                "cannot trace attention that PyTorch computes by its math fallback, whose T × T "
                "matrices no GPU keeps; call torch.nn.functional.scaled_dot_product_attention"
            )
        if not self._backward:
            named = self._names.operation(function)
            for k, tensor in enumerate(written_tensors(torch, function, args, kwargs, output)):
                self._storage(tensor).content = f"{named}.{k}"
        arguments = tensors_in(torch, (args, kwargs))
        results = tensors_in(torch, output) + mutated_arguments(torch, function, args, kwargs)
        reads = list(dict.fromkeys(map(self._storage, arguments)))
        writes = [s for s in dict.fromkeys(map(self._storage, results)) if s.nbytes]
        writes = [s for s in writes if s.role not in ("parameter", "buffer")]
        if not function._schema.is_mutable:
            # What is read and returned, and not written, is a view.
            writes = [s for s in writes if s not in reads]
        if not writes or name in _RESERVE:
            return
        # A tensor that is written in place is an argument and may be a result too.
        distinct = {id(result): result for result in results}.values()
        moved = float(sum(map(_nbytes, [*arguments, *distinct])))
        flops = self._flops(function, args, kwargs, output)
        if self._backward:
            passes = sum(args[10][:2]) if name == "convolution_backward" else None
            self._add_backward(flops, moved, passes)
            return
        reads = [s for s in reads if s.role != "activation" or s in self._written]
        self._written.update(writes)
        self.operations.append(
            Operation(
                module=self._names.path,
                function=name.rstrip("_"),
                channelwise=name == "convolution" and args[8] == args[0].shape[1] > 1,
                reads=reads,
                writes=writes,
                differentiated=[self._storage(t) for t in arguments if t.requires_grad],
                number=self._torch._C._autograd._get_sequence_nr(),
                flops_forward=flops,
                bytes_forward=moved,
                narrow=flops > 0 and arguments[0].element_size() == 2,
                keeps=1 - args[1] if name == "native_dropout" else 1.0,
            )
        )

    def _pack(self, tensor: Any) -> Any:
        storage = self._storage(tensor)
        if storage.role in ("activation", "input") and storage.nbytes:
            number = self._torch._C._autograd._get_sequence_nr()
            self._packed.append((number, storage))
            if storage.content and storage.content not in storage.saved_values:
                storage.saved_values.append(storage.content)
        return tensor

    def _assign_saved(self) -> None:
        """Give each saved tensor to the operation that it was saved for."""
        numbers = [operation.number for operation in self.operations]
        for number, storage in self._packed:
            # An autograd.Function of the user's has several operations of one number.
            same = [
                operation
                for operation in self.operations[bisect_right(numbers, number - 1) :]
                if operation.number == number
                and (storage in operation.reads or storage in operation.writes)
            ]
            owner = same[0] if same else self._owner(number)
            if storage not in owner.saved:
                owner.saved.append(storage)

    def _add_backward(self, flops: float, moved: float, passes: int | None) -> None:
        node = self._torch._C._current_autograd_node()
        # Nodes count from 0, and an operation runs after its node has been counted. What adds up a
        # parameter's gradient has no number.
        if node is not None and node._sequence_nr() < self.operations[-1].number:
            operation = self._owner(node._sequence_nr() + 1)
            # PyTorch's count of a convolution's backward pass forgets that there are groups.
            operation.flops_backward += (
                flops if passes is None else passes * operation.flops_forward
            )
            operation.bytes_backward += moved

    def _owner(self, number: int) -> Operation:
        """The first operation of this number; a view has none: then the one before it."""
        numbers = [operation.number for operation in self.operations]
        nearest = numbers[max(bisect_right(numbers, number) - 1, 0)]
        return self.operations[numbers.index(nearest)]

    def _flops(self, function: Any, args: Any, kwargs: Any, output: Any) -> float:
        count = self._torch.utils.flop_counter.flop_registry.get(function.overloadpacket)
        return float(count(*args, **kwargs, out_val=output)) if count else 0.0

    def _storage(self, tensor: Any) -> Storage:
        untyped = tensor.untyped_storage()
        storage = self._storages.get(untyped._cdata)
        if storage is None:
            storage = Storage(
                nbytes=untyped.nbytes(),
                shape=tuple(tensor.shape),
                element_bytes=tensor.element_size(),
            )
            self._storages[untyped._cdata] = storage
            self._alive.append(untyped)
        return storage


def _nbytes(tensor: Any) -> int:
    """A tensor's bytes in memory: expanded dimensions repeat the same bytes."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
