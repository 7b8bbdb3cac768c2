"""CSWAP+: how well compression's time is learned, and how often decisions by it are right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.plan.platform.device import device
from cdma.plan.policies.cswap import (
    Sample,
    learned_times,
    model_samples,
    sample_names,
    shipped_samples,
)
from cdma.plan.policies.cswap import policy as cswap
from cdma.plan.policies.cswap.samples import shipped_conditions
from cdma.plan.policies.cswap.time_model import (
    DENSE_RANGE,
    REGRESSORS,
    SPARSE_RANGE,
    TimeModel,
    held_out_error,
)
from cdma.plan.timeline.placement import MODES
from cdma.plan.timeline.scenario import Scenario
from cdma.reproduce import swapping

SUB_MODELS = 4
DEVICE, LINK = "v100", "v100-pcie"
NETWORKS = ("alexnet", "vgg16", "mobilenet", "plain20", "resnet50", "squeezenet")
"""At the batches of CSWAP+'s Table 3 for ImageNet on a V100."""
DENSITIES, EPOCHS = swapping.SWEEP_DENSITIES, swapping.SWEEP_EPOCHS
LAYER_CODECS = ("zvc-sm", "csr-sm", "lz4-sm")
LAYER_DENSITIES = (0.9, *DENSITIES, 0.1)
EFFICIENCIES = (0.4, 0.7, 1.0)


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures."""
    return {
        "relative_absolute_error": _errors(console),
        "right_decisions": _decisions(console),
        "compressed_layers": _layers(console),
    }


def _errors(console: Console) -> dict[str, Any]:
    host = shipped_conditions()["host"]["processor"]
    table = Table(
        title="relative absolute error of predicted times on a quarter of the samples, in %, with "
        f"one model / with {SUB_MODELS} by ratio; S·r: with size × ratio as an input"
    )
    table.add_column("samples", no_wrap=True)
    for name in (*REGRESSORS, "linear, S·r"):
        table.add_column(name, justify="right", no_wrap=True)
    figures = {}
    for label, samples in _sources():
        errors = {
            f"{name} {count}": held_out_error(_model(label, name, count), samples)
            for name in REGRESSORS
            for count in (1, SUB_MODELS)
        }
        product = held_out_error(_model(label, "linear", 1, product=True), samples)
        cells = [
            " / ".join(f"{100 * errors[f'{name} {count}']:.1f}" for count in (1, SUB_MODELS))
            for name in REGRESSORS
        ]
        table.add_row(label, *cells, f"{100 * product:.2f}")
        figures[label] = errors | {"linear 1 S·r": product}
    console.print(table)
    console.print(f"host: golden codecs on {host}; model: declared rates, 3,000 samples")
    return figures


def _sources() -> list[tuple[str, Sequence[Sample]]]:
    dram = device(DEVICE).dram_bytes_per_s
    measured = [
        (name if name == "engine" else f"host {name}", shipped_samples(name))
        for name in sample_names()
    ]
    declared = [
        (f"model {name}", model_samples(name, dram_bytes_per_s=dram))
        for name in ("zvc-sm", "lz4-sm", "zfp")
    ]
    return [*measured, *declared]


def _model(label: str, regressor: str, sub_models: int, *, product: bool = False) -> TimeModel:
    base, span = DENSE_RANGE if label.endswith("zfp") else SPARSE_RANGE
    return TimeModel(regressor, sub_models=sub_models, base=base, span=span, product=product)


def _decisions(console: Console) -> dict[str, Any]:
    table = Table(
        title=f"decisions that the timeline confirms, {DEVICE}, {LINK}; densities "
        f"{DENSITIES[0]} … {DENSITIES[-1]} of ReLU, epochs {EPOCHS[0]} … {EPOCHS[-1]} of Leaky ReLU"
    )
    table.add_column("mode")
    table.add_column("times")
    for name in (*NETWORKS, "all"):
        table.add_column(name, justify="right")
    figures = {}
    for mode in MODES:
        for times, models in _time_models().items():
            right = {name: _right(name, mode, models) for name in NETWORKS}
            counted = [*right.values(), tuple(map(sum, zip(*right.values(), strict=True)))]
            shares = [100 * good / count for good, count in counted]
            table.add_row(mode, times, *(f"{share:.1f} %" for share in shares))
            figures[f"{mode}, {times}"] = dict(zip((*NETWORKS, "all"), shares, strict=True))
    console.print(table)
    return figures


def _time_models() -> dict[str, cswap.TimeModels]:
    dram = device(DEVICE).dram_bytes_per_s
    with_product = {
        name: _model(name, "linear", 1, product=True).fit(
            model_samples(name, dram_bytes_per_s=dram)
        )
        for name in (swapping.SPARSE_CODEC, "zfp")
    }
    return {
        "declared": {},
        f"linear {SUB_MODELS}": learned_times(dram),
        "linear 1 S·r": with_product,
    }


def _right(name: str, mode: str, models: cswap.TimeModels) -> tuple[int, int]:
    """Decisions that are right, and all."""
    judged = [
        right
        for scenario in swapping.swept(name)
        for right in swapping.judged_decisions(scenario, models, MODES[mode])
    ]
    return sum(judged), len(judged)


def _layers(console: Console) -> dict[str, Any]:
    table = Table(
        title=f"VGG16's layers that are compressed, of 12; {DEVICE}, {LINK}, batch 128; by codec "
        "and by the part of the device's peak that layers get"
    )
    columns = [(codec, part) for codec in LAYER_CODECS for part in EFFICIENCIES]
    table.add_column("density")
    for codec, part in columns:
        table.add_column(f"{codec} {part}", justify="right")
    figures: dict[str, dict[str, int]] = {}
    for density in LAYER_DENSITIES:
        counts = {}
        for codec, part in columns:
            plan = cswap.plan(_scenario(density, part), codecs=[codec], time_models={})
            counts[f"{codec} {part}"] = sum(c.codec is not None for c in plan.choices)
        table.add_row(f"{density}", *map(str, counts.values()))
        figures[str(density)] = counts
    console.print(table)
    return figures


def _scenario(density: float, efficiency: float) -> Scenario:
    """VGG16 with one density for all tensors."""
    step = swapping.swept_step("vgg16", 128, "relu", density, 0)
    return replace(step, device=device(DEVICE).with_efficiency(efficiency))
