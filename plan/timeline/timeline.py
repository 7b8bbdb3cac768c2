"""A plan's time, memory and events: the recurrence, for one plan or for many."""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.kernel import Outcome, Particles, Recurrence
from cdma.plan.timeline.placement import ASYNCHRONOUS, Choice, Mode, Plan
from cdma.plan.timeline.problem_arrays import options_of, structure_of
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.trace import KINDS, STREAMS, Event, Trace

THREADS = os.cpu_count() or 1

LEAST_SHARE = 16
"""Plans that are worth a thread of their own."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS)


class Evaluator:
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
        self._recurrence = Recurrence(
            structure_of(scenario), options_of(scenario, self.options, throttle)
        )

    def seconds(self, particles: Particles) -> npt.NDArray[np.float64]:
        """Of each plan; infinity where memory does not suffice.

        Parameters
        ----------
        particles
            int8 (plans, managed tensors): for each tensor, which option it has.
        """
        parts = min(THREADS, len(particles) // LEAST_SHARE)
        if parts < 2:
            return self._recurrence.seconds(particles, *self._waits)
        shares = np.array_split(particles, parts)
        return np.concatenate(
            list(_pool().map(lambda share: self._recurrence.seconds(share, *self._waits), shares))
        )

    def run(self, particle: Particles) -> Outcome:
        """Time, memory and events of one plan, int8 (managed tensors,)."""
        return self._recurrence.run(particle, *self._waits)

    def plan(self, policy: str, particle: Particles) -> Plan:
        """A row of `seconds` as a plan."""
        return Plan(
            policy=policy,
            choices=tuple(self.options[o] for o in particle),
            mode=self.mode,
            throttle=self.throttle,
        )

    def particle(self, choices: Sequence[Choice]) -> Particles:
        """The other way round."""
        return np.array([self.options.index(choice) for choice in choices], np.int8)


def simulate(scenario: Scenario, plan: Plan) -> Trace:
    """What a plan does to the step.

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
    evaluator = Evaluator(scenario, options, plan.mode, plan.throttle)
    outcome = evaluator.run(evaluator.particle(plan.choices))
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
        events=tuple(
            Event(
                stream=STREAMS[row["stream"]],
                kind=KINDS[row["kind"]],
                name=graph.tensors[row["tensor"]].name,
                start=float(row["start"]),
                end=float(row["end"]),
                nbytes=int(row["nbytes"]),
            )
            for row in outcome.events
        ),
        memory=tuple((float(time), int(nbytes)) for time, nbytes in outcome.memory),
    )


def with_memory(scenario: Scenario, memory_bytes: float) -> Scenario:
    """The scenario with another memory limit; whole bytes."""
    return replace(scenario, memory_bytes=math.floor(min(memory_bytes, 2**62)))
