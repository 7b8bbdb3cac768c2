"""Capuchin by its own paper: the longest free time first (Peng et al., ASPLOS 2020).

One iteration is observed. A tensor's free time is what is left between its last forward and its
first backward use once both copies are taken off (§4.3). In the order of their free time, the
longest first, tensors are swapped at no cost as long as the link has room for their copies: it is
one's alone, and a copy waits for the one before. When a swap would be late, it or computing again
is chosen, whichever costs less (§4.5, the hybrid policy); what it takes to compute one again has in
it all that it needs and that is computed again itself (§4.4). It stops when the memory suffices.
`cdma.plan.policies.capuchin` is the shorter rule that HOME describes.
"""

from cdma.plan.timeline.memory import last_forward_uses
from cdma.plan.timeline.placement import ASYNCHRONOUS, RECOMPUTE, RETAIN, SWAP, Choice, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator


def plan(scenario: Scenario, *, mode: Mode = ASYNCHRONOUS) -> Plan:
    """The hybrid plan. If it does not fit, what is recomputed is swapped, the longest free time
    first."""
    evaluator = TimelineEvaluator(scenario, (RETAIN, SWAP, RECOMPUTE), mode)
    managed = scenario.graph.managed
    choices: dict[int, Choice] = dict.fromkeys(managed, RETAIN)
    copies = _Copies(scenario)

    def fits() -> bool:
        assignment = evaluator.assignment([choices[t] for t in managed])
        return evaluator.run(assignment).least_bytes <= scenario.memory_bytes

    order = sorted(managed, key=lambda t: -copies.free_seconds(t))
    for t in order:
        if fits():
            break
        late = copies.late_seconds(t)
        if late <= recompute_seconds(scenario, t, choices):
            choices[t] = SWAP
            copies.swapped.append(t)
        else:
            choices[t] = RECOMPUTE
    for t in order:
        if fits():
            break
        if choices[t] == RECOMPUTE:
            choices[t] = SWAP
    return Plan(policy="capuchin-free-time", choices=tuple(choices[t] for t in managed), mode=mode)


class _Copies:
    """When tensors may leave and must be back, in a step that never waits."""

    def __init__(self, scenario: Scenario) -> None:
        self.swapped: list[int] = []
        forward, backward = scenario.forward_seconds, scenario.backward_seconds
        forward_ends = forward.cumsum()
        # Backward runs the last stage first.
        backward_starts = forward_ends[-1] + backward[::-1].cumsum()[::-1] - backward
        last_forward = last_forward_uses(scenario)
        # The last stage that has saved it is the first one of backward to read it.
        needed_by = {t: s for s, stage in enumerate(scenario.stages) for t in stage.saved}
        managed = scenario.graph.managed
        self._leaves = {t: float(forward_ends[last_forward[t]]) for t in managed}
        self._needed = {t: float(backward_starts[needed_by[t]]) for t in managed}
        self._seconds = {t: scenario.copy_seconds(t, SWAP, "none") for t in managed}

    def free_seconds(self, tensor: int) -> float:
        """Time from a tensor's last forward to its first backward use, less both copies; negative
        if they take longer."""
        return self._needed[tensor] - self._leaves[tensor] - sum(self._seconds[tensor])

    def late_seconds(self, tensor: int) -> float:
        """By how much more copies are late if this tensor is swapped, too."""
        return self._latest([*self.swapped, tensor]) - self._latest(self.swapped)

    def _latest(self, swapped: list[int]) -> float:
        """By how much the latest tensor is late, each direction of the link being one copy's at a
        time."""
        out_free = in_free = late = 0.0
        back: dict[int, float] = {}
        for t in sorted(swapped, key=lambda t: self._leaves[t]):
            out_free = max(out_free, self._leaves[t]) + self._seconds[t][0]
            back[t] = out_free
        for t in sorted(swapped, key=lambda t: self._needed[t]):
            in_free = max(in_free, back[t]) + self._seconds[t][1]
            late = max(late, in_free - self._needed[t])
        return late


def recompute_seconds(scenario: Scenario, tensor: int, choices: dict[int, Choice]) -> float:
    """Seconds to run its stage again, and before it those whose tensors are not there."""
    left, found = [tensor], set[int]()
    while left:
        t = left.pop()
        stage = scenario.stage_of.get(t)
        if stage is None or stage in found:
            continue
        found.add(stage)
        # What no backward pass saves is gone, as what is computed again.
        left += [
            source
            for source in scenario.stages[stage].inputs
            if choices.get(source, RECOMPUTE) == RECOMPUTE
        ]
    return float(sum(scenario.forward_seconds[stage] for stage in found))
