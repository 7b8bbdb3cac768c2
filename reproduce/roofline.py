"""vDNN's loss and cDMA's gain on six networks, and how far assumptions move them (cDMA, §VII-B).

The paper ran cuDNN on two GPUs and let copies of inflated sizes stand in for the engine. Here
layers take roofline times, max(arithmetic, memory traffic) at a declared part of the peak, and the
engine moves what its estimate says. So these are no reproductions of its percentages: they show
the same effect, and what it depends on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from cdma.plan.papers import printed
from cdma.plan.policies import cdma, vdnn
from cdma.plan.timeline.placement import MODES
from cdma.plan.workload.networks.batches import CDMA
from cdma.reproduce import scenarios

DEVICES = ("titanx", "titanxp")
EFFICIENCIES = (0.4, 0.55, 0.7, 0.85, 1.0)
LINK = "pcie3x16"

LAYER_TIMES = (0.75, 1.3)
"""Factors between which layers' real times are of those here, at the declared efficiencies.

Steps of AlexNet, VGG-16 and ResNet-50 of 16 images took a GTX Titan X 23.7, 262.4 and 171.0 ms with
cuDNN 5 (J. Johnson, cnn-benchmarks); tests hold the range to these."""


def published(figure: str) -> tuple[float, float]:
    """Mean and most that the paper prints of `loss`, `gain-titanx` or `gain-titanxp`."""
    found = printed("cdma")[figure]
    return found["mean_percent"] / 100, found["most_percent"] / 100


@dataclass(frozen=True, kw_only=True)
class Performance:
    """A network's step, by policy.

    Attributes
    ----------
    oracle_seconds, vdnn_seconds, cdma_seconds, bandwidth_aware_seconds : float
    """

    oracle_seconds: float
    vdnn_seconds: float
    cdma_seconds: float
    bandwidth_aware_seconds: float

    @property
    def loss(self) -> float:
        """vDNN's of the oracle's performance."""
        return 1 - self.oracle_seconds / self.vdnn_seconds

    @property
    def gain(self) -> float:
        """cDMA's over vDNN's performance."""
        return self.vdnn_seconds / self.cdma_seconds - 1

    @property
    def bandwidth_aware(self) -> float:
        """Performance under the throttle of 48 GB/s, of that under 200 GB/s."""
        return self.cdma_seconds / self.bandwidth_aware_seconds


@cache
def performance(
    device: str,
    mode: str = "sync",
    *,
    efficiency: float | None = None,
    layer_time: float = 1.0,
    source: str = scenarios.CAPTURE,
) -> Mapping[str, Performance]:
    """Figures of cDMA's six networks at its batches (Table II); all activations leave, PCIe gen3.

    Parameters
    ----------
    device : str
        Of `cdma.plan.platform.device.DEVICES`.
    mode : str
        `sync` or `async`.
    efficiency : float or None
        Of all layers; None for the declared ones.
    layer_time : float
        What layers take of the time that they have by that efficiency.
    source : str
        Of densities.
    """
    return {
        name: _performance(name, batch, device, mode, efficiency, layer_time, source)
        for name, batch in CDMA.items()
    }


def _performance(
    name: str,
    batch: int,
    device: str,
    mode: str,
    efficiency: float | None,
    layer_time: float,
    source: str,
) -> Performance:
    found = scenarios.graph(name, batch, source=source)
    scenario = scenarios.scenario(found, device, LINK, efficiency=efficiency, layer_time=layer_time)
    plans = [
        vdnn.plan(scenario, mode=MODES[mode]),
        *(cdma.plan(scenario, throttle=throttle, mode=MODES[mode]) for throttle in cdma.THROTTLES),
    ]
    plain, full, throttled = (scenarios.run(scenario, plan).seconds for plan in plans)
    return Performance(
        oracle_seconds=scenario.compute_seconds,
        vdnn_seconds=plain,
        cdma_seconds=full,
        bandwidth_aware_seconds=throttled,
    )


def summary(figures: Mapping[str, Performance], figure: str) -> tuple[float, float]:
    """Mean and most of `loss`, `gain` or `bandwidth_aware`."""
    values = [getattr(each, figure) for each in figures.values()]
    return sum(values) / len(values), max(values)
