"""`cdma estimate`: how long a network's tensors take through the engine, in closed form."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.bound_options import Bound, PowerOfTwo, engine_bound, tell_rounding
from cdma.commands.completers import among, named
from cdma.commands.config_options import (
    ENGINE_NAMES,
    LINK_NAMES,
    MACHINE_NAMES,
    METAVAR,
    THROTTLE_NAMES,
    chosen,
    chosen_or,
    paths_of,
    required,
)
from cdma.commands.estimate.report import EstimateSettings, Report, as_dict
from cdma.commands.estimate.table import print_report
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
from cdma.commands.standard_output import goes_to_standard_output
from cdma.config import LINK, NETWORK, THROTTLE, engine_setup
from cdma.errors import UserError
from cdma.hw.codec.registry import codec_names
from cdma.outputs import Force, open_atomically
from cdma.plan.engine_cost import (
    PARAMETERS,
    EstimateError,
    NetworkEstimate,
    Setup,
    Sweep,
    captured_sizes,
)
from cdma.plan.engine_cost.bandwidth_picture import bandwidth_picture, points_of
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.schemas import document

CONFIG = "titanx_gen3"
THROTTLE_NAME = "none"
"""What is taken if no option says otherwise."""


def estimate(
    network: NetworkName = None,
    batch: Batch = None,
    dataset: Dataset = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"Engine, with its machine: {ENGINE_NAMES}. {CONFIG} if neither is given.",
            autocompletion=named("presets"),
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"Instead of the engine's own: {MACHINE_NAMES}.",
            autocompletion=named("machines"),
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"Instead of the machine's own: {LINK_NAMES}.",
            autocompletion=named("links"),
        ),
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Instead of the engine's own codec: {', '.join(codec_names())}.",
            autocompletion=among(*codec_names()),
        ),
    ] = None,
    bound: Bound = None,
    power_of_two: PowerOfTwo = False,
    throttle: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"Limit of device memory reads: {THROTTLE_NAMES}. {THROTTLE_NAME} if not given.",
            autocompletion=named("throttles"),
        ),
    ] = None,
    densities: Annotated[
        str,
        typer.Option(
            "--density",
            metavar="capture|curve|FILE.json|0…1",
            help="How many elements are not zero: measured, by a formula, as you say, or the same "
            "in all tensors.",
            autocompletion=among("capture", "curve"),
        ),
    ] = FROM_CAPTURE,
    capture: Capture = None,
    epoch: Epoch = 0,
    epochs: Epochs = EPOCHS,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=X[,X]…",
            help="Also with one parameter changed: "
            + "; ".join(f"{name}={each.example}" for name, each in PARAMETERS.items())
            + ".",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png|.svg|.pdf", help="Draw effective bandwidth against density."
        ),
    ] = None,
    html: HtmlFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Tell how long a network's tensors take to the host and back, and what limits them.

    A closed form that the RTL confirms (docs/guide/swap/estimate.md); nothing is simulated.
    """
    require_picture("--plot", plot)
    source = density_source(densities, capture)
    net = required(NETWORK, network, config)
    placed = engine_setup(config, machine, CONFIG)
    limit = chosen_or(THROTTLE, throttle, config, THROTTLE_NAME)
    other_link = chosen(LINK, link, config)
    read = [*files_of([source]), *placed.paths, *paths_of(net, limit, other_link)]
    quiet = goes_to_standard_output(as_json=as_json, html=html)
    pictures = [] if plot is None else [plot]
    require_page(html, inputs=read, others=pictures, force=force)
    setup = Setup(
        config=placed.label, engine=placed.engine, machine=placed.machine, throttle=limit.value
    )
    if other_link is not None:
        setup = setup.with_link(other_link.value)
    if codec is not None:
        setup = setup.with_codec(codec)
    codec = setup.engine.codecs[0]
    asked, bound = bound, engine_bound(codec, bound, power_of_two=power_of_two)
    if plot is not None and bound is not None:
        raise UserError(
            f"--plot draws bandwidth against density, of which {codec} is independent; leave it out"
        )
    wanted = None if sweep is None else Sweep.read(sweep)
    setups = [] if wanted is None else wanted.setups(setup)
    step = net.value.changed(batch=batch, dataset=dataset)
    found = _found(source)
    graph = _with_density(step.graph(), found, epoch, epochs)
    sizes = None
    if bound is not None:
        if not isinstance(found, density.Captured):
            raise EstimateError(
                f"what {codec} makes of a tensor depends on its values, and {source} has only "
                "densities; give a capture, by --capture NAME"
            )
        entry = setup.engine.codec.entries[0]
        parameters = entry.bounded_parameters(bound)
        sizes = captured_sizes(
            graph, found, epoch, epochs, codec=setup.engine.codec, parameters=parameters
        )
    lines = None if sizes is None else {name: each.lines for name, each in sizes.items()}
    report = Report(
        graph=graph,
        settings=EstimateSettings(
            dataset=step.usual_dataset,
            density=source,
            epoch=epoch,
            epochs=epochs,
            bound=bound,
        ),
        setup=setup,
        network=step,
        estimate=NetworkEstimate.of(graph, setup, lines),
        sizes=sizes,
        sweep=wanted,
        swept=[(each, NetworkEstimate.of(graph, each, lines)) for each in setups],
    )
    tell_rounding(asked, bound)
    if plot is not None:
        picture = bandwidth_picture(
            setup,
            points_of(report.estimate.tensors),
            f"{report.title} on {setup.config}, throttle {limit.value.name}",
            picture_format("--plot", plot),
        )
        with open_atomically(plot, force=force) as file:
            file.write(picture)
    made = document("estimate", as_dict(report))
    write_page(html, {"estimate.json": made}, force)
    if as_json:
        print_json(made)
    elif not quiet:
        print_report(report)


def _found(source: str) -> density.Source | float:
    """The source of densities, or the number that all of them are."""
    try:
        value = float(source)
    except ValueError:
        return density.find(source)
    if not 0 <= value <= 1:
        raise EstimateError(f"density must be 0 to 1, not {source}")
    return value


def _with_density(graph: Graph, found: density.Source | float, epoch: int, epochs: int) -> Graph:
    if not isinstance(found, float):
        return density.apply(graph, found, epoch, epochs)
    tensors = tuple(replace(tensor, density=found) for tensor in graph.tensors)
    return replace(graph, tensors=tensors)
