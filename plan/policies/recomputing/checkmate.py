"""Checkmate and POET: the cheapest schedule of an integer program (Jain et al. 2020; Patil et al.
2022).

`cdma.plan.policies.recomputing.program` has the program: Checkmate keeps or computes again, POET
may also page out to the host. Small networks are solved by branch and bound, and the plan says the
gap that is left; of larger ones it is the linear relaxation, whose fractions are rounded (Jain et
al., §5), and nothing is proved. The program is quadratic in the network's stages, so networks of
more than `MOST_STAGES` are refused.

A plan has one choice per tensor, so it is the tensors that forward leaves behind: those with a
fraction of a threshold or more. Of all thresholds the one is taken that the step is fastest with;
memory and overlap are judged by the timeline, so the program's optimum is not the step's.
"""

import math
from dataclasses import replace

import numpy as np

from cdma.plan.policies.recomputing.program import StepProgram, StepSolution
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.kernel import Assignments
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, SWAP, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, with_memory

MOST_STAGES = 600
"""Networks of more stages are refused: the program has unknowns for each pair of stages. 545 take
Checkmate a minute, 227 four seconds."""

TRIES = 4
"""How often a small program is solved, each time with as much less memory as its plan lacked: it
does not see the scratch memory of layers that run again."""

OPTIONS = (RETAIN, RECOMPUTE, SWAP)
KEPT, AGAIN, PAGED = range(3)
"""Options of a tensor, and their places."""


def plan(scenario: Scenario, *, paging: bool = False, mode: Mode = ASYNCHRONOUS) -> Plan:
    """Keep what the program keeps, and compute the rest again, or page it.

    Parameters
    ----------
    scenario : Scenario
    paging : bool
        Whether tensors may leave to the host: POET.
    mode : Mode

    Raises
    ------
    ScheduleError
        The network has more than `MOST_STAGES` stages.
    """
    name = "poet" if paging else "checkmate"
    stages = len(scenario.stages)
    if stages > MOST_STAGES:
        raise ScheduleError(
            f"policy {name} takes a program of {stages * stages:,} unknowns for "
            f"{scenario.graph.name}'s {stages} stages, more than its {MOST_STAGES} stages at most; "
            "choose dtr or best-without-engine"
        )
    evaluator = TimelineEvaluator(scenario, OPTIONS, mode)
    memory = scenario.memory_bytes
    for _ in range(TRIES):
        solution = StepProgram(with_memory(scenario, memory), paging=paging).solve()
        assignment = _rounded(evaluator, solution)
        lacking = evaluator.run(assignment).least_bytes - scenario.memory_bytes
        if lacking <= 0 or lacking >= memory or not solution.report.integral:
            break
        memory -= math.ceil(lacking)
    return replace(evaluator.plan(name, assignment), solver=solution.report)


def _rounded(evaluator: TimelineEvaluator, solution: StepSolution) -> Assignments:
    """The threshold of what is kept that the step is fastest with; one half if none fits."""
    managed = evaluator.scenario.graph.managed
    fractions = np.array([solution.kept[t] for t in managed])
    order = np.argsort(-fractions, kind="stable")
    paged = [solution.paged.get(t, 0.0) >= 0.5 for t in managed]
    # The first one keeps nothing, the last one everything.
    rows = np.repeat(np.where(paged, PAGED, AGAIN).astype(np.int8)[None], order.size + 1, axis=0)
    for count in range(order.size):
        rows[count + 1 :, order[count]] = KEPT
    seconds = evaluator.seconds(rows)
    if np.isfinite(seconds).any():
        return rows[int(np.argmin(seconds))]
    return rows[int(np.count_nonzero(fractions >= 0.5))]
