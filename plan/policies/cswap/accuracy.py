"""The share of decisions in which the cost model agrees with the timeline (CSWAP+, §6.3).

The paper counts a decision as right if measured times agree with it. Here the timeline measures: a
decision is right if the step is no faster when this tensor alone is treated the other way.
"""

from collections.abc import Sequence

import numpy as np

from cdma.plan.policies.cswap.decision import Decision
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import SWAP, Choice, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator

ROUNDING = 1e-9
"""Times that differ by less, in proportion, are equal."""


def right_decisions(
    scenario: Scenario, plan: Plan, decisions: Sequence[Decision]
) -> dict[int, bool]:
    """Return for each decision whether the timeline agrees with it, bool by tensor.

    Parameters
    ----------
    scenario : Scenario
    plan : Plan
        Which the decisions led to.
    decisions : sequence of Decision
        Those without a codec to choose are left out.

    Raises
    ------
    ScheduleError
        The plan does not fit into the memory, so it has no time.
    """
    places = {t: i for i, t in enumerate(scenario.graph.managed)}
    others = {d.tensor: _other(d) for d in decisions if d.codec is not None}
    options = list(dict.fromkeys([*plan.choices, *others.values()]))
    evaluator = TimelineEvaluator(scenario, options, plan.mode, plan.throttle)
    base = evaluator.assignment(plan.choices)
    flipped = np.tile(base, (len(others), 1))
    for row, (tensor, other) in zip(flipped, others.items(), strict=True):
        row[places[tensor]] = options.index(other)
    seconds, *changed = evaluator.seconds(np.vstack([base, flipped])).tolist()
    if not np.isfinite(seconds):
        raise ScheduleError(
            f"the plan of {plan.policy} does not fit into {scenario.memory_bytes:,} bytes; give "
            "more memory"
        )
    return {
        tensor: seconds <= other * (1 + ROUNDING)
        for tensor, other in zip(others, changed, strict=True)
    }


def _other(decision: Decision) -> Choice:
    return SWAP if decision.worth_it else Choice(Placement.SWAP, decision.codec)
