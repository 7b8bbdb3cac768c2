"""HOME's own cost model of a training step (HOME §3.4, Figure 4, Algorithm 2).

For each of 2n stages: while memory is short, wait for the offload that has begun first; bring what
the stage reads; run it. What is waited for is a tensor's overhead, which in Figure 4 is
(OFFLOAD2 - FWD3) + (PRE2 - BWD4), each clamped at 0: an offload runs beside the next layer's
forward pass, a prefetch beside the backward pass of the stage before the one that needs it.

What the printed algorithm leaves out is filled in so:

- `swapout_lists` is never filled, so that line 4 always fails. A swapped tensor joins it after its
  last forward use; what line 7 takes is also removed.
- `error` has no value. It is infinity.
- `mem` is updated behind the stage but tested before it. The test sees what the stage takes.
- When an offload begins: as the tensor is made, as in Figure 4 (§3.6 says, after its last use).
- A prefetch begins one stage ahead if it fits into memory then, or else with the stage.
- Recomputation is recursive (§2.2); what no plan keeps, as it is not needed backward, is made again
  on the way and dropped.

`overhead` is by tensor, as lines 8, 14 and 17 index it. Other than on our timeline, prefetches
never reach further ahead than one stage, and copies do not slow layers down that need memory
bandwidth.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from cdma.plan.search.swarm import Seconds
from cdma.plan.timeline.kernel import Assignments
from cdma.plan.timeline.placement import SWAP, Placement
from cdma.plan.timeline.problem_arrays import problem_of
from cdma.plan.timeline.scenario import Scenario

Deps = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    """The figures that HOME's profiler collects (§3.2). A layer has one feature map of its number.

    Attributes
    ----------
    nbytes : numpy.ndarray
        float64 (n,): of feature maps.
    forward, backward : numpy.ndarray
        float64 (n,): seconds of layers.
    offload, prefetch : numpy.ndarray
        float64 (n,): seconds of feature maps on the link.
    forward_inputs, backward_inputs : tuple of tuple of int
        For each layer, feature maps that its passes read.
    working_bytes : numpy.ndarray
        float64 (2n,): what else a stage takes while it runs, as gradients. HOME counts none.
    memory_bytes : float
        M, for feature maps and these.
    decided : tuple of int
        Feature maps that a policy has actions for, ascending.
    """

    nbytes: npt.NDArray[np.float64]
    forward: Seconds
    backward: Seconds
    offload: Seconds
    prefetch: Seconds
    forward_inputs: Deps
    backward_inputs: Deps
    working_bytes: npt.NDArray[np.float64]
    memory_bytes: float
    decided: tuple[int, ...]

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        """Profile a scenario. Stages are layers.

        Bytes of tensors that no plan decides about are working bytes, so that both models count
        the same memory.
        """
        problem = problem_of(scenario)
        stages, graph = scenario.stages, scenario.graph
        managed = set(graph.managed)
        copies = [
            scenario.copy_seconds(stage.output, SWAP, "none") if stage.output in managed else (0, 0)
            for stage in stages
        ]

        def makers(tensors: Iterable[int]) -> tuple[int, ...]:
            return tuple(scenario.stage_of[t] for t in tensors if t in scenario.stage_of)

        return cls(
            nbytes=np.array(
                [graph.tensors[s.output].nbytes if s.output in managed else 0.0 for s in stages]
            ),
            forward=scenario.forward_seconds,
            backward=scenario.backward_seconds,
            offload=np.array([out for out, _ in copies], float),
            prefetch=np.array([back for _, back in copies], float),
            forward_inputs=tuple(makers(stage.inputs) for stage in stages),
            backward_inputs=tuple(makers(stage.saved) for stage in stages),
            working_bytes=problem.fixed_bytes,
            memory_bytes=problem.capacity,
            decided=makers(graph.managed),
        )

    @cached_property
    def last_forward(self) -> tuple[int, ...]:
        """The layer whose forward pass reads a feature map last; its own if none does."""
        last = list(range(len(self.nbytes)))
        for layer, inputs in enumerate(self.forward_inputs):
            for x in inputs:
                last[x] = layer
        return tuple(last)

    @cached_property
    def last_backward(self) -> tuple[int, ...]:
        """The layer whose backward pass reads a feature map last, the lowest; n if none does."""
        last = [len(self.nbytes)] * len(self.nbytes)
        for layer, inputs in reversed(list(enumerate(self.backward_inputs))):
            for x in inputs:
                last[x] = layer
        return tuple(last)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """The result of Algorithm 2.

    Attributes
    ----------
    seconds : float
        `executime`; infinite if memory does not suffice.
    overhead : numpy.ndarray
        float64 (n,): seconds that each tensor makes the computation wait, or compute again.
    """

    seconds: float
    overhead: Seconds


class HomeEvaluator:
    """Algorithm 2 over a profile.

    Parameters
    ----------
    profile : StepProfile
    """

    def __init__(self, profile: StepProfile) -> None:
        self.profile = profile

    def seconds(self, assignments: Assignments) -> Seconds:
        """Times, float64 (m,), of policies by HOME's numbers, int8 (m, decided)."""
        return np.array([self.estimate(assignment).seconds for assignment in assignments])

    def estimate(self, policy: Assignments) -> Estimate:
        """Estimate the time of one assignment, int8 (decided,)."""
        return _Step(self.profile, policy).run()


class _OutOfMemory(Exception):
    """`swapout_lists` is empty."""


class _Step:
    """The state of a training step as it is estimated."""

    def __init__(self, profile: StepProfile, policy: Assignments) -> None:
        self._profile = profile
        n = len(profile.nbytes)
        self._action = dict(zip(profile.decided, (Placement(int(a)) for a in policy), strict=True))
        self._now = 0.0
        self._overhead = np.zeros(n)
        self._mem = 0.0
        self._there: set[int] = set()
        self._swapout: deque[int] = deque()
        self._offloaded = np.zeros(n)
        """When each offload ends."""
        self._prefetched: dict[int, float] = {}
        """When each prefetch ends that has begun."""
        self._d2h = self._h2d = 0.0

    def run(self) -> Estimate:
        n = len(self._profile.nbytes)
        try:
            for layer in range(n):
                self._forward(layer)
            for layer in reversed(range(n)):
                self._backward(layer)
        except _OutOfMemory:
            self._now = math.inf
        return Estimate(seconds=self._now, overhead=self._overhead)

    def _forward(self, layer: int) -> None:
        profile = self._profile
        self._take(layer)
        self._free_memory(profile.working_bytes[layer])
        self._now += profile.forward[layer]
        if self._action.get(layer) is Placement.SWAP:
            self._d2h = max(self._d2h, self._now) + profile.offload[layer]
            self._offloaded[layer] = self._d2h
        for x in dict.fromkeys((*profile.forward_inputs[layer], layer)):
            if profile.last_forward[x] == layer:
                action = self._action.get(x)
                if action is Placement.SWAP:
                    self._swapout.append(x)
                elif action is not Placement.RETAIN:
                    self._drop(x)

    def _backward(self, layer: int) -> None:
        profile = self._profile
        n = len(profile.nbytes)
        working = profile.working_bytes[2 * n - 1 - layer]
        brought: set[int] = set()
        for x in profile.backward_inputs[layer]:
            self._bring(x, x, brought)
        for x in brought:
            # Only on the way to something else, and nobody's any more.
            if profile.last_backward[x] > layer:
                self._drop(x)
        self._free_memory(working)
        if layer:
            for x in profile.backward_inputs[layer - 1]:
                self._prefetch_early(x, working)
        self._now += profile.backward[layer]
        for x in profile.backward_inputs[layer]:
            if profile.last_backward[x] == layer:
                self._drop(x)

    def _bring(self, x: int, cause: int, brought: set[int]) -> None:
        """Have a feature map in memory, at the expense of `cause`."""
        out = self._action.get(x) is Placement.SWAP and x not in self._there
        if out or x in self._swapout or x in self._prefetched:
            if x not in self._prefetched:
                self._prefetch(x)
            self._wait(self._prefetched.pop(x), cause)
        elif x not in self._there:
            for y in self._profile.forward_inputs[x]:
                self._bring(y, cause, brought)
            self._take(x)
            self._free_memory(0)
            self._wait(self._now + self._profile.forward[x], cause)
        else:
            return
        brought.add(x)

    def _prefetch_early(self, x: int, working: float) -> None:
        free_bytes = self._profile.memory_bytes - self._mem - working
        away = self._action.get(x) is Placement.SWAP and x not in self._prefetched
        if x in self._swapout or (
            away and x not in self._there and self._profile.nbytes[x] <= free_bytes
        ):
            self._prefetch(x)

    def _prefetch(self, x: int) -> None:
        if x in self._swapout:
            # Not yet waited for: what its offload would free is what it takes again.
            self._swapout.remove(x)
        else:
            self._take(x)
            self._free_memory(0)
        begin = max(self._h2d, self._now, self._offloaded[x])
        self._h2d = begin + self._profile.prefetch[x]
        self._prefetched[x] = self._h2d

    def _wait(self, until: float, cause: int) -> None:
        if until > self._now:
            self._overhead[cause] += until - self._now
            self._now = until

    def _free_memory(self, working: float) -> None:
        """Wait for offloads until `working` bytes are free (lines 3 to 10); else `_OutOfMemory`."""
        while self._mem + working > self._profile.memory_bytes:
            if not self._swapout:
                raise _OutOfMemory
            x = self._swapout.popleft()
            self._wait(self._offloaded[x], x)
            self._drop(x)

    def _take(self, x: int) -> None:
        self._mem += self._profile.nbytes[x]
        self._there.add(x)

    def _drop(self, x: int) -> None:
        if x in self._there:
            self._mem -= self._profile.nbytes[x]
            self._there.discard(x)
