"""Evaluators of policies that are no training steps, to test searches with."""

import numpy as np


class Interplay:
    """Costs per tensor and action, and for neighbors of the same action; a limit on action 0.

    Integers, so that equal costs are common and sums exact. `asked` holds what was evaluated.
    """

    def __init__(
        self, tensors: int, options: int = 3, *, seed: int, memory_share: float = 0.4
    ) -> None:
        rng = np.random.default_rng(seed)
        self.own = rng.integers(0, 12, (tensors, options)).astype(float)
        self.own[:, 0] = 0
        self.neighbors = rng.integers(0, 6, (tensors - 1, options)).astype(float)
        self.sizes = rng.integers(1, 10, tensors)
        self.memory_share = memory_share * self.sizes.sum()
        self.asked: list[tuple[int, ...]] = []

    def seconds(self, assignments: np.ndarray) -> np.ndarray:
        self.asked += [tuple(map(int, assignment)) for assignment in assignments]
        place = np.arange(assignments.shape[1])
        same = assignments[:, 1:] == assignments[:, :-1]
        cost = self.own[place, assignments].sum(axis=1)
        cost += np.where(same, self.neighbors[place[:-1], assignments[:, 1:]], 0).sum(axis=1)
        return np.where((assignments == 0) @ self.sizes <= self.memory_share, cost, np.inf)
