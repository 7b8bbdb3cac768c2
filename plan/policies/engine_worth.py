"""The engine's worth beside good plans: the best plan without it against the best with it.

Beside vDNN, which swaps everything and waits, the engine gains much. Plans that choose what leaves,
what is computed again and when, have little left to wait for, and with them it gains less. For the
same step, the best plans are searched for that may use some means, and the same means and the
engine. Each search begins with the plans of those before it whose means it has, too, so that more
means are never worse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdma.plan.policies import cdma, joint, vdnn
from cdma.plan.policies.best import ENGINE, PLAIN, through_engine
from cdma.plan.policies.registry import plan_all
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    SWAP,
    Choice,
    Plan,
)
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate

MEANS: Mapping[str, tuple[Choice, ...]] = {
    "swap": (RETAIN, SWAP),
    "swap, recompute": (RETAIN, SWAP, RECOMPUTE),
    "all": PLAIN,
}
"""Options of a tensor without the engine. `all` has codecs on the multiprocessors, too."""

EVALUATIONS = 100_000
"""Plans that each search looks at, at most."""


@dataclass(frozen=True, kw_only=True)
class Worth:
    """Times of a step.

    Attributes
    ----------
    oracle_seconds : float
    vdnn_seconds, cdma_seconds : float
        Everything swapped, synchronously, without and with the engine.
    without, with_engine : mapping of str to float
        Of the best plans found with each of `MEANS`, and with these and the engine.
    """

    oracle_seconds: float
    vdnn_seconds: float
    cdma_seconds: float
    without: Mapping[str, float]
    with_engine: Mapping[str, float]

    def gain(self, means: str) -> float:
        """The engine's gain over the best plan with these means, as a part."""
        return self.without[means] / self.with_engine[means] - 1

    def over_oracle(self, seconds: float) -> float:
        """Time beyond that of a step that never waits, as a part of that."""
        return seconds / self.oracle_seconds - 1


def engine_worth(scenario: Scenario, *, seed: int = 0, evaluations: int = EVALUATIONS) -> Worth:
    """The best plans of a step by their means.

    Parameters
    ----------
    scenario : Scenario
    seed : int
        Of the searches.
    evaluations : int
        Plans that each of them looks at, at most.

    Raises
    ------
    ScheduleError
        No engine is as fast as the link.
    """
    if scenario.engine is None:
        raise ScheduleError(scenario.no_engine)
    found = [
        vdnn.plan(scenario, mode=ASYNCHRONOUS),
        *(result.plan for result in plan_all(scenario, ["capuchin", "home+"], seed=seed).values()),
    ]
    without, with_engine = {}, {}
    for name, means in MEANS.items():
        without[name] = _best(scenario, means, found, seed, evaluations)
        with_engine[name] = _best(scenario, (*means, ENGINE), found, seed, evaluations)
    return Worth(
        oracle_seconds=scenario.compute_seconds,
        vdnn_seconds=simulate(scenario, vdnn.plan(scenario)).seconds,
        cdma_seconds=simulate(scenario, cdma.plan(scenario)).seconds,
        without=without,
        with_engine=with_engine,
    )


def _best(
    scenario: Scenario,
    means: Sequence[Choice],
    found: list[Plan],
    seed: int,
    evaluations: int,
) -> float:
    """The time of the best plan with these means; the plan joins those that were found."""
    known = [plan for plan in found if set(plan.choices) <= set(means)]
    if ENGINE in means:
        known += [through_engine(plan) for plan in known]
    plan = joint.plan(
        scenario, known, mode=ASYNCHRONOUS, options=means, seed=seed, evaluations=evaluations
    )
    found.append(plan)
    return simulate(scenario, plan).seconds
