"""The best lossless plans found without the engine and with it; its worth is between them.

Both are searched for alike (`cdma.plan.policies.joint`), from all plans that are known. The plan
with the engine also begins with the one without it and with that one's copies compressed, so that
the engine is never worth less than nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from cdma.plan.policies import joint
from cdma.plan.timeline.placement import SWAP, Choice, Mode, Placement, Plan
from cdma.plan.timeline.scenario import Scenario

ENGINE = Choice(Placement.SWAP, "zvc")
"""The option that an engine adds."""

PLAIN = tuple(choice for choice in joint.LOSSLESS if choice != ENGINE)
"""Options of a tensor without the engine; two of them compress by the multiprocessors."""


def without_engine(
    scenario: Scenario,
    known: Sequence[Plan] = (),
    *,
    mode: Mode | None = None,
    seed: int = 0,
    evaluations: int = joint.EVALUATIONS,
) -> Plan:
    """The fastest lossless plan found of those that compress nothing on the way.

    Parameters
    ----------
    scenario, known, mode, seed, evaluations
        As of `cdma.plan.policies.joint.plan`. Known plans that take the engine are left out.
    """
    plan = joint.plan(
        scenario,
        [each for each in known if not takes_engine(scenario, each)],
        mode=mode,
        options=PLAIN,
        seed=seed,
        evaluations=evaluations,
    )
    return replace(plan, policy="best-without-engine")


def with_engine(
    scenario: Scenario,
    known: Sequence[Plan] = (),
    *,
    engine: Choice = ENGINE,
    mode: Mode | None = None,
    seed: int = 0,
    evaluations: int = joint.EVALUATIONS,
) -> Plan:
    """The fastest lossless plan found that may compress on the way.

    Parameters
    ----------
    scenario, known, mode, seed, evaluations
        As of `cdma.plan.policies.joint.plan`.
    engine : Choice
        How the engine swaps a tensor: with which of its codecs.
    """
    lossless = [each for each in known if joint.is_lossless(scenario, each)]
    plan = joint.plan(
        scenario,
        [*known, *(through_engine(each, engine) for each in lossless)],
        mode=mode,
        options=(*PLAIN, engine),
        seed=seed,
        evaluations=evaluations,
    )
    return replace(plan, policy="best-with-engine")


def through_engine(plan: Plan, engine: Choice = ENGINE) -> Plan:
    """The plan with all that it swaps as it is compressed on the way."""
    return replace(
        plan, choices=tuple(engine if choice == SWAP else choice for choice in plan.choices)
    )


def past_engine(scenario: Scenario, plan: Plan) -> Plan:
    """The plan with all that it compresses on the way swapped as it is."""

    def plain(choice: Choice) -> Choice:
        model = scenario.codec(choice)
        return SWAP if model is not None and model.where == "inline" else choice

    return replace(plan, choices=tuple(map(plain, plan.choices)))


def takes_engine(scenario: Scenario, plan: Plan) -> bool:
    """True if a plan compresses anything on the way."""
    models = map(scenario.codec, plan.choices)
    return any(model is not None and model.where == "inline" for model in models)
