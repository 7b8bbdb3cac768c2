"""The timeline as a linear program of a few of its steps, for steps of thousands of tensors.

The program of `cdma.plan.search.relaxation` has a row for each step and each pair of steps, and
its memory rows a coefficient for each tensor. This one has the same constraints between *points*,
some of the steps, and none in between, so it is a relaxation of the timeline, too. Tensors that lie
alike between points and cost alike, as those of repeated blocks, are one column with a count: no
linear program can tell them apart. So its size grows with the points and with how many kinds of
tensors there are, not with the network's depth.

Points are those steps at which the tensors that no plan does without take most memory, of all and
of every so many, the last of forward and the first of forward and backward. What holds between
points p and q, where each constraint is a sum of the timeline's rules over the steps between:

- *Computation*: q begins after p, the passes between, and codecs and recomputation that fall due
  between; of tensors that are recomputed from, only if nothing behind p is recomputed from them.
- *All that is due* by q has been computed, and copied in, since forward ended; and copied out
  since the step began.
- *Memory* at p fits, with sources of what has been recomputed.
- *Waiting for offloads* and *for room* as there, for pairs of points.

What `docs/reference/planning.md` says of each of them holds here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from cdma.plan.search.coarse_columns import CoarseColumns
from cdma.plan.search.linear import Answer, LinearProgram, Sum, add
from cdma.plan.search.step_tables import StepTables, Table, some
from cdma.plan.timeline.kernel import Assignments, Options, ProblemArrays
from cdma.plan.timeline.placement import Placement

POINTS = 64
"""Steps that have rows, about."""


class CoarseRelaxation:
    """The program of a scenario at some of its steps.

    Times are in units of the whole computation, `unit_s`; memory in units of the capacity.

    Parameters
    ----------
    problem : ProblemArrays
    options : Options
    points : int
        How many steps have rows, about.
    """

    def __init__(self, problem: ProblemArrays, options: Options, points: int = POINTS) -> None:
        self._s, self._o = problem, options
        self._n, self._m, self._k = problem.stages, problem.managed, options.options
        self._tables = StepTables(problem, options)
        self.unit_s = self._tables.unit_s
        self._columns = columns = CoarseColumns(problem, options, self._tables, points)
        self._points, self._first_backward = columns.points, columns.first_backward
        self._tensor, self._counts = columns.tensor, columns.counts
        self._group_of, self._across = columns.group_of, columns.across
        self._program = LinearProgram()
        self._choice = np.array(
            [[self._program.variable(count) for _ in range(self._k)] for count in self._counts]
        ).reshape(len(self._counts), self._k)
        for row, count in zip(self._choice, self._counts, strict=True):
            self._program.equal(dict.fromkeys(row.tolist(), 1.0), count)
        self._begin = [self._program.variable() for _ in self._points]
        self._turned, self._end = self._program.variable(), self._program.variable()
        self._compute()
        self._copy()
        self._remember()
        self._wait_for_offloads()
        self._wait_for_memory()

    @property
    def coefficients(self) -> int:
        """The size of the program."""
        return self._program.coefficients

    @property
    def groups(self) -> int:
        """The number of kinds of tensors that the program tells apart."""
        return len(self._counts)

    def solve(self) -> Answer:
        """The least end of the step, in `unit_s`; as of `LinearProgram.minimize`."""
        return self._program.minimize(self._end)

    def assignment(self, solution: npt.NDArray[np.float64]) -> Assignments:
        """The options that a solution chooses: of each kind of tensors the most frequent one."""
        return np.argmax(solution[self._choice], axis=1).astype(np.int8)[self._group_of]

    def _of(self, g: int, values: Iterable[float], *placements: Placement) -> Sum:
        """A value for each option of a group's tensors, of those with one of these placements."""
        placement = self._o.placement[self._tensor[g]]
        return {
            int(self._choice[g, o]): float(value)
            for o, value in enumerate(values)
            if value and (not placements or placement[o] in placements)
        }

    def _is(self, g: int, placement: Placement) -> Sum:
        return self._of(g, [1.0] * self._k, placement)

    def _interval(self, step: int) -> int:
        """The last point at or before a step."""
        return bisect_right(self._points, step) - 1

    def _by_interval(self, steps: Sequence[int]) -> list[list[int]]:
        """Groups by the interval that a step of theirs is in."""
        found: list[list[int]] = [[] for _ in self._points]
        for g, i in enumerate(self._tensor):
            found[self._interval(steps[i])].append(g)
        return found

    def _work(self, g: int) -> Sum:
        """Computation that is due at a group's first need: decompression, or recomputation."""
        i = self._tensor[g]
        again = dict.fromkeys(self._is(g, Placement.RECOMPUTE), self._columns.again[i])
        return add((1, self._of(g, self._tables.codec[i])), (1, again))

    def _packing(self, g: int, placement: Placement) -> Sum:
        """Computation that compresses a group's tensors, which are placed so."""
        return self._of(g, self._tables.codec[self._tensor[g]], placement)

    def _compute(self) -> None:
        """Computation between points, and the end of all."""
        program, tables, points = self._program, self._tables, self._points
        made, used = self._by_interval(tables.made), self._by_interval(tables.used)
        need = self._by_interval(tables.need)
        bounds = [*points, 2 * self._n]
        backward = tables.backward[::-1]
        self._forward_of = np.concatenate([tables.forward, backward])
        work: Sum = {}
        for j in range(len(points)):
            own = float(self._forward_of[bounds[j] : bounds[j + 1]].sum())
            following = self._end
            if j + 1 < len(points):
                following = self._begin[j + 1]
            if j + 1 == self._first_backward:
                following = self._turned
            if j < self._first_backward:
                packs = [self._packing(g, Placement.SWAP) for g in made[j]]
                packs += [self._packing(g, Placement.COMPRESS) for g in used[j]]
                row = add(
                    (1, {following: 1.0}),
                    (-1, {self._begin[j]: 1.0}),
                    *((-1, pack) for pack in packs),
                )
                program.at_least(row, own)
                continue
            if j == self._first_backward:
                program.at_least({self._begin[j]: 1.0, self._turned: -1.0}, 0)
            due = self._due(j, need[j])
            program.at_least(
                add((1, {following: 1.0}), (-1, {self._begin[j]: 1.0}), (-1, due)), own
            )
            parts = [(1.0, self._work(g)) for g in need[j]]
            parts += [(1.0, part) for part in self._shared_work(j)]
            work = {program.named(add((1, work), *parts)): 1.0}
            since = float(self._forward_of[self._n : bounds[j + 1]].sum())
            program.at_least(
                add((1, {following: 1.0}), (-1, {self._turned: 1.0}), (-1, work)), since
            )

    def _due(self, j: int, groups: list[int]) -> Sum:
        """Work of these groups that is done between a point and the next one for sure.

        All of it, unless something that is needed before the point is recomputed from one of them;
        then what leads there from a tensor that is needed later goes across the point.
        """
        program, due = self._program, Sum()
        point = self._points[j]
        over = {
            int(self._group_of[c])
            for c, i in self._across[j]
            if self._tables.need[c] < point <= self._tables.need[i]
        }
        excuse: Sum = {}
        if over:
            excuse = {program.variable(1): 1.0}
            across = [(1.0, self._is(g, Placement.RECOMPUTE)) for g in sorted(over)]
            program.at_least(add(*across, (-1, excuse)), 0)
        for g in groups:
            work = self._work(g)
            if work and excuse and self._tables.consumers[self._tensor[g]]:
                certain = {program.variable(): 1.0}
                most = max(work.values()) * self._counts[g]
                program.at_least(add((1, certain), (-1, work), (most, excuse)), 0)
                work = certain
            due = add((1, due), (1, work))
        return due

    def _shared_work(self, j: int) -> list[Sum]:
        """Stages that run again for several tensors, the last of which is needed from this point
        on."""
        parts = []
        for stage, tensors in self._columns.shared.items():
            if self._interval(max(self._tables.need[i] for i in tensors)) != j:
                continue
            again = {self._program.variable(1): 1.0}
            for i in tensors:
                redone = self._is(int(self._group_of[i]), Placement.RECOMPUTE)
                self._program.at_least(add((1, again), (-1, redone)), 0)
            parts.append(add((float(self._tables.forward[stage]), again)))
        return parts

    def _copy(self) -> None:
        """Copies in since forward ended, and copies out since the step began."""
        program, tables = self._program, self._tables
        back, out = self._due_by_point(tables.back), self._due_by_point(tables.out)
        first = float(tables.forward[0])
        for j in range(self._first_backward, len(self._points)):
            begin = {self._begin[j]: 1.0}
            program.at_least(add((1, begin), (-1, {self._turned: 1.0}), (-1, {back[j]: 1.0})), 0)
            gone = {out[j]: 1.0} if self._s.duplex else {out[j]: 1.0, back[j]: 1.0}
            program.at_least(add((1, begin), (-1, {self._begin[0]: 1.0}), (-1, gone)), first)

    def _due_by_point(self, seconds: Table) -> list[int]:
        """For each point, a variable with the sum of all that is needed by its step, or before."""
        return self._sums(seconds, self._tables.need)

    def _sums(self, weights: Table, steps: Sequence[int]) -> list[int]:
        """For each point, a variable that sums weights whose step is at or before it."""
        parts: list[Sum] = [{} for _ in self._points]
        for g, i in enumerate(self._tensor):
            j = bisect_left(self._points, steps[i])
            if j < len(parts):
                parts[j].update(self._of(g, weights[i]))
        return self._program.running(parts)

    def _remember(self) -> None:
        """Memory at each point, if offloads have ended and no prefetch is early."""
        program = self._program
        points = np.array(self._points)
        fixed = self._s.fixed_bytes[points] / self._s.capacity
        changes: list[Sum] = [{} for _ in self._points]
        for g, i in enumerate(self._tensor):
            always, optional = self._occupied(i, points)
            fixed += always * self._counts[g]
            for o in range(self._k):
                steps = np.diff(optional[o], prepend=0.0)
                for j in np.flatnonzero(steps).tolist():
                    changes[j][int(self._choice[g, o])] = float(steps[j])
        self._there: list[int] = []
        there: Sum = {}
        before = 0.0
        for j, change in enumerate(changes):
            there = {program.named(add((1, there), (1, change)), float(fixed[j] - before)): 1.0}
            before = float(fixed[j])
            self._there += there
            program.at_least(add((-1, there), *((-1, part) for part in self._early(j))), -1)

    def _occupied(self, i: int, points: npt.NDArray[np.int64]) -> tuple[Table, Table]:
        """Memory that a tensor takes at each point: under any option, and besides under each."""
        tables = self._tables
        made, used, need, last = tables.made[i], tables.used[i], tables.need[i], tables.last[i]
        size = float(tables.size[i, 0])
        forward = (made <= points) & (points <= used)
        backward = (need <= points) & (points <= last)
        between = (used < points) & (points < need)
        optional = np.zeros((self._k, len(points)))
        for o in range(self._k):
            held = float(tables.held[i, o])
            match Placement(int(self._o.placement[i, o])):
                case Placement.RETAIN:
                    optional[o] += size * between
                case Placement.SWAP:
                    optional[o] += held * (points == made)
                case Placement.COMPRESS:
                    optional[o] += held * (points == used)
                    # If something is recomputed from it before, it is decompressed by then.
                    optional[o] += min(held, size) * between
            if not tables.consumers[i]:
                optional[o] += held * (points == need)
        return np.asarray(size * (1.0 * forward + backward), np.float64), optional

    def _early(self, j: int) -> list[Sum]:
        """Memory of tensors that are needed later, but something has been recomputed from."""
        program, tables, point = self._program, self._tables, self._points[j]
        consumers: dict[int, list[int]] = {}
        for c, i in self._across[j]:
            if tables.need[c] <= point < tables.need[i]:
                consumers.setdefault(i, []).append(c)
        parts = []
        for i, those in consumers.items():
            g = int(self._group_of[i])
            packed = self._of(g, tables.held[i], Placement.COMPRESS)
            more = float(tables.size[i, 0]) - max(packed.values(), default=0.0)
            present = {program.variable(): 1.0}
            for c in those:
                redone = self._is(int(self._group_of[c]), Placement.RECOMPUTE)
                kept = self._is(g, Placement.RETAIN)
                program.at_least(add((1, present), (-1, redone), (1, kept)), 0)
            parts.append(add((max(more, 0.0), present)))
        return parts

    def _wait_for_offloads(self) -> None:
        """Constrain offloads: bytes beyond the memory at a point, made since another, have left."""
        tables = self._tables
        # What the offload frees: compressed, from the start; else not before the last forward use.
        packed = tables.held > 0
        pairs = [
            (a, k) for a in range(self._first_backward) for k in range(a + 1, len(self._points))
        ]
        for pace, weights in tables.weights(tables.out):
            early = self._sums(np.where(packed, weights, 0), [step + 1 for step in tables.made])
            late = self._sums(np.where(packed, 0, weights), [step + 1 for step in tables.used])
            since = self._sums(weights, [step + 1 for step in tables.made])
            for a, k in some(pairs):
                begun = float(tables.forward[self._points[a]])
                row = {self._begin[k]: 1.0, self._begin[a]: -1.0, since[a]: 1.0}
                row |= {early[k]: -1.0, late[k]: -1.0, self._there[k]: -pace}
                self._program.at_least(row, begun - pace)

    def _wait_for_memory(self) -> None:
        """Constrain prefetches: tensors without room at a point before have arrived since."""
        count = len(self._points)
        pairs = list(combinations(range(self._first_backward, count), 2))
        for pace, weights in self._tables.weights(self._tables.back):
            due = self._due_by_point(weights)
            for k, later in some(pairs):
                own = float(self._forward_of[self._points[k]])
                row = {self._begin[later]: 1.0, self._begin[k]: -1.0, due[later]: -1.0}
                row |= {due[k]: 1.0, self._there[k]: -pace}
                self._program.at_least(row, own - pace)
