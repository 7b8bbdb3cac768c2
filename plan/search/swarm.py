"""HOME's particle swarm (HOME §3.3 and §3.5, Algorithms 1 and 3), and what finds it a way further.

A particle names an option for every tensor. Each iteration evaluates all particles; then every
particle goes through its tensors in order and tries, in the otherwise current policy, the action of
P1, the best particle of this iteration, and that of P2, the best this particle has been itself, and
keeps the cheaper; P2's where they are equal.

As printed, lines 7 and 9 of Algorithm 1 say i where they mean j, nothing is returned when no
particle is feasible, and an evaluation that fails returns no number: here it costs infinity, and
the first particle is returned if all do. The text of Figure 5 tries [0, 1, 2, 0] where P2 has a 1:
it means [1, 1, 2, 0].

Nobody mutates in Algorithm 3: an action that neither P1 nor P2 has at a tensor never comes back, so
the swarm freezes after some ten iterations. That is what makes it fast here, with nothing changed
in its results: no evaluation where P1 and P2 agree, none of a policy that was evaluated in this
iteration or the last, and an end when an iteration changes nothing, since no further one would,
either.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cdma.plan.timeline.kernel import Assignments

Seconds = npt.NDArray[np.float64]


class Evaluator(Protocol):
    """Evaluator of a search: `TimelineEvaluator` of `cdma.plan.timeline`, or HOME's Algorithm 2."""

    def seconds(self, assignments: Assignments) -> Seconds:
        """Times, float64 (m,), of particles, int8 (m, tensors); infinite where infeasible."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """The result of a search.

    Attributes
    ----------
    assignment : numpy.ndarray
        int8 (tensors,): the best policy that was evaluated.
    seconds : float
        Of a training step under it; infinite if nothing feasible was found.
    evaluations : int
        How many times the evaluator was asked for a particle.
    best, mean : tuple of float
        Per iteration: the least time so far, and the mean of this iteration's feasible particles
        (NaN if there are none), as HOME's Figure 8 shows them.
    """

    assignment: Assignments
    seconds: float
    evaluations: int
    best: tuple[float, ...] = ()
    mean: tuple[float, ...] = ()

    @property
    def feasible(self) -> bool:
        """True if any assignment fitted into memory."""
        return math.isfinite(self.seconds)


def search(
    evaluator: Evaluator,
    tensors: int,
    options: int = 3,
    *,
    particles: int = 500,
    iterations: int = 500,
    seed: int = 0,
) -> Found:
    """HOME's search, to the letter.

    Parameters
    ----------
    evaluator : Evaluator
    tensors, options : int
        The shape of a policy.
    particles, iterations : int
        m and iters of Algorithm 1; both 500 in the paper.
    seed : int
        Of the first, random particles.

    Returns
    -------
    Found
        `best` and `mean` end where the swarm stopped changing.
    """
    rng = np.random.default_rng(seed)
    start = rng.integers(options, size=(particles, tensors), dtype=np.int8)
    return _fly(evaluator, start, iterations)


def search_plus(
    evaluator: Evaluator,
    tensors: int,
    options: int = 3,
    *,
    particles: int = 500,
    iterations: int = 500,
    seed: int = 0,
    mutation: float = 0.1,
    patience: int = 10,
) -> Found:
    """HOME+: HOME's search first, then one that starts from what it found, and mutates.

    The second swarm holds the first one's result, the cheapest of the policies that change from one
    option to another at one place (so also those of a single option: to swap everything is feasible
    where nearly no random policy is), and random particles. At each tensor, with a probability of
    `mutation`, a third, random action is tried beside P1's and P2's. By construction the result is
    never behind `search` with the same seed.

    Parameters
    ----------
    evaluator, tensors, options, particles, iterations, seed
        As of `search`; the iterations of each of the two swarms.
    mutation : float
        0…1.
    patience : int
        The second swarm ends after so many iterations without a better particle.

    Returns
    -------
    Found
        `evaluations`, `best` and `mean` of both swarms, one after the other.
    """
    first = search(
        evaluator, tensors, options, particles=particles, iterations=iterations, seed=seed
    )
    rng = np.random.default_rng((seed, 1))
    seeds = two_options(tensors, options)
    cheapest = np.argsort(evaluator.seconds(seeds), kind="stable")[: max(particles // 2 - 1, 0)]
    start = rng.integers(options, size=(particles, tensors), dtype=np.int8)
    start[0] = first.assignment
    start[1 : 1 + len(cheapest)] = seeds[cheapest]

    def mutants(otherwise: Assignments) -> Assignments:
        actions = rng.integers(options, size=otherwise.shape, dtype=np.int8)
        return np.where(rng.random(otherwise.shape) < mutation, actions, otherwise)

    second = _fly(evaluator, start, iterations, mutants, patience)
    better = second if second.seconds <= first.seconds else first
    return Found(
        assignment=better.assignment,
        seconds=better.seconds,
        evaluations=first.evaluations + len(seeds) + second.evaluations,
        best=first.best + tuple(min(seconds, first.seconds) for seconds in second.best),
        mean=first.mean + second.mean,
    )


def two_options(tensors: int, options: int) -> Assignments:
    """Policies, int8 (some, tensors), of one option up to some tensor and another from there on.

    With those of a single option, which are the first.
    """
    place = np.arange(tensors)
    single = [np.full(tensors, option, np.int8) for option in range(options)]
    mixed = [
        np.where(place < cut, first, second).astype(np.int8)
        for first in range(options)
        for second in range(options)
        if first != second
        for cut in range(1, tensors)
    ]
    return np.stack(single + mixed)


class _Remembering:
    """An evaluator that asks another once for what it was asked in this iteration and the last."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._now: dict[bytes, float] = {}
        self._before: dict[bytes, float] = {}
        self.evaluations = 0

    def next_iteration(self) -> None:
        self._now, self._before = {}, self._now

    def seconds(self, assignments: Assignments) -> Seconds:
        keys = packed(assignments)
        new = {}
        for i, key in enumerate(keys):
            if key not in self._now:
                if key in self._before:
                    self._now[key] = self._before[key]
                else:
                    new[key] = i
        if new:
            self.evaluations += len(new)
            times = self._evaluator.seconds(assignments[list(new.values())])
            self._now.update(zip(new, times.tolist(), strict=True))
        return np.array([self._now[key] for key in keys])


def packed(particles: Assignments) -> list[bytes]:
    """Pack each particle into bytes: 2 bits an action as in HOME §3.5, 8 if there are over 4."""
    if not particles.size or particles.max() > 3:
        return [row.tobytes() for row in particles]
    rows, tensors = particles.shape
    padded = np.zeros((rows, -(-tensors // 4) * 4), np.uint8)
    padded[:, :tensors] = particles
    digits = padded.reshape(rows, -1, 4) << np.array([0, 2, 4, 6], np.uint8)
    return [row.tobytes() for row in np.bitwise_or.reduce(digits, axis=2)]


def _fly(
    evaluator: Evaluator,
    start: Assignments,
    iterations: int,
    mutants: Callable[[Assignments], Assignments] | None = None,
    patience: int | None = None,
) -> Found:
    """Algorithm 1 from line 4."""
    remembering = _Remembering(evaluator)
    position, history = start, start.copy()
    history_cost = np.full(len(start), math.inf)
    cost = remembering.seconds(position)
    particle, lowest = start[0].copy(), math.inf
    best: list[float] = []
    mean: list[float] = []
    stale = 0
    for _ in range(iterations):
        leader = int(np.argmin(cost))
        stale += 1
        if cost[leader] < lowest:
            particle, lowest = position[leader].copy(), float(cost[leader])
            stale = 0
        feasible = cost[np.isfinite(cost)]
        best.append(lowest)
        mean.append(float(feasible.mean()) if len(feasible) else math.nan)
        if patience is not None and stale >= patience:
            break
        improved = cost < history_cost
        history[improved] = position[improved]
        history_cost[improved] = cost[improved]
        before = position
        position, cost = update(
            remembering,
            position,
            cost,
            position[leader],
            history,
            None if mutants is None else mutants(history),
        )
        remembering.next_iteration()
        # Where no position changed, neither P1 nor a history will: nothing ever does again.
        if mutants is None and np.array_equal(before, position):
            break
    return Found(
        assignment=particle,
        seconds=lowest,
        evaluations=remembering.evaluations,
        best=tuple(best),
        mean=tuple(mean),
    )


def update(
    evaluator: Evaluator,
    position: Assignments,
    cost: Seconds,
    leader: Assignments,
    history: Assignments,
    mutants: Assignments | None = None,
) -> tuple[Assignments, Seconds]:
    """Algorithm 3: where all particles go next.

    Parameters
    ----------
    evaluator : Evaluator
    position : numpy.ndarray
        int8 (m, tensors).
    cost : numpy.ndarray
        float64 (m,): what the evaluator says of them.
    leader : numpy.ndarray
        int8 (tensors,): P1.
    history : numpy.ndarray
        int8 (m, tensors): each particle's P2.
    mutants : numpy.ndarray, optional
        int8 (m, tensors): actions to be tried as well, where they differ from P1's and P2's.

    Returns
    -------
    position, cost : numpy.ndarray
        New ones.
    """
    position, cost = position.copy(), cost.copy()
    for tensor in range(position.shape[1]):
        columns = [history[:, tensor], np.broadcast_to(leader[tensor], len(position))]
        if mutants is not None:
            columns.append(mutants[:, tensor])
        _choose(evaluator, position, cost, tensor, np.stack(columns, axis=1))
    unknown = np.isnan(cost)
    if unknown.any():
        cost[unknown] = evaluator.seconds(position[unknown])
    return position, cost


def _choose(
    evaluator: Evaluator, position: Assignments, cost: Seconds, tensor: int, actions: Assignments
) -> None:
    """Give a tensor of each particle the cheapest of its actions, the first of equally cheap ones.

    `cost` is that of each particle as it stands, NaN where nobody has asked yet; it is kept so.
    """
    known = np.where(actions == position[:, tensor, None], cost[:, None], math.nan)
    undecided = (actions != actions[:, :1]).any(axis=1)
    repeated = np.zeros(actions.shape, bool)
    for column in range(1, actions.shape[1]):
        repeated[:, column] = (actions[:, :column] == actions[:, column, None]).any(axis=1)
    rows, columns = np.nonzero(undecided[:, None] & ~repeated & np.isnan(known))
    if len(rows):
        candidates = position[rows]
        candidates[:, tensor] = actions[rows, columns]
        known[rows, columns] = evaluator.seconds(candidates)
    # What is repeated never wins; what nobody asked for stands in a row with a single action.
    choice = np.argmin(np.where(repeated | np.isnan(known), math.inf, known), axis=1)
    rows = np.arange(len(position))
    cost[:] = known[rows, choice]
    position[:, tensor] = actions[rows, choice]
