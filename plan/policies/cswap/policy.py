"""CSWAP+: swap what vDNN swaps, and compress where it pays (CSWAP+, §5).

The inputs of convolutions go out and come back. Whether a tensor is compressed first is decided for
each by its own cost (`cdma.plan.policies.cswap.cost`), anew for every epoch, as densities and P
change.
How long codecs take it does not know but has learned (`cdma.plan.policies.cswap.learned`). A
network with ReLUs has sparse tensors and gets lossless codecs; any other has dense ones and gets
ZFP, whose P slides down over the epochs within the range that Algorithm 1 finds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cdma.plan.policies import vdnn
from cdma.plan.policies.cswap.cost import CostModel, TimePredictor
from cdma.plan.policies.cswap.decision import Decision, decide
from cdma.plan.policies.cswap.learned import LOSSLESS, learned_times
from cdma.plan.policies.cswap.parameter_range import ParameterRange, parameter_range
from cdma.plan.policies.cswap.sliding import SlidingDown, Slope
from cdma.plan.timeline.placement import SYNCHRONOUS, Mode, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.graph import Graph

TimeModels = Mapping[str, TimePredictor]


def plan(
    scenario: Scenario,
    *,
    swapped: str = "conv",
    codecs: Sequence[str] = LOSSLESS,
    time_models: TimeModels | None = None,
    slope: Slope = "printed",
    mode: Mode = SYNCHRONOUS,
) -> Plan:
    """The plan for the scenario's epoch.

    Parameters
    ----------
    scenario : Scenario
    swapped : str
        vDNN's set: `all` or `conv`.
    codecs : sequence of str
        What sparse tensors may be compressed with.
    time_models : mapping of str to TimePredictor
        As of `cost_model`.
    slope : str
        How P slides: see `SlidingDown`.
    mode : Mode
        A prefetch counts as hidden behind `mode.lookahead` stages, or one if that is None.

    Raises
    ------
    ScheduleError
        There is no such set, codec or slope.
    """
    whole = vdnn.plan(scenario, swapped=swapped, policy="cswap+", mode=mode)
    lookahead = 1 if mode.lookahead is None else mode.lookahead
    costs = cost_model(scenario, time_models, lookahead=lookahead)
    decided = decisions(scenario, costs, swapped_by(scenario, whole), codecs=codecs, slope=slope)
    choices = {decision.tensor: decision.choice for decision in decided}
    return replace(
        whole,
        choices=tuple(
            choices.get(t, choice)
            for t, choice in zip(scenario.graph.managed, whole.choices, strict=True)
        ),
    )


def cost_model(
    scenario: Scenario, time_models: TimeModels | None = None, *, lookahead: int = 1
) -> CostModel:
    """The cost model that the policy decides by.

    Parameters
    ----------
    scenario : Scenario
    time_models : mapping of str to TimePredictor
        Times by codec, `zfp` for all P; those learned as in the paper if not given. A codec that is
        missing has the times that the scenario has; with an empty mapping all have.
    lookahead : int
        As of `CostModel`.
    """
    if time_models is None:
        time_models = learned_times(scenario.device.dram_bytes_per_s)
    return CostModel(scenario, time_models, lookahead=lookahead)


def swapped_by(scenario: Scenario, plan: Plan) -> tuple[int, ...]:
    """The tensors that a plan swaps."""
    return tuple(
        t
        for t, choice in zip(scenario.graph.managed, plan.choices, strict=True)
        if choice.placement is Placement.SWAP
    )


def decisions(
    scenario: Scenario,
    costs: CostModel,
    tensors: Sequence[int],
    *,
    codecs: Sequence[str] = LOSSLESS,
    slope: Slope = "printed",
) -> list[Decision]:
    """Decisions about each of these tensors, with their costs."""
    if is_sparse(scenario.graph):
        return decide(costs, tensors, codecs)
    bits = zfp_bits(scenario, costs, tensors, slope=slope)
    return decide(costs, tensors, [] if bits is None else [f"zfp-{bits}"])


def is_sparse(graph: Graph) -> bool:
    """Return True if the network has ReLUs, which the paper's tensor profiler looks for (§5.1)."""
    return any(layer.kind == "relu" for layer in graph.layers)


def zfp_range(scenario: Scenario, costs: CostModel, tensors: Sequence[int]) -> ParameterRange:
    """Algorithm 1 over these tensors."""
    names = {scenario.graph.tensors[t].name: t for t in tensors}
    with_bits = {name: costs.zfp(t) for name, t in names.items()}
    plain = {name: costs.plain(t).exposed_seconds for name, t in names.items()}
    return parameter_range(
        names,
        benefit=lambda name, bits: plain[name] - with_bits[name][bits].exposed_seconds,
        cost=lambda name, bits: with_bits[name][bits].codec_seconds,
        hidden=lambda name, bits: with_bits[name][bits].exposed_seconds == 0,
    )


def zfp_bits(
    scenario: Scenario, costs: CostModel, tensors: Sequence[int], *, slope: Slope = "printed"
) -> int | None:
    """P in the scenario's epoch; None if lossy compression gains nothing."""
    found = zfp_range(scenario, costs, tensors)
    if found.top is None or not found.useful:
        return None
    sliding = SlidingDown(top=found.top, bottom=found.bottom, epochs=scenario.epochs, slope=slope)
    return sliding.bits(scenario.epoch)
