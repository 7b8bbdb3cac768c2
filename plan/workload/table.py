"""A table of layers and tensors, and the arithmetic and the bytes of layers of all kinds."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from math import prod
from typing import Any

from cdma.plan.workload.layers import GraphError, Layer, Tensor

PRECISIONS = ("fp32", "bf16", "autocast")
"""Types of values and weights: all float32, all bfloat16, or automatic casts of float32 weights and
of what is multiplied with them to bfloat16 (`torch.autocast`)."""

WIDE_BYTES, NARROW_BYTES = 4, 2
"""Of an element of float32, and of bfloat16."""

INDEX_BYTES = 8
"""Of a token, a label or an index."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A network at one batch, from which `cdma.plan.workload.graph.Graph` is made."""

    batch: int
    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    saved_values: tuple[str, ...] = ()


class TableWriter:
    """Fields that the layers of `cdma.plan.workload.builder` have in common.

    Parameters
    ----------
    batch : int
    precision : str
        One of `PRECISIONS`.

    Raises
    ------
    GraphError
        The batch is not positive, or the precision unknown.
    """

    def __init__(self, batch: int, precision: str = "fp32") -> None:
        if batch < 1:
            raise GraphError(f"batch must be at least 1, not {batch}")
        if precision not in PRECISIONS:
            raise GraphError(
                f"unknown precision {precision!r}; name one of {', '.join(PRECISIONS)}"
            )
        self.batch = batch
        self.precision = precision
        self.weight_bytes = NARROW_BYTES if precision == "bf16" else WIDE_BYTES
        """Of an element of the weights."""
        self._tensors: list[Tensor] = []
        self._layers: list[Layer] = []
        self._constant: set[int] = set()
        """Tensors without a gradient, beside the minibatch."""

    def table(self) -> Table:
        """The network as far as it has been written."""
        return Table(batch=self.batch, tensors=tuple(self._tensors), layers=tuple(self._layers))

    def shape(self, x: int) -> tuple[int, ...]:
        """A tensor's shape; the batch is its first dimension."""
        return self._tensors[x].shape

    def _product(
        self,
        name: str,
        kind: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        *,
        flops: int,
        parameters: int,
        shared: bool = False,
        saves_output: bool = False,
    ) -> int:
        """A layer with weights; backward is two products, by weights and by input."""
        inputs = tuple(self._narrowed(name, x) for x in inputs)
        gradients = self._gradients(inputs)
        narrow = self.precision != "fp32"
        element_bytes = NARROW_BYTES if narrow else WIDE_BYTES
        out = self._plain(
            name,
            kind,
            inputs,
            shape,
            saved=inputs,
            saves_output=saves_output,
            element_bytes=element_bytes,
        )
        weights = self.weight_bytes * parameters
        layer = self._layers[-1]
        # Backward writes the weights' gradients, and reads the weights for the input's.
        passes = 2 if gradients else 1
        # Autocast makes a copy of the weights, and keeps it for the input's gradient.
        copy = NARROW_BYTES * parameters if self.precision == "autocast" and not shared else 0
        return self._amend(
            out,
            flops_forward=float(flops),
            flops_backward=float(passes * flops),
            bytes_forward=layer.bytes_forward + weights + 2 * copy,
            bytes_backward=layer.bytes_backward + passes * weights,
            parameter_bytes=0 if shared else weights,
            kept_bytes=copy if gradients else 0,
            narrow=narrow,
        )

    def _narrowed(self, name: str, x: int, shape: tuple[int, ...] | None = None) -> int:
        """The tensor, or so much of it, in products' type: a copy where autocast makes one."""
        if self.precision != "autocast" or self._tensors[x].element_bytes == NARROW_BYTES:
            return x
        sibling = sum(layer.name.startswith(f"{name}.cast") for layer in self._layers)
        cast = f"{name}.cast{sibling or ''}"
        copy = self._plain(cast, "other", (x,), shape or self.shape(x), element_bytes=NARROW_BYTES)
        if self._tensors[x].kind == "input":
            self._constant.add(copy)
        return copy

    def _plain(
        self,
        name: str,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        *,
        saved: tuple[int, ...] = (),
        saves_output: bool = False,
        element_bytes: int | None = None,
    ) -> int:
        """A layer with an output of its own, which reads and writes every array once.

        Its elements have the widest type of the inputs' unless `element_bytes` says otherwise.
        """
        if element_bytes is None:
            element_bytes = max(self._tensors[x].element_bytes for x in inputs)
        out = self._tensor(name, kind, shape, element_bytes)
        saved = (*saved, out) if saves_output else saved
        return self._layer(name, kind, tuple(inputs), out, saved)

    def _in_place(self, name: str, kind: str, x: int, *, saves_output: bool = False) -> int:
        self._tensors[x] = changed(self._tensors[x], name=name, kind=kind)
        return self._layer(name, kind, (x,), x, (x,) if saves_output else ())

    def _layer(
        self, name: str, kind: str, inputs: tuple[int, ...], out: int, saved: tuple[int, ...]
    ) -> int:
        gradients = self._gradients(inputs)
        read = sum(self._tensors[t].nbytes for t in inputs)
        written = self._tensors[out].nbytes
        self._layers.append(
            Layer(
                name=name,
                kind=kind,
                inputs=inputs,
                output=out,
                saved=saved,
                gradients=gradients,
                bytes_forward=float(read + written),
                bytes_backward=float(
                    sum(self._tensors[t].nbytes for t in (*saved, *gradients)) + written
                ),
            )
        )
        return out

    def _amend(self, out: int, **fields: Any) -> int:
        self._layers[-1] = changed(self._layers[-1], **fields)
        return out

    def _tensor(self, name: str, kind: str, shape: tuple[int, ...], element_bytes: int) -> int:
        self._tensors.append(
            Tensor(
                name=name,
                nbytes=element_bytes * prod(shape),
                kind=kind,
                shape=shape,
                element_bytes=element_bytes,
            )
        )
        return len(self._tensors) - 1

    def _gradients(self, inputs: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            t
            for t in dict.fromkeys(inputs)
            if self._tensors[t].kind != "input" and t not in self._constant
        )
