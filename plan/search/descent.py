"""Local search: change tensors as long as that helps, then kick several and try again.

Plans are judged by the timeline. Each step of a descent evaluates all changes of one tensor in
a batch; then those that help, the best first, and one per tensor, are added up one by one, and the
best sum is taken. Where no change helps, a few tensors get random options and the descent begins
again from there; what comes of it is kept if it is no slower (iterated local search).
"""

from dataclasses import dataclass, field

import numpy as np

from cdma.plan.timeline.kernel import Assignments, Floats
from cdma.plan.timeline.timeline import TimelineEvaluator

KICKED = 3
"""Tensors that a kick changes at least, and at most so many more."""

FASTER = 1 - 1e-12
"""A plan counts as faster below this part of another's time: sums have rounding errors."""


@dataclass(kw_only=True)
class Descent:
    """One descent: a search that starts from one plan.

    Parameters
    ----------
    evaluator : TimelineEvaluator
    assignment : int8 array (tensors,)
        Where it starts; afterwards, what it found.
    seconds : float
        Of that; infinity if it does not fit.
    budget : int
        Plans that may be evaluated; a step that has begun is ended.
    seed : int
        Of the kicks.

    Attributes
    ----------
    evaluations : int
        How many have been.
    """

    evaluator: TimelineEvaluator
    assignment: Assignments
    seconds: float
    budget: int = 0
    seed: int = 0
    evaluations: int = field(default=0, init=False)

    def run(self) -> None:
        """Improve the plan until the budget is used up."""
        rng = np.random.default_rng(self.seed)
        tensors, options = self.assignment.size, len(self.evaluator.options)
        if not tensors or options < 2:
            return
        self.assignment, self.seconds = self._descend(self.assignment, self.seconds)
        while self.evaluations < self.budget:
            count = min(tensors, KICKED + int(rng.integers(KICKED + 1)))
            kicked = self.assignment.copy()
            kicked[rng.choice(tensors, count, replace=False)] = rng.integers(options, size=count)
            assignment, seconds = self._descend(kicked, self._evaluate(kicked[None])[0])
            if seconds <= self.seconds:
                self.assignment, self.seconds = assignment, seconds

    def simplify(self, option: int) -> None:
        """Give tensors this option where the step is no slower for it, large ones first."""
        graph = self.evaluator.scenario.graph
        sizes = [graph.tensors[t].nbytes for t in graph.managed]
        for i in np.argsort(sizes, kind="stable")[::-1]:
            changed = self.assignment.copy()
            changed[i] = option
            seconds = self._evaluate(changed[None])[0]
            if seconds <= self.seconds:
                self.assignment, self.seconds = changed, seconds

    def _evaluate(self, assignments: Assignments) -> Floats:
        self.evaluations += len(assignments)
        return self.evaluator.seconds(assignments)

    def _descend(self, assignment: Assignments, seconds: float) -> tuple[Assignments, float]:
        while self.evaluations < self.budget:
            places, options = _changes(assignment, len(self.evaluator.options))
            times = self._evaluate(_with(assignment, places, options))
            helpful = np.flatnonzero(times < seconds * FASTER)
            if not helpful.size:
                break
            helpful = helpful[np.argsort(times[helpful], kind="stable")]
            _, first = np.unique(places[helpful], return_index=True)
            chosen = helpful[np.sort(first)]
            sums = np.repeat(assignment[None], chosen.size, axis=0)
            for j, change in enumerate(chosen):
                sums[j:, places[change]] = options[change]
            times = self._evaluate(sums)
            best = int(np.argmin(times))
            assignment, seconds = sums[best], times[best]
        return assignment, seconds


def _changes(assignment: Assignments, options: int) -> tuple[np.ndarray, Assignments]:
    """List all changes of one tensor: the tensors, and their new options."""
    places = np.repeat(np.arange(assignment.size), options)
    choices = np.tile(np.arange(options, dtype=np.int8), assignment.size)
    other = choices != assignment[places]
    return places[other], choices[other]


def _with(assignment: Assignments, places: np.ndarray, options: Assignments) -> Assignments:
    """The plan with each of these changes: a row per change."""
    rows = np.repeat(assignment[None], places.size, axis=0)
    rows[np.arange(places.size), places] = options
    return rows
