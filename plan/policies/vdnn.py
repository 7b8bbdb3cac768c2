"""vDNN: a fixed set of tensors leaves, as it is; a layer waits for its copies (cDMA, §II-B).

The papers have two sets. cDMA offloads all activations, for the most room and the most traffic;
CSWAP+ and HOME offload what convolutions read.
"""

from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import RETAIN, SWAP, SYNCHRONOUS, Choice, Mode, Plan
from cdma.plan.timeline.scenario import Scenario

SETS = ("all", "conv")


def plan(
    scenario: Scenario,
    *,
    swapped: str = "all",
    choice: Choice = SWAP,
    policy: str = "vdnn",
    mode: Mode = SYNCHRONOUS,
    throttle: str = "none",
) -> Plan:
    """Swap all that backward needs, or what convolutions read.

    Parameters
    ----------
    scenario : Scenario
    swapped : str
        `all` or `conv`.
    choice : Choice
        How: cDMA and static compression are vDNN with another one.
    policy : str
        The plan's name.
    mode : Mode
    throttle : str
    """
    if swapped not in SETS:
        raise ScheduleError(f"unknown swap set {swapped!r}; choose from {', '.join(SETS)}")
    leaving = set(scenario.graph.managed if swapped == "all" else scenario.graph.conv_inputs)
    return Plan(
        policy=policy,
        choices=tuple(choice if t in leaving else RETAIN for t in scenario.graph.managed),
        mode=mode,
        throttle=throttle,
    )
