"""Costs of a network's training step at the engine: each tensor's, and all of them together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from cdma.builds.displays import table
from cdma.plan.engine_cost.packing import LineSizes
from cdma.plan.engine_cost.setup import Setup
from cdma.plan.engine_cost.transfer import EstimateError, TransferCost
from cdma.plan.workload.graph import Graph

MB = 1e6


@dataclass(frozen=True, kw_only=True)
class TensorEstimate:
    """A tensor's way to the host and back, alone, beside the engine's plain copy.

    Attributes
    ----------
    name : str
    raw_bytes : int
    density : float
    stream_bytes : float
    offload, prefetch : TransferCost
        Compressed on the way out, expanded on the way back.
    raw_offload, raw_prefetch : TransferCost
        Copied as it is.
    """

    name: str
    raw_bytes: int
    density: float
    stream_bytes: float
    offload: TransferCost
    prefetch: TransferCost
    raw_offload: TransferCost
    raw_prefetch: TransferCost

    @classmethod
    def of(
        cls,
        name: str,
        raw_bytes: int,
        density: float,
        setup: Setup,
        sizes: LineSizes | None = None,
    ) -> Self:
        """`EstimateError` if the density is not 0…1. `sizes` are those of the stream's lines, where
        the density does not tell them.
        """
        if not 0 <= density <= 1:
            raise EstimateError(f"density of {name} must be 0 to 1, not {density:g}")
        if sizes is None:
            stream = setup.stream_bytes(raw_bytes, density)
        else:
            stream = sizes.stream_bytes(raw_bytes, setup.engine.codec)
        return cls(
            name=name,
            raw_bytes=raw_bytes,
            density=density,
            stream_bytes=stream,
            offload=setup.cost(raw_bytes, stream, "out", sizes=sizes),
            prefetch=setup.cost(raw_bytes, stream, "in", sizes=sizes),
            raw_offload=setup.cost(raw_bytes, raw_bytes, "out", compressed=False),
            raw_prefetch=setup.cost(raw_bytes, raw_bytes, "in", compressed=False),
        )


@dataclass(frozen=True)
class NetworkEstimate:
    """Tensors one after another: seconds are sums of those that each takes alone."""

    tensors: tuple[TensorEstimate, ...]

    @classmethod
    def of(cls, graph: Graph, setup: Setup, sizes: Mapping[str, LineSizes] | None = None) -> Self:
        """Estimate the tensors that backward reads, in the order in which forward makes them;
        `EstimateError` if one has no density (`cdma.plan.workload.density.density`). `sizes` are
        those of their streams' lines by name, where densities do not tell them.
        """
        estimates = []
        for t in graph.managed:
            tensor = graph.tensors[t]
            if tensor.density is None:
                raise EstimateError(
                    f"tensor {tensor.name} of {graph.name} has no density; give a capture, a file, "
                    "a curve or a number"
                )
            lines = None if sizes is None else sizes[tensor.name]
            estimates.append(
                TensorEstimate.of(tensor.name, tensor.nbytes, tensor.density, setup, lines)
            )
        return cls(tuple(estimates))

    @property
    def raw_bytes(self) -> int:
        return sum(tensor.raw_bytes for tensor in self.tensors)

    def _repr_html_(self) -> str:
        """A table with a row per tensor, for notebooks."""
        rows = [
            (
                each.name,
                f"{each.raw_bytes / MB:,.2f}",
                f"{each.density:.3f}",
                f"{each.stream_bytes / MB:,.2f}",
                f"{1e3 * each.offload.seconds:,.3f}",
                each.offload.limit,
                f"{1e3 * each.prefetch.seconds:,.3f}",
                each.prefetch.limit,
            )
            for each in self.tensors
        ]
        headings = ("tensor", "MB", "density", "stream MB")
        ways = ("out ms", "limit out", "in ms", "limit in")
        return table("Tensors at the engine, one after another", (*headings, *ways), rows)

    @property
    def stream_bytes(self) -> float:
        return sum(tensor.stream_bytes for tensor in self.tensors)

    @property
    def offload(self) -> Sequence[TransferCost]:
        return [tensor.offload for tensor in self.tensors]

    @property
    def prefetch(self) -> Sequence[TransferCost]:
        return [tensor.prefetch for tensor in self.tensors]

    @property
    def raw_offload(self) -> Sequence[TransferCost]:
        return [tensor.raw_offload for tensor in self.tensors]

    @property
    def raw_prefetch(self) -> Sequence[TransferCost]:
        return [tensor.raw_prefetch for tensor in self.tensors]
