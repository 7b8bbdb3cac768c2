"""Options of `cdma schedule`."""

from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.completers import among, named, several
from cdma.commands.config_options import (
    DEVICE_NAMES,
    ENGINE_NAMES,
    LINK_NAMES,
    MACHINE_NAMES,
    METAVAR,
)
from cdma.plan.policies.comparison import NO_BOUND
from cdma.plan.policies.registry import POLICIES
from cdma.plan.search.bound import EFFORTS
from cdma.plan.timeline.placement import MODES
from cdma.plan.workload.builder import ACTIVATIONS
from cdma.plan.workload.optimizer import OPTIMIZERS
from cdma.plan.workload.table import PRECISIONS

Activation = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(ACTIVATIONS),
        autocompletion=among(*ACTIVATIONS),
        help="leaky_relu leaves activations dense; the network's usual one if not given.",
    ),
]

Precision = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(PRECISIONS),
        autocompletion=among(*PRECISIONS),
        help="Of values and weights; the network's usual one if not given.",
    ),
]

Optimizer = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(OPTIMIZERS),
        autocompletion=among(*OPTIMIZERS),
        help="What stays on the device for each weight; the network's usual one if not given.",
    ),
]

Passes = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Passes whose gradients are added up; batch and times are of one.",
    ),
]

PLOTTED = 5
"""Policies that a picture of timelines has room for."""

DEVICE_NAME = "titanxp"
LINK_NAME = "pcie3x16"
"""What is taken if no option says otherwise."""

DeviceName = Annotated[
    str | None,
    typer.Option(
        metavar=METAVAR,
        help=f"{DEVICE_NAMES}. {DEVICE_NAME} if not given.",
        autocompletion=named("devices"),
    ),
]

LinkName = Annotated[
    str | None,
    typer.Option(
        metavar=METAVAR,
        help=f"{LINK_NAMES}. {LINK_NAME} if not given.",
        autocompletion=named("links"),
    ),
]

EngineName = Annotated[
    str | None,
    typer.Option(
        metavar=METAVAR,
        help=f"The engine that the device is imagined with: {ENGINE_NAMES}. The device's own if "
        "not given.",
        autocompletion=named("presets"),
    ),
]

MachineName = Annotated[
    str | None,
    typer.Option(
        metavar=METAVAR,
        help=f"Around that engine: {MACHINE_NAMES}. Memory and link are the device's and the "
        "link's all the same.",
        autocompletion=named("machines"),
    ),
]

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES",
        help="As 12GB, 11.5GiB or 12000000000; all of the device's if not given.",
    ),
]

PolicyNames = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="all|NAME[,NAME]…",
        help=f"Of {', '.join(POLICIES)}.",
        autocompletion=several("policies", also=["all"]),
    ),
]

ModeName = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(MODES),
        help="Each policy's published one if not given.",
        autocompletion=among(*MODES),
    ),
]

Densities = Annotated[
    str,
    typer.Option(
        "--density",
        metavar="capture|curve|FILE.json",
        help="How many elements are not zero: measured, by a formula, or as you say.",
        autocompletion=among("capture", "curve"),
    ),
]

Efficiencies = Annotated[
    str | None,
    typer.Option(
        metavar="X[,X]…|published",
        help="The part of the device's peak that every layer gets; several are compared. Or that "
        "of each kind as others have measured it (docs/reference/efficiencies.md).",
    ),
]

BoundEffort = Annotated[
    str,
    typer.Option(
        metavar="|".join((*EFFORTS, NO_BOUND)),
        autocompletion=among(*EFFORTS, NO_BOUND),
        help="How lower bounds are found: auto is integral for small networks, else linear.",
    ),
]

Seed = Annotated[int, typer.Option(min=0, help="Of policies that draw.")]

Run = Annotated[
    bool, typer.Option("--run", help="Also carry the plans out, made small, by the RTL.")
]

RunBytes = Annotated[
    str | None,
    typer.Option(
        "--bytes",
        metavar="BYTES",
        help="With --run: what the small plans swap together, as 20MB; 2MiB if not given.",
        show_default=False,
    ),
]

RunContent = Annotated[
    str | None,
    typer.Option(
        "--content",
        metavar="BYTES",
        help="With --run: what each plan's tensors have that goes out and back by itself, compared "
        "with golden streams, as 1GB; as many as --bytes if not given.",
        show_default=False,
    ),
]

RunJobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        min=1,
        metavar="N",
        help="With --run: processes, each with a plan's step or a part of a tensor at a time.",
    ),
]

LargestBatch = Annotated[
    bool,
    typer.Option("--largest-batch", help="Instead: the largest batch that each policy can train."),
]

TraceFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json",
        help="Write the timelines for ui.perfetto.dev; - is the standard output, which then has "
        "nothing else.",
    ),
]

PlotFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.png|.svg|.pdf",
        help=f"Draw the timelines, of many policies the {PLOTTED} fastest.",
    ),
]
