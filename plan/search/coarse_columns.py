"""The points of a step and the kinds of its tensors, for `cdma.plan.search.coarse`."""

from bisect import bisect_left, bisect_right

import numpy as np

from cdma.plan.search.step_tables import StepTables
from cdma.plan.timeline.kernel import Options, ProblemArrays

SHARED = 8
"""A stage that runs again on the way to more tensors than that is left out."""


class CoarseColumns:
    """Points between which constraints hold, and groups of tensors that none of them tells apart.

    Parameters
    ----------
    problem : ProblemArrays
    options : Options
    tables : StepTables
    points : int
        How many steps are points, about.

    Attributes
    ----------
    points : list of int
        Steps, ascending: half of them the fullest, half spread over forward and backward.
    first_backward : int
        The point at which backward begins, by its place.
    tensor, counts : list of int
        For each group, one of its tensors, by its place among the managed, and how many they are.
    group_of : numpy.ndarray
        int64 (managed,): the group of each tensor.
    again : list of float
        For each tensor, its recomputation, with stages that run for it alone, in `unit_s`.
    shared : mapping of int to list of int
        Stages that run again for several tensors, and these.
    across : list of list of (int, int)
        For each point, pairs of a tensor and one that it is recomputed from, of which the first is
        needed at the point or before and the second at the point or later.
    """

    def __init__(
        self, problem: ProblemArrays, options: Options, tables: StepTables, points: int
    ) -> None:
        self._problem, self._options, self._tables = problem, options, tables
        self._find_recomputation()
        self.points = self._choose_points(points)
        self.first_backward = self.points.index(problem.stages)
        self._find_groups()

    def _find_recomputation(self) -> None:
        """The time that recomputing each tensor takes, with stages that run for it alone."""
        tables = self._tables
        runs_for: dict[int, list[int]] = {}
        for i, stages in enumerate(tables.passing):
            for stage in stages:
                runs_for.setdefault(stage, []).append(i)
        self.again = [float(tables.forward[made]) for made in tables.made]
        self.shared: dict[int, list[int]] = {}
        for stage, tensors in runs_for.items():
            if len(tensors) == 1:
                self.again[tensors[0]] += float(tables.forward[stage])
            elif len(tensors) <= SHARED:
                self.shared[stage] = tensors

    def _choose_points(self, count: int) -> list[int]:
        """Steps with most memory that no plan does without: of all, and of every so many."""
        n, tables = self._problem.stages, self._tables
        changes = np.zeros(2 * n + 1)
        for i in range(self._problem.managed):
            size = tables.size[i, 0]
            for first, last in (
                (tables.made[i], tables.used[i]),
                (tables.need[i], tables.last[i]),
            ):
                changes[first] += size
                changes[last + 1] -= size
        needed = self._problem.fixed_bytes / self._problem.capacity + changes[:-1].cumsum()
        points = {0, n - 1, n}
        for way in (range(n), range(n, 2 * n)):
            for part in np.array_split(np.array(way), min(n, max(1, count // 4))):
                points.add(int(part[np.argmax(needed[part])]))
        fullest = np.argsort(-needed, kind="stable")
        points.update(fullest[: count // 2].tolist())
        return sorted(points)

    def _find_groups(self) -> None:
        """Tensors that no row tells apart.

        A tensor that another one is recomputed from across a point is alone, and so is that one.
        """
        tables = self._tables
        self.across: list[list[tuple[int, int]]] = [[] for _ in self.points]
        alone = {i for tensors in self.shared.values() for i in tensors}
        for i, consumers in enumerate(tables.consumers):
            for c in consumers:
                # The consumer may be recomputed at this point or before, its source is needed later
                # or here: both matter to rows of the point.
                first = bisect_left(self.points, tables.need[c])
                end = bisect_right(self.points, tables.need[i])
                for j in range(first, end):
                    self.across[j].append((c, i))
                    alone.update((c, i))
        self.group_of = np.zeros(self._problem.managed, np.int64)
        self.tensor: list[int] = []
        self.counts: list[int] = []
        known: dict[object, int] = {}
        for i in range(self._problem.managed):
            key = i if i in alone else self._likeness(i)
            if key not in known:
                known[key] = len(self.tensor)
                self.tensor.append(i)
                self.counts.append(0)
            self.group_of[i] = known[key]
            self.counts[known[key]] += 1

    def _likeness(self, i: int) -> object:
        """All that the program's rows have of a tensor that is not alone."""
        tables = self._tables
        steps = (tables.made[i], tables.used[i], tables.need[i], tables.last[i])
        places = tuple(
            (bisect_left(self.points, step), bisect_right(self.points, step)) for step in steps
        )
        of_choice = (tables.codec[i], tables.out[i], tables.back[i], tables.held[i])
        return (
            places,
            float(tables.size[i, 0]),
            self.again[i],
            bool(tables.consumers[i]),
            self._options.placement[i].tobytes(),
            *(row.tobytes() for row in of_choice),
        )
