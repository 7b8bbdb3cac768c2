"""The JSON report of `cdma estimate`: what was assumed, tensors, their sums, a sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdma.config import NetworkConfig, tables_of
from cdma.plan.engine_cost import NetworkEstimate, Setup, Sweep, TensorSizes, TransferCost
from cdma.plan.workload.graph import Graph


@dataclass(frozen=True, kw_only=True)
class EstimateSettings:
    """Settings of a run beside its setup.

    Attributes
    ----------
    dataset : str
    density : str
        The source of the densities.
    epoch, epochs : int
    bound : float or None
        Of a lossy codec.
    """

    dataset: str
    density: str
    epoch: int
    epochs: int
    bound: float | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A network on an engine, and on others that differ in the swept parameter.

    `sizes` are those of tensors in a lossy codec, by name; None for lossless ones.
    """

    graph: Graph
    settings: EstimateSettings
    setup: Setup
    network: NetworkConfig
    estimate: NetworkEstimate
    sizes: Mapping[str, TensorSizes] | None = None
    sweep: Sweep | None = None
    swept: Sequence[tuple[Setup, NetworkEstimate]] = ()

    @property
    def title(self) -> str:
        graph = self.graph
        return f"{graph.name} ({self.settings.dataset}), batch {graph.batch}"


def as_dict(report: Report) -> dict[str, Any]:
    """The JSON form; docs/guide/swap/estimate.md describes the keys."""
    return {
        "assumptions": assumptions(report),
        "configuration": tables_of(
            report.setup.engine, report.setup.machine, report.setup.throttle, report.network
        ),
        "tensors": [
            {
                "name": tensor.name,
                "density": tensor.density,
                "raw_bytes": tensor.raw_bytes,
                "stream_bytes": tensor.stream_bytes,
                "ratio": tensor.raw_bytes / tensor.stream_bytes,
                "measured_on": None
                if report.sizes is None
                else report.sizes[tensor.name].measured_on,
                **_way("offload", tensor.raw_bytes, [tensor.offload], [tensor.raw_offload]),
                "offload_limit": tensor.offload.limit,
                **_way("prefetch", tensor.raw_bytes, [tensor.prefetch], [tensor.raw_prefetch]),
                "prefetch_limit": tensor.prefetch.limit,
            }
            for tensor in report.estimate.tensors
        ],
        "total": total(report.estimate),
        "sweep": None
        if report.sweep is None
        else {
            "parameter": report.sweep.parameter,
            "rows": [
                {"value": value, **total(estimate)}
                for value, (_, estimate) in zip(report.sweep.values, report.swept, strict=True)
            ],
        },
    }


def assumptions(report: Report) -> dict[str, Any]:
    """List everything that the times depend on."""
    setup, settings = report.setup, report.settings
    engine, machine = setup.engine, setup.machine
    return {
        "network": report.graph.name,
        "dataset": settings.dataset,
        "batch": report.graph.batch,
        "density": {
            "source": settings.density,
            "epoch": settings.epoch,
            "epochs": settings.epochs,
            "mean": mean_density(report.estimate),
        },
        "config": setup.config,
        "codec": engine.codecs[0],
        "bound": settings.bound,
        "engine": {
            "units": engine.units,
            "sector_bytes": engine.codec.sector_bytes,
            "element_bytes": engine.codec.element_bytes,
            "buffer_bytes": engine.buffer_bytes,
            "write_bursts": engine.write_bursts,
            "read_buffer_bytes": engine.read_buffer_bytes,
            "split_lines": engine.split_lines,
            "drain_beats": engine.drain_beats,
            "split_beats": engine.split_beats,
            "transfers": engine.transfers,
        },
        "machine": {
            "clock_hz": machine.clock_hz,
            "engines": machine.engines,
            "channels": machine.channels,
            "dram_bytes_per_s": machine.dram_bytes_per_s,
            "dram_latency_ns": machine.dram_latency_ns,
            "link": setup.link,
            "link_out_bytes_per_s": machine.link_out_bytes_per_s,
            "link_in_bytes_per_s": machine.link_in_bytes_per_s,
            "link_efficiency": machine.link_efficiency,
            "link_overhead_bytes": machine.link_overhead_bytes,
            "link_latency_ns": machine.link_latency_ns,
        },
        "throttle": {"name": setup.throttle.name, "bytes_per_s": setup.throttle.bytes_per_s},
    }


def total(estimate: NetworkEstimate) -> dict[str, Any]:
    """Sum the figures of all tensors, transferred one after another."""
    raw, stream = estimate.raw_bytes, estimate.stream_bytes
    return {
        "raw_bytes": raw,
        "stream_bytes": stream,
        "ratio": raw / stream,
        **_way("offload", raw, estimate.offload, estimate.raw_offload),
        "offload_limits": _limits(estimate.offload),
        **_way("prefetch", raw, estimate.prefetch, estimate.raw_prefetch),
        "prefetch_limits": _limits(estimate.prefetch),
    }


def mean_density(estimate: NetworkEstimate) -> float:
    """Mean density of the tensors, weighted by their bytes."""
    return sum(t.density * t.raw_bytes for t in estimate.tensors) / estimate.raw_bytes


def _way(
    name: str, raw_bytes: int, costs: Sequence[TransferCost], raw_costs: Sequence[TransferCost]
) -> dict[str, float]:
    seconds = sum(cost.seconds for cost in costs)
    raw_seconds = sum(cost.seconds for cost in raw_costs)
    return {
        f"{name}_seconds": seconds,
        f"{name}_cycles": sum(cost.cycles for cost in costs),
        f"{name}_bytes_per_s": raw_bytes / seconds,
        f"raw_{name}_seconds": raw_seconds,
        f"{name}_speedup": raw_seconds / seconds,
    }


def _limits(costs: Sequence[TransferCost]) -> dict[str, float]:
    """Sum seconds by what limits the transfers."""
    seconds: dict[str, float] = {}
    for cost in costs:
        seconds[cost.limit] = seconds.get(cost.limit, 0.0) + cost.seconds
    return seconds
