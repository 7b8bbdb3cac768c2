"""Efficiencies of shipped devices that others have measured and published.

Each row says what was measured and by whom. Nothing is taken over from one device to another, and
what nobody was found to have measured keeps its declared efficiency (`missing_kinds`). A figure of
steps of whole networks is fitted here, to the planner's own count of their work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cdma.builds.extras import extra
from cdma.plan.platform.device import DEVICES, Device
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import KINDS

PRODUCTS = ("conv", "fc")
"""Kinds whose layers wait for arithmetic in the networks of `STEPS`; all others wait for memory."""

BY_ELEMENT = ("add", "concat", "relu", "leaky_relu")
"""Kinds that read and write memory, and compute next to nothing."""


@dataclass(frozen=True, kw_only=True)
class PublishedEfficiency:
    """What layers of some kinds get of a device's peaks, by a published measurement.

    Attributes
    ----------
    device : str
    kinds : tuple of str
    efficiency : float
    error : float or None
        The part of its time by which what was measured is off this efficiency, where the source
        has several measurements; None if it has one.
    what : str
        What was measured.
    source : str
    """

    device: str
    kinds: tuple[str, ...]
    efficiency: float
    error: float | None
    what: str
    source: str


@dataclass(frozen=True, kw_only=True)
class PublishedSteps:
    """Published times of training steps.

    Attributes
    ----------
    batch : int
    seconds : mapping of str to float
        A forward and a backward pass, by network.
    source : str
    """

    batch: int
    seconds: Mapping[str, float]
    source: str


_CNN_BENCHMARKS = (
    "J. Johnson, github.com/jcjohnson/cnn-benchmarks at 0367b1f5, README: cuDNN 5.0.5, Torch"
)

STEPS: Mapping[str, PublishedSteps] = {
    "titanx": PublishedSteps(
        batch=16,
        seconds={"alexnet": 23.71e-3, "vgg16": 262.42e-3, "resnet50": 171.02e-3},
        source=f"{_CNN_BENCHMARKS}, GeForce GTX TITAN X",
    ),
    "k40": PublishedSteps(
        batch=16,
        seconds={"alexnet": 61.48e-3, "vgg16": 920.21e-3, "resnet50": 449.90e-3},
        source=f"{_CNN_BENCHMARKS}, Tesla K40c",
    ),
}

_MAMF = "S. Bekman, github.com/stas00/ml-engineering at b9e29720, compute/accelerator/README.md"
_SHAPES = "the fastest of many shapes, so no layer's usual one"

MEASURED = (
    PublishedEfficiency(
        device="a100",
        kinds=("fc",),
        efficiency=271.2 / 312,
        error=None,
        what=f"products in bf16, 271.2 of 312 TFLOP/s: {_SHAPES}",
        source=_MAMF,
    ),
    PublishedEfficiency(
        device="h100",
        kinds=("fc",),
        efficiency=794.5 / 989,
        error=None,
        what=f"products in bf16, 794.5 of 989 TFLOP/s: {_SHAPES}",
        source=_MAMF,
    ),
    PublishedEfficiency(
        device="mi300x",
        kinds=("fc",),
        efficiency=668.4 / 1307.4,
        error=None,
        what=f"products in bf16, 668.4 of 1,307.4 TFLOP/s: {_SHAPES}",
        source=_MAMF,
    ),
    PublishedEfficiency(
        device="a100",
        kinds=("attention",),
        # The middle of 50 to 73 %.
        efficiency=0.615,
        error=0.115 / 0.615,
        what="FlashAttention-2, 50 to 73 % of the peak by shape",
        source="T. Dao, FlashAttention-2, arXiv 2307.08691, abstract",
    ),
    PublishedEfficiency(
        device="h100",
        kinds=("attention",),
        efficiency=0.35,
        error=None,
        what="FlashAttention-2, 35 % of the peak",
        source="J. Shah et al., FlashAttention-3, arXiv 2407.08608, abstract",
    ),
    PublishedEfficiency(
        device="v100",
        kinds=BY_ELEMENT,
        efficiency=785 / 900,
        error=None,
        what="copies within the memory, 785 of 900 GB/s, V100 SXM2 16 GB",
        source="github.com/AnjaliSandip/FastIceFlo, output/EffectiveMemoryThroughput.md",
    ),
)


def published_efficiencies(device: str) -> tuple[PublishedEfficiency, ...]:
    """All that was found for a device of that name, which may be nothing."""
    fitted = _fit_steps(device, STEPS[device]) if device in STEPS else ()
    return (*fitted, *(row for row in MEASURED if row.device == device))


def missing_kinds(device: str) -> tuple[str, ...]:
    """Kinds of layers that nothing was found for."""
    found = {kind for row in published_efficiencies(device) for kind in row.kinds}
    return tuple(kind for kind in KINDS if kind not in found)


def with_published(device: Device) -> Device:
    """A shipped device with published efficiencies in the place of declared ones.

    Raises
    ------
    ScheduleError
        Nothing was found for it; lists the devices that something was found for.
    """
    # A device of one's own may have a shipped one's name, but no measurements of that.
    rows = published_efficiencies(device.name) if DEVICES.get(device.name) == device else ()
    if not rows:
        known = [name for name in DEVICES if published_efficiencies(name)]
        raise ScheduleError(
            f"no published efficiencies of {device.name} were found; choose from "
            f"{', '.join(known)}, or time it with cdma calibrate"
        )
    efficiency = dict(device.efficiency)
    errors: dict[str, float] = {}
    for row in rows:
        efficiency.update(dict.fromkeys(row.kinds, row.efficiency))
        if row.error is not None:
            errors.update(dict.fromkeys(row.kinds, row.error))
    return replace(
        device,
        efficiency=efficiency,
        efficiency_error=errors or None,
        source=f"{device.source}; layers: {'; '.join(dict.fromkeys(row.source for row in rows))}",
    )


def _fit_steps(device: str, steps: PublishedSteps) -> tuple[PublishedEfficiency, ...]:
    """One efficiency of products and one of all other kinds in the networks, at most 1 each.

    Their inverses are such that the steps are off as little as they can be, by the squares of
    their parts.
    """
    with extra("plan"):
        from scipy.optimize import lsq_linear
    at_peak = DEVICES[device].with_efficiency(1.0)
    ideal: list[tuple[float, float]] = []
    others: set[str] = set()
    for network in steps.seconds:
        seconds = {True: 0.0, False: 0.0}
        for layer in Graph.from_table(network, steps.batch).layers:
            products = layer.kind in PRODUCTS
            if not products:
                others.add(layer.kind)
            for backward in (False, True):
                seconds[products] += max(at_peak.layer_seconds(layer, backward=backward))
        ideal.append((seconds[True], seconds[False]))
    took = np.array(list(steps.seconds.values()))
    parts = np.array(ideal) / took[:, None]
    inverse = lsq_linear(parts, np.ones(len(took)), bounds=(1, np.inf)).x
    error = float(np.abs(1 - parts @ inverse).mean())
    names = ", ".join(steps.seconds)
    return tuple(
        PublishedEfficiency(
            device=device,
            kinds=kinds,
            efficiency=float(f"{1 / found:.3f}"),
            error=float(f"{error:.3f}"),
            what=f"steps of {names}, batch {steps.batch}; two efficiencies fitted to {len(took)}",
            source=steps.source,
        )
        for kinds, found in zip(
            (PRODUCTS, tuple(kind for kind in KINDS if kind in others)), inverse, strict=True
        )
    )
