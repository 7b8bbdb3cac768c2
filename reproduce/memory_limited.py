"""Steps that are short of memory, and HOME's plans for them beside other policies'.

HOME and HOME+ search with 50 particles and 30 iterations, which is what changes anything.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from cdma.plan.platform.device import device
from cdma.plan.policies import capuchin, home, oracle, superneurons, vdnn
from cdma.plan.search.batch import largest_batch
from cdma.plan.search.exact import exhaustive
from cdma.plan.search.swarm import search, search_plus
from cdma.plan.timeline.errors import InfeasibleError
from cdma.plan.timeline.placement import Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator, with_memory
from cdma.plan.workload.builder import Builder
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks.batches import HOME
from cdma.reproduce import scenarios

PARTICLES, ITERATIONS = 50, 30
SHARES = (0.0, 0.1, 0.3)
LINKS = ("pcie3x16-shared", "pcie3x16")
BATCH = 128


@dataclass(frozen=True, kw_only=True)
class LimitedStep:
    """A policy's step.

    Attributes
    ----------
    seconds : float
        Infinite if it does not fit.
    waiting, recomputing : float
        Shares of the step.
    """

    seconds: float
    waiting: float
    recomputing: float


@cache
def outcomes(network: str, batch: int) -> Mapping[str, LimitedStep]:
    """On CIFAR and a 2080 Ti, with as little memory as vDNN and SuperNeurons both fit into."""
    roomy = scenarios.swapping(network, batch, "cifar", "2080ti")
    fixed = {
        "vdnn": vdnn.plan(roomy, swapped="conv"),
        "superneurons": superneurons.plan(roomy),
    }
    least = max(scenarios.run(roomy, plan).least_bytes for plan in fixed.values())
    scenario = with_memory(roomy, least)
    searched = {
        "capuchin": capuchin.plan(scenario),
        "home": home.plan(scenario, particles=PARTICLES, iterations=ITERATIONS),
        "home+": home.plan(scenario, plus=True, particles=PARTICLES, iterations=ITERATIONS),
    }
    return {name: _outcome(scenario, plan) for name, plan in (fixed | searched).items()}


def _outcome(scenario: Scenario, plan: Plan) -> LimitedStep:
    trace = scenarios.run(scenario, plan)
    again = sum(event.seconds for event in trace.events if event.kind == "recompute")
    return LimitedStep(
        seconds=trace.seconds,
        waiting=trace.stall_seconds / trace.seconds,
        recomputing=again / trace.seconds,
    )


@cache
def throughputs(network: str, factors: tuple[float, ...]) -> Mapping[float, Mapping[str, float]]:
    """Images per second on CIFAR and a 2080 Ti, by batch and policy; 0 if the step does not fit.

    Batches are multiples of the largest one with which everything stays, as PyTorch has it; `keep`
    is that step.
    """
    capacity = device("2080ti").capacity_bytes

    def step(batch: int) -> Scenario:
        return with_memory(scenarios.swapping(network, batch, "cifar", "2080ti"), capacity)

    def rate(batch: int, plan: Callable[[Scenario], Plan]) -> float:
        scenario = step(batch)
        try:
            trace = scenarios.run(scenario, plan(scenario))
        except InfeasibleError:
            return 0.0
        return batch / trace.seconds if trace.feasible else 0.0

    most = largest_batch(lambda batch: rate(batch, oracle.plan) > 0)
    policies: dict[str, Callable[[Scenario], Plan]] = {
        "vdnn": partial(vdnn.plan, swapped="conv"),
        "superneurons": superneurons.plan,
        "capuchin": capuchin.plan,
        "home": lambda scenario: home.plan(scenario, particles=PARTICLES, iterations=ITERATIONS),
    }
    found = {1.0: {"keep": rate(most, oracle.plan)}}
    for factor in factors:
        batch = round(factor * most)
        found[factor] = {name: rate(batch, plan) for name, plan in policies.items()}
    return found


def papers_networks(*, large: bool) -> dict[str, int]:
    """HOME's networks at Capuchin's largest batches (Table 2); InceptionV3, of 211 tensors, takes
    its time."""
    return {n: b.capuchin for n, b in HOME.items() if large or n != "inceptionv3"}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Gaps of the searches to the best of all plans: 0 is optimal."""

    literal: float
    plus: float


@cache
def gaps(particles: int = PARTICLES, iterations: int = ITERATIONS) -> tuple[Gap, ...]:
    """On two small networks behind two links, each with three memory limits."""
    return tuple(
        _gap(scenario, particles, iterations)
        for graph in (_small("normalized"), _small("residual"))
        for link in LINKS
        for scenario in _pressed(graph, link)
    )


def _gap(scenario: Scenario, particles: int, iterations: int) -> Gap:
    evaluator, tensors = TimelineEvaluator(scenario, home.OPTIONS), len(scenario.graph.managed)
    best = exhaustive(evaluator, tensors).seconds
    literal, plus = (
        find(evaluator, tensors, particles=particles, iterations=iterations).seconds
        for find in (search, search_plus)
    )
    return Gap(literal=literal / best - 1, plus=plus / best - 1)


def least_bytes(scenario: Scenario) -> int:
    """Memory of the leanest plan that treats all tensors alike."""
    evaluator, tensors = TimelineEvaluator(scenario, home.OPTIONS), len(scenario.graph.managed)
    alike = (np.full(tensors, option, np.int8) for option in range(len(home.OPTIONS)))
    return math.ceil(min(evaluator.run(assignment).least_bytes for assignment in alike))


def feasible_share(scenario: Scenario, particles: int = 500) -> float:
    """The share of random assignments that fit into the memory."""
    rng = np.random.default_rng(0)
    tensors = len(scenario.graph.managed)
    drawn = rng.integers(len(home.OPTIONS), size=(particles, tensors), dtype=np.int8)
    return float(np.isfinite(TimelineEvaluator(scenario, home.OPTIONS).seconds(drawn)).mean())


def pressed(scenario: Scenario, share: float) -> Scenario:
    """With the memory of the leanest plan, and this share of what it is less than retaining all."""
    least = least_bytes(scenario)
    return with_memory(scenario, least + share * (scenarios.retained_bytes(scenario) - least))


def _pressed(graph: Graph, link: str) -> list[Scenario]:
    roomy = scenarios.scenario(graph, "v100", link)
    return [pressed(roomy, share) for share in SHARES]


def _small(name: str) -> Graph:
    """Few enough tensors that every plan can be tried."""
    net = Builder(BATCH)
    x = net.input("data", 3, 56, 56)
    if name == "normalized":
        for i, channels in enumerate((64, 128, 128), 1):
            x = net.bn(f"bn{i}", net.conv(f"conv{i}", x, channels, 3, pad=1))
            x = net.max_pool(f"pool{i}", net.relu(f"relu{i}", x), 2, 2)
    else:
        x = net.relu("relu0", net.conv("conv0", x, 64, 3, pad=1))
        for i in (1, 2):
            y = net.relu(f"relu{i}a", net.conv(f"conv{i}a", x, 64, 3, pad=1))
            y = net.conv(f"conv{i}b", y, 64, 3, pad=1)
            x = net.relu(f"relu{i}", net.add(f"add{i}", x, y))
        x = net.max_pool("pool", x, 2, 2)
    net.softmax("prob", net.fc("fc", x, 10))
    table = net.table()
    graph = Graph(name=name, batch=BATCH, tensors=table.tensors, layers=table.layers)
    return density.apply(graph, scenarios.CAPTURE, scenarios.EPOCH, scenarios.EPOCHS)
