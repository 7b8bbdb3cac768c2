"""The training step of a user's own network, traced. Needs PyTorch."""

from dataclasses import replace
from typing import Any

from cdma.plan.workload.capture.capture import CaptureError
from cdma.plan.workload.capture.recorder import require
from cdma.plan.workload.layers import GraphError, Layer, Tensor
from cdma.plan.workload.module_trace import Operation, Storage, record_step
from cdma.plan.workload.table import Table

_KINDS = {
    "convolution": "conv",
    "addmm": "fc",
    "mm": "fc",
    "bmm": "fc",
    "baddbmm": "fc",
    "relu": "relu",
    "leaky_relu": "leaky_relu",
    "max_pool2d_with_indices": "pool",
    "avg_pool2d": "pool",
    "mean": "pool",
    "_adaptive_avg_pool2d": "pool",
    "native_batch_norm": "bn",
    "native_layer_norm": "bn",
    "native_group_norm": "bn",
    "rms_norm": "bn",
    "native_dropout": "dropout",
    "gelu": "gelu",
    "silu": "silu",
    "_scaled_dot_product_flash_attention": "attention",
    "_scaled_dot_product_efficient_attention": "attention",
    "_scaled_dot_product_flash_attention_for_cpu": "attention",
    "embedding": "embedding",
    "add": "add",
    "cat": "concat",
    "_softmax": "softmax",
    "_log_softmax": "softmax",
}
"""Kinds of ATen's functions; all others are `other`."""


def trace(module: Any, example_input: Any, *, target: str = "gpu", autocast: Any = None) -> Table:
    """The graph of a training step of a `torch.nn.Module`.

    One layer per operation of PyTorch's, named by the module that runs it. Tensors are storages:
    views share one. Saved is what autograd saves, without parameters; what it saves that no layer
    reads forward, as the indices of a maximum pooling or a dropout's mask, is `kept_bytes`.
    Arithmetic of both passes is what `torch.utils.flop_counter` counts.

    Parameters
    ----------
    module : torch.nn.Module
        Is not changed: a copy runs on fake tensors, forward and backward, without values. The copy
        has the module's mode; call `module.train()` before.
    example_input : torch.Tensor, tuple or dict
        A minibatch, whose first dimension is the batch; a tuple of all positional arguments, or a
        dictionary of all arguments.
    target : str
        `gpu`: dropout, RMS normalization and attention are the operators that a GPU has for them
        (`cdma.plan.workload.gpu_operators`). `cpu`: all operators are those that a CPU runs.
    autocast : torch.dtype or None
        The type to which the forward pass casts automatically (`torch.autocast`), by the rules that
        PyTorch has for a CPU; copies of weights in that type are tensors of the graph.

    Returns
    -------
    Table

    Raises
    ------
    GraphError
        PyTorch is missing, or the module cannot be traced; the message says why.
    """
    try:
        torch = require("torch")
        for part in ("utils._python_dispatch", "utils._pytree", "utils.flop_counter"):
            require(f"torch.{part}")
        require("torch._subclasses.fake_tensor")
    except CaptureError as error:
        raise GraphError(
            "tracing a module needs torch, which cannot be imported; pip install torch"
        ) from error
    batch, operations = record_step(torch, module, example_input, target=target, autocast=autocast)
    return _Writer(operations).table(batch)


class _Writer:
    """Writes a table from operations."""

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = operations
        self._tensors: list[Tensor] = []
        self._layers: list[Layer] = []
        self._places: dict[Storage, int] = {}
        self._names: set[str] = set()
        self._kept: set[Storage] = set()
        self._parameters: set[Storage] = set()
        self._saved = {storage for operation in operations for storage in operation.saved}

    def table(self, batch: int) -> Table:
        read_forward = {storage for op in self._operations for storage in op.reads}
        for operation in self._operations:
            self._layer(operation, read_forward)
        return Table(
            batch=batch,
            tensors=tuple(self._tensors),
            layers=tuple(self._layers),
            saved_values=tuple(
                dict.fromkeys(
                    value
                    for operation in self._operations
                    for storage in operation.saved
                    for value in storage.saved_values
                )
            ),
        )

    def _layer(self, operation: Operation, read_forward: set[Storage]) -> None:
        kind = _KINDS.get(operation.function, "other")
        if kind == "conv" and operation.channelwise:
            kind = "dwconv"
        name = self._name(operation)
        for storage in operation.reads:
            if storage.role == "input" and storage not in self._places:
                self._tensor(f"input{self._inputs()}", "input", [storage])
        # A user's own autograd.Function may save what none of its operations reads.
        inputs = self._known([*operation.reads, *operation.saved])
        output = self._output(name, kind, operation, read_forward)
        saved = self._known(operation.saved)
        kept = {s for s in operation.saved if s not in self._places} - self._kept
        self._kept |= kept
        weights = {s for s in operation.reads if s.role == "parameter"} - self._parameters
        self._parameters |= weights
        self._layers.append(
            Layer(
                name=name,
                kind=kind,
                inputs=inputs,
                output=output,
                saved=saved,
                gradients=tuple(t for t in self._known(operation.differentiated) if t in inputs),
                flops_forward=operation.flops_forward,
                flops_backward=operation.flops_backward,
                bytes_forward=operation.bytes_forward,
                bytes_backward=operation.bytes_backward,
                parameter_bytes=sum(s.nbytes for s in weights),
                kept_bytes=sum(s.nbytes for s in kept),
                keeps=operation.keeps,
                narrow=operation.narrow,
            )
        )

    def _output(
        self, name: str, kind: str, operation: Operation, read_forward: set[Storage]
    ) -> int:
        """The tensor that an operation writes: a new one, or one of old with a new name."""
        for storage in operation.writes:
            if storage in self._places:
                place = self._places[storage]
                old = self._tensors[place]
                if old.kind != "input":
                    self._tensors[place] = replace(old, name=name, kind=kind)
                return place
        # A second result is part of it if someone reads it, and else kept, as a mask. The first one
        # is no part if nobody reads or saves it, as what argsort has sorted.
        first, *others = operation.writes
        read = [s for s in others if s in read_forward]
        wanted = not read or first in read_forward or first in self._saved
        return self._tensor(name, kind, [first, *read] if wanted else read)

    def _tensor(self, name: str, kind: str, storages: list[Storage]) -> int:
        for storage in storages:
            self._places[storage] = len(self._tensors)
        self._tensors.append(
            Tensor(
                name=name,
                nbytes=sum(s.nbytes for s in storages),
                kind=kind,
                shape=storages[0].shape,
                element_bytes=storages[0].element_bytes,
                values=tuple(value for s in storages for value in s.saved_values),
            )
        )
        return len(self._tensors) - 1

    def _known(self, storages: list[Storage]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._places[s] for s in storages if s in self._places))

    def _inputs(self) -> int:
        return sum(tensor.kind == "input" for tensor in self._tensors)

    def _name(self, operation: Operation) -> str:
        """The module's path; with the function's name when the module has run another before."""
        function = operation.function.lstrip("_")
        name = operation.module or function
        if name in self._names:
            name = f"{operation.module}.{function}".lstrip(".")
        number = 1
        unique = name
        while unique in self._names:
            number += 1
            unique = f"{name}.{number}"
        self._names.add(unique)
        return unique
