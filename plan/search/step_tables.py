"""Tables of a training step that its linear programs are written from.

Times are in units of the whole computation, `unit_s`; memory in units of the capacity. Steps are
the timeline's (`cdma.plan.timeline.kernel`): forward of n stages, then backward.
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cdma.plan.timeline.kernel import Options, ProblemArrays
from cdma.plan.timeline.placement import Placement

Table = npt.NDArray[np.float64]

CUTS = 3000
"""Pairs of steps at most for each of the constraints on waiting."""


class StepTables:
    """Times, sizes and steps of a problem's stages and managed tensors.

    Parameters
    ----------
    problem : ProblemArrays
    options : Options

    Attributes
    ----------
    unit_s : float
        Seconds of the whole computation.
    forward, backward : numpy.ndarray
        float64 (stages,): of each stage's passes.
    codec, out, back : numpy.ndarray
        float64 (managed, options): of a codec, and of copies out and in.
    size : numpy.ndarray
        float64 (managed, 1): of tensors.
    held : numpy.ndarray
        float64 (managed, options): of compressed forms on the device.
    made, used, need, last : list of int
        For each managed tensor, the steps that make it, read it last in forward, first in backward,
        and last in backward.
    consumers : list of list of int
        For each managed tensor, those that are recomputed from it.
    passing : list of set of int
        For each managed tensor, stages that run again on the way to it as nobody keeps their
        outputs.
    """

    def __init__(self, problem: ProblemArrays, options: Options) -> None:
        self._problem, self._options = problem, options
        forward = np.maximum(problem.forward_flop_s, problem.forward_memory_s)
        backward = np.maximum(problem.backward_flop_s, problem.backward_memory_s)
        first = problem.layer_start[:-1]
        self.unit_s = float(forward.sum() + backward.sum())
        self.forward: Table = np.add.reduceat(forward, first) / self.unit_s
        self.backward: Table = np.add.reduceat(backward, first) / self.unit_s
        self.codec: Table = options.codec_s / self.unit_s
        self.out: Table = options.out_s / self.unit_s
        self.back: Table = options.in_s / self.unit_s
        self.size: Table = problem.tensor_bytes[problem.tensor_of][:, None] / problem.capacity
        self.held: Table = options.held_bytes / problem.capacity
        self.made: list[int] = problem.producer[problem.tensor_of].tolist()
        self.used: list[int] = problem.last_forward[problem.tensor_of].tolist()
        self._find_backward_uses()
        self._find_consumers()

    def weights(self, seconds: Table) -> Iterator[tuple[float, Table]]:
        """Times of copies, (managed, options), and the time that a byte of room saves.

        One pair if all take the same time per byte that they occupy on the device. Else two: each
        byte at the least time of all, or copies at their own time and room at the most.
        """
        swap = self._options.placement == Placement.SWAP
        moved = np.where(self.held > 0, np.minimum(self.held, self.size), self.size) * swap
        if not swap.any():
            return
        rate = seconds[swap] / moved[swap]
        yield float(rate.min()), moved * float(rate.min())
        if rate.max() > rate.min() * (1 + 1e-9):
            yield float(rate.max()), seconds * swap

    def _find_backward_uses(self) -> None:
        problem, n = self._problem, self._problem.stages
        self.need, self.last = [-1] * problem.managed, [-1] * problem.managed
        for k in range(n, 2 * n):
            stage = 2 * n - 1 - k
            first, end = problem.saved_start[stage], problem.saved_start[stage + 1]
            for t in problem.saved_list[first:end]:
                if (i := problem.managed_of[t]) >= 0:
                    self.last[i] = k
                    if self.need[i] < 0:
                        self.need[i] = k

    def _find_consumers(self) -> None:
        problem = self._problem
        self.consumers: list[list[int]] = [[] for _ in range(problem.managed)]
        self.passing: list[set[int]] = [set() for _ in range(problem.managed)]
        if not (self._options.placement == Placement.RECOMPUTE).any():
            return
        for i in range(problem.managed):
            pending = [self.made[i]]
            while pending:
                stage = pending.pop()
                first, end = problem.input_start[stage], problem.input_start[stage + 1]
                for t in problem.input_list[first:end]:
                    producer, source = int(problem.producer[t]), int(problem.managed_of[t])
                    if source >= 0 and i not in self.consumers[source]:
                        self.consumers[source].append(i)
                    elif source < 0 <= producer and producer not in self.passing[i]:
                        self.passing[i].add(producer)
                        pending.append(producer)


def some(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pick at most `CUTS` items, evenly spread."""
    return pairs[:: math.ceil(len(pairs) / CUTS)] if CUTS and pairs else []
