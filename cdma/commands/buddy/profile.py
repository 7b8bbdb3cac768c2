"""`cdma buddy profile`: how allocations compress, and the target ratios that suit them."""

from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.buddy.profile_report import as_dict, print_report
from cdma.commands.completers import among, named
from cdma.commands.html_option import HtmlFile, require_page, write_page
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.network_options import files_of, picture_format, require_picture
from cdma.commands.standard_output import goes_to_standard_output
from cdma.files import path_of_input
from cdma.golden.buddy.address_map import MIN_PAGE_BYTES
from cdma.golden.buddy.entry import BEST_OF_THREE, MODES
from cdma.outputs import Force, open_atomically
from cdma.plan.buddy.profile import CARVE_OUT, PARAMETERS, THRESHOLD
from cdma.plan.buddy.profile import profile as profile_of
from cdma.schemas import document
from cdma.sim.buddy import WORKLOADS, heat_map_picture, in_bf16, load_snapshots

CODECS = ("bpc", *(mode for mode in MODES if mode != "bpc"))


def profile(
    snapshots: Annotated[
        list[str],
        typer.Argument(
            metavar="SNAPSHOTS…",
            autocompletion=named("captures"),
            help=f".npz or .npy files, or any of {', '.join(WORKLOADS)}; - is the standard input.",
            show_default=False,
        ),
    ],
    threshold: Annotated[
        float,
        typer.Option(metavar="0…1", help="How many of an allocation's entries may spill."),
    ] = THRESHOLD,
    codec: Annotated[
        str,
        typer.Option(
            metavar="|".join(CODECS),
            help="What compresses entries.",
            autocompletion=among(*CODECS),
        ),
    ] = "best-of",
    zero_page: Annotated[
        bool,
        typer.Option("--zero-page/--no-zero-page", help="16x for what is mostly zero, or not."),
    ] = True,
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1",
            help="From each array's type when not given.",
            autocompletion=among(4, 2, 1),
        ),
    ] = None,
    carve_out: Annotated[
        float, typer.Option(metavar="X", help="Buddy memory, in multiples of device memory.")
    ] = CARVE_OUT,
    page_bytes: Annotated[
        int, typer.Option(metavar="N", help="Allocations take whole pages of so many bytes.")
    ] = MIN_PAGE_BYTES,
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Round floats to bf16 before they are measured.")
    ] = False,
    parameters: Annotated[
        str,
        typer.Option(
            metavar="|".join(PARAMETERS),
            help="Snapshot that pages have XC's centre and pattern from, with best-of-three.",
            autocompletion=among(*PARAMETERS),
        ),
    ] = PARAMETERS[0],
    sweep_threshold: Annotated[
        bool, typer.Option("--sweep-threshold", help="Also with thresholds of 10 to 40 %.")
    ] = False,
    heat_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png|.svg|.pdf", help="Draw the size of each entry, page by page."
        ),
    ] = None,
    html: HtmlFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure snapshots of memory and choose a target ratio for each allocation."""
    require_picture("--heat-map", heat_map)
    quiet = goes_to_standard_output(as_json=as_json, html=html)
    pictures = [] if heat_map is None else [heat_map]
    require_page(html, inputs=files_of(snapshots), others=pictures, force=force)
    allocations = load_snapshots([path_of_input(name) for name in snapshots])
    made = profile_of(
        in_bf16(allocations) if bf16 else allocations,
        threshold=threshold,
        codec=codec,
        element_bytes=element_bytes,
        carve_out=carve_out,
        zero_page=zero_page,
        page_bytes=page_bytes,
        parameters=parameters,
    )
    if heat_map is not None:
        with open_atomically(heat_map, force=force) as file:
            file.write(heat_map_picture(made, picture_format("--heat-map", heat_map)))
    options = {
        "snapshots": snapshots,
        "codec": codec,
        "element_bytes": element_bytes,
        **({"bf16": True} if bf16 else {}),
        **({"parameters": parameters} if codec == BEST_OF_THREE else {}),
    }
    report = document("profile", as_dict(made, options, sweep=sweep_threshold))
    write_page(html, {"profile.json": report}, force)
    if as_json:
        print_json(report)
    elif not quiet:
        print_report(made, codec, sweep=sweep_threshold)
