"""All policies by name, and a scenario planned and judged by any of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cdma.plan.policies import (
    best,
    capuchin,
    capuchin_feedback,
    capuchin_free_time,
    cdma,
    home,
    joint,
    oracle,
    static,
    superneurons,
    vdnn,
    vdnn_pp,
)
from cdma.plan.policies.comet import policy as comet
from cdma.plan.policies.cswap import policy as cswap
from cdma.plan.policies.recomputing import checkmate, checkpoint, dtr
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import ASYNCHRONOUS, SYNCHRONOUS, Mode, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import simulate, with_memory
from cdma.plan.timeline.trace import Trace

HOME_PARTICLES = 50
"""A tenth of HOME's: on networks of hundreds of tensors its swarm takes a minute."""

USUAL_STAGES = 150
"""Stages up to which integer programs are among all policies."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy: a function that makes a plan of a scenario, with its name and properties.

    Attributes
    ----------
    name : str
    source : str
        Who published it, and what of it this is.
    mode : Mode or None
        The published one; None if the policy chooses.
    plan : callable
        Takes the scenario, a mode or None, the seed, and the plans of policies before it.
    engine : bool
        Whether it is nothing without an engine: it compresses on the way whatever that costs, or
        stands for what can be done with one.
    shuns_engine : bool
        Whether it never compresses on the way, though it chooses.
    most_stages : int or None
        Networks of more stages are planned only if it is asked for by name: it takes too long.
    """

    name: str
    source: str
    mode: Mode | None
    plan: Callable[[Scenario, Mode | None, int, Sequence[Plan]], Plan]
    engine: bool = False
    shuns_engine: bool = False
    most_stages: int | None = None

    @property
    def willing(self) -> bool:
        """True if the policy would take an engine."""
        return (self.engine or self.chooses) and not self.shuns_engine

    @property
    def chooses(self) -> bool:
        """True if the policy starts from the plans of all policies before it."""
        return self.mode is None


@dataclass(frozen=True, kw_only=True)
class Result:
    """A policy's plan, and what became of it.

    Attributes
    ----------
    plan : Plan
    trace : Trace
    lossless : bool
        Whether every tensor comes back as it was.
    """

    plan: Plan
    trace: Trace
    lossless: bool

    def _repr_html_(self) -> str:
        """Plan and trace, for notebooks."""
        return self.plan._repr_html_() + self.trace._repr_html_()


def _fixed(
    name: str,
    source: str,
    mode: Mode,
    plan: Callable[[Scenario, Mode, int], Plan],
    *,
    engine: bool = False,
    most_stages: int | None = None,
) -> Policy:
    """A policy that looks at nobody else's plan."""
    return Policy(
        name=name,
        source=source,
        mode=mode,
        plan=lambda scenario, wanted, seed, _known: plan(scenario, wanted or mode, seed),
        engine=engine,
        most_stages=most_stages,
    )


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        _fixed(
            "oracle",
            "all memory in the world; a bound, no policy (cDMA, §VII)",
            ASYNCHRONOUS,
            lambda scenario, _mode, _seed: oracle.plan(scenario),
        ),
        _fixed(
            "vdnn",
            "all activations leave as they are (cDMA, §II-B)",
            SYNCHRONOUS,
            lambda scenario, mode, _seed: vdnn.plan(scenario, mode=mode),
        ),
        _fixed(
            "vdnn-conv",
            "what convolutions read leaves as it is (CSWAP+, §2.2; HOME, §5.3)",
            SYNCHRONOUS,
            lambda scenario, mode, _seed: vdnn.plan(
                scenario, swapped="conv", policy="vdnn-conv", mode=mode
            ),
        ),
        _fixed(
            "cdma",
            "all activations through the engine, 200 GB/s (cDMA, §V-D)",
            SYNCHRONOUS,
            lambda scenario, mode, _seed: cdma.plan(scenario, mode=mode),
            engine=True,
        ),
        _fixed(
            "cdma-bandwidth-aware",
            "all activations through the engine, 48 GB/s (cDMA, §V-D)",
            SYNCHRONOUS,
            lambda scenario, mode, _seed: cdma.plan(
                scenario, throttle="bandwidth-aware", policy="cdma-bandwidth-aware", mode=mode
            ),
            engine=True,
        ),
        _fixed(
            "static",
            "what convolutions read, always compressed by the multiprocessors (CSWAP+, §3.2)",
            SYNCHRONOUS,
            lambda scenario, mode, _seed: static.plan(scenario, mode=mode),
        ),
        _fixed(
            "vdnn++",
            "no wait per layer, compressed on the host (Shriram et al., IPDPS 2019)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: vdnn_pp.plan(scenario, mode=mode),
        ),
        _fixed(
            "cswap+",
            "what convolutions read, compressed where its own cost says so (CSWAP+, §5)",
            SYNCHRONOUS,
            lambda scenario, mode, _seed: cswap.plan(scenario, mode=mode),
        ),
        _fixed(
            "superneurons",
            "convolutions leave, cheap layers are computed again (HOME, §5.3)",
            SYNCHRONOUS,
            lambda scenario, mode, _seed: superneurons.plan(scenario, mode=mode),
        ),
        _fixed(
            "capuchin",
            "swapped or computed again, greedily from the first tensor on (HOME, §2.3)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: capuchin.plan(scenario, mode=mode),
        ),
        _fixed(
            "home",
            "particle swarm over stay, swap, compute again (HOME, §3), with fewer particles",
            ASYNCHRONOUS,
            lambda scenario, mode, seed: home.plan(
                scenario, mode=mode, seed=seed, particles=HOME_PARTICLES
            ),
        ),
        _fixed(
            "home+",
            "HOME with mutation and seeds that fit",
            ASYNCHRONOUS,
            lambda scenario, mode, seed: home.plan(
                scenario, plus=True, mode=mode, seed=seed, particles=HOME_PARTICLES
            ),
        ),
        _fixed(
            "comet",
            "kept on the device, error-bounded; cheap layers are computed again (COMET, §3.4)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: comet.plan(scenario, mode=mode),
        ),
        Policy(
            name="joint",
            source="ours: for each tensor whatever the whole step is fastest with, lossless",
            mode=None,
            plan=lambda scenario, mode, seed, known: joint.plan(
                scenario, known, mode=mode, seed=seed
            ),
        ),
        Policy(
            name="joint-lossy",
            source="ours, where tensors may come back with errors",
            mode=None,
            plan=lambda scenario, mode, seed, known: joint.plan(
                scenario, known, mode=mode, lossy=True, seed=seed
            ),
        ),
        _fixed(
            "capuchin-free-time",
            "swapped or computed again, the longest free time first (Peng et al. 2020, §4)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: capuchin_free_time.plan(scenario, mode=mode),
        ),
        _fixed(
            "capuchin-feedback",
            "the same, corrected by what its iterations measure (Peng et al. 2020, §4.3, §4.5)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: capuchin_feedback.plan(scenario, mode=mode),
        ),
        _fixed(
            "checkpoint",
            "blocks keep what they read and run again (Chen et al. 2016; torch.utils.checkpoint)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: checkpoint.plan(scenario, mode=mode),
        ),
        _fixed(
            "checkpoint-selective",
            "blocks keep products, too (Korthikanti et al. 2022; torch.utils.checkpoint)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: checkpoint.plan(scenario, selective=True, mode=mode),
        ),
        _fixed(
            "dtr",
            "what is cheap, large and stale is computed again (Kirisame et al. 2021, §3)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: dtr.plan(scenario, mode=mode),
        ),
        _fixed(
            "checkmate",
            "kept or computed again by an integer program (Jain et al. 2020, §4; on large networks "
            "its relaxation, §5)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: checkmate.plan(scenario, mode=mode),
            most_stages=USUAL_STAGES,
        ),
        _fixed(
            "poet",
            "kept, computed again or paged out by an integer program (Patil et al. 2022; on large "
            "networks its relaxation)",
            ASYNCHRONOUS,
            lambda scenario, mode, _seed: checkmate.plan(scenario, paging=True, mode=mode),
            most_stages=USUAL_STAGES,
        ),
        Policy(
            name="best-without-engine",
            source="ours: the fastest lossless plan found that compresses nothing on the way",
            mode=None,
            plan=lambda scenario, mode, seed, known: best.without_engine(
                scenario, known, mode=mode, seed=seed
            ),
            shuns_engine=True,
        ),
        Policy(
            name="best-with-engine",
            source="ours: the fastest lossless plan found, from the one without the engine on",
            mode=None,
            plan=lambda scenario, mode, seed, known: best.with_engine(
                scenario, known, mode=mode, seed=seed
            ),
            engine=True,
        ),
    )
}


def policy(name: str) -> Policy:
    """The policy of that name; `ScheduleError`, with those there are, if there is none."""
    if name not in POLICIES:
        raise ScheduleError(f"unknown policy {name!r}; choose from {', '.join(POLICIES)}")
    return POLICIES[name]


def possible(scenario: Scenario) -> tuple[str, ...]:
    """The policies that the scenario has the means for, and that are quick enough for it."""
    return tuple(
        name
        for name, each in POLICIES.items()
        if (scenario.engine is not None or not each.engine) and not _too_large(scenario, each)
    )


def by_name_only(scenario: Scenario) -> tuple[str, ...]:
    """The policies that take too long on so large a network unless asked for by name."""
    return tuple(name for name, each in POLICIES.items() if _too_large(scenario, each))


def _too_large(scenario: Scenario, policy: Policy) -> bool:
    return policy.most_stages is not None and len(scenario.stages) > policy.most_stages


def plan_all(
    scenario: Scenario,
    names: Sequence[str] = tuple(POLICIES),
    *,
    mode: Mode | None = None,
    seed: int = 0,
) -> dict[str, Result]:
    """Plan a scenario by each of these policies, and run each plan on the timeline.

    Parameters
    ----------
    scenario : Scenario
    names : sequence of str
        Of `POLICIES`. A policy that chooses knows the plans of all that are possible and stand
        before it in `POLICIES`, whoever else is asked for.
    mode : Mode or None
        For all of them; None for each one's own.
    seed : int
        Of those that draw.

    Raises
    ------
    ScheduleError
        There is no such policy, it needs an engine and there is none for the link, or it refuses a
        network of so many stages.
    """
    for name in names:
        if policy(name).engine and scenario.engine is None:
            raise ScheduleError(f"policy {name}: {scenario.no_engine}")
    wanted = set(names)
    order = list(POLICIES)
    last = max((order.index(name) for name in names if POLICIES[name].chooses), default=0)
    wanted.update(name for name in possible(scenario) if order.index(name) < last)
    results: dict[str, Result] = {}
    for name, each in POLICIES.items():
        if name not in wanted:
            continue
        known = [result.plan for result in results.values()]
        made = each.plan(scenario, mode, seed, known)
        results[name] = Result(
            plan=made,
            trace=_judge(scenario, made),
            lossless=joint.is_lossless(scenario, made),
        )
    return {name: results[name] for name in names}


def _judge(scenario: Scenario, plan: Plan) -> Trace:
    if plan.policy != "oracle":
        return simulate(scenario, plan)
    # It has all the memory in the world; whether the device has as much is still of interest.
    trace = simulate(with_memory(scenario, float("inf")), plan)
    return replace(trace, memory_bytes=scenario.memory_bytes)
