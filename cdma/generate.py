"""`cdma generate`: a block as Verilog."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from cdma.errors import UserError
from cdma.files import make_folder, open_atomically, os_user_error
from hw.config import PRESETS, EngineConfig, preset
from hw.dma.descriptor_header import DESCRIPTOR_HEADER_NAME, descriptor_header
from hw.dma.registers import register_source
from hw.registers.docs import c_header, header_name, write_html
from hw.verilog import COMPONENTS, ENGINE, Verilog, generate_engine
from hw.verilog import generate as generate_verilog


def generate(
    component: Annotated[
        str,
        typer.Argument(help=f"{ENGINE}, or one of {', '.join(COMPONENTS)}.", show_default=False),
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
    units: Annotated[
        int | None, typer.Option(metavar="N", help="Engine: units, and memory ports, 1 to 16.")
    ] = None,
    buffer_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Engine: room for lines on their way out.")
    ] = None,
    read_buffer_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Engine: room for streams on their way in.")
    ] = None,
    write_bursts: Annotated[
        int | None, typer.Option(metavar="N", help="Engine: write bursts under way to the host.")
    ] = None,
    split_lines: Annotated[
        int | None, typer.Option(metavar="1|2", help="Engine: lines per cycle on their way in.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the files go.")] = Path(
        "build/verilog"
    ),
    assertions: Annotated[
        bool,
        typer.Option(
            "--assertions", help="Keep the RTL's assertions; the file is then SystemVerilog, .sv."
        ),
    ] = False,
) -> None:
    """Write a block as Verilog, with a JSON file that describes its ports.

    The engine comes with C headers of its registers and descriptors, and the registers' pages.
    """
    chosen = preset(config)
    codec = dataclasses.replace(
        chosen.codec,
        **_given(element_bytes=element_bytes, sector_bytes=sector_bytes),
    )
    shape = _given(
        units=units,
        buffer_bytes=buffer_bytes,
        read_buffer_bytes=read_buffer_bytes,
        write_bursts=write_bursts,
        split_lines=split_lines,
    )
    if component == ENGINE:
        engine = dataclasses.replace(chosen, codec=codec, host_bytes=codec.sector_bytes, **shape)
        verilog = generate_engine(engine, assertions=assertions)
        files = _write(verilog, out, assertions) + _write_software_side(engine, out)
    else:
        if shape:
            option = f"--{next(iter(shape)).replace('_', '-')}"
            raise UserError(f"{option} is the engine's, not that of {component}; leave it away")
        verilog = generate_verilog(
            component,
            element_bytes=codec.element_bytes,
            sector_bytes=codec.sector_bytes,
            line_bytes=codec.line_bytes,
            assertions=assertions,
        )
        files = _write(verilog, out, assertions)
    modules = verilog.text.count("\nendmodule")
    typer.echo(
        f"{files[0]}: module {verilog.name} and {modules - 1} below it, "
        f"{verilog.text.count(chr(10)):,} lines; {', '.join(map(str, files[1:]))}",
        err=True,
    )


def _given(**options: int | None) -> dict[str, int]:
    return {name: value for name, value in options.items() if value is not None}


def _write(verilog: Verilog, folder: Path, assertions: bool) -> list[Path]:
    make_folder(folder)
    rtl = folder / f"{verilog.name}.{'sv' if assertions else 'v'}"
    sidecar = folder / f"{verilog.name}.json"
    with open_atomically(rtl, "w") as file:
        file.write(verilog.text)
    with open_atomically(sidecar, "w") as file:
        file.write(json.dumps({**verilog.sidecar, "file": rtl.name}, indent=2) + "\n")
    return [rtl, sidecar]


def _write_software_side(config: EngineConfig, folder: Path) -> list[Path]:
    """What software needs of the engine."""
    registers = register_source(config)
    headers = [
        (folder / header_name(registers), c_header(registers)),
        (folder / DESCRIPTOR_HEADER_NAME, descriptor_header()),
    ]
    for path, text in headers:
        with open_atomically(path, "w") as file:
            file.write(text)
    pages = folder / "cdma_engine_registers"
    try:
        index = write_html(pages, registers)
    except OSError as error:
        raise os_user_error("write", pages, error) from error
    return [*(path for path, _ in headers), index]
