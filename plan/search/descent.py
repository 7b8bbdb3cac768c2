"""Local search: change tensors as long as that helps, then kick several and try again.

Plans are judged by the timeline. Each step of a descent evaluates all changes of one tensor in
a batch; then those that help, the best first, and one per tensor, are added up one by one, and the
best sum is taken. Where no change helps, a few tensors get random options and the descent begins
again from there; what comes of it is kept if it is no slower (iterated local search).
"""

from dataclasses import dataclass, field

import numpy as np

from cdma.plan.timeline.kernel import Floats, Particles
from cdma.plan.timeline.timeline import Evaluator

KICKED = 3
"""Tensors that a kick changes at least, and at most so many more."""

FASTER = 1 - 1e-12
"""A plan counts as faster below this part of another's time: sums have rounding errors."""


@dataclass(kw_only=True)
class Descent:
    """One search from one plan.

    Parameters
    ----------
    evaluator : Evaluator
    particle : int8 array (tensors,)
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

    evaluator: Evaluator
    particle: Particles
    seconds: float
    budget: int = 0
    seed: int = 0
    evaluations: int = field(default=0, init=False)

    def run(self) -> None:
        """Improve the plan until the budget is used up."""
        rng = np.random.default_rng(self.seed)
        tensors, options = self.particle.size, len(self.evaluator.options)
        if not tensors or options < 2:
            return
        self.particle, self.seconds = self._descend(self.particle, self.seconds)
        while self.evaluations < self.budget:
            count = min(tensors, KICKED + int(rng.integers(KICKED + 1)))
            kicked = self.particle.copy()
            kicked[rng.choice(tensors, count, replace=False)] = rng.integers(options, size=count)
            particle, seconds = self._descend(kicked, self._evaluate(kicked[None])[0])
            if seconds <= self.seconds:
                self.particle, self.seconds = particle, seconds

    def simplify(self, option: int) -> None:
        """Give tensors this option where the step is no slower for it, large ones first."""
        graph = self.evaluator.scenario.graph
        sizes = [graph.tensors[t].nbytes for t in graph.managed]
        for i in np.argsort(sizes, kind="stable")[::-1]:
            changed = self.particle.copy()
            changed[i] = option
            seconds = self._evaluate(changed[None])[0]
            if seconds <= self.seconds:
                self.particle, self.seconds = changed, seconds

    def _evaluate(self, particles: Particles) -> Floats:
        self.evaluations += len(particles)
        return self.evaluator.seconds(particles)

    def _descend(self, particle: Particles, seconds: float) -> tuple[Particles, float]:
        while self.evaluations < self.budget:
            places, options = _changes(particle, len(self.evaluator.options))
            times = self._evaluate(_with(particle, places, options))
            helpful = np.flatnonzero(times < seconds * FASTER)
            if not helpful.size:
                break
            helpful = helpful[np.argsort(times[helpful], kind="stable")]
            _, first = np.unique(places[helpful], return_index=True)
            chosen = helpful[np.sort(first)]
            sums = np.repeat(particle[None], chosen.size, axis=0)
            for j, change in enumerate(chosen):
                sums[j:, places[change]] = options[change]
            times = self._evaluate(sums)
            best = int(np.argmin(times))
            particle, seconds = sums[best], times[best]
        return particle, seconds


def _changes(particle: Particles, options: int) -> tuple[np.ndarray, Particles]:
    """All changes of one tensor: where, and to what."""
    places = np.repeat(np.arange(particle.size), options)
    choices = np.tile(np.arange(options, dtype=np.int8), particle.size)
    other = choices != particle[places]
    return places[other], choices[other]


def _with(particle: Particles, places: np.ndarray, options: Particles) -> Particles:
    """The plan with each of these changes: a row per change."""
    rows = np.repeat(particle[None], places.size, axis=0)
    rows[np.arange(places.size), places] = options
    return rows
