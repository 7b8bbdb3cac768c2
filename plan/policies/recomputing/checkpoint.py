"""`torch.utils.checkpoint`: regions of the network keep what they read, and run again in backward.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (§4.1). A region is what users
checkpoint: a block, by the layers' names, as `h3` with all of `h3.attn` and `h3.gelu`. A network
whose layers have no such names is cut into as many segments as the root of its number of stages
(§4.2), as `checkpoint_sequential` does.

The selective variant also keeps the outputs of products and of attention, which are expensive to
compute again (Korthikanti et al. 2022, §4; `torch.utils.checkpoint`'s selective contexts).
"""

import math
import re
from itertools import groupby

from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, Mode, Plan
from cdma.plan.timeline.scenario import Scenario

EXPENSIVE = ("conv", "dwconv", "fc", "lstm", "attention")
"""Kinds of layers whose outputs the selective variant keeps."""

_NUMBERED = re.compile(r"(.*?[0-9]\w*)\.")
"""The path of a block: up to the first name with a number that other names follow."""


def plan(scenario: Scenario, *, selective: bool = False, mode: Mode = ASYNCHRONOUS) -> Plan:
    """Keep what regions read of each other, and all that is in none; compute the rest again.

    Parameters
    ----------
    scenario : Scenario
    selective : bool
        Whether outputs of `EXPENSIVE` layers stay, too.
    mode : Mode

    Returns
    -------
    Plan
        The same for every memory: who checkpoints, checkpoints all blocks.
    """
    inside = _inside(scenario)

    def again(tensor: int) -> bool:
        stage = scenario.stage_of[tensor]
        cheap = scenario.stages[stage].kind not in EXPENSIVE
        return tensor in inside and (cheap or not selective)

    return Plan(
        policy="checkpoint-selective" if selective else "checkpoint",
        choices=tuple(RECOMPUTE if again(t) else RETAIN for t in scenario.graph.managed),
        mode=mode,
    )


def regions(scenario: Scenario) -> list[int]:
    """For each stage, the number of its region; -1 of stages in none."""
    names = [_block(scenario.graph.tensors[stage.output].name) for stage in scenario.stages]
    found: list[int] = []
    for number, (name, group) in enumerate(groupby(names)):
        stages = len(list(group))
        found += [number if name is not None and stages > 1 else -1] * stages
    if any(region >= 0 for region in found):
        return found
    segment = math.isqrt(len(names) - 1) + 1
    return [stage // segment for stage in range(len(names))]


def _block(name: str) -> str | None:
    found = _NUMBERED.match(name)
    return None if found is None else found[1]


def _inside(scenario: Scenario) -> set[int]:
    """Tensors that only their own region reads."""
    region = regions(scenario)
    readers: dict[int, set[int]] = {t: set() for t in scenario.stage_of}
    for s, stage in enumerate(scenario.stages):
        for t in (*stage.inputs, *stage.saved):
            if t in readers:
                readers[t].add(region[s])
    return {t for t, s in scenario.stage_of.items() if region[s] >= 0 and readers[t] <= {region[s]}}
