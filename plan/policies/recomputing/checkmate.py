"""Checkmate: the cheapest schedule of what is kept and what is computed again (Jain et al. 2020).

An integer program over the steps of backward (§4): `kept` says whether a tensor is in memory when a
step begins, `made` whether the step computes it again. A step has what its layer needs; what is
computed again has its own inputs; what is kept was there before; and all of it fits into memory.
The least seconds of computing again are found by branch and bound on small networks, and on larger
ones by the linear relaxation, whose fractions are rounded (§5). Forward is not repeated within
forward, and memory is counted as if all of a step's tensors were there at once, where the paper
does so operation by operation. So a step may seem to need more than there is: what it needs too
much is dearer than any computing again, and the timeline has the last word.

A plan has one choice per tensor, so it is the tensors that forward leaves behind: those with a
fraction of a threshold or more. Of all thresholds the one is taken that the step is fastest with.
"""

import numpy as np

from cdma.plan.search.linear import LinearProgram, Sum, add
from cdma.plan.timeline.memory import fixed_occupants, last_forward_uses
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator

INTEGRAL_STAGES = 40
"""Networks of so many stages at most are solved by branch and bound."""

NODES = 200
"""Of branch and bound at most."""

EXCESS_SECONDS = 1e3
"""Seconds, in those of the step, that each GB costs which there is not."""

GB = 1e9


def plan(scenario: Scenario, *, mode: Mode = ASYNCHRONOUS) -> Plan:
    """Keep what the program keeps, and compute the rest again."""
    kept = kept_fractions(scenario)
    evaluator = TimelineEvaluator(scenario, (RETAIN, RECOMPUTE), mode)
    fractions = np.array([kept[t] for t in scenario.graph.managed])
    order = np.argsort(-fractions, kind="stable")
    # The first one keeps nothing, the last one everything.
    again = np.ones((order.size + 1, order.size), np.int8)
    for count in range(order.size):
        again[count + 1 :, order[count]] = 0
    seconds = evaluator.seconds(again)
    rounded = int(np.count_nonzero(fractions >= 0.5))
    best = int(np.argmin(seconds)) if np.isfinite(seconds).any() else rounded
    return evaluator.plan("checkmate", again[best])


def kept_fractions(scenario: Scenario) -> dict[int, float]:
    """For each tensor that plans decide about, whether forward leaves it in memory: 0…1, and 0 or 1
    on small networks."""
    program = _Program(scenario)
    integral = len(scenario.stages) <= INTEGRAL_STAGES
    answer = program.linear.minimize(program.cost, NODES if integral else 0)
    assert answer.solution is not None, "computing all again is a solution"
    return {t: float(answer.solution[program.left_by_forward[t]]) for t in scenario.graph.managed}


class _Program:
    """The integer program of a step."""

    def __init__(self, scenario: Scenario) -> None:
        self.linear = LinearProgram()
        self.left_by_forward: dict[int, int] = {}
        """For each managed tensor, the variable of whether it stays after forward."""
        self._scenario = scenario
        self._fixed = np.zeros(2 * len(scenario.stages))
        for occupant in fixed_occupants(scenario):
            self._fixed[occupant.first : occupant.last + 1] += occupant.nbytes
        self._excess = self.linear.variable()
        self._forward()
        # In parts of the step.
        spent = add((1 / scenario.compute_seconds, self._backward()))
        self.cost = self.linear.named(add((1, spent), (EXCESS_SECONDS, {self._excess: 1.0})))

    def _forward(self) -> None:
        """Return what is left behind, and each forward step's memory beside what is just used."""
        scenario, last_use = self._scenario, last_forward_uses(self._scenario)
        self.left_by_forward = {
            t: self.linear.variable(1, integral=True) for t in scenario.graph.managed
        }
        for s in range(len(scenario.stages)):
            there = [t for t in scenario.graph.managed if scenario.stage_of[t] <= s]
            used = sum(self._bytes(t) for t in there if last_use[t] >= s)
            stays = {self.left_by_forward[t]: self._bytes(t) / GB for t in there if last_use[t] < s}
            self._fits(stays, self._fixed[s] + used)

    def _backward(self) -> Sum:
        """The steps of backward; the seconds of computing again."""
        scenario, linear = self._scenario, self.linear
        stages, seconds = scenario.stages, scenario.forward_seconds
        kept = dict(self.left_by_forward)
        spent: Sum = {}
        for b in reversed(range(len(stages))):
            tensors = [stage.output for stage in stages[: b + 1]]
            made = {t: linear.variable(1, integral=True) for t in tensors}
            there: dict[int, Sum] = {}
            for t in tensors:
                there[t] = {made[t]: 1.0, **({kept[t]: 1.0} if t in kept else {})}
                spent[made[t]] = float(seconds[scenario.stage_of[t]])
            for t in stages[b].saved:
                if t in there:
                    linear.at_least(there[t], 1)
            for t in tensors:
                for source in stages[scenario.stage_of[t]].inputs:
                    if source in there:
                        linear.at_least(add((1, there[source]), (-1, {made[t]: 1.0})), 0)
            held = add(*((self._bytes(t) / GB, there[t]) for t in tensors))
            self._fits(held, self._fixed[2 * len(stages) - 1 - b])
            kept = {t: linear.variable(1, integral=True) for t in tensors if t != stages[b].output}
            for t, variable in kept.items():
                linear.at_least(add((1, there[t]), (-1, {variable: 1.0})), 0)
        return spent

    def _fits(self, held: Sum, fixed: float) -> None:
        free = (self._scenario.memory_bytes - fixed) / GB
        self.linear.at_least(add((-1, held), (1, {self._excess: 1.0})), -free)

    def _bytes(self, tensor: int) -> int:
        return self._scenario.graph.tensors[tensor].nbytes
