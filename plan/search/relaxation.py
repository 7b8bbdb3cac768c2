"""The timeline as a mixed-integer program that is never slower than it.

It has one binary variable per tensor and option. Times of steps, and the memory in them, are
variables that may be better than on the timeline, never worse: each constraint holds for what the
timeline (`cdma.plan.timeline.kernel`) makes of any plan, in any mode. So its least time is a
lower bound, and if it has no solution, no plan fits. The constraints, which
`docs/reference/planning.md` justifies one by one:

- *Computation*: a step begins after the one before, and takes its layers' time alone on the device,
  and that of codecs. What is recomputed or decompressed is by the step that would first need it.
- *Memory*: what is there in each step if copies took no time fits.
- *Offloads* go one after another, each behind its tensor's production, and a prefetch behind its
  offload.
- *Prefetches* go one after another, behind the forward pass, and what a step needs has arrived.
- *Waiting for offloads*: what is too much for the memory at a step has left by then, at the link's
  pace, since any stage before.
- *Waiting for room*: of what a later step needs, no more has been prefetched at a step than there
  was room for; the rest takes its time on the link from there.

What the program does not see: that tensors move as a whole, that layers are slower beside copies,
and staging and lookahead.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cdma.plan.search.linear import Answer, LinearProgram, Sum, add
from cdma.plan.search.step_tables import StepTables, some
from cdma.plan.timeline.kernel import Assignments, Options, ProblemArrays
from cdma.plan.timeline.placement import Placement


class Relaxation:
    """The program of a scenario.

    Times are in units of the whole computation, `unit_s`; memory in units of the capacity.

    Parameters
    ----------
    problem : ProblemArrays
    options : Options
    """

    def __init__(self, problem: ProblemArrays, options: Options) -> None:
        self._s, self._o = problem, options
        self._n, self._m, self._k = problem.stages, problem.managed, options.options
        self._tables = tables = StepTables(problem, options)
        self.unit_s = tables.unit_s
        self._forward, self._backward = tables.forward, tables.backward
        self._codec, self._out, self._in = tables.codec, tables.out, tables.back
        self._size, self._held = tables.size, tables.held
        self._made, self._used = tables.made, tables.used
        self._need, self._last = tables.need, tables.last
        self._consumers, self._passing = tables.consumers, tables.passing
        self._program = LinearProgram()
        self._choice = np.array(
            [
                [self._program.variable(1, integral=True) for _ in range(self._k)]
                for _ in range(self._m)
            ]
        ).reshape(self._m, self._k)
        for row in self._choice:
            self._program.equal(dict.fromkeys(row.tolist(), 1.0), 1)
        self._compute()
        self._copy()
        self._remember()
        self._wait_for_offloads()
        self._wait_for_memory()

    @property
    def coefficients(self) -> int:
        """The size of the program."""
        return self._program.coefficients

    def solve(self, nodes: int = 0) -> Answer:
        """The least end of the step, in `unit_s`; as of `LinearProgram.minimize`."""
        return self._program.minimize(self._end, nodes)

    def assignment(self, solution: npt.NDArray[np.float64]) -> Assignments:
        """The options that a solution chooses."""
        return np.argmax(solution[self._choice], axis=1).astype(np.int8)

    def _of(self, i: int, table: npt.NDArray[np.float64], *placements: Placement) -> Sum:
        """A table's value for a tensor under its choice, if it is one of these placements."""
        return {
            int(self._choice[i, o]): float(table[i, o])
            for o in range(self._k)
            if table[i, o] and (not placements or self._o.placement[i, o] in placements)
        }

    def _is(self, i: int, placement: Placement) -> Sum:
        return self._of(i, np.ones((self._m, self._k)), placement)

    def _punctual(self, i: int, amount: Sum) -> Sum:
        """The amount that falls due in a tensor's own step and not before, or less.

        That is all of it, unless something is recomputed from the tensor before.
        """
        most = max(amount.values(), default=0.0)
        if not most:
            return {}
        due = {self._program.variable(): 1.0}
        excused = [(most, self._is(c, Placement.RECOMPUTE)) for c in self._consumers[i]]
        self._program.at_least(add((1, due), (-1, amount), *excused), 0)
        return due

    def _compute(self) -> None:
        """Computation: begin of steps, and the end of all."""
        n, program = self._n, self._program
        # Of steps: when there is memory, and in backward when all has arrived. And of nothing: when
        # forward is over, which is when prefetches may begin.
        self._begin = [program.variable() for _ in range(2 * n)]
        self._turned = program.variable()
        self._end = program.variable()
        # When a stage's tensor is there, and compressed if that is done here; but for its forward
        # pass, which is a constant.
        self._ready: list[Sum] = []
        for k in range(n):
            packs = [self._of(i, self._codec, Placement.SWAP) for i in _where(self._made, k)]
            self._ready.append(add((1, {self._begin[k]: 1.0}), *((1, pack) for pack in packs)))
            packs = [self._of(i, self._codec, Placement.COMPRESS) for i in _where(self._used, k)]
            done = add((1, self._ready[k]), *((1, pack) for pack in packs))
            following = self._begin[k + 1] if k + 1 < n else self._turned
            program.at_least(add((1, {following: 1.0}), (-1, done)), self._forward[k])
        program.at_least({self._begin[n]: 1.0, self._turned: -1.0}, 0)

        # The end of a backward step, but for its own computation, which is a constant.
        self._done: dict[int, Sum] = {}
        so_far: Sum = {self._turned: 1.0}
        constant = 0.0
        for k in range(n, 2 * n):
            own = float(self._backward[2 * n - 1 - k])
            constant += own
            following = self._begin[k + 1] if k + 1 < 2 * n else self._end
            self._done[k] = {self._begin[k]: 1.0}
            for i in _where(self._need, k):
                again = self._is(i, Placement.RECOMPUTE)
                work = add((1, self._of(i, self._codec)), (self._forward[self._made[i]], again))
                self._done[k] = add((1, self._done[k]), (1, self._punctual(i, work)))
                so_far = add((1, so_far), (1, work))
            program.at_least(add((1, {following: 1.0}), (-1, self._done[k])), own)
            # In its own step or before, it has been done by the end of this one.
            program.at_least(add((1, {following: 1.0}), (-1, so_far)), constant)
        # What lies on the way to recomputed tensors, once at least.
        for stage in sorted(set().union(*self._passing)):
            again = {program.variable(1): 1.0}
            so_far = add((1, so_far), (self._forward[stage], again))
            for i in range(self._m):
                if stage in self._passing[i]:
                    redone = self._is(i, Placement.RECOMPUTE)
                    program.at_least(add((1, again), (-1, redone)), 0)
        program.at_least(add((1, {self._end: 1.0}), (-1, so_far)), constant)

    def _copy(self) -> None:
        """Offloads, one after another, and prefetches, one after another."""
        n, program = self._n, self._program
        landed: list[Sum] = []
        for i in range(self._m):
            landed.append({program.variable(): 1.0})
            own, made = self._of(i, self._out), self._made[i]
            if i:
                program.at_least(add((1, landed[i]), (-1, landed[i - 1]), (-1, own)), 0)
            ready = self._forward[made]
            program.at_least(add((1, landed[i]), (-1, self._ready[made]), (-1, own)), ready)
        # More than any of these times, so that it makes a constraint void.
        never = 1.0 + float(
            (self._codec + 2 * self._out + 2 * self._in).max(axis=1, initial=0).sum()
        )
        void = np.full((self._m, self._k), never)
        arrived: Sum = {}
        before: Sum = {self._turned: 1.0}
        for k in range(n, 2 * n):
            now: Sum = {program.variable(): 1.0}
            program.at_least({self._begin[k]: 1.0} | add((-1, now)), 0)
            chain = add((1, now), (-1, before))
            due = [i for i in _where(self._need, k) if self._of(i, self._in)]
            for i in due:
                own = self._of(i, self._in)
                arrived = add((1, arrived), (1, own))
                chain = add((1, chain), (-1, self._punctual(i, own)))
            program.at_least(chain, 0)
            program.at_least(add((1, now), (-1, {self._turned: 1.0}), (-1, arrived)), 0)
            for i in due:
                # Behind its own offload; or behind all, where one link has both directions.
                after, copies = landed[i], self._of(i, self._in)
                if not self._s.duplex:
                    after, copies = landed[-1], arrived
                swapped = self._of(i, void, Placement.SWAP)
                row = add((1, now), (-1, after), (-1, copies), (-1, swapped))
                program.at_least(row, -never)
            before = now

    def _remember(self) -> None:
        """Memory of each step, if offloads have ended and no prefetch is early."""
        n, program = self._n, self._program
        there: list[list[tuple[float, Sum]]] = [[] for _ in range(2 * n)]
        early: list[list[tuple[float, Sum]]] = [[] for _ in range(2 * n)]

        def occupy(first: int, last: int, amount: Sum) -> None:
            for k in range(first, last + 1) if amount else ():
                there[k].append((1, amount))

        size = np.broadcast_to(self._size, self._held.shape)
        for i in range(self._m):
            made, used, need, last = self._made[i], self._used[i], self._need[i], self._last[i]
            occupy(made, used, self._of(i, size))
            occupy(need, last, self._of(i, size))
            occupy(used + 1, need - 1, self._of(i, size, Placement.RETAIN))
            occupy(made, made, self._of(i, self._held, Placement.SWAP))
            occupy(used, used, self._of(i, self._held, Placement.COMPRESS))
            # If something is recomputed from it before, it is decompressed by then.
            kept = np.minimum(self._held, size)
            occupy(used + 1, need - 1, self._of(i, kept, Placement.COMPRESS))
            if not self._consumers[i]:
                occupy(need, need, self._of(i, self._held))
            for step, amount in self._needed_early(i):
                early[step].append((1, amount))
        self._there = []
        for k in range(2 * n):
            fixed = float(self._s.fixed_bytes[k] / self._s.capacity)
            self._there.append(program.named(add(*there[k]), fixed))
            program.at_least(add((-1, {self._there[k]: 1.0}), *((-f, e) for f, e in early[k])), -1)

    def _needed_early(self, i: int) -> Iterator[tuple[int, Sum]]:
        """Memory of a tensor in steps before its own, if something is recomputed from it there."""
        program = self._program
        packed = self._of(i, self._held, Placement.COMPRESS)
        more = float(self._size[i, 0]) - max(packed.values(), default=0.0)
        steps = sorted({self._need[c] for c in self._consumers[i] if self._need[c] < self._need[i]})
        before: Sum = {}
        for step, following in pairwise([*steps, self._need[i]]):
            present = {program.variable(): 1.0}
            program.at_least(add((1, present), (-1, before)), 0)
            for c in self._consumers[i]:
                if self._need[c] == step:
                    redone, kept = self._is(c, Placement.RECOMPUTE), self._is(i, Placement.RETAIN)
                    program.at_least(add((1, present), (-1, redone), (1, kept)), 0)
            for k in range(step, following):
                yield k, add((max(more, 0.0), present))
            before = present

    def _wait_for_offloads(self) -> None:
        """Constrain offloads: bytes beyond the memory at a step, made since a stage, have left."""
        n = self._n
        # What the offload frees: compressed, from the start; else not before the last forward use.
        packed = self._held > 0
        leaves = np.where(packed, np.array(self._made)[:, None], np.array(self._used)[:, None])
        made = np.broadcast_to(np.array(self._made)[:, None], packed.shape)
        pairs = some([(a, k) for a in range(n) for k in range(a + 1, 2 * n)])
        for pace, weights in self._tables.weights(self._out):
            gone = self._running(2 * n, weights, leaves + 1)
            since = self._running(n, weights, made + 1)
            for a, k in pairs:
                # pace · (there - capacity) + (gone - since) <= the time from a's end to k.
                row = add(
                    (1, {self._begin[k]: 1.0, gone[k]: -1.0, since[a]: 1.0}),
                    (-pace, {self._there[k]: 1.0}),
                    (-1, self._ready[a]),
                )
                self._program.at_least(row, float(self._forward[a]) - pace)

    def _wait_for_memory(self) -> None:
        """Constrain prefetches: tensors without room at a step before have arrived since."""
        n = self._n
        need = np.broadcast_to(np.array(self._need)[:, None], self._held.shape)
        pairs = some([(k, later) for k in range(n, 2 * n) for later in range(k + 1, 2 * n)])
        for pace, weights in self._tables.weights(self._in):
            due = self._running(2 * n, weights, need)
            for k, later in pairs:
                row = add(
                    (1, {self._begin[later]: 1.0, due[later]: -1.0, due[k]: 1.0}),
                    (-pace, {self._there[k]: 1.0}),
                    (-1, self._done[k]),
                )
                self._program.at_least(row, float(self._backward[2 * n - 1 - k]) - pace)

    def _running(
        self, count: int, weights: npt.NDArray[np.float64], step: npt.NDArray[np.int64]
    ) -> list[int]:
        """Make for each of so many steps a variable that sums all weights due by then."""
        due: list[Sum] = [{} for _ in range(count)]
        for i, o in zip(*np.nonzero(weights), strict=True):
            if step[i, o] < count:
                due[step[i, o]][int(self._choice[i, o])] = float(weights[i, o])
        return self._program.running(due)


def _where(steps: Sequence[int], step: int) -> Iterator[int]:
    return (i for i, k in enumerate(steps) if k == step)
