"""Static compression: what cDMA does, done by the multiprocessors (CSWAP+, §3.2).

Every tensor is compressed before it leaves and decompressed when it is back, whether that pays or
not; both take computation.
"""

from cdma.plan.policies import vdnn
from cdma.plan.timeline.placement import SYNCHRONOUS, Choice, Mode, Placement, Plan
from cdma.plan.timeline.scenario import Scenario


def plan(
    scenario: Scenario, *, swapped: str = "conv", codec: str = "zvc-sm", mode: Mode = SYNCHRONOUS
) -> Plan:
    """Swap vDNN's set, all of it through one codec."""
    return vdnn.plan(
        scenario,
        swapped=swapped,
        choice=Choice(Placement.SWAP, codec),
        policy="static",
        mode=mode,
    )
