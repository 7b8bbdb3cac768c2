"""The joint plan: for each tensor the placement, and codec, that the whole step is fastest with.

It starts from the plans of all other policies, so that it is never slower than any of them, and
improves them by local search on the timeline itself (`cdma.plan.search.descent`). Of plans that
are equally fast it takes one that moves less: tensors stay where that costs nothing.
"""

from collections.abc import Sequence

import numpy as np

from cdma.hw.codec.registry import compressing_codecs
from cdma.plan.search.descent import Descent
from cdma.plan.timeline.placement import (
    ASYNCHRONOUS,
    RECOMPUTE,
    RETAIN,
    SWAP,
    Choice,
    Mode,
    Placement,
    Plan,
)
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator

LOSSLESS = (
    RETAIN,
    SWAP,
    RECOMPUTE,
    Choice(Placement.SWAP, "zvc"),
    Choice(Placement.SWAP, "zvc-sm"),
    Choice(Placement.COMPRESS, "zvc-sm"),
)
LOSSY = (Choice(Placement.COMPRESS, "quantize-sm"), Choice(Placement.SWAP, "quantize-sm"))

EVALUATIONS = 40_000
"""Plans that are looked at, at most; a third of a second for VGG16."""


def plan(
    scenario: Scenario,
    known: Sequence[Plan] = (),
    *,
    mode: Mode | None = None,
    lossy: bool = False,
    options: Sequence[Choice] | None = None,
    seed: int = 0,
    evaluations: int = EVALUATIONS,
) -> Plan:
    """The fastest plan found.

    Parameters
    ----------
    scenario : Scenario
    known : sequence of Plan
        The other policies'. Those that lose something are left out unless `lossy`.
    mode : Mode or None
        The only one allowed. If None, the plan may have any that a known plan has, and the
        asynchronous one.
    lossy : bool
        Whether tensors may come back changed.
    options : sequence of Choice
        What may become of a tensor, beside what a known plan makes of one; `means` if not given.
    seed : int
    evaluations : int

    Returns
    -------
    Plan
        One that does not fit if none was found that does.
    """
    seeds = [p for p in known if lossy or is_lossless(scenario, p)]
    choices = dict.fromkeys(means(scenario, lossy=lossy) if options is None else options)
    choices |= dict.fromkeys(choice for p in seeds for choice in p.choices)
    modes = [mode] if mode is not None else dict.fromkeys([ASYNCHRONOUS, *(p.mode for p in seeds)])
    throttles = dict.fromkeys(["none", *(p.throttle for p in seeds)])
    starts = [
        _start(TimelineEvaluator(scenario, tuple(choices), each_mode, throttle), seeds)
        for each_mode in modes
        for throttle in throttles
    ]
    starts.sort(key=lambda start: start.seconds)
    # Half of the looks are for the most promising way, the rest for all others alike.
    for place, start in enumerate(starts):
        start.budget = evaluations // 2 if place == 0 else evaluations // (2 * len(starts) - 2)
        start.seed = seed + place
        start.run()
    best = min(starts, key=lambda start: start.seconds)
    best.simplify(best.evaluator.options.index(RETAIN))
    return best.evaluator.plan("joint-lossy" if lossy else "joint", best.assignment)


def means(scenario: Scenario, *, lossy: bool = False) -> tuple[Choice, ...]:
    """Options of a tensor; none compresses on the way where there is no engine, and the engine's
    other codecs are among them if they take the tensors' elements.
    """
    sizes = {scenario.graph.tensors[t].element_bytes for t in scenario.graph.managed}
    inline = [
        Choice(Placement.SWAP, entry.name)
        for entry in compressing_codecs()
        if (entry.lossless or lossy) and all(entry.takes(size) for size in sizes)
    ]
    options = [*LOSSLESS, *(LOSSY if lossy else ()), *inline]
    return tuple(dict.fromkeys(filter(scenario.offers, options)))


def _start(evaluator: TimelineEvaluator, seeds: Sequence[Plan]) -> Descent:
    """A search from the best of the known plans, and of those that treat all tensors alike."""
    tensors = len(evaluator.scenario.graph.managed)
    alike = np.repeat(np.arange(len(evaluator.options), dtype=np.int8)[:, None], tensors, axis=1)
    known = [evaluator.assignment(p.choices)[None] for p in seeds]
    assignments = np.concatenate([alike, *known])
    seconds = evaluator.seconds(assignments)
    best = int(np.argmin(seconds))
    return Descent(evaluator=evaluator, assignment=assignments[best], seconds=seconds[best])


def is_lossless(scenario: Scenario, plan: Plan) -> bool:
    """Return True if every tensor comes back bit for bit."""
    models = map(scenario.codec, plan.choices)
    return all(model is None or model.lossless for model in models)
