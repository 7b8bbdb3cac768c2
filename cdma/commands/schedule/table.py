"""The console report of `cdma schedule`: the assumptions, and a table of policies below them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich.table import Table

from cdma.commands.schedule.report import (
    ScheduleSettings,
    assumptions,
    copy_limits,
    figures_of,
    mean_density,
)
from cdma.plan.policies.comparison import ORACLE, Comparison
from cdma.plan.policies.registry import POLICIES, by_name_only, possible
from cdma.plan.timeline.placement import Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.sim.driver import THROTTLES
from cdma.synth.gates.clock import ENGINE
from cdma.terminal.console import (
    GB,
    WIDE_CHARACTERS,
    clock_fact,
    facts_grid,
    figures_table,
    link_rates,
    terminal,
)

WIDE_ONLY = ("mode", "over bound", "needs", "host", "codec", "again", "tensors", "loss")
"""Columns that a narrow console does not get."""

_KEPT = {"momentum": "momentum", "adam": "Adam's moments"}
"""What optimizers keep of each weight."""

SWEEP_COLUMNS = 4
"""Efficiencies side by side."""


@dataclass(frozen=True)
class _Units:
    """The units of a table, chosen so that its figures have about three digits."""

    time: str
    size: str

    @classmethod
    def of(cls, comparisons: Sequence[Comparison]) -> Self:
        shortest = min(comparison.oracle_seconds for comparison in comparisons)
        return cls(
            "ms" if shortest >= 10e-3 else "µs",
            "GB" if comparisons[0].scenario.memory_bytes >= GB else "MB",
        )

    def seconds(self, value: float | None) -> str:
        scale = {"ms": 1e3, "µs": 1e6}[self.time]
        return "–" if value is None else f"{value * scale:,.1f}"

    def nbytes(self, value: float | None) -> str:
        scale = {"GB": 1e9, "MB": 1e6}[self.size]
        return "–" if value is None else f"{value / scale:,.2f}"


def print_report(comparisons: Sequence[Comparison], settings: ScheduleSettings) -> None:
    """Print the assumptions, then a table of policies; for several efficiencies, one over them."""
    console = terminal()
    graph = comparisons[0].scenario.graph
    console.print(f"{settings.title(graph)}\n", style="bold", highlight=False)
    console.print(_assumed(comparisons, settings))
    if len(comparisons) > 1:
        for start in range(0, len(comparisons), SWEEP_COLUMNS):
            part = slice(start, start + SWEEP_COLUMNS)
            console.print(_sweep(comparisons[part], settings.efficiencies[part]))
        console.print(_SWEEP_LEGEND, highlight=False)
        return
    wide = console.width >= WIDE_CHARACTERS
    console.print(_policies(comparisons[0], wide=wide))
    console.print(_legend(_Units.of(comparisons), wide=wide), highlight=False)
    console.print()
    for sentence in _sentences(comparisons[0]):
        console.print(sentence, highlight=False)


def _assumed(comparisons: Sequence[Comparison], settings: ScheduleSettings) -> Table:
    facts = assumptions(comparisons, settings)
    scenario = comparisons[0].scenario
    graph, device, link = scenario.graph, scenario.device, scenario.link
    managed = sum(tensor["bytes"] for tensor in facts["tensors"])
    narrow = settings.precision != "fp32"
    rates = link_rates(link.bytes_per_s, link.in_bytes_per_s)
    assumed = {
        "tensors": f"{len(graph.managed)} to decide about, {managed / GB:.2f} GB; weights "
        f"{graph.parameter_bytes / GB:.3g} GB, {graph.parameter_copies} times (with gradients"
        f"{'' if settings.optimizer == 'sgd' else f' and {_KEPT[settings.optimizer]}'})",
        "memory": f"{scenario.memory_bytes:,} B of {device.name}",
        "device": f"{device.flops(narrow=narrow) / 1e12:g} TFLOP/s, "
        f"{device.dram_bytes_per_s / GB:g} GB/s ({device.source}); "
        f"a layer gets {_efficiency(facts, settings)} of either",
        "link": f"{link.name}: {rates}, {link.efficiency:g} of it for copies, "
        f"{'both ways at once' if link.duplex else 'one way at a time'} ({link.source})",
        "engine": _engine(scenario, facts),
        # Without an engine nothing is timed at its clock.
        **({} if scenario.engine is None else clock_fact(scenario.machine.clock_hz, ENGINE)),
        "density": f"{settings.density}, epoch {scenario.epoch} of {scenario.epochs}: "
        f"{mean_density(graph):.3f} on average",
        "mode": settings.mode or "each policy's published one",
        "codecs": "; ".join(map(_codec_text, facts["codecs"])) or "none",
    }
    return facts_grid(assumed)


def _engine(scenario: Scenario, facts: dict[str, Any]) -> str:
    if facts["engine"] is None:
        return f"none: {scenario.no_engine}"
    throttles = " or ".join(f"{t.bytes_per_s / GB:g}" for t in THROTTLES.values() if t.bytes_per_s)
    return (
        f"{scenario.engine}: its units take {facts['engine']['units_bytes_per_s'] / GB:g} GB/s, "
        f"its port to the link {facts['engine']['port_bytes_per_s'] / GB:g}, throttles {throttles}"
    )


def _efficiency(facts: dict[str, Any], settings: ScheduleSettings) -> str:
    if settings.efficiencies:
        return " or ".join(f"{value:g}" for value in settings.efficiencies)
    kinds: dict[float, list[str]] = {}
    narrow = {kind: part for kind, part in (facts["narrow_efficiency"] or {}).items() if part}
    for kind, value in (facts["efficiency"] | narrow).items():
        kinds.setdefault(value, []).append(kind)
    usual = max(kinds, key=lambda value: len(kinds[value]))
    others = [
        f"{kind} {value:g}" for value, each in kinds.items() if value != usual for kind in each
    ]
    text = f"{usual:g}" + (f" ({', '.join(others)})" if others else "")
    errors = [error for error in (facts["efficiency_error"] or {}).values() if error is not None]
    return f"{text}, timed and off by up to {100 * max(errors):.0f} %," if errors else text


def _codec_text(codec: dict[str, Any]) -> str:
    where = {"inline": "in the engine", "sm": "by the multiprocessors", "host": "on the host"}[
        codec["where"]
    ]
    rates = (
        ""
        if codec["raw_bytes_per_s"] is None
        else f", {codec['raw_bytes_per_s'] / GB:.0f} GB/s raw and "
        f"{codec['stream_bytes_per_s'] / GB:.0f} of stream"
    )
    return f"{codec['name']} {where}{rates}{'' if codec['lossless'] else ', lossy'}"


def _policies(comparison: Comparison, *, wide: bool) -> Table:
    units = _Units.of([comparison])
    rows = {name: _cells(comparison, name, units) for name in comparison.results}
    headings = [h for h in next(iter(rows.values())) if wide or h not in WIDE_ONLY]
    table = figures_table("policy", headings)
    for name, cells in rows.items():
        table.add_row(name, *(cells[heading] for heading in headings))
    return table


def _cells(comparison: Comparison, name: str, units: _Units) -> dict[str, str]:
    figures = figures_of(comparison, name)
    result = comparison.results[name]
    counts = Counter(choice.placement for choice in result.plan.choices)
    return {
        "mode": figures["mode"],
        units.time: "no room" if figures["seconds"] is None else units.seconds(figures["seconds"]),
        "vs vDNN": _times(figures["speedup_over_vdnn"]),
        "over oracle": _percent(figures["over_oracle"]),
        "over bound": _percent(figures["over_bound"]),
        "peak": units.nbytes(None if figures["seconds"] is None else figures["peak_bytes"]),
        "needs": units.nbytes(figures["least_bytes"]),
        "link": units.nbytes(figures["link_bytes"]),
        "host": units.nbytes(figures["host_bytes"]),
        "stall": units.seconds(figures["stall_seconds"]),
        "codec": units.seconds(figures["codec_seconds"]),
        "again": units.seconds(figures["recompute_seconds"]),
        "tensors": " ".join(str(counts[placement]) for placement in Placement),
        "loss": "none" if result.lossless else "lossy",
    }


_SWEEP_LEGEND = (
    "Under each efficiency: the step, how many times as fast as vDNN it is, and what it takes more "
    "than a device with memory without end."
)


def _legend(units: _Units, *, wide: bool) -> str:
    sentences = [
        f"{units.time}: the step. vs vDNN: how many times as fast.",
        "over oracle: what it takes more than a device with memory without end.",
        f"peak: {units.size} of memory reserved at most. link: {units.size} out and in.",
        f"stall: {units.time} in which computation waits.",
    ]
    if wide:
        sentences += [
            "over bound: at most so much more than the best plan with the same means.",
            f"needs: {units.size} that the plan works with at least.",
            f"host: {units.size} of host memory.",
            f"codec, again: {units.time} that codecs, and layers computed again, take.",
            "tensors: kept, swapped, computed again, kept compressed.",
            "sync: computation waits for its copies after each layer;",
            "async: for data and memory only.",
        ]
    return " ".join(sentences)


def _sentences(comparison: Comparison) -> list[str]:
    """Lines below the table: plans that do not fit, and the bounds."""
    units = _Units.of([comparison])
    lines = []
    unfit = {
        name: result.trace.least_bytes
        for name, result in comparison.results.items()
        if not result.trace.feasible
    }
    if unfit:
        needs = ", ".join(f"{name} {least:,} B" for name, least in unfit.items())
        lines.append(
            f"Without room in {comparison.scenario.memory_bytes:,} B, for they need: {needs}."
        )
    if ORACLE in unfit:
        lines.append("The oracle has all the memory it needs.")
    lines += _left_out(comparison)
    solved: dict[str, list[str]] = {}
    for name, result in comparison.results.items():
        if result.plan.solver is not None:
            solved.setdefault(str(result.plan.solver), []).append(name)
    if solved:
        programs = "; ".join(f"{_listed(names)}, {how}" for how, names in solved.items())
        lines.append(f"Integer programs, of their own model and not of the step: {programs}.")
    limits = {name: copy_limits(comparison, name) for name in comparison.results}
    limited = [f"{name} {_limits(each)}" for name, each in limits.items() if len(each) > 1]
    if limited:
        lines.append(
            "Of the copies that the engine compresses, it or the device, not the link, limits: "
            f"{'; '.join(limited)}."
        )
    if comparison.engine_gain is not None:
        lines.append(_engine_gain(comparison, units))
    for lossless, bound in sorted(comparison.bounds.items(), reverse=True):
        plan = "lossless plan" if lossless else "plan"
        if bound.seconds < float("inf"):
            lines.append(f"No {plan} takes less than {units.seconds(bound.seconds)} {units.time}.")
        else:
            lines.append(f"No {plan} with these means fits.")
    return lines


def _left_out(comparison: Comparison) -> list[str]:
    """Policies that are not in a table of all, and why."""
    scenario = comparison.scenario
    if set(comparison.results) != set(possible(scenario)):
        return []
    lines = []
    if scenario.engine is None:
        unequipped = [name for name, each in POLICIES.items() if each.engine]
        lines.append(f"Left out are {_listed(unequipped)}: {scenario.no_engine}")
    if large := by_name_only(scenario):
        lines.append(
            f"Left out, as {len(scenario.stages)} stages make large integer programs: "
            f"{_listed(large)}; --policy has them solved if they are named."
        )
    return lines


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _engine_gain(comparison: Comparison, units: _Units) -> str:
    without, with_engine = (
        f"{units.seconds(comparison.seconds(name))} {units.time}, {name}"
        for engine in (False, True)
        if (name := comparison.best(engine=engine)) is not None
    )
    if not comparison.engine_gain:
        return f"The fastest lossless plan, {without}, does without the engine."
    return (
        f"The fastest lossless plan without the engine takes {without}, with it {with_engine}: the "
        f"engine gains {_percent(comparison.engine_gain)}."
    )


def _limits(limits: dict[str, int]) -> str:
    bottlenecks = ", ".join(f"{n} by {name}" for name, n in limits.items() if name != "link")
    return f"{sum(limits.values()) - limits['link']} of {sum(limits.values())} ({bottlenecks})"


def _sweep(comparisons: Sequence[Comparison], efficiencies: Sequence[float]) -> Table:
    units = _Units.of(comparisons)
    headings: list[str] = []
    for efficiency in efficiencies:
        headings += [f"{efficiency:g}: {units.time}", "vs vDNN", "over oracle"]
    table = figures_table("policy", headings)
    for name in comparisons[0].results:
        cells = []
        for comparison in comparisons:
            seconds = comparison.seconds(name)
            cells += [
                "no room" if seconds is None else units.seconds(seconds),
                _times(comparison.speedup(name)),
                _percent(comparison.over_oracle(name)),
            ]
        table.add_row(name, *cells)
    return table


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}x"


def _percent(fraction: float | None) -> str:
    # Without a sign at zero.
    return "–" if fraction is None else f"{round(100 * fraction, 1) + 0.0:.1f} %"
