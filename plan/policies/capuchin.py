"""Capuchin: from the first tensor on, whichever of swapping and recomputing costs less.

HOME's description (§2.3, §5.3) of Peng et al., ASPLOS 2020: costs are measured in an iteration,
each tensor is decided once, in the order of the forward pass, and nothing later is looked at. It
stops when the memory suffices.
"""

from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, SWAP, Choice, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator


def plan(scenario: Scenario, *, mode: Mode = ASYNCHRONOUS) -> Plan:
    """The greedy plan. If it does not fit, what is recomputed is swapped, again first to last."""
    evaluator = TimelineEvaluator(scenario, (RETAIN, SWAP, RECOMPUTE), mode)
    choices: list[Choice] = [RETAIN] * len(scenario.graph.managed)

    def fits() -> bool:
        return evaluator.run(evaluator.assignment(choices)).least_bytes <= scenario.memory_bytes

    for i, tensor in enumerate(scenario.graph.managed):
        if fits():
            break
        swap, redo = swap_overhead(scenario, tensor), recompute_overhead(scenario, tensor)
        choices[i] = SWAP if swap <= redo else RECOMPUTE
    for i, choice in enumerate(choices):
        if fits():
            break
        if choice == RECOMPUTE:
            choices[i] = SWAP
    return Plan(policy="capuchin", choices=tuple(choices), mode=mode)


def swap_overhead(scenario: Scenario, tensor: int) -> float:
    """Seconds of both copies that the next stage's forward and the last one's backward pass do not
    hide (HOME, §3.4)."""
    out, back = scenario.copy_seconds(tensor, SWAP, "none")
    stage = scenario.stage_of[tensor]
    following = min(stage + 1, len(scenario.stages) - 1)
    before_need = min(stage + 2, len(scenario.stages) - 1)
    hidden_out = float(scenario.forward_seconds[following])
    hidden_in = float(scenario.backward_seconds[before_need])
    return max(out - hidden_out, 0.0) + max(back - hidden_in, 0.0)


def recompute_overhead(scenario: Scenario, tensor: int) -> float:
    """Seconds of its stage's forward pass."""
    return float(scenario.forward_seconds[scenario.stage_of[tensor]])
