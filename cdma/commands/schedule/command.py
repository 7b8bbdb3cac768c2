"""`cdma schedule`: every policy's plan of a training step, on one timeline."""

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import typer

from cdma.commands.config_options import chosen_or, paths_of, required
from cdma.commands.html_option import HtmlFile, require_page, write_page
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.network_options import (
    EPOCHS,
    FROM_CAPTURE,
    Batch,
    Capture,
    Dataset,
    Epoch,
    Epochs,
    NetworkName,
    density_source,
    files_of,
    picture_format,
    require_picture,
)
from cdma.commands.schedule.largest import find_largest, largest_as_dict, print_largest
from cdma.commands.schedule.options import (
    DEVICE_NAME,
    LINK_NAME,
    PLOTTED,
    Activation,
    BoundEffort,
    Densities,
    DeviceName,
    Efficiencies,
    EngineName,
    LargestBatch,
    LinkName,
    MachineName,
    MemoryLimit,
    ModeName,
    Optimizer,
    Passes,
    PlotFile,
    PolicyNames,
    Precision,
    Run,
    RunBytes,
    RunContent,
    RunJobs,
    Seed,
    TraceFile,
)
from cdma.commands.schedule.report import ScheduleSettings, as_dict, assumptions
from cdma.commands.schedule.run import Runs, print_runs, run_plans, runs_as_dict
from cdma.commands.schedule.table import print_report
from cdma.commands.standard_output import goes_to_standard_output
from cdma.config import DEVICE, ENGINE, LINK, MACHINE, NETWORK, engine_setup
from cdma.config.files import read_tables
from cdma.config.resolve import is_file
from cdma.errors import UserError
from cdma.outputs import Force, open_atomically
from cdma.plan.calibration.published import with_published
from cdma.plan.platform.device import Device
from cdma.plan.platform.placed_engine import PlacedEngine
from cdma.plan.policies.comparison import NO_BOUND, Comparison, compare
from cdma.plan.policies.registry import policy, possible
from cdma.plan.search.bound import AUTOMATIC, EFFORTS
from cdma.plan.timeline.chrome_trace import chrome_trace
from cdma.plan.timeline.gantt_chart import gantt_chart
from cdma.plan.timeline.placement import MODES
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.schemas import document
from cdma.sim.execute.execute import TOTAL_BYTES
from cdma.sim.execute.execution_error import ExecutionError
from cdma.terminal.console import terminal

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
}
LEAST_RUN_BYTES, MOST_RUN_BYTES = 64 << 10, 1 << 30
"""Of small plans: a few lines per tensor, and as much as a simulated memory should be."""

PUBLISHED = "published"
"""Instead of an efficiency: those that others have measured."""

_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*")


def schedule(
    network: NetworkName = None,
    batch: Batch = None,
    dataset: Dataset = None,
    activation: Activation = None,
    precision: Precision = None,
    optimizer: Optimizer = None,
    accumulate: Passes = 1,
    device: DeviceName = None,
    link: LinkName = None,
    config: EngineName = None,
    machine: MachineName = None,
    memory: MemoryLimit = None,
    policies: PolicyNames = "all",
    mode: ModeName = None,
    densities: Densities = FROM_CAPTURE,
    capture: Capture = None,
    epoch: Epoch = 0,
    epochs: Epochs = EPOCHS,
    efficiency: Efficiencies = None,
    bound: BoundEffort = AUTOMATIC,
    seed: Seed = 0,
    run: Run = False,
    run_bytes: RunBytes = None,
    content: RunContent = None,
    jobs: RunJobs = 1,
    largest: LargestBatch = False,
    trace: TraceFile = None,
    plot: PlotFile = None,
    html: HtmlFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Plan a network's training step by every policy, and run each plan on one timeline.

    Exit status 1 if the engine does not give a tensor back to the bit.
    """
    names = _names(policies)
    _require_known(bound, mode)
    chosen_mode = None if mode is None else MODES[mode]
    small_bytes = _bytes_to_run(run_bytes, content, run=run, jobs=jobs)
    content_bytes = small_bytes if content is None else _bytes_of_content(content)
    source = density_source(densities, capture)
    require_picture("--plot", plot)
    quiet = goes_to_standard_output(as_json=as_json, trace=trace, html=html)
    written = [path for path in (trace, plot) if path is not None]
    net = required(NETWORK, network, config)
    step = net.value.changed(
        batch=batch,
        dataset=dataset,
        activation=activation,
        precision=precision,
        optimizer=optimizer,
    )
    gpu = chosen_or(DEVICE, device, config, DEVICE_NAME)
    behind = chosen_or(LINK, link, config, LINK_NAME)
    own_engine, engine_files = _own_engine(config, machine, gpu.value.engine)
    read = [*files_of([source]), *engine_files, *paths_of(net, gpu, behind)]
    require_page(html, inputs=read, others=written, force=force)
    found_device, found_link = gpu.value, behind.value
    if efficiency == PUBLISHED:
        found_device, efficiency = with_published(found_device), None
    efficiencies = _efficiencies(efficiency)
    if len(efficiencies) > 1 and (run or trace is not None or plot is not None):
        raise UserError("--run, --trace and --plot are of one efficiency; give one")
    limit = found_device.capacity_bytes if memory is None else parse_bytes(memory)

    def graph_of(images: int | None) -> Graph:
        table = step.changed(batch=images).graph()
        return density.apply(table.accumulated(accumulate), source, epoch, epochs)

    def scenario_of(graph: Graph, each: Device) -> Scenario:
        return Scenario(
            graph=graph,
            device=each,
            link=found_link,
            memory_bytes=limit,
            epoch=epoch,
            epochs=epochs,
            own_engine=own_engine,
        )

    settings = ScheduleSettings(
        network=step,
        mode=mode,
        density=source,
        efficiencies=tuple(efficiencies),
        seed=seed,
    )
    if largest:
        _refuse_with_largest(batch, efficiencies, run, trace, plot)
        each = _devices(found_device, efficiencies)[0]
        usual = scenario_of(graph_of(None), each)
        found = find_largest(
            lambda images: scenario_of(graph_of(images), each),
            names or possible(usual),
            chosen_mode,
            seed,
        )
        report = document("largest", largest_as_dict(found, usual, settings))
        write_page(html, {"largest.json": report}, force)
        if as_json:
            print_json(report)
        elif not quiet:
            print_largest(
                terminal(),
                found,
                f"{step.name} in {limit:,} B of {found_device.name} behind {found_link.name}",
            )
        return
    graph = graph_of(None)
    scenarios = [scenario_of(graph, each) for each in _devices(found_device, efficiencies)]
    names = names or possible(scenarios[0])
    comparisons = [
        compare(each, names, mode=chosen_mode, seed=seed, effort=bound) for each in scenarios
    ]
    if not any(comparison.usable for comparison in comparisons):
        raise comparisons[0].infeasible()
    first = comparisons[0]

    def timelines() -> dict[str, Any]:
        about = assumptions(comparisons[:1], settings)
        traces = (first.results[name].trace for name in names)
        return document("trace", chrome_trace(traces, about))

    if trace is not None:
        with open_atomically(trace, "w", force=force) as file:
            json.dump(timelines(), file)
            file.write("\n")
    if plot is not None:
        picture = gantt_chart(
            [first.results[name].trace for name in first.top(PLOTTED)],
            f"{settings.title(graph)} on {found_device.name} behind {found_link.name}",
            picture_format("--plot", plot),
        )
        with open_atomically(plot, force=force) as image:
            image.write(picture)
    runs = _run(first, small_bytes, content_bytes, jobs) if run else None
    report = document("schedule", _as_json(comparisons, settings, runs))
    if html is not None:
        page = {"schedule.json": report}
        if len(comparisons) == 1:
            page["trace.json"] = timelines()
        write_page(html, page, force)
    if as_json:
        print_json(report)
    elif not quiet:
        print_report(comparisons, settings)
        if runs is not None:
            print_runs(terminal(), runs)


def _own_engine(
    config: str | None, machine: str | None, default: str
) -> tuple[PlacedEngine | None, tuple[Path, ...]]:
    """The engine that the options ask for, with the files that say what it is; None for the
    device's own."""
    if config is None and machine is None:
        return None, ()
    if config is not None and machine is None and is_file(config):
        # A file may be about device, link or network alone, as the report of a step without engine.
        tables = read_tables(config)
        if tables and not {ENGINE.name, MACHINE.name} & set(tables):
            return None, ()
    placed = engine_setup(config, machine, default)
    engine = PlacedEngine(name=placed.label, config=placed.engine, machine=placed.machine)
    return engine, placed.paths


def _as_json(
    comparisons: Sequence[Comparison], settings: ScheduleSettings, runs: Runs | None
) -> dict[str, Any]:
    report = as_dict(comparisons, settings)
    if runs is not None:
        report["runs"] = runs_as_dict(runs)
    return report


def _require_known(bound: str, mode: str | None) -> None:
    if bound not in (*EFFORTS, NO_BOUND):
        raise UserError(f"unknown bound {bound!r}; choose from {', '.join((*EFFORTS, NO_BOUND))}")
    if mode is not None and mode not in MODES:
        raise UserError(f"unknown mode {mode!r}; choose {' or '.join(MODES)}")


def _bytes_to_run(text: str | None, content: str | None, *, run: bool, jobs: int) -> int:
    """Bytes that small plans swap; `UserError` if options of a run are given without one."""
    if not run and (text is not None or content is not None or jobs != 1):
        raise UserError(
            "--bytes, --content and --jobs are of plans that are carried out; add --run"
        )
    nbytes = TOTAL_BYTES if text is None else parse_bytes(text, "--bytes")
    if not LEAST_RUN_BYTES <= nbytes <= MOST_RUN_BYTES:
        raise UserError(
            f"--bytes must be {LEAST_RUN_BYTES:,} to {MOST_RUN_BYTES:,}, not {nbytes:,}"
        )
    return nbytes


def _bytes_of_content(text: str) -> int:
    nbytes = parse_bytes(text, "--content")
    if nbytes < LEAST_RUN_BYTES:
        raise UserError(f"--content must be at least {LEAST_RUN_BYTES:,}, not {nbytes:,}")
    return nbytes


def _run(comparison: Comparison, total_bytes: int, content_bytes: int, jobs: int) -> Runs:
    try:
        return run_plans(comparison, total_bytes, content_bytes, jobs)
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
    """Raise `UserError` for options that are of one batch, beside `--largest-batch`."""
    if batch is not None:
        raise UserError("--largest-batch looks for the batch; leave out --batch")
    if run or trace is not None or plot is not None:
        raise UserError("--run, --trace and --plot are of one batch; leave out --largest-batch")
    if len(efficiencies) > 1:
        raise UserError("--largest-batch is of one efficiency; give one")


def _names(text: str) -> Sequence[str]:
    """Order the policies as asked for; none asked for stands for all that are possible."""
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
            "--efficiency must be numbers of more than 0 and at most 1, as .4,.6,.8, or "
            f"{PUBLISHED}, not {text!r}"
        )
    return list(dict.fromkeys(values))


def _devices(device: Device, efficiencies: Sequence[float]) -> list[Device]:
    if not efficiencies:
        return [device]
    return [device.with_efficiency(value) for value in efficiencies]


def parse_bytes(text: str, option: str = "--memory") -> int:
    """Parse a size in bytes: 12GB (powers of 1000), 12GiB (of 1024) or a plain number."""
    found = _BYTES.fullmatch(text)
    factor = None if found is None else _UNITS.get(found[2].lower())
    if found is None or factor is None:
        raise UserError(
            f"{option} {text!r} is no number of bytes; write as 12GB, 11.5GiB or 12000000000"
        )
    return int(Decimal(found[1]) * factor)
