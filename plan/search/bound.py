"""A time that no plan of a scenario can beat, however it was found.

It is the least time of the program of `cdma.plan.search.relaxation`: of the program itself where
that is small, and else of its linear relaxation, in which a tensor may have a part of each option.
Beside that of all but small networks, and instead of it for hundreds of tensors, it is that of
`cdma.plan.search.coarse`, which has only some of the steps; the greater one holds. What is done
depends on the programs alone and never on how long it takes, so that a bound is the same on every
machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cdma.plan.search.coarse import CoarseRelaxation
from cdma.plan.search.linear import Answer
from cdma.plan.search.relaxation import Relaxation
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.kernel import Assignments
from cdma.plan.timeline.placement import Choice
from cdma.plan.timeline.problem_arrays import options_of, problem_of
from cdma.plan.timeline.scenario import Scenario

LINEAR, INTEGRAL, AUTOMATIC = EFFORTS = ("linear", "integral", "auto")
"""Solve the linear relaxation; the program itself, however long that takes; or that if it has at
most `SMALL` coefficients."""

LARGE = 60_000
"""Of more tensors times stages, only the program of some steps is solved, unless the effort is
`INTEGRAL`."""

SMALL = 30_000
"""VGG16 with six options has half as many, and SqueezeNet 50,000: a tenth of a second, and five.
ResNet-50's 146,000 take a minute, for 0.03 % more than the linear relaxation, half a second."""

NODES = 2_000
"""The most nodes that branch and bound may visit."""

TOLERANCE = 1e-5
"""Violation of constraints that solutions may have, as a part of the step; off the bound."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """A lower bound on the time of all plans.

    Attributes
    ----------
    seconds : float
        Infinite if no plan fits into the memory.
    tight : bool
        Whether the program itself was solved, with one option for each tensor.
    assignment : numpy.ndarray or None
        int8 (managed,): the program's own plan, a start for searches. It may not be feasible.
    """

    seconds: float
    tight: bool
    assignment: Assignments | None


def lower_bound(
    scenario: Scenario,
    options: Sequence[Choice],
    throttle: str = "none",
    *,
    effort: str = AUTOMATIC,
) -> Bound:
    """The least time that any plan of these options could take.

    Parameters
    ----------
    scenario : Scenario
    options : sequence of Choice
        What may become of a tensor.
    throttle : str
        Of `cdma.sim.driver.THROTTLES`.
    effort : str
        One of `EFFORTS`.

    Raises
    ------
    ScheduleError
        There is no such effort.
    """
    if effort not in EFFORTS:
        raise ScheduleError(f"unknown effort {effort!r}; choose from {', '.join(EFFORTS)}")
    problem, costs = problem_of(scenario), options_of(scenario, options, throttle)
    found: list[tuple[Relaxation | CoarseRelaxation, Answer]] = []
    tight = small = False
    if effort == INTEGRAL or problem.managed * problem.stages <= LARGE:
        whole = Relaxation(problem, costs)
        found.append((whole, whole.solve()))
        small = whole.coefficients <= SMALL
        solving = effort == INTEGRAL or (effort == AUTOMATIC and small)
        if solving and not found[0][1].infeasible:
            found.append((whole, whole.solve(NODES)))
            tight = found[-1][1].solved
    if effort != INTEGRAL and not small:
        coarse = CoarseRelaxation(problem, costs)
        found.insert(0, (coarse, coarse.solve()))
    if any(answer.infeasible for _, answer in found):
        return Bound(seconds=math.inf, tight=True, assignment=None)
    # Sums in another order differ in their last bits.
    oracle = scenario.compute_seconds * (1 - 1e-12)
    proved = max(answer.proved for _, answer in found)
    assignments = (
        program.assignment(answer.solution)
        for program, answer in reversed(found)
        if answer.solution is not None
    )
    return Bound(
        seconds=max(oracle, (proved - TOLERANCE) * found[0][0].unit_s),
        tight=tight,
        assignment=next(iter(assignments), None),
    )
