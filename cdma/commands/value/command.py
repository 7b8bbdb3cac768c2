"""`cdma value`: the value map, with its break-even line."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cdma.commands.completers import among, several
from cdma.commands.config_options import DEVICE_NAMES, LINK_NAMES, METAVAR
from cdma.commands.html_option import HtmlFile, require_page, write_page
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.network_options import (
    EPOCHS,
    FROM_CAPTURE,
    Capture,
    Epochs,
    density_source,
    files_of,
    picture_format,
    require_picture,
)
from cdma.commands.standard_output import goes_to_standard_output
from cdma.commands.sweep_options import (
    LOCAL,
    BackendName,
    Jobs,
    Results,
    Scheduler,
    Shard,
    backend_of,
    end_by_failures,
    results_folder,
    shard_of,
    user_files,
)
from cdma.commands.value.points import ROOMS, sweep_point
from cdma.commands.value.report import Map, as_dict
from cdma.commands.value.table import print_map
from cdma.config import DEVICE, LINK, Kind, find
from cdma.errors import UserError
from cdma.hw.codec.registry import lossless_codecs
from cdma.hw.config import DEFAULT_CODECS
from cdma.outputs import Force, open_atomically
from cdma.plan.value.grid import grid
from cdma.plan.value.picture import value_picture
from cdma.plan.value.point import EVALUATIONS, Common, Value
from cdma.plan.workload.networks import NETWORKS
from cdma.plan.workload.table import PRECISIONS
from cdma.schemas import document
from cdma.sweep.run import compute, share
from cdma.sweep.store import Store


def value(
    network: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME]…",
            help=f"Of {', '.join(NETWORKS)}.",
            autocompletion=several("networks"),
        ),
    ] = "resnet50,vgg16,squeezenet,gpt2,vit-b16",
    device: Annotated[
        str,
        typer.Option(
            metavar=f"{METAVAR}[,…]",
            help=f"Of {DEVICE_NAMES}.",
            autocompletion=several("devices"),
        ),
    ] = "titanxp,rtx4090,h100",
    link: Annotated[
        str,
        typer.Option(
            metavar=f"{METAVAR}[,…]",
            help=f"Of {LINK_NAMES}.",
            autocompletion=several("links"),
        ),
    ] = "pcie3x16/4,pcie3x16,pcie4x16,pcie5x16,pcie6x16",
    room: Annotated[
        str,
        typer.Option(
            metavar="0…1[,0…1]…",
            help="Memory, from the least that any plan works with to what keeping all takes.",
        ),
    ] = "0,0.3",
    codec: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME]…",
            help=f"Of the engine's: {', '.join(entry.name for entry in lossless_codecs())}.",
            autocompletion=several(also=[entry.name for entry in lossless_codecs()]),
        ),
    ] = DEFAULT_CODECS[0],
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(PRECISIONS),
            help="Each network's usual one if not given.",
            autocompletion=among(*PRECISIONS),
        ),
    ] = None,
    densities: Annotated[
        str,
        typer.Option(
            "--density",
            metavar="capture|curve|FILE.json",
            help="How many elements are not zero: measured, by a formula, or as you say.",
            autocompletion=among("capture", "curve"),
        ),
    ] = FROM_CAPTURE,
    capture: Capture = None,
    epoch: Annotated[int, typer.Option(metavar="N", help="Of the training, from 0 on.")] = 45,
    epochs: Epochs = EPOCHS,
    break_even: Annotated[
        float,
        typer.Option(metavar="X", help="The gain that the engine must have, as a part."),
    ] = 0.02,
    evaluations: Annotated[
        int, typer.Option(min=1, metavar="N", help="Plans that each search looks at.")
    ] = EVALUATIONS,
    seed: Annotated[int, typer.Option(min=0, help="Of the searches.")] = 0,
    results: Results = None,
    shard: Shard = None,
    jobs: Jobs = None,
    backend: BackendName = LOCAL,
    scheduler: Scheduler = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png|.svg|.pdf", help="Draw the map.")
    ] = None,
    html: HtmlFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Tell what the engine gains over the best plans without it, and behind which links.

    Points that the folder of results has are not computed again. Exit status 1 if any fails.
    """
    source = density_source(densities, capture)
    require_picture("--plot", plot)
    quiet = goes_to_standard_output(as_json=as_json, html=html)
    pictures = [] if plot is None else [plot]
    require_page(html, inputs=files_of([source]), others=pictures, force=force)
    if not 0 < break_even < float("inf"):
        raise UserError(f"--break-even must be more than 0, not {break_even}")
    chosen, part = backend_of(backend, jobs, scheduler), shard_of(shard)
    if precision is not None and precision not in PRECISIONS:
        raise UserError(f"unknown precision {precision!r}; choose from {', '.join(PRECISIONS)}")
    common: Common = {
        "density": source,
        "epoch": epoch,
        "epochs": epochs,
        "evaluations": evaluations,
        "seed": seed,
    }
    if precision is not None:
        common["precision"] = precision
    points = grid(
        _names(network),
        _found(DEVICE, device),
        _found(LINK, link),
        _rooms(room),
        _names(codec),
        **common,
    )
    store = Store(results_folder(results, "value"), ROOMS)
    files = user_files([source])
    asked = [sweep_point(point, files) for point in points]
    own = share(list(zip(points, asked, strict=True)), *part)
    for point, of_sweep in own:
        if store.read(of_sweep) is None:
            # Unknown names are refused before anything is computed.
            point.scenario()
    failed = compute([of_sweep for _, of_sweep in own], store, chosen)
    kept = [result for each in asked if (result := store.read(each)) is not None]
    found = Map(values=tuple(map(Value.from_dict, kept)), points=len(points), break_even=break_even)
    if plot is not None and found.values:
        picture = value_picture(
            found.values, break_even, found.title, picture_format("--plot", plot)
        )
        with open_atomically(plot, force=force) as file:
            file.write(picture)
    made = document("value", as_dict(found))
    write_page(html, {"value.json": made}, force)
    if as_json:
        print_json(made)
    elif not quiet:
        print_map(found)
    end_by_failures(failed)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def _found(kind: Kind[Any], text: str) -> list[Any]:
    """Devices or links that names, files and hooks stand for; names of presets as they are."""
    found = (find(kind, name) for name in _names(text))
    return [each.label if each.base == each.label else each.value for each in found]


def _rooms(text: str) -> list[float]:
    try:
        rooms = [float(part) for part in text.split(",")]
    except ValueError:
        rooms = []
    if not rooms or not all(0 <= each <= 1 for each in rooms):
        raise UserError(f"--room must be numbers of 0 to 1, as 0,0.3, not {text!r}")
    return list(dict.fromkeys(rooms))
