"""A transformer's saved tensors out and back through the engine, by codec and link.

The closed form of the engine's times (`cdma.plan.engine_cost`, within a percent of the RTL) for
each tensor that a step of GPT-2 saves, all of which leave and come back; streams are of the sizes
that dense data has in captures. Of each link it is the smallest shipped engine that fills it with
plain copies, with all codecs. It copies at its machine's clock, which the RTL's netlist does not
reach.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.platform.placed_engine import PlacedEngine
from cdma.plan.timeline.placement import SWAP, Choice, Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph

NETWORK, BATCH = "gpt2", 8
DEVICE = "h100"
LINKS = ("pcie3x16", "pcie4x16", "pcie5x16", "pcie6x16")
ENGINES = ("titanx_gen3", "pcie5x16", "v100_nvlink2")
"""The slowest first."""

CODECS = {"bf16": ("zvc", "xc"), "fp32": ("zvc", "quantize")}
"""Beside plain copies, by the elements of the network. The lossy lane's bound is 1 % of the root
mean square, and it takes float32 only."""


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures."""
    table = Table(
        title=f"the saved tensors of a {NETWORK} step of {BATCH} out and back, in ms; in brackets "
        "how many times as fast as plain copies, and what limits most bytes",
        title_justify="left",
    )
    for heading in ("elements", "GB", "link", "engine"):
        table.add_column(heading, no_wrap=True)
    for heading in ("copied", "zvc", "xc", "quantize"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = []
    for precision, codecs in CODECS.items():
        for name in LINKS:
            scenario = _scenario(precision, name)
            plain = _seconds(scenario, SWAP)
            found = {codec: _seconds(scenario, Choice(Placement.SWAP, codec)) for codec in codecs}
            nbytes = sum(scenario.graph.tensors[t].nbytes for t in scenario.graph.managed)
            rows.append(
                {
                    "elements": precision,
                    "bytes": nbytes,
                    "link": name,
                    "engine": scenario.engine,
                    "copied_s": plain[0],
                    **{f"{codec}_s": seconds for codec, (seconds, _) in found.items()},
                }
            )
            table.add_row(
                precision,
                f"{nbytes / 1e9:.2f}",
                name,
                str(scenario.engine),
                f"{1e3 * plain[0]:.1f}",
                *(_cell(found.get(codec), plain[0]) for codec in ("zvc", "xc", "quantize")),
            )
    console.print(table)
    return {"rows": rows}


def _cell(found: tuple[float, str] | None, plain: float) -> str:
    if found is None:
        return "–"
    seconds, limit = found
    return f"{1e3 * seconds:.1f} ({plain / seconds:.2f}x, {limit})"


def _scenario(precision: str, link_name: str) -> Scenario:
    """The step behind a link, with the first of `ENGINES` that fills it."""
    graph = density.apply(Graph.from_table(NETWORK, BATCH, precision=precision))
    for name in ENGINES:
        shipped = PlacedEngine.named(name)
        codec = replace(
            shipped.config.codec, element_bytes=1, codecs=("zvc", "raw", "xc", "quantize")
        )
        scenario = Scenario(
            graph=graph,
            device=device(DEVICE),
            link=link(link_name),
            memory_bytes=device(DEVICE).capacity_bytes,
            own_engine=replace(shipped, config=replace(shipped.config, codec=codec)),
        )
        if scenario.engine is not None:
            return scenario
    raise AssertionError(f"no engine fills {link_name}")


def _seconds(scenario: Scenario, choice: Choice) -> tuple[float, str]:
    """Seconds of all copies out, then back, and the limit of most bytes."""
    total = 0.0
    limits: Counter[str] = Counter()
    for t in scenario.graph.managed:
        total += sum(scenario.copy_seconds(t, choice, "none"))
        for limit in scenario.copy_limits(t, choice, "none"):
            limits[limit] += scenario.graph.tensors[t].nbytes
    return total, limits.most_common(1)[0][0]
