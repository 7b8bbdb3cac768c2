"""SuperNeurons: what a layer is decides about its tensor (HOME, §5.3).

Outputs of convolutions leave; those of pooling, activation and normalization layers, which are
cheap to compute, are computed again; the rest stays.
"""

from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP, SYNCHRONOUS, Choice, Mode, Plan
from cdma.plan.timeline.scenario import Scenario

SWAPPED = ("conv", "dwconv")
RECOMPUTED = ("pool", "relu", "leaky_relu", "gelu", "silu", "lrn", "bn", "dropout")


def plan(scenario: Scenario, *, mode: Mode = SYNCHRONOUS) -> Plan:
    """A plan by the kinds of the stages; an activation in place belongs to its convolution."""

    def choose(tensor: int) -> Choice:
        kind = scenario.stages[scenario.stage_of[tensor]].kind
        if kind in SWAPPED:
            return SWAP
        return RECOMPUTE if kind in RECOMPUTED else RETAIN

    return Plan(
        policy="superneurons", choices=tuple(map(choose, scenario.graph.managed)), mode=mode
    )
