"""A table of layers and tensors, and the arithmetic and the bytes of layers of all kinds."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from math import prod
from typing import Any

from cdma.plan.workload.layers import GraphError, Layer, Tensor

FLOAT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Table:
    """A network at one batch, from which `cdma.plan.workload.graph.Graph` is made."""

    batch: int
    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]


class TableWriter:
    """Fields that the layers of `cdma.plan.workload.builder` have in common.

    Raises
    ------
    GraphError
        The batch is not positive.
    """

    def __init__(self, batch: int) -> None:
        if batch < 1:
            raise GraphError(f"batch must be at least 1, not {batch}")
        self.batch = batch
        self._tensors: list[Tensor] = []
        self._layers: list[Layer] = []

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
        gradients = self._gradients(inputs)
        out = self._plain(name, kind, inputs, shape, saved=inputs, saves_output=saves_output)
        weights = FLOAT_BYTES * parameters
        layer = self._layers[-1]
        # Backward writes the weights' gradients, and reads the weights for the input's.
        passes = 2 if gradients else 1
        return self._amend(
            out,
            flops_forward=float(flops),
            flops_backward=float(passes * flops),
            bytes_forward=layer.bytes_forward + weights,
            bytes_backward=layer.bytes_backward + passes * weights,
            parameter_bytes=0 if shared else weights,
        )

    def _plain(
        self,
        name: str,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        *,
        saved: tuple[int, ...] = (),
        saves_output: bool = False,
    ) -> int:
        """A layer with an output of its own, which reads and writes every array once."""
        out = self._tensor(name, kind, shape)
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

    def _tensor(self, name: str, kind: str, shape: tuple[int, ...]) -> int:
        nbytes = FLOAT_BYTES * prod(shape)
        self._tensors.append(Tensor(name=name, nbytes=nbytes, kind=kind, shape=shape))
        return len(self._tensors) - 1

    def _gradients(self, inputs: Sequence[int]) -> tuple[int, ...]:
        return tuple(t for t in dict.fromkeys(inputs) if self._tensors[t].kind != "input")
