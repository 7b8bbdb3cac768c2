"""`cdma schedule`: what every policy makes of a training step, on one timeline."""

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.network_options import (
    EPOCHS,
    FROM_CAPTURE,
    Batch,
    Capture,
    Dataset,
    Epoch,
    Epochs,
    Network,
    dataset_of,
    density_source,
    files_of,
    require_png,
)
from cdma.commands.schedule.largest import find_largest, largest_as_dict, print_largest
from cdma.commands.schedule.report import ScheduleSettings, as_dict, assumptions
from cdma.commands.schedule.run import Runs, print_runs, run_plans, runs_as_dict
from cdma.commands.schedule.table import print_report
from cdma.console import terminal
from cdma.errors import UserError
from cdma.outputs import Force, open_atomically, require_outputs
from cdma.plan.platform.device import DEVICES, Device
from cdma.plan.platform.device import device as device_of
from cdma.plan.platform.link import LINKS
from cdma.plan.platform.link import link as link_of
from cdma.plan.policies.comparison import NO_BOUND, Comparison, compare
from cdma.plan.policies.registry import POLICIES, policy, possible
from cdma.plan.search.bound import AUTOMATIC, EFFORTS
from cdma.plan.timeline.chrome_trace import chrome_trace
from cdma.plan.timeline.gantt_chart import gantt_png
from cdma.plan.timeline.placement import MODES
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.builder import ACTIVATIONS
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.sim.execute.execute import ExecutionError

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
}
_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*")


def schedule(
    network: Network,
    batch: Batch = None,
    dataset: Dataset = None,
    activation: Annotated[
        str,
        typer.Option(metavar="|".join(ACTIVATIONS), help="leaky_relu leaves activations dense."),
    ] = "relu",
    device: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(DEVICES)}.")
    ] = "titanxp",
    link: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(LINKS)}.")
    ] = "pcie3x16",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="As 12GB, 11.5GiB or 12000000000; all of the device's if not given.",
        ),
    ] = None,
    policies: Annotated[
        str,
        typer.Option("--policy", metavar="all|NAME[,NAME]…", help=f"Of {', '.join(POLICIES)}."),
    ] = "all",
    mode: Annotated[
        str | None,
        typer.Option(metavar="|".join(MODES), help="Each policy's published one if not given."),
    ] = None,
    densities: Annotated[
        str,
        typer.Option(
            "--density",
            metavar="capture|curve|FILE.json",
            help="How many elements are not zero: measured, by a formula, or as you say.",
        ),
    ] = FROM_CAPTURE,
    capture: Capture = None,
    epoch: Epoch = 0,
    epochs: Epochs = EPOCHS,
    efficiency: Annotated[
        str | None,
        typer.Option(
            metavar="X[,X]…",
            help="The part of the device's peak that every layer gets; several are compared.",
        ),
    ] = None,
    bound: Annotated[
        str,
        typer.Option(
            metavar="|".join((*EFFORTS, NO_BOUND)),
            help="How lower bounds are found: auto is integral for small networks, else linear.",
        ),
    ] = AUTOMATIC,
    seed: Annotated[int, typer.Option(min=0, help="Of policies that draw.")] = 0,
    run: Annotated[
        bool, typer.Option("--run", help="Also carry the plans out, made small, by the RTL.")
    ] = False,
    largest: Annotated[
        bool,
        typer.Option(
            "--largest-batch", help="Instead: the largest batch that each policy can train."
        ),
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write the timelines for ui.perfetto.dev."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the timelines.")
    ] = None,
    force: Force = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; its keys are stable.")
    ] = False,
) -> None:
    """Plan a network's training step by every policy, and run each plan on one timeline.

    Exit status 1 if the engine does not give a tensor back to the bit.
    """
    names = _names(policies)
    if bound not in (*EFFORTS, NO_BOUND):
        raise UserError(f"unknown bound {bound!r}; choose from {', '.join((*EFFORTS, NO_BOUND))}")
    if mode is not None and mode not in MODES:
        raise UserError(f"unknown mode {mode!r}; choose {' or '.join(MODES)}")
    source = density_source(densities, capture)
    require_png("--plot", plot)
    written = [path for path in (trace, plot) if path is not None]
    require_outputs(written, inputs=files_of([source]), force=force)
    found_device, found_link = device_of(device), link_of(link)
    efficiencies = _efficiencies(efficiency)
    if len(efficiencies) > 1 and (run or trace is not None or plot is not None):
        raise UserError("--run, --trace and --plot are of one efficiency; give one")
    limit = found_device.capacity_bytes if memory is None else parse_bytes(memory)

    def graph_of(images: int | None) -> Graph:
        table = Graph.from_table(network, images, dataset, activation)
        return density.apply(table, source, epoch, epochs)

    def scenario_of(graph: Graph, each: Device) -> Scenario:
        return Scenario(
            graph=graph,
            device=each,
            link=found_link,
            memory_bytes=limit,
            epoch=epoch,
            epochs=epochs,
        )

    if largest:
        _refuse_with_largest(batch, efficiencies, run, trace, plot)
        each = _devices(found_device, efficiencies)[0]
        found = find_largest(
            lambda images: scenario_of(graph_of(images), each),
            names or possible(scenario_of(graph_of(None), each)),
            None if mode is None else MODES[mode],
            seed,
        )
        if as_json:
            typer.echo(json.dumps(largest_as_dict(found), indent=2))
        else:
            print_largest(terminal(), found, f"{network} in {limit:,} B of {device} behind {link}")
        return
    graph = graph_of(batch)
    settings = ScheduleSettings(
        dataset=dataset_of(network, dataset),
        activation=activation,
        mode=mode,
        density=source,
        efficiencies=tuple(efficiencies),
        seed=seed,
    )
    scenarios = [scenario_of(graph, each) for each in _devices(found_device, efficiencies)]
    names = names or possible(scenarios[0])
    comparisons = [
        compare(
            each,
            names,
            mode=None if mode is None else MODES[mode],
            seed=seed,
            effort=bound,
        )
        for each in scenarios
    ]
    if not any(comparison.usable for comparison in comparisons):
        raise comparisons[0].infeasible()
    shown = [comparisons[0].results[name].trace for name in names]
    if trace is not None:
        about = assumptions(comparisons[:1], settings)
        with open_atomically(trace, "w", force=force) as file:
            json.dump(chrome_trace(shown, about), file)
            file.write("\n")
    if plot is not None:
        picture = gantt_png(shown, f"{settings.title(graph)} on {device} behind {link}")
        with open_atomically(plot, force=force) as image:
            image.write(picture)
    runs = _run(comparisons[0]) if run else None
    if as_json:
        report = as_dict(comparisons, settings)
        if runs is not None:
            report["runs"] = runs_as_dict(runs)
        typer.echo(json.dumps(report, indent=2))
    else:
        print_report(comparisons, settings)
        if runs is not None:
            print_runs(terminal(), runs)


def _run(comparison: Comparison) -> Runs:
    try:
        return run_plans(comparison)
    except ExecutionError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _refuse_with_largest(
    batch: int | None,
    efficiencies: Sequence[float],
    run: bool,
    trace: Path | None,
    plot: Path | None,
) -> None:
    """Options that are of one batch."""
    if batch is not None:
        raise UserError("--largest-batch looks for the batch; leave out --batch")
    if run or trace is not None or plot is not None:
        raise UserError("--run, --trace and --plot are of one batch; leave out --largest-batch")
    if len(efficiencies) > 1:
        raise UserError("--largest-batch is of one efficiency; give one")


def _names(text: str) -> Sequence[str]:
    """Policies in the order asked for; none stands for all that are possible."""
    names = [name.strip() for name in text.split(",")]
    if names == ["all"]:
        return ()
    for name in names:
        policy(name)
    return list(dict.fromkeys(names))


def _efficiencies(text: str | None) -> list[float]:
    if text is None:
        return []
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 < value <= 1 for value in values):
        raise UserError(
            f"--efficiency must be numbers of more than 0 and at most 1, as .4,.6,.8, not {text!r}"
        )
    return list(dict.fromkeys(values))


def _devices(device: Device, efficiencies: Sequence[float]) -> list[Device]:
    if not efficiencies:
        return [device]
    return [device.with_efficiency(value) for value in efficiencies]


def parse_bytes(text: str) -> int:
    """As 12GB (of 1000), 12GiB (of 1024) or plain."""
    found = _BYTES.fullmatch(text)
    factor = None if found is None else _UNITS.get(found[2].lower())
    if found is None or factor is None:
        raise UserError(
            f"--memory {text!r} is no number of bytes; write as 12GB, 11.5GiB or 12000000000"
        )
    return int(Decimal(found[1]) * factor)
