"""Policies beside each other: speed-ups, distances to the oracle and to what no plan can beat."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cdma.builds.displays import table
from cdma.plan.policies import joint
from cdma.plan.policies.best import takes_engine
from cdma.plan.policies.registry import POLICIES, Result, plan_all
from cdma.plan.search.bound import AUTOMATIC, Bound, lower_bound
from cdma.plan.timeline.errors import InfeasibleError
from cdma.plan.timeline.memory import explain
from cdma.plan.timeline.placement import Mode
from cdma.plan.timeline.scenario import Scenario

REFERENCE = "vdnn"
"""The policy that speed-ups are over."""

ORACLE = "oracle"
"""The policy that no memory limits."""

NO_BOUND = "none"
"""No effort at all for a bound."""

GB = 1e9

_SAME = 1 + 1e-9


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A scenario, planned by several policies.

    Attributes
    ----------
    scenario : Scenario
    results : mapping of str to Result
        By policy, in the order asked for.
    reference : Result
        Of `REFERENCE`, whether asked for or not.
    bounds : mapping of bool to Bound
        What no lossless plan can beat, by True, and no plan at all, by False; those that a result
        is measured by, none if none were wanted.
    """

    scenario: Scenario
    results: Mapping[str, Result]
    reference: Result
    bounds: Mapping[bool, Bound]

    def _repr_html_(self) -> str:
        """A table with a row per policy, for notebooks."""
        rows = []
        for name, result in self.results.items():
            seconds, speedup = self.seconds(name), self.speedup(name)
            rows.append(
                (
                    name,
                    "no room" if seconds is None else f"{1e3 * seconds:,.1f}",
                    "–" if speedup is None else f"{speedup:.2f}×",
                    f"{result.trace.peak_bytes / GB:,.2f}",
                    "none" if result.lossless else "lossy",
                )
            )
        headings = ("policy", "ms", f"vs {REFERENCE}", "peak GB", "loss")
        return table(f"Steps of {self.scenario.graph.name} by policy", headings, rows)

    @property
    def oracle_seconds(self) -> float:
        """Seconds of the step if nothing ever waits."""
        return self.scenario.compute_seconds

    def seconds(self, name: str) -> float | None:
        """A policy's step; None if it does not fit. The oracle's is there in any case."""
        trace = self.results[name].trace
        return trace.seconds if trace.feasible or name == ORACLE else None

    def speedup(self, name: str) -> float | None:
        """Speedup over the reference; None if either does not fit."""
        seconds = self.seconds(name)
        if seconds is None or not self.reference.trace.feasible:
            return None
        return self.reference.trace.seconds / seconds

    def over_oracle(self, name: str) -> float | None:
        """Time beyond the oracle's, as a part of that; None if the plan does not fit."""
        seconds = self.seconds(name)
        return None if seconds is None else seconds / self.oracle_seconds - 1

    def over_bound(self, name: str) -> float | None:
        """Time beyond the bound, as a part of that: the gap to the best plan is that or less.

        None for the oracle, whose memory the bound does not have, without a bound, and if the
        policy does not fit.
        """
        seconds, bound = self.seconds(name), self.bounds.get(self.results[name].lossless)
        if seconds is None or bound is None or name == ORACLE:
            return None
        return seconds / bound.seconds - 1

    def best(self, *, engine: bool) -> str | None:
        """The fastest lossless policy of all, or of those whose plans do without the engine; of
        equals the first. None if none fits, or if no policy here would take the engine."""
        fitting = {
            name: result.trace.seconds
            for name, result in self.results.items()
            if result.trace.feasible
            and result.lossless
            and name != ORACLE
            and (engine or not takes_engine(self.scenario, result.plan))
        }
        willing = any(POLICIES[name].willing for name in self.results)
        if engine and (self.scenario.engine is None or not willing):
            return None
        return min(fitting, key=lambda name: fitting[name], default=None)

    def top(self, count: int) -> list[str]:
        """The policies that a picture has room for, in the order asked for: the fastest that fit,
        without the oracle, which is no policy.

        The fastest lossless one without the engine, and the fastest of all lossless ones, are among
        them whatever the count. Where no more than `count` were asked for, these are all of them.
        """
        if len(self.results) <= count:
            return list(self.results)
        seconds = {
            name: result.trace.seconds
            for name, result in self.results.items()
            if result.trace.feasible and name != ORACLE
        }
        best = {self.best(engine=engine) for engine in (False, True)} & seconds.keys()
        fastest = sorted(seconds, key=lambda name: (name not in best, seconds[name]))
        chosen = fastest[: max(count, len(best))]
        return [name for name in self.results if name in chosen]

    @property
    def engine_gain(self) -> float | None:
        """The gain of the fastest lossless plan over the fastest one without the engine, as
        a part; None if there is none, or no policy here would take the engine."""
        without, with_engine = self.best(engine=False), self.best(engine=True)
        if without is None or with_engine is None:
            return None
        return self.results[without].trace.seconds / self.results[with_engine].trace.seconds - 1

    @property
    def usable(self) -> bool:
        """True if any policy fits, or if only the oracle was asked for."""
        fitting = (result.trace.feasible for result in self.results.values())
        return any(fitting) or set(self.results) == {ORACLE}

    def infeasible(self) -> InfeasibleError:
        """The reason why no policy fits, and what would."""
        return explain(self.scenario, [result.trace for result in self.results.values()])


def compare(
    scenario: Scenario,
    names: Sequence[str] = tuple(POLICIES),
    *,
    mode: Mode | None = None,
    seed: int = 0,
    effort: str = AUTOMATIC,
) -> Comparison:
    """Plan a scenario by each of these policies.

    Parameters
    ----------
    scenario : Scenario
    names : sequence of str
        As of `plan_all`.
    mode : Mode or None
        For all of them; None for each one's own.
    seed : int
        Of those that draw.
    effort : str
        Of each bound: one of `cdma.plan.search.bound.EFFORTS`, or `NO_BOUND` for none.

    Raises
    ------
    ScheduleError
        There is no such policy, or it needs an engine and there is none for the link.
    """
    results = plan_all(scenario, [*names, REFERENCE], mode=mode, seed=seed)
    bounds = {}
    if effort != NO_BOUND:
        for lossless in {results[name].lossless for name in names}:
            bounds[lossless] = _bound(scenario, results.values(), lossless, effort)
    return Comparison(
        scenario=scenario,
        results={name: results[name] for name in names},
        reference=results[REFERENCE],
        bounds=bounds,
    )


def _bound(scenario: Scenario, results: Iterable[Result], lossless: bool, effort: str) -> Bound:
    """The bound of all plans with the options that these plans and the joint plan have."""
    allowed = [r for r in results if r.plan.policy != ORACLE and (r.lossless or not lossless)]
    oracle = scenario.compute_seconds
    if any(r.trace.feasible and r.trace.seconds <= oracle * _SAME for r in allowed):
        return Bound(seconds=oracle, tight=True, assignment=None)
    options = dict.fromkeys(joint.means(scenario, lossy=not lossless))
    options |= dict.fromkeys(choice for r in allowed for choice in r.plan.choices)
    return lower_bound(scenario, tuple(options), effort=effort)
