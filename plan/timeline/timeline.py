"""A plan's time, memory and events, by the timeline kernel, for one plan or for many."""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.kernel import Assignments, Outcome, TimelineKernel
from cdma.plan.timeline.placement import ASYNCHRONOUS, Choice, Mode, Plan
from cdma.plan.timeline.problem_arrays import options_of, problem_of
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.trace import KINDS, REASONS, STREAMS, Event, Trace, Wait
from cdma.plan.workload.graph import Graph

THREADS = os.cpu_count() or 1

LEAST_SHARE = 16
"""Plans that are worth a thread of their own."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS)


class TimelineEvaluator:
    """The times of many plans of one scenario.

    Parameters
    ----------
    scenario : Scenario
    options : sequence of Choice
        What may become of a tensor; plans are indices into it.
    mode : Mode
    throttle : str
        Of `cdma.sim.driver.THROTTLES`.
    """

    def __init__(
        self,
        scenario: Scenario,
        options: Sequence[Choice],
        mode: Mode = ASYNCHRONOUS,
        throttle: str = "none",
    ) -> None:
        self.scenario = scenario
        self.options = tuple(options)
        self.mode = mode
        self.throttle = throttle
        lookahead = -1 if mode.lookahead is None else mode.lookahead
        self._waits = (float(mode.staging_bytes), lookahead)
        self._kernel = TimelineKernel(
            problem_of(scenario), options_of(scenario, self.options, throttle)
        )

    def seconds(self, assignments: Assignments) -> npt.NDArray[np.float64]:
        """The step's seconds under each plan; infinity where memory does not suffice.

        Parameters
        ----------
        assignments
            int8 (plans, managed tensors): for each tensor, which option it has.
        """
        parts = min(THREADS, len(assignments) // LEAST_SHARE)
        if parts < 2:
            return self._kernel.seconds(assignments, *self._waits)
        shares = np.array_split(assignments, parts)
        return np.concatenate(
            list(_pool().map(lambda share: self._kernel.seconds(share, *self._waits), shares))
        )

    def run(self, assignment: Assignments) -> Outcome:
        """Time, memory and events of one plan, int8 (managed tensors,)."""
        return self._kernel.run(assignment, *self._waits)

    def plan(self, policy: str, assignment: Assignments) -> Plan:
        """A row of `seconds` as a plan."""
        return Plan(
            policy=policy,
            choices=tuple(self.options[o] for o in assignment),
            mode=self.mode,
            throttle=self.throttle,
        )

    def assignment(self, choices: Sequence[Choice]) -> Assignments:
        """Choices as a row of `seconds`, the inverse of `plan`."""
        return np.array([self.options.index(choice) for choice in choices], np.int8)


def simulate(scenario: Scenario, plan: Plan) -> Trace:
    """Simulate the step under a plan.

    Raises
    ------
    ScheduleError
        The plan has another number of choices than there are tensors to decide about.
    """
    graph = scenario.graph
    if len(plan.choices) != len(graph.managed):
        raise ScheduleError(
            f"the plan of {plan.policy} has {len(plan.choices)} choices, but {graph.name} has "
            f"{len(graph.managed)} tensors to decide about"
        )
    options = tuple(dict.fromkeys(plan.choices))
    evaluator = TimelineEvaluator(scenario, options, plan.mode, plan.throttle)
    outcome = evaluator.run(evaluator.assignment(plan.choices))
    return Trace(
        policy=plan.policy,
        seconds=outcome.seconds,
        peak_bytes=math.ceil(outcome.peak_bytes),
        least_bytes=math.ceil(outcome.least_bytes),
        memory_bytes=scenario.memory_bytes,
        host_bytes=math.ceil(
            sum(
                scenario.host_bytes(t, choice)
                for t, choice in zip(graph.managed, plan.choices, strict=True)
            )
        ),
        events=_events(graph, outcome),
        copy_latency=scenario.copy_latency,
        memory=tuple((float(time), int(nbytes)) for time, nbytes in outcome.memory),
    )


def _events(graph: Graph, outcome: Outcome) -> tuple[Event, ...]:
    """The kernel's events with names."""
    waits = [_wait(row) for row in outcome.waits]
    past = np.cumsum(outcome.events["waits"])
    return tuple(
        Event(
            stream=STREAMS[row["stream"]],
            kind=KINDS[row["kind"]],
            name=graph.tensors[row["tensor"]].name,
            start=float(row["start"]),
            end=float(row["end"]),
            nbytes=int(row["nbytes"]),
            bound=_wait(row["bound"]),
            waits=tuple(waits[end - row["waits"] : end]),
        )
        for row, end in zip(outcome.events, past, strict=True)
    )


def _wait(row: np.void) -> Wait:
    event = int(row["event"])
    return Wait(REASONS[row["reason"]], event if event >= 0 else None)


def with_memory(scenario: Scenario, memory_bytes: float) -> Scenario:
    """The scenario with another memory limit; whole bytes."""
    return replace(scenario, memory_bytes=math.floor(min(memory_bytes, 2**62)))
