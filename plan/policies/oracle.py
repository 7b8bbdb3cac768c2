"""The oracle: a device with memory without end. Nothing leaves and nothing waits (cDMA, §VII)."""

from cdma.plan.timeline.placement import ASYNCHRONOUS, RETAIN, Plan
from cdma.plan.timeline.scenario import Scenario


def plan(scenario: Scenario) -> Plan:
    """Everything stays; no other plan's computation is shorter."""
    return Plan(policy="oracle", choices=(RETAIN,) * len(scenario.graph.managed), mode=ASYNCHRONOUS)
