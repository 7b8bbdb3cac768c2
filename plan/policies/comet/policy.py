"""COMET: nothing leaves the device; convolutions' tensors stay there compressed (COMET, §3.4).

A tensor that a convolution reads is compressed under an error bound after its forward use and
decompressed when backward needs it. Outputs of pooling, normalization and activation layers are
computed again, and all others are kept as they are.

The paper does not say what becomes of a convolution's own output where no convolution reads it, as
before a pooling layer (its ReLU in place) or a batch normalization. To compute it again is what
§5.4 refuses, as the convolution would run a second time, so it is compressed, too: "right after its
forward pass". Of VGG16 at batch 128 the convolutions' outputs are 6.94 GB, and Table 1 has 6.91.
"""

from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    Choice,
    Mode,
    Placement,
    Plan,
)
from cdma.plan.timeline.scenario import Scenario

CODEC = "quantize-sm"

CONVOLUTIONS = ("conv", "dwconv")

RECOMPUTED = ("pool", "bn", "lrn", "relu", "leaky_relu")
"""Kinds of layers whose outputs cost little to compute again (§3.4)."""


def plan(scenario: Scenario, *, mode: Mode = ASYNCHRONOUS) -> Plan:
    """The plan, whatever the memory: COMET does not look at it, but lets the batch grow into it.

    Parameters
    ----------
    scenario : Scenario
    mode : Mode
        Without effect on the times, as nothing is swapped.
    """
    read_by_convolutions = set(scenario.graph.conv_inputs)

    def choose(tensor: int) -> Choice:
        kind = scenario.stages[scenario.stage_of[tensor]].kind
        if tensor in read_by_convolutions or kind in CONVOLUTIONS:
            return Choice(Placement.COMPRESS, CODEC)
        return RECOMPUTE if kind in RECOMPUTED else RETAIN

    return Plan(policy="comet", choices=tuple(map(choose, scenario.graph.managed)), mode=mode)
