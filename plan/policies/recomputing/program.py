"""The integer program of what a step keeps, computes again and pages out (Jain et al. 2020, §4).

Checkmate's program is about the steps of backward: `kept` says whether a tensor is in memory when a
step begins, `made` whether the step computes it again. A step has what its layer needs; what is
computed again has its own inputs; what is kept was there before; and all of it fits into memory.
POET (Patil et al. 2022) adds paging: what forward has written to the host, once, a step of backward
may read from there.

Its cost is the step's time, as both papers count it: all computation and all copies one after
another, none beside the other. What a plan of ours cannot say is left out of it: a tensor that
plans decide about is computed again, or paged in, once at most, and nothing is computed twice
within forward. What no plan decides about is computed again for each step that wants it. Memory is
counted as the timeline does, as if all of a step's tensors were there at once, where the papers do
so operation by operation. What a step needs too much is dearer than any computing again.
"""

from dataclasses import dataclass

import numpy as np

from cdma.plan.search.linear import LinearProgram, Sum, add
from cdma.plan.timeline.memory import fixed_occupants, last_forward_uses
from cdma.plan.timeline.placement import SWAP, SolverReport
from cdma.plan.timeline.scenario import Scenario

INTEGRAL_STAGES = 40
"""Networks of so many stages at most are solved by branch and bound."""

NODES = 200
"""Nodes of branch and bound at most: no time limit, so that plans are the same everywhere."""

RELATIVE_GAP = 1e-6
"""Of the step's time, at which branch and bound is content."""

EXCESS_SECONDS = 1e3
"""Seconds, in those of the step, that each GB costs which there is not."""

GB = 1e9


@dataclass(frozen=True, kw_only=True)
class StepSolution:
    """A solution of the program; whole numbers where branch and bound found one.

    Attributes
    ----------
    kept : mapping of int to float
        For each tensor that plans decide about, whether forward leaves it in memory: 0…1.
    paged : mapping of int to float
        For each of them, whether forward writes it to the host: 0…1.
    report : SolverReport
    """

    kept: dict[int, float]
    paged: dict[int, float]
    report: SolverReport


class StepProgram:
    """The program of a scenario.

    Parameters
    ----------
    scenario : Scenario
    paging : bool
        Whether tensors may leave to the host.
    """

    def __init__(self, scenario: Scenario, *, paging: bool = False) -> None:
        self._linear = LinearProgram()
        self._scenario = scenario
        self._fixed = np.zeros(2 * len(scenario.stages))
        for occupant in fixed_occupants(scenario):
            self._fixed[occupant.first : occupant.last + 1] += occupant.nbytes
        managed = scenario.graph.managed
        self._excess: Sum = {}
        self._kept = {t: self._linear.variable(1, integral=True) for t in managed}
        self._paged = {t: self._linear.variable(1, integral=True) for t in managed if paging}
        self._copies = {t: scenario.copy_seconds(t, SWAP, "none") for t in self._paged}
        self._forward()
        spent = add(
            (1, self._backward()), (1, {v: self._copies[t][0] for t, v in self._paged.items()})
        )
        # In parts of the step that never waits, which is 1: so HiGHS's gap is of the step.
        cost = add((1 / scenario.compute_seconds, spent), (EXCESS_SECONDS, self._excess))
        self._cost = self._linear.named(cost, 1.0)

    def solve(self) -> StepSolution:
        """The least cost: by branch and bound for `INTEGRAL_STAGES` or fewer, else of the linear
        relaxation."""
        integral = len(self._scenario.stages) <= INTEGRAL_STAGES
        answer = self._linear.minimize(self._cost, NODES if integral else 0, RELATIVE_GAP)
        if answer.solution is None and integral:
            # Out of nodes before any solution was found.
            integral, answer = False, self._linear.minimize(self._cost)
        assert answer.solution is not None, "computing all again is a solution"
        solution = answer.solution
        return StepSolution(
            kept={t: float(solution[variable]) for t, variable in self._kept.items()},
            paged={t: float(solution[variable]) for t, variable in self._paged.items()},
            report=SolverReport(integral=integral, gap=answer.gap),
        )

    def _forward(self) -> None:
        """Each forward step's memory: what is left behind, beside what is just used."""
        scenario, last_use = self._scenario, last_forward_uses(self._scenario)
        for s in range(len(scenario.stages)):
            there = [t for t in scenario.graph.managed if scenario.stage_of[t] <= s]
            used = sum(self._bytes(t) for t in there if last_use[t] >= s)
            stays = {self._kept[t]: self._bytes(t) / GB for t in there if last_use[t] < s}
            self._fits(stays, self._fixed[s] + used)

    def _backward(self) -> Sum:
        """The steps of backward; the seconds of computing again and of copies back."""
        scenario, linear = self._scenario, self._linear
        stages, seconds = scenario.stages, scenario.forward_seconds
        kept = dict(self._kept)
        spent: Sum = {}
        back_by_tensor = {t: {self._kept[t]: 1.0} for t in self._kept}
        for b in reversed(range(len(stages))):
            tensors = [stage.output for stage in stages[: b + 1]]
            there: dict[int, Sum] = {}
            for t in tensors:
                made = linear.variable(1, integral=True)
                spent[made] = float(seconds[scenario.stage_of[t]])
                there[t] = {made: 1.0, **({kept[t]: 1.0} if t in kept else {})}
                if t in self._paged:
                    back = linear.variable(1, integral=True)
                    linear.at_least({self._paged[t]: 1.0, back: -1.0}, 0)
                    there[t][back] = 1.0
                    spent[back] = self._copies[t][1]
                if t in back_by_tensor:
                    back_by_tensor[t] |= {v: 1.0 for v in there[t] if v != kept[t]}
                for source in stages[scenario.stage_of[t]].inputs:
                    if source in there:
                        linear.at_least(add((1, there[source]), (-1, {made: 1.0})), 0)
            for t in stages[b].saved:
                if t in there:
                    linear.at_least(there[t], 1)
            held = add(*((self._bytes(t) / GB, there[t]) for t in tensors))
            self._fits(held, self._fixed[2 * len(stages) - 1 - b])
            kept = {
                t: linear.variable(1, integral=True)
                for t in tensors
                if t != stages[b].output and t in self._kept
            }
            for t, variable in kept.items():
                linear.at_least(add((1, there[t]), (-1, {variable: 1.0})), 0)
        for times in back_by_tensor.values():
            # Kept from forward, or back once.
            linear.at_least(add((-1, times)), -1)
        return spent

    def _fits(self, held: Sum, fixed: float) -> None:
        free = (self._scenario.memory_bytes - fixed) / GB
        excess = {self._linear.variable(): 1.0}
        self._excess |= excess
        self._linear.at_least(add((-1, held), (1, excess)), -free)

    def _bytes(self, tensor: int) -> int:
        return self._scenario.graph.tensors[tensor].nbytes
