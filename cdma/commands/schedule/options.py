"""Options of `cdma schedule`."""

from pathlib import Path
from typing import Annotated

import typer

from cdma.plan.platform.device import DEVICES
from cdma.plan.platform.link import LINKS
from cdma.plan.policies.comparison import NO_BOUND
from cdma.plan.policies.registry import POLICIES
from cdma.plan.search.bound import EFFORTS
from cdma.plan.timeline.placement import MODES
from cdma.plan.workload.builder import ACTIVATIONS
from cdma.plan.workload.optimizer import OPTIMIZERS
from cdma.plan.workload.table import PRECISIONS

Activation = Annotated[
    str,
    typer.Option(metavar="|".join(ACTIVATIONS), help="leaky_relu leaves activations dense."),
]

Precision = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(PRECISIONS),
        help="Of values and weights; the network's usual one if not given.",
    ),
]

Optimizer = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(OPTIMIZERS),
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

DeviceName = Annotated[str, typer.Option(metavar="NAME", help=f"One of {', '.join(DEVICES)}.")]

LinkName = Annotated[
    str, typer.Option(metavar="NAME", help=f"One of {', '.join(LINKS)}; /4 behind it: shared by 4.")
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
    typer.Option("--policy", metavar="all|NAME[,NAME]…", help=f"Of {', '.join(POLICIES)}."),
]

ModeName = Annotated[
    str | None,
    typer.Option(metavar="|".join(MODES), help="Each policy's published one if not given."),
]

Densities = Annotated[
    str,
    typer.Option(
        "--density",
        metavar="capture|curve|FILE.json",
        help="How many elements are not zero: measured, by a formula, or as you say.",
    ),
]

Efficiencies = Annotated[
    str | None,
    typer.Option(
        metavar="X[,X]…",
        help="The part of the device's peak that every layer gets; several are compared.",
    ),
]

BoundEffort = Annotated[
    str,
    typer.Option(
        metavar="|".join((*EFFORTS, NO_BOUND)),
        help="How lower bounds are found: auto is integral for small networks, else linear.",
    ),
]

Seed = Annotated[int, typer.Option(min=0, help="Of policies that draw.")]

Run = Annotated[
    bool, typer.Option("--run", help="Also carry the plans out, made small, by the RTL.")
]

LargestBatch = Annotated[
    bool,
    typer.Option("--largest-batch", help="Instead: the largest batch that each policy can train."),
]

TraceFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="Write the timelines for ui.perfetto.dev."),
]

PlotFile = Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the timelines.")]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object; its keys are stable.")]
