"""The JSON object of `cdma schedule`: the assumptions, and every policy's figures."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdma.config import NetworkConfig, tables_of
from cdma.plan.platform.codec_rates import codec_model
from cdma.plan.policies.comparison import REFERENCE, Comparison
from cdma.plan.policies.registry import POLICIES
from cdma.plan.timeline.placement import MODES, Mode
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.graph import Graph


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings:
    """The options of a run beside its scenarios.

    Attributes
    ----------
    network : NetworkConfig
    mode : str or None
        None for each policy's published one.
    density : str
        Where densities are from.
    efficiencies : tuple of float
        Those asked for; none if the device has its declared ones.
    seed : int
    """

    network: NetworkConfig
    mode: str | None
    density: str
    efficiencies: tuple[float, ...]
    seed: int

    @property
    def dataset(self) -> str:
        return self.network.usual_dataset

    @property
    def activation(self) -> str:
        return self.network.activation

    @property
    def precision(self) -> str:
        return self.network.usual_precision

    @property
    def optimizer(self) -> str:
        return self.network.usual_optimizer

    def title(self, graph: Graph) -> str:
        variants = [self.dataset, self.activation]
        if self.precision != "fp32":
            variants.append(self.precision)
        title = f"{graph.name} ({', '.join(variants)}), batch {graph.batch}"
        return title if graph.passes == 1 else f"{title}, one of {graph.passes} passes"


def assumptions(comparisons: Sequence[Comparison], settings: ScheduleSettings) -> dict[str, Any]:
    """The unmeasured inputs of all times; docs/guide/plan/schedule.md describes the keys."""
    scenario = comparisons[0].scenario
    graph, device, link = scenario.graph, scenario.device, scenario.link
    kinds = sorted({layer.kind for layer in graph.layers})
    narrow = sorted({layer.kind for layer in graph.layers if layer.narrow})
    return {
        "network": graph.name,
        "dataset": settings.dataset,
        "activation": settings.activation,
        "precision": settings.precision,
        "optimizer": settings.optimizer,
        "batch": graph.batch,
        "passes": graph.passes,
        "parameter_bytes": graph.parameter_bytes,
        "parameter_copies": graph.parameter_copies,
        "tensors": [
            {
                "name": graph.tensors[t].name,
                "bytes": graph.tensors[t].nbytes,
                "density": graph.tensors[t].density,
            }
            for t in graph.managed
        ],
        "memory_bytes": scenario.memory_bytes,
        "device": {
            "name": device.name,
            "peak_flops": device.peak_flops,
            "dram_bytes_per_s": device.dram_bytes_per_s,
            "source": device.source,
        },
        "efficiency": (
            None
            if len(settings.efficiencies) > 1
            else {kind: device.efficiency[kind] for kind in kinds}
        ),
        "narrow_efficiency": (
            None
            if device.narrow_efficiency is None
            else {kind: device.narrow_efficiency.get(kind) for kind in narrow}
        ),
        "efficiency_error": (
            None
            if device.efficiency_error is None
            else {kind: device.efficiency_error.get(kind) for kind in kinds}
        ),
        "efficiencies": list(settings.efficiencies),
        "link": {
            "name": link.name,
            "bytes_per_s": link.bytes_per_s,
            "in_bytes_per_s": link.in_bytes_per_s,
            "payload_efficiency": link.efficiency,
            "duplex": link.duplex,
            "source": link.source,
        },
        "engine": _engine(scenario),
        "mode": settings.mode or "published",
        "density": {
            "source": settings.density,
            "epoch": scenario.epoch,
            "epochs": scenario.epochs,
            "mean": mean_density(graph),
        },
        "codecs": [_codec(name, comparisons) for name in _codecs(comparisons)],
        "policies": {name: POLICIES[name].source for name in comparisons[0].results},
        "speedup_over": REFERENCE,
        "seed": settings.seed,
    }


def _engine(scenario: Scenario) -> dict[str, Any] | None:
    placed = scenario.placed_engine
    if placed is None:
        return None
    engine, clock_hz = placed.config, scenario.machine.clock_hz
    together = scenario.machine.engines * clock_hz
    return {
        "name": placed.name,
        "clock_hz": clock_hz,
        "units_bytes_per_s": engine.units * engine.codec.sector_bytes * together,
        "port_bytes_per_s": engine.stream_bytes_per_cycle * together,
    }


def copy_limits(comparison: Comparison, name: str) -> dict[str, int]:
    """Counts of a policy's copies that the engine compresses, both ways, by their narrowest
    place; the link first."""
    scenario, plan = comparison.scenario, comparison.results[name].plan
    limits: Counter[str] = Counter({"link": 0})
    for t, choice in zip(scenario.graph.managed, plan.choices, strict=True):
        model = scenario.codec(choice)
        if model is not None and model.where == "inline":
            limits.update(scenario.copy_limits(t, choice, plan.throttle))
    return dict(limits)


def mean_density(graph: Graph) -> float:
    """The mean density of the tensors that plans decide about, weighted by bytes."""
    tensors = [graph.tensors[t] for t in graph.managed]
    total = sum(tensor.nbytes for tensor in tensors)
    return sum(tensor.nbytes * (tensor.density or 0.0) for tensor in tensors) / total


def _codecs(comparisons: Sequence[Comparison]) -> list[str]:
    """Those that any plan uses."""
    return sorted(
        {
            choice.codec
            for comparison in comparisons
            for result in comparison.results.values()
            for choice in result.plan.choices
            if choice.codec is not None
        }
    )


def _codec(name: str, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    model = codec_model(name)
    device = comparisons[0].scenario.device
    rates: tuple[float | None, float | None] = (None, None)
    if model.where == "sm":
        rates = model.rates(device.dram_bytes_per_s, device.codec_bytes_per_s)
    return {
        "name": name,
        "where": model.where,
        "lossless": model.lossless,
        "raw_bytes_per_s": rates[0],
        "stream_bytes_per_s": rates[1],
    }


def as_dict(comparisons: Sequence[Comparison], settings: ScheduleSettings) -> dict[str, Any]:
    """The JSON form of a run; docs/guide/plan/schedule.md describes the keys."""
    efficiencies = settings.efficiencies or (None,)
    pairs = list(zip(efficiencies, comparisons, strict=True))
    return {
        "assumptions": assumptions(comparisons, settings),
        "configuration": configuration(comparisons[0].scenario, settings),
        "bounds": [
            {
                "efficiency": efficiency,
                "oracle_seconds": comparison.oracle_seconds,
                "lower_bounds": [
                    {
                        "lossless": lossless,
                        "seconds": _finite(bound.seconds),
                        "tight": bound.tight,
                    }
                    for lossless, bound in sorted(comparison.bounds.items(), reverse=True)
                ],
            }
            for efficiency, comparison in pairs
        ],
        "engine_worth": [
            {
                "efficiency": efficiency,
                "without": comparison.best(engine=False),
                "with": comparison.best(engine=True),
                "gain": comparison.engine_gain,
            }
            for efficiency, comparison in pairs
        ],
        "policies": [
            {"policy": name, "efficiency": efficiency, **figures_of(comparison, name)}
            for efficiency, comparison in pairs
            for name in comparison.results
        ],
    }


def configuration(scenario: Scenario, settings: ScheduleSettings) -> dict[str, Any]:
    """The tables from which `cdma schedule --config` makes the scenario again."""
    placed = scenario.placed_engine
    return tables_of(
        *(() if placed is None else (placed.config, placed.machine)),
        scenario.device,
        scenario.link,
        settings.network,
    )


def _finite(seconds: float) -> float | None:
    return seconds if seconds < float("inf") else None


def figures_of(comparison: Comparison, name: str) -> dict[str, Any]:
    result = comparison.results[name]
    trace, graph = result.trace, comparison.scenario.graph
    run = comparison.seconds(name) is not None

    def if_run(value: Any) -> Any:
        return value if run else None

    return {
        "mode": mode_name(result.plan.mode),
        "throttle": result.plan.throttle,
        "lossless": result.lossless,
        "feasible": trace.feasible,
        "seconds": comparison.seconds(name),
        "speedup_over_vdnn": comparison.speedup(name),
        "over_oracle": comparison.over_oracle(name),
        "over_bound": comparison.over_bound(name),
        "peak_bytes": trace.peak_bytes,
        "least_bytes": trace.least_bytes,
        "host_bytes": trace.host_bytes,
        "link_bytes": if_run(trace.link_out_bytes + trace.link_in_bytes),
        "link_out_bytes": if_run(trace.link_out_bytes),
        "link_in_bytes": if_run(trace.link_in_bytes),
        "stall_seconds": if_run(trace.stall_seconds),
        "stall_seconds_by_reason": if_run(trace.stall_seconds_by_reason),
        "codec_seconds": if_run(trace.seconds_of("compress", "decompress")),
        "recompute_seconds": if_run(trace.seconds_of("recompute")),
        "copy_limits": copy_limits(comparison, name),
        "solver": None if result.plan.solver is None else asdict(result.plan.solver),
        "busy_seconds": if_run(
            {stream: trace.busy(stream) for stream in ("compute", "d2h", "h2d")}
        ),
        "choices": {
            graph.tensors[t].name: str(choice)
            for t, choice in zip(graph.managed, result.plan.choices, strict=True)
        },
    }


def mode_name(mode: Mode) -> str:
    """As of `MODES`, or its figures."""
    for name, known in MODES.items():
        if mode == known:
            return name
    return f"staging {mode.staging_bytes:g} B, lookahead {mode.lookahead}"
