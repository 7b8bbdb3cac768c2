"""The device's memory in each step that no plan changes, and the least that any plan works with.

Steps are the timeline's (`cdma.plan.timeline.kernel`): forward of n stages, then backward. Raw
swapping holds the least in all of them: a tensor is there from its production to its last forward
use, and from its first backward use to its last one, as it is under any plan. Who retains, holds
more steps; who recomputes, holds sources and what is on the way; who compresses on the device, the
stream beside the tensor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdma.plan.timeline.errors import InfeasibleError
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.trace import Trace

LISTED = 6
"""So many of what does not exceed the memory alone are named."""


@dataclass(frozen=True, kw_only=True)
class Occupant:
    """Something in memory, by any plan.

    Attributes
    ----------
    what : str
        Fit to print: "tensor relu1_1".
    nbytes : int
    first, last : int
        The steps in which it is there, both included.
    """

    what: str
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class LeastMemory:
    """The step that needs most of the memory that no plan can do without.

    Attributes
    ----------
    nbytes : int
        What some plan works with, and none with less.
    stage : str
        The tensor that the stage makes.
    way : str
        `forward` or `backward`.
    occupants : tuple of Occupant
        What is there then, the largest first.
    """

    nbytes: int
    stage: str
    way: str
    occupants: tuple[Occupant, ...]


def last_forward_uses(scenario: Scenario) -> dict[int, int]:
    """Find for each tensor that a stage makes the last stage which reads it forward, or its own."""
    readers = {t: r for r, stage in enumerate(scenario.stages) for t in stage.inputs}
    return {t: max(s, readers.get(t, s)) for t, s in scenario.stage_of.items()}


def fixed_occupants(scenario: Scenario) -> Iterator[Occupant]:
    """Occupants that no plan decides about: weights, inputs, gradients, scratch, the unsaved."""
    graph, stages = scenario.graph, scenario.stages
    last_step = 2 * len(stages) - 1
    last_forward = last_forward_uses(scenario)
    # The last stages whose backward passes add to gradients.
    last_gradient = {t: r for r, stage in enumerate(stages) for t in stage.gradients}
    weights = graph.parameter_bytes * graph.parameter_copies
    yield Occupant(what="parameters", nbytes=weights, first=0, last=last_step)
    for tensor in graph.tensors:
        if tensor.kind == "input":
            yield Occupant(
                what=f"input {tensor.name}", nbytes=tensor.nbytes, first=0, last=last_step
            )
    decided = set(graph.managed)
    for s, stage in enumerate(stages):
        tensor = graph.tensors[stage.output]
        layers = [graph.layers[i] for i in stage.layers]
        if stage.output not in decided and tensor.kind != "input":
            yield _tensor(scenario, stage.output, s, last_forward[stage.output])
        kept = sum(layer.kept_bytes for layer in layers)
        if kept:
            what = f"what {tensor.name} keeps for backward"
            yield Occupant(what=what, nbytes=kept, first=s, last=last_step - s)
        scratch = max(layer.workspace_bytes for layer in layers)
        if scratch:
            for step in (s, last_step - s):
                what = f"scratch of {tensor.name}"
                yield Occupant(what=what, nbytes=scratch, first=step, last=step)
        # A tensor's gradient is there from its last reader's backward pass to its maker's.
        # The loss's own is there in its own pass only.
        yield Occupant(
            what=f"gradient of {tensor.name}",
            nbytes=tensor.nbytes,
            first=last_step - last_gradient.get(stage.output, s),
            last=last_step - s,
        )


def least_memory(scenario: Scenario) -> LeastMemory:
    """The memory that swapping everything as it is needs, and no plan can do without."""
    stages = scenario.stages
    occupants = [*_needed_tensors(scenario), *fixed_occupants(scenario)]
    changes = [0] * (2 * len(stages) + 1)
    for occupant in occupants:
        changes[occupant.first] += occupant.nbytes
        changes[occupant.last + 1] -= occupant.nbytes
    most = total = step = 0
    for k, change in enumerate(changes):
        total += change
        if total > most:
            most, step = total, k
    there = [one for one in occupants if one.nbytes and one.first <= step <= one.last]
    forward = step < len(stages)
    stage = stages[step if forward else 2 * len(stages) - 1 - step]
    return LeastMemory(
        nbytes=most,
        stage=scenario.graph.tensors[stage.output].name,
        way="forward" if forward else "backward",
        occupants=tuple(sorted(there, key=lambda one: -one.nbytes)),
    )


def explain(scenario: Scenario, traces: Sequence[Trace] = ()) -> InfeasibleError:
    """Explain why plans do not fit into a scenario's memory.

    Parameters
    ----------
    scenario : Scenario
    traces : sequence of Trace
        Of plans that do not fit; without any, all plans are meant.

    Returns
    -------
    InfeasibleError
        To raise. Its message has the least memory that works. Where that is more than there is, it
        has the pass which needs it and what is in memory then, first what alone is more than there
        is. `least_bytes` is the least of the plans'; the least of all plans if none are given.
    """
    limit, graph = scenario.memory_bytes, scenario.graph
    least = least_memory(scenario)
    asked = min((trace.least_bytes, trace.policy) for trace in traces) if traces else None
    parts = [f"{graph.name} at batch {graph.batch} does not fit into {limit:,} bytes"]
    if asked:
        parts.append(f"{asked[1]} needs {asked[0]:,}{', the least' if len(traces) > 1 else ''}")
    if least.nbytes > limit:
        parts.append(f"no plan works with less than {least.nbytes:,}")
        parts.append(_what_needs_it(least, limit))
    else:
        parts.append(f"swapping everything as it is needs {least.nbytes:,}")
    message = f"{'; '.join(parts)}; give more memory or a smaller batch"
    return InfeasibleError(message, asked[0] if asked else least.nbytes)


def _what_needs_it(least: LeastMemory, limit: int) -> str:
    alone = [one for one in least.occupants if one.nbytes > limit]
    beside = [one for one in least.occupants if one.nbytes <= limit]
    text = f"the {least.way} pass of {least.stage} needs that, "
    if alone:
        text += (
            f"where {_listed(alone)} alone {'exceeds' if len(alone) == 1 else 'exceed'} the limit"
        )
        text += f", beside {_listed(beside[:LISTED])}" if beside else ""
    else:
        text += f"for {_listed(beside[:LISTED])}"
    if len(beside) > LISTED:
        text += f" and {len(beside) - LISTED} more"
    return text


def _needed_tensors(scenario: Scenario) -> Iterator[Occupant]:
    """Tensors that plans decide about, in the steps in which any plan has them."""
    last_step = 2 * len(scenario.stages) - 1
    last_forward = last_forward_uses(scenario)
    uses: dict[int, list[int]] = {t: [] for t in scenario.graph.managed}
    for s, stage in enumerate(scenario.stages):
        for t in stage.saved:
            if t in uses:
                uses[t].append(last_step - s)
    for t, steps in uses.items():
        yield _tensor(scenario, t, scenario.stage_of[t], last_forward[t])
        yield _tensor(scenario, t, min(steps), max(steps))


def _tensor(scenario: Scenario, t: int, first: int, last: int) -> Occupant:
    tensor = scenario.graph.tensors[t]
    return Occupant(what=f"tensor {tensor.name}", nbytes=tensor.nbytes, first=first, last=last)


def _listed(occupants: Sequence[Occupant]) -> str:
    return ", ".join(f"{one.what} ({one.nbytes:,})" for one in occupants)
