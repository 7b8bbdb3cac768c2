"""HOME's swarm: as printed, faster than printed, and better than printed."""

import math

import numpy as np
import pytest

from cdma.plan.search.exact import exhaustive
from cdma.plan.search.swarm import packed, search, search_plus, two_options, update
from tests.plan.policies.policy_costs import Interplay


def printed(evaluator: Interplay, tensors: int, particles: int, iterations: int, seed: int):
    """Algorithms 1 and 3, line by line."""
    rng = np.random.default_rng(seed)
    policy = rng.integers(3, size=(particles, tensors), dtype=np.int8)

    def evaluate(particle: np.ndarray) -> float:
        return float(evaluator.seconds(particle[None])[0])

    best_particle, lowest_overhead = policy[0].copy(), math.inf
    historical, historical_overhead = policy.copy(), [math.inf] * particles
    trail = []
    for _ in range(iterations):
        overheads = [evaluate(particle) for particle in policy]
        for j, overhead in enumerate(overheads):
            if overhead < lowest_overhead:
                best_particle, lowest_overhead = policy[j].copy(), overhead
            if overhead < historical_overhead[j]:
                historical[j], historical_overhead[j] = policy[j], overhead
        trail.append(lowest_overhead)
        p1 = policy[int(np.argmin(overheads))].copy()
        for i in range(particles):
            p2 = historical[i]
            for j in range(tensors):
                policy[i, j] = p1[j]
                o1 = evaluate(policy[i])
                policy[i, j] = p2[j]
                o2 = evaluate(policy[i])
                policy[i, j] = p1[j] if o1 < o2 else p2[j]
    return best_particle, lowest_overhead, trail


@pytest.mark.parametrize("memory_share", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_shortcuts_change_no_result(seed: int, memory_share: float) -> None:
    evaluator = Interplay(5 + seed, seed=seed, memory_share=memory_share)
    particle, seconds, trail = printed(evaluator, 5 + seed, 7, 12, seed)
    literally = len(evaluator.asked)
    evaluator.asked.clear()
    found = search(evaluator, 5 + seed, particles=7, iterations=12, seed=seed)
    assert found.assignment.tolist() == particle.tolist()
    assert found.seconds == seconds
    # It stops where nothing changes any more.
    assert list(found.best) + [found.best[-1]] * (12 - len(found.best)) == trail
    assert found.evaluations == len(evaluator.asked) < literally


def test_a_step_tries_the_leaders_and_the_own_action_as_in_figure_5() -> None:
    evaluator = Interplay(4, seed=1, memory_share=1)
    position = np.array([[0, 1, 2, 0]], np.int8)
    cost = evaluator.seconds(position)
    evaluator.asked.clear()
    leader = np.array([2, 2, 2, 0], np.int8)
    history = np.array([[1, 1, 2, 0]], np.int8)
    moved, after = update(evaluator, position, cost, leader, history)
    # The text has [0, 1, 2, 0] for the second; the historical action is 1.
    assert sorted(evaluator.asked[:2]) == [(1, 1, 2, 0), (2, 1, 2, 0)]
    first = min(sorted(evaluator.asked[:2]), key=lambda p: evaluator.seconds(np.array([p]))[0])
    assert moved[0, 0] == first[0]
    # The last two tensors have one action to take, and nothing is asked for them.
    assert all(asked[2:] == (2, 0) for asked in evaluator.asked)
    assert moved[0, 2:].tolist() == [2, 0]
    assert after == evaluator.seconds(moved)


def test_the_own_action_is_kept_where_both_cost_the_same() -> None:
    class Flat:
        def seconds(self, assignments: np.ndarray) -> np.ndarray:
            return np.ones(len(assignments))

    history = np.array([[1, 0, 2]], np.int8)
    moved, _ = update(
        Flat(), np.zeros((1, 3), np.int8), np.ones(1), np.array([2, 2, 1], np.int8), history
    )
    assert moved.tolist() == history.tolist()


def test_policies_of_500_particles_and_10000_layers_take_1_25_megabytes() -> None:
    # §3.5: two bits an action.
    policies = np.random.default_rng(0).integers(3, size=(500, 10_000), dtype=np.int8)
    assert sum(map(len, packed(policies))) == 1_250_000


@pytest.mark.parametrize(("tensors", "options"), [(1, 3), (5, 3), (4, 4), (3, 7)])
def test_no_two_policies_look_the_same_packed(tensors: int, options: int) -> None:
    policies = np.indices((options,) * tensors).reshape(tensors, -1).T.astype(np.int8)
    assert len(set(packed(policies))) == options**tensors


def test_plus_is_never_behind_and_closes_most_of_the_gap_to_the_optimum() -> None:
    plain_gap = plus_gap = 0.0
    for seed in range(10):
        evaluator = Interplay(8, seed=seed)
        plain = search(evaluator, 8, particles=20, iterations=30, seed=seed)
        plus = search_plus(evaluator, 8, particles=20, iterations=30, seed=seed)
        exact = exhaustive(evaluator, 8)
        assert exact.seconds <= plus.seconds <= plain.seconds
        assert plus.seconds == evaluator.seconds(plus.assignment[None])[0]
        plain_gap += plain.seconds / exact.seconds - 1
        plus_gap += plus.seconds / exact.seconds - 1
    assert plus_gap < plain_gap / 3


def test_plus_finds_the_needle_that_random_particles_miss() -> None:
    class Needle(Interplay):
        """Feasible only if at most one tensor stays."""

        def seconds(self, assignments: np.ndarray) -> np.ndarray:
            cost = super().seconds(assignments)
            return np.where((assignments == 0).sum(axis=1) <= 1, cost, np.inf)

    evaluator = Needle(30, seed=0, memory_share=1)
    plain = search(evaluator, 30, particles=50, iterations=20)
    assert not plain.feasible
    assert plain.best == (math.inf,) * len(plain.best)
    assert all(math.isnan(mean) for mean in plain.mean)
    assert search_plus(evaluator, 30, particles=50, iterations=20).feasible


@pytest.mark.parametrize("find", [search, search_plus])
def test_a_seed_gives_one_plan(find) -> None:
    first, again = (
        find(Interplay(12, seed=3), 12, particles=10, iterations=10, seed=5) for _ in range(2)
    )
    assert first.assignment.tolist() == again.assignment.tolist()
    assert first.evaluations == again.evaluations


def test_seeds_hold_every_cut_between_two_options_once() -> None:
    seeds = two_options(4, 3)
    assert seeds[:3].tolist() == [[0] * 4, [1] * 4, [2] * 4]
    assert len(np.unique(seeds, axis=0)) == len(seeds) == 3 + 3 * 2 * 3
    assert all(np.count_nonzero(np.diff(seed)) <= 1 for seed in seeds)
