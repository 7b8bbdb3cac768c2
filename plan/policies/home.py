"""HOME: a particle swarm over staying, leaving and being computed again (HOME, §3)."""

from cdma.plan.search.swarm import search, search_plus
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, SWAP, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator

OPTIONS = (RETAIN, SWAP, RECOMPUTE)
"""HOME's actions 0, 1 and 2."""

PARTICLES = 500
ITERATIONS = 500
"""The paper's (§3.3)."""


def plan(
    scenario: Scenario,
    *,
    plus: bool = False,
    mode: Mode = ASYNCHRONOUS,
    seed: int = 0,
    particles: int = PARTICLES,
    iterations: int = ITERATIONS,
) -> Plan:
    """The best plan that the swarm finds, judged by the timeline.

    Parameters
    ----------
    scenario : Scenario
    plus : bool
        With mutation, and with particles that fit to begin with.
    mode : Mode
    seed : int
    particles, iterations : int

    Returns
    -------
    Plan
        One that does not fit if no particle ever did, as happens to HOME where memory is tight.
    """
    evaluator = TimelineEvaluator(scenario, OPTIONS, mode)
    find = search_plus if plus else search
    found = find(
        evaluator,
        len(scenario.graph.managed),
        len(OPTIONS),
        particles=particles,
        iterations=iterations,
        seed=seed,
    )
    return evaluator.plan("home+" if plus else "home", found.assignment)
