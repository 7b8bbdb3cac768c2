"""Capuchin with its feedback: what guided iterations measure corrects the plan (Peng et al. 2020).

Capuchin's first plan is of what one iteration has shown (`cdma.plan.policies.capuchin_free_time`),
in which nothing was swapped yet. Iterations that follow it are watched: a tensor that is still on
its way back when it is needed shall be fetched earlier next time (§4.3). On our timeline a prefetch
is issued as early as memory has room for it, so there is no earlier; a copy that is late even so
is one that the link has no time for. So the feedback goes on to the other choice of the hybrid
policy (§4.5): the late tensor whose measured wait is most above what computing it again takes is
computed again from the next iteration on, if that one is faster, and else stays as it was.
"""

from dataclasses import replace

from cdma.plan.policies import capuchin_free_time
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, SWAP, Choice, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate
from cdma.plan.timeline.trace import Trace

ITERATIONS = 100
"""Guided iterations at most."""


def plan(scenario: Scenario, *, mode: Mode = ASYNCHRONOUS) -> Plan:
    """The hybrid plan, corrected; never slower than before."""
    made = replace(capuchin_free_time.plan(scenario, mode=mode), policy="capuchin-feedback")
    trace = simulate(scenario, made)
    managed = scenario.graph.managed
    tried: set[int] = set()
    for _ in range(ITERATIONS):
        if not trace.feasible:
            break
        choices: dict[int, Choice] = dict(zip(managed, made.choices, strict=True))
        saved = {
            t: wait - capuchin_free_time.recompute_seconds(scenario, t, choices)
            for t, wait in waits(scenario, trace).items()
            if choices.get(t) == SWAP and t not in tried
        }
        worst = max(saved, key=lambda t: saved[t], default=None)
        if worst is None or saved[worst] <= 0:
            break
        tried.add(worst)
        choices[worst] = RECOMPUTE
        changed = replace(made, choices=tuple(choices[t] for t in managed))
        guided = simulate(scenario, changed)
        if guided.feasible and guided.seconds < trace.seconds:
            made, trace = changed, guided
    return made


def waits(scenario: Scenario, trace: Trace) -> dict[int, float]:
    """Seconds that the computation has waited for each tensor's copies, in or out."""
    found: dict[int, float] = {}
    before = 0.0
    for event in trace.events:
        if event.stream != "compute":
            continue
        if event.start > before and event.bound.event is not None:
            copy = trace.events[event.bound.event]
            if copy.stream != "compute":
                tensor = scenario.graph.index[copy.name]
                found[tensor] = found.get(tensor, 0.0) + event.start - before
        before = event.end
    return found
