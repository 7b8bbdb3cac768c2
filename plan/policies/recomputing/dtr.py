"""Dynamic tensor rematerialization: evict what is cheap, large and stale (Kirisame et al. 2021).

No plan is made ahead. When memory runs out, the tensor with the least h = c / (m · s) goes (§3.2):
c are the seconds to compute it and all evicted tensors around it again (its evicted neighborhood,
the heuristic h_DTR), m its bytes, and s the time since it was last used. Here the forward pass is
gone through once, in which evictions fall; where backward needs more room than they leave, more
tensors go by the same rule, with the time at which forward has ended.
"""

from cdma.plan.timeline.memory import fixed_occupants, last_forward_uses
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator


def plan(scenario: Scenario, *, mode: Mode = ASYNCHRONOUS) -> Plan:
    """A plan that computes again what would have been evicted; all of it if nothing else fits."""
    evictions = _Evictions(scenario)
    evictions.forward()
    evaluator = TimelineEvaluator(scenario, (RETAIN, RECOMPUTE), mode)

    def made() -> Plan:
        choices = (RECOMPUTE if t in evictions.evicted else RETAIN for t in scenario.graph.managed)
        return Plan(policy="dtr", choices=tuple(choices), mode=mode)

    def needs() -> float:
        return evaluator.run(evaluator.assignment(made().choices)).least_bytes

    while needs() > scenario.memory_bytes and evictions.evict():
        pass
    return made()


class _Evictions:
    """Evictions up to a stage of the forward pass."""

    def __init__(self, scenario: Scenario) -> None:
        self.evicted: set[int] = set()
        self._scenario = scenario
        self._seconds = scenario.forward_seconds
        self._last_use = last_forward_uses(scenario)
        self._ends = self._seconds.cumsum()
        self._stage = 0
        self._neighbors = _neighbors(scenario)
        steps = len(scenario.stages)
        self._fixed = [0] * steps
        for occupant in fixed_occupants(scenario):
            for step in range(occupant.first, min(occupant.last + 1, steps)):
                self._fixed[step] += occupant.nbytes

    def forward(self) -> None:
        """Go through the forward pass, and evict where memory runs out."""
        for stage in range(len(self._scenario.stages)):
            self._stage = stage
            while self._used() > self._scenario.memory_bytes and self.evict():
                pass

    def evict(self) -> bool:
        """Evict the tensor with the least h of those that this stage does not need; whether there
        was one."""
        stages = self._scenario.stages
        needed = {stages[self._stage].output, *stages[self._stage].inputs}
        left = [t for t in self._resident() if t not in needed]
        if self._stage == len(stages) - 1:
            # Forward has ended.
            left = self._resident()
        if not left:
            return False
        self.evicted.add(min(left, key=self._h))
        return True

    def _resident(self) -> list[int]:
        stage_of = self._scenario.stage_of
        return [
            t
            for t in self._scenario.graph.managed
            if t not in self.evicted and stage_of[t] <= self._stage
        ]

    def _used(self) -> int:
        """Bytes in memory while the stage runs; what is evicted, until its last forward use."""
        tensors = self._scenario.graph.tensors
        used = self._fixed[self._stage] + sum(tensors[t].nbytes for t in self._resident())
        return used + sum(
            tensors[t].nbytes for t in self.evicted if self._last_use[t] >= self._stage
        )

    def _h(self, tensor: int) -> float:
        around = {tensor, *self._neighborhood(tensor)}
        cost = sum(float(self._seconds[self._scenario.stage_of[t]]) for t in around)
        last = min(self._last_use[tensor], self._stage)
        # A tensor that was used last has been so for the stage's time.
        before = self._ends[last - 1] if last else 0.0
        stale = float(self._ends[self._stage] - before)
        return cost / (self._scenario.graph.tensors[tensor].nbytes * stale)

    def _neighborhood(self, tensor: int) -> set[int]:
        """Evicted tensors that are connected with it through evicted ones, before and behind."""
        found: set[int] = set()
        for way in (0, 1):
            left = [tensor]
            while left:
                for other in self._neighbors[left.pop()][way]:
                    if other in self.evicted and other not in found:
                        found.add(other)
                        left.append(other)
        return found


def _neighbors(scenario: Scenario) -> dict[int, tuple[set[int], set[int]]]:
    """For each managed tensor those that it is computed from, and those computed from it; through
    tensors that nobody keeps."""
    managed = set(scenario.graph.managed)
    sources: dict[int, set[int]] = {}
    for stage in scenario.stages:
        found: set[int] = set()
        for t in stage.inputs:
            found |= {t} if t in managed else sources.get(t, set())
        sources[stage.output] = found
    neighbors: dict[int, tuple[set[int], set[int]]] = {t: (sources[t], set()) for t in managed}
    for t in managed:
        for source in sources[t]:
            neighbors[source][1].add(t)
    return neighbors
