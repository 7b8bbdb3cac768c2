"""CSWAP+ beside vDNN, vDNN++ and static compression, on its six networks (CSWAP+, §6.1 and §6.2).

At the batches of its Table 3, behind the copies that it measured, with as much memory as a step
takes; what convolutions read is swapped. P of dense tensors is CSWAP+'s own of that epoch, also for
static compression.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from cdma.plan.policies import static, vdnn, vdnn_pp
from cdma.plan.policies.cswap import policy as cswap
from cdma.plan.policies.cswap.accuracy import right_decisions
from cdma.plan.timeline.placement import SYNCHRONOUS, Mode
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks.batches import CSWAP
from cdma.reproduce import scenarios

ACTIVATIONS = {"sparse": "relu", "dense": "leaky_relu"}
SPARSE_CODEC = "zvc-sm"


@dataclass(frozen=True, kw_only=True)
class SwapComparison:
    """A network's step, by policy.

    Attributes
    ----------
    oracle_seconds, cswap_seconds, vdnn_seconds, vdnn_pp_seconds, static_seconds : float
    same_as_static : bool
        Whether CSWAP+ compresses all that it swaps.
    """

    oracle_seconds: float
    cswap_seconds: float
    vdnn_seconds: float
    vdnn_pp_seconds: float
    static_seconds: float
    same_as_static: bool

    @property
    def over_vdnn(self) -> float:
        """Throughput gained."""
        return self.vdnn_seconds / self.cswap_seconds - 1

    @property
    def over_vdnn_pp(self) -> float:
        return self.vdnn_pp_seconds / self.cswap_seconds - 1

    @property
    def over_static(self) -> float:
        return self.static_seconds / self.cswap_seconds - 1

    @property
    def time_saved(self) -> float:
        """The saved part of vDNN's step."""
        return 1 - self.cswap_seconds / self.vdnn_seconds

    @property
    def latency_saved(self) -> float:
        """The saved part of the time that swapping adds to vDNN's step."""
        added = self.vdnn_seconds - self.oracle_seconds
        return 1 - (self.cswap_seconds - self.oracle_seconds) / added if added else 0.0


@cache
def compare(dataset: str, device: str, kind: str) -> Mapping[str, SwapComparison]:
    """By network: `cifar` or `imagenet`, `v100` or `2080ti`, `sparse` or `dense`."""
    return {
        name: _compare(scenarios.swapping(name, batch, dataset, device, ACTIVATIONS[kind]))
        for name, batch in CSWAP[dataset, device].items()
    }


def _compare(scenario: Scenario) -> SwapComparison:
    codec = SPARSE_CODEC
    if not cswap.is_sparse(scenario.graph):
        bits = cswap.zfp_bits(scenario, cswap.cost_model(scenario), scenario.graph.conv_inputs)
        codec = "zfp-128" if bits is None else f"zfp-{bits}"
    ours = cswap.plan(scenario, codecs=(SPARSE_CODEC,))
    always = static.plan(scenario, codec=codec)
    plans = (ours, vdnn.plan(scenario, swapped="conv"), vdnn_pp.plan(scenario), always)
    seconds = [scenarios.run(scenario, plan).seconds for plan in plans]
    return SwapComparison(
        oracle_seconds=scenario.compute_seconds,
        cswap_seconds=seconds[0],
        vdnn_seconds=seconds[1],
        vdnn_pp_seconds=seconds[2],
        static_seconds=seconds[3],
        same_as_static=ours.choices == always.choices,
    )


def over(figures: Mapping[str, SwapComparison], figure: str) -> dict[str, float]:
    """One of `SwapComparison`'s figures by network."""
    return {name: getattr(each, figure) for name, each in figures.items()}


def judged_decisions(
    scenario: Scenario, time_models: cswap.TimeModels | None = None, mode: Mode = SYNCHRONOUS
) -> list[bool]:
    """For each decision, whether the timeline agrees with it (§6.3).

    The policy decides with learned times and a window for each tensor alone. The timeline has the
    codecs' own times, which the policy never sees, and all copies on one link.
    """
    plan = cswap.plan(scenario, codecs=(SPARSE_CODEC,), time_models=time_models, mode=mode)
    decisions = cswap.decisions(
        scenario,
        cswap.cost_model(scenario, time_models),
        scenario.graph.conv_inputs,
        codecs=(SPARSE_CODEC,),
    )
    return list(right_decisions(scenario, plan, decisions).values())


SWEEP_DENSITIES = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
"""Densities of all tensors of a network with ReLU."""
SWEEP_EPOCHS = (0, 30, 60, 89)
"""Epochs of the same network with Leaky ReLU, whose tensors are dense and whose P slides."""


def swept(name: str) -> list[Scenario]:
    """A network's steps on a V100, over densities and epochs."""
    batch = CSWAP["imagenet", "v100"][name]
    return [
        swept_step(name, batch, "relu", density, scenarios.EPOCH) for density in SWEEP_DENSITIES
    ] + [swept_step(name, batch, "leaky_relu", 1.0, epoch) for epoch in SWEEP_EPOCHS]


def swept_step(name: str, batch: int, activation: str, density: float, epoch: int) -> Scenario:
    graph = Graph.from_table(name, batch, "imagenet", activation)
    graph = graph.with_densities({graph.tensors[t].name: density for t in graph.managed})
    return scenarios.scenario(graph, "v100", scenarios.COPIES["v100"], epoch=epoch)


def compressed_tensors(scenario: Scenario) -> set[str]:
    """Those that CSWAP+ compresses."""
    plan = cswap.plan(scenario, codecs=(SPARSE_CODEC,))
    return {
        scenario.graph.tensors[t].name
        for t, choice in zip(scenario.graph.managed, plan.choices, strict=True)
        if choice.codec is not None
    }
