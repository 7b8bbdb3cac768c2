"""`cdma generate`: a block as Verilog."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cdma.files import make_folder, open_atomically
from hw.config import PRESETS, preset
from hw.verilog import COMPONENTS
from hw.verilog import generate as generate_verilog


def generate(
    component: Annotated[
        str,
        typer.Argument(help=f"One of {', '.join(COMPONENTS)}.", show_default=False),
    ],
    config: Annotated[
        str, typer.Option(metavar="PRESET", help=f"One of {', '.join(PRESETS)}.")
    ] = "titanx_gen3",
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1", help="Instead of the preset's: bytes that are zero or not as one."
        ),
    ] = None,
    sector_bytes: Annotated[
        int | None,
        typer.Option(metavar="32|64|128", help="Instead of the preset's: bytes per cycle."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the .v and .json go.")] = Path(
        "build/verilog"
    ),
    assertions: Annotated[
        bool,
        typer.Option(
            "--assertions", help="Keep the RTL's assertions; the file is then SystemVerilog, .sv."
        ),
    ] = False,
) -> None:
    """Write a block as Verilog, with a JSON file that describes its ports."""
    chosen = preset(config).codec
    verilog = generate_verilog(
        component,
        element_bytes=chosen.element_bytes if element_bytes is None else element_bytes,
        sector_bytes=chosen.sector_bytes if sector_bytes is None else sector_bytes,
        line_bytes=chosen.line_bytes,
        assertions=assertions,
    )
    make_folder(out)
    rtl = out / f"{verilog.name}.{'sv' if assertions else 'v'}"
    sidecar = out / f"{verilog.name}.json"
    with open_atomically(rtl, "w") as file:
        file.write(verilog.text)
    with open_atomically(sidecar, "w") as file:
        file.write(json.dumps({**verilog.sidecar, "file": rtl.name}, indent=2) + "\n")
    modules = verilog.text.count("\nendmodule")
    typer.echo(
        f"{rtl}: module {verilog.name} and {modules - 1} below it, "
        f"{verilog.text.count(chr(10)):,} lines; {sidecar}",
        err=True,
    )
