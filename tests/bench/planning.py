"""HOME's swarm: how fast, how good, and how its own cost model compares (HOME §4.4 to §4.7)."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cdma.plan.papers import printed
from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies.home import ITERATIONS, OPTIONS, PARTICLES
from cdma.plan.search.batch import largest_batch
from cdma.plan.search.bound import lower_bound
from cdma.plan.search.exact import exhaustive
from cdma.plan.search.home_evaluator import HomeEvaluator, StepProfile
from cdma.plan.search.swarm import Evaluator, Found, search, search_plus
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.timeline.timeline import TimelineEvaluator
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks.batches import HOME, by_network
from tests.plan.timeline.small_graphs import random_scenario

NETWORKS = {
    # Seconds of the search (Table 3), largest batches of PyTorch and HOME (Table 2).
    name: (search_s, HOME[name].pytorch, HOME[name].home)
    for name, search_s in by_network(printed("home").tables["3"].column("search_s")).items()
}
DEVICE, LINK = "2080ti", "2080ti-pcie"
MEMORY_BYTES = 11 * 10**9
SMALL, TENSORS = 48, 9
BUDGETS = ((50, 30), (PARTICLES, ITERATIONS))
LIMIT_SECONDS = 60.0


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures, with the goals as booleans."""
    figures: dict[str, Any] = {"small": _small(console), "networks": _networks(console)}
    searches = figures["networks"].values()
    figures["goals"] = {
        "500 x 500 in under a minute": all(row["search_s"] < LIMIT_SECONDS for row in searches),
        "HOME+ never behind HOME": all(row["home_plus_s"] <= row["home_s"] for row in searches),
        "no plan below the bound": all(row["bound_s"] <= row["home_plus_s"] for row in searches),
    }
    console.print(figures["goals"])
    return figures


def _small(console: Console) -> dict[str, Any]:
    table = Table(
        title=f"{SMALL} random graphs of {TENSORS} tensors: time over the exact optimum",
        title_justify="left",
    )
    for heading in ("search", "particles x iterations", "mean", "most", "optimal"):
        table.add_column(heading, justify="left" if heading == "search" else "right")
    scenarios = [random_scenario(seed, TENSORS) for seed in range(SMALL)]
    timelines = [TimelineEvaluator(scenario, OPTIONS) for scenario in scenarios]
    exact = np.array([exhaustive(evaluator, TENSORS).seconds for evaluator in timelines])
    own = [HomeEvaluator(StepProfile.of(scenario)) for scenario in scenarios]
    figures: dict[str, Any] = {}

    def add(name: str, budget: tuple[int, int], found: list[Found]) -> None:
        rows = np.stack([each.assignment for each in found])
        gaps = [timelines[i].seconds(rows[i : i + 1])[0] / exact[i] - 1 for i in range(SMALL)]
        fits = np.isfinite(gaps)
        key = f"{name} {budget[0]}x{budget[1]}"
        figures[key] = {
            "mean": float(np.mean(np.array(gaps)[fits])),
            "most": float(np.max(np.array(gaps)[fits])),
            "optimal": int(np.sum(np.isclose(gaps, 0))),
            "feasible": int(fits.sum()),
        }
        mean, most = figures[key]["mean"], figures[key]["most"]
        optimal = f"{figures[key]['optimal']} of {SMALL}"
        table.add_row(name, f"{budget[0]} x {budget[1]}", f"{mean:.2%}", f"{most:.2%}", optimal)

    for budget in BUDGETS:
        for name, find in (("HOME", search), ("HOME+", search_plus)):
            add(name, budget, [_find(find, timelines[i], TENSORS, budget, i) for i in range(SMALL)])
    budget = BUDGETS[0]
    add(
        "HOME on Algorithm 2",
        budget,
        [_find(search, own[i], TENSORS, budget, i) for i in range(SMALL)],
    )
    console.print(table)
    gaps = [
        1 - lower_bound(scenario, OPTIONS).seconds / best
        for scenario, best in zip(scenarios, exact, strict=True)
    ]
    oracles = [
        1 - scenario.compute_seconds / best for scenario, best in zip(scenarios, exact, strict=True)
    ]
    figures["bound"] = {"mean": float(np.mean(gaps)), "most": float(np.max(gaps))}
    console.print(
        f"The bound is {np.mean(gaps):.2%} below the optimum (most {np.max(gaps):.2%}), the "
        f"computation alone {np.mean(oracles):.2%} ({np.max(oracles):.2%})."
    )
    return figures


def _networks(console: Console) -> dict[str, Any]:
    """Searches at a batch halfway between what fits without a plan and what fits with one."""
    title = f"CIFAR-10 on {DEVICE}, {MEMORY_BYTES / 1e9:g} GB"
    batches = _table(
        f"{title}: largest batches", "retained", "HOME+", "ratio", "paper's", "computed for"
    )
    searches = _table(
        f"{title}: HOME, {PARTICLES} x {ITERATIONS}",
        *("tensors", "frozen after", "plans", "seconds", "paper's"),
    )
    plans = _table(
        f"{title}: milliseconds of a step",
        *("oracle", "bound", "HOME+", "HOME", "HOME+ over bound", "Algorithm 2 of HOME+"),
    )
    figures = {}
    for name, (paper_s, paper_plain, paper_home) in NETWORKS.items():
        plain = _largest(name, _retained_fits)
        managed = _largest(name, _planned_fits)
        scenario = _scenario(name, (plain + managed) // 2)
        tensors = len(scenario.graph.managed)
        evaluator = TimelineEvaluator(scenario, OPTIONS)
        begin = time.perf_counter()
        home = _find(search, evaluator, tensors, BUDGETS[-1], 0)
        search_s = time.perf_counter() - begin
        plus = _find(search_plus, evaluator, tensors, BUDGETS[-1], 0)
        bound = lower_bound(scenario, OPTIONS)
        own = HomeEvaluator(StepProfile.of(scenario)).estimate(plus.assignment).seconds
        figures[name] = {
            "largest_batch": [plain, managed],
            "batch": scenario.graph.batch,
            "tensors": tensors,
            "iterations": len(home.best),
            "plans": home.evaluations,
            "search_s": search_s,
            "oracle_s": scenario.compute_seconds,
            "bound_s": bound.seconds,
            "bound_tight": bound.tight,
            "home_plus_s": plus.seconds,
            "home_s": home.seconds,
            "algorithm_2": own / plus.seconds - 1,
        }
        batches.add_row(
            name,
            *(f"{plain:,}", f"{managed:,}", f"{managed / plain:.2f}x"),
            *(f"{paper_home / paper_plain:.2f}x", f"{scenario.graph.batch:,}"),
        )
        searches.add_row(
            name,
            *(str(tensors), str(len(home.best)), f"{home.evaluations:,}"),
            *(f"{search_s:.1f}", str(paper_s)),
        )
        times = (scenario.compute_seconds, bound.seconds, plus.seconds, home.seconds)
        plans.add_row(
            name,
            *(f"{seconds * 1e3:.2f}" for seconds in times),
            *(f"{plus.seconds / bound.seconds - 1:.2%}", f"{own / plus.seconds - 1:+.2%}"),
        )
    for table in (batches, searches, plans):
        console.print(table)
    return figures


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("network", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _find(
    find: Callable[..., Found],
    evaluator: Evaluator,
    tensors: int,
    budget: tuple[int, int],
    seed: int,
) -> Found:
    particles, iterations = budget
    return find(
        evaluator,
        tensors,
        len(OPTIONS),
        particles=particles,
        iterations=iterations,
        seed=seed,
    )


def _scenario(name: str, batch: int) -> Scenario:
    return Scenario(
        graph=density.apply(Graph.from_table(name, batch, "cifar")),
        device=device(DEVICE),
        link=link(LINK),
        memory_bytes=MEMORY_BYTES,
    )


def _largest(name: str, fits: Callable[[Scenario], bool]) -> int:
    return largest_batch(lambda batch: fits(_scenario(name, batch)))


def _retained_fits(scenario: Scenario) -> bool:
    retain = np.zeros(len(scenario.graph.managed), np.int8)
    return TimelineEvaluator(scenario, OPTIONS).run(retain).least_bytes <= scenario.memory_bytes


def _planned_fits(scenario: Scenario) -> bool:
    tensors = len(scenario.graph.managed)
    return _find(search_plus, TimelineEvaluator(scenario, OPTIONS), tensors, (20, 5), 0).feasible


if __name__ == "__main__":
    run(Console())
