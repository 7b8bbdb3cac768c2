"""vDNN++: vDNN without a wait per layer, and with a codec that saves host memory only.

Tensors cross the link as they are; the host compresses those of more than 60 % zeros with its own
threads, so that less of its memory is pinned (CSWAP+, Table 1 and §6; Shriram et al., IPDPS 2019).
"""

from cdma.plan.policies import vdnn
from cdma.plan.timeline.placement import ASYNCHRONOUS, SWAP, Choice, Mode, Placement, Plan
from cdma.plan.timeline.scenario import Scenario

COMPRESSED_SPARSITY = 0.6


def plan(scenario: Scenario, *, swapped: str = "conv", mode: Mode = ASYNCHRONOUS) -> Plan:
    """Swap vDNN's set; sparse tensors take less of host memory."""
    whole = vdnn.plan(scenario, swapped=swapped, policy="vdnn++", mode=mode)

    def choose(tensor: int, choice: Choice) -> Choice:
        density = scenario.graph.tensors[tensor].density
        sparse = density is not None and 1 - density > COMPRESSED_SPARSITY
        return Choice(Placement.SWAP, "zvc-host") if choice == SWAP and sparse else choice

    return Plan(
        policy=whole.policy,
        choices=tuple(map(choose, scenario.graph.managed, whole.choices)),
        mode=mode,
    )
