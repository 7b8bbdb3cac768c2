"""cDMA: vDNN through the compressing engine, under one of its two throttles (cDMA, §V-D).

Every tensor is compressed on its way, dense ones too: the engine has no say in it. Compression
takes no time on the device, but the engine reads no more than its policy lets it: 200 GB/s, which
is as good as all the memory has left, or 48 GB/s.
"""

from cdma.plan.policies import vdnn
from cdma.plan.timeline.placement import SYNCHRONOUS, Choice, Mode, Placement, Plan
from cdma.plan.timeline.scenario import Scenario

THROTTLES = ("performance-optimal", "bandwidth-aware")


def plan(
    scenario: Scenario,
    *,
    throttle: str = "performance-optimal",
    swapped: str = "all",
    policy: str = "cdma",
    mode: Mode = SYNCHRONOUS,
) -> Plan:
    """Swap vDNN's set compressed by zero values; `throttle` is one of `THROTTLES`."""
    return vdnn.plan(
        scenario,
        swapped=swapped,
        choice=Choice(Placement.SWAP, "zvc"),
        policy=policy,
        mode=mode,
        throttle=throttle,
    )
