"""`cdma generate`: a block as Verilog."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cdma.errors import UserError
from cdma.files import make_folder, open_atomically, os_user_error
from golden.entry import MODES
from hw.buddy import registers as buddy_registers
from hw.config import (
    BUDDY_PRESETS,
    METADATA_CACHES,
    PRESETS,
    BuddyConfig,
    EngineConfig,
    buddy_preset,
    find_named,
    preset,
)
from hw.dma import registers as engine_registers
from hw.dma.descriptor_header import DESCRIPTOR_HEADER_NAME, descriptor_header
from hw.registers.docs import c_header, header_name, write_html
from hw.registers.map import RegisterSource
from hw.verilog import (
    BUDDY,
    BUDDY_COMPONENTS,
    ENGINE,
    ENTRY_COMPONENTS,
    Verilog,
    component_names,
    generate_buddy,
    generate_engine,
    generate_entry_codec,
)
from hw.verilog import generate as generate_verilog

ENGINE_PRESET, BUDDY_PRESET = "titanx_gen3", "channel"


def generate(
    component: Annotated[
        str,
        typer.Argument(help=f"One of {', '.join(component_names())}.", show_default=False),
    ],
    config: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help=f"One of {', '.join(PRESETS)}; of the buddy controller and what belongs to it, "
            f"{', '.join(BUDDY_PRESETS)}. {ENGINE_PRESET} and {BUDDY_PRESET} if not given.",
        ),
    ] = None,
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
    mode: Annotated[
        str | None,
        typer.Option(metavar="|".join(MODES), help="Entries: what compresses them."),
    ] = None,
    metadata_cache: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET", help=f"Buddy controller: one of {', '.join(METADATA_CACHES)}."
        ),
    ] = None,
    page_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Buddy controller: size of a page.")
    ] = None,
    pages: Annotated[
        int | None, typer.Option(metavar="N", help="Buddy controller: pages of logical memory.")
    ] = None,
    reads: Annotated[
        int | None, typer.Option(metavar="N", help="Buddy controller: entries read at once.")
    ] = None,
    writes: Annotated[
        int | None, typer.Option(metavar="N", help="Buddy controller: entries written at once.")
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

    The engine and the buddy controller come with C headers and pages of their registers.
    """
    codec = _given(element_bytes=element_bytes, sector_bytes=sector_bytes)
    of_engine = _given(
        units=units,
        buffer_bytes=buffer_bytes,
        read_buffer_bytes=read_buffer_bytes,
        write_bursts=write_bursts,
        split_lines=split_lines,
    )
    of_entries = _given(mode=mode)
    of_buddy = _given(
        metadata_cache=metadata_cache,
        page_bytes=page_bytes,
        pages=pages,
        reads=reads,
        writes=writes,
    )
    if component != ENGINE:
        _refuse(component, "the engine's", of_engine)
    if component not in BUDDY_COMPONENTS:
        _refuse(component, "the buddy controller's", of_buddy)
        if component not in ENTRY_COMPONENTS:
            _refuse(component, "that of entries", of_entries)

    software_side: list[Path] = []
    if component in BUDDY_COMPONENTS or component in ENTRY_COMPONENTS:
        buddy = _buddy_config(config, codec | of_entries, of_buddy)
        if component in ENTRY_COMPONENTS:
            verilog = generate_entry_codec(component, buddy.entry, assertions=assertions)
        else:
            verilog = generate_buddy(buddy, component, assertions=assertions)
        files = _write(verilog, out, assertions)
        if component == BUDDY:
            software_side = _write_registers(buddy_registers.register_source(buddy), out)
    else:
        engine = _engine_config(config, codec, of_engine)
        if component == ENGINE:
            verilog = generate_engine(engine, assertions=assertions)
            files = _write(verilog, out, assertions)
            software_side = _write_engine_headers(engine, out)
        else:
            verilog = generate_verilog(
                component,
                element_bytes=engine.codec.element_bytes,
                sector_bytes=engine.codec.sector_bytes,
                line_bytes=engine.codec.line_bytes,
                assertions=assertions,
            )
            files = _write(verilog, out, assertions)
    files += software_side
    modules = verilog.text.count("\nendmodule")
    typer.echo(
        f"{files[0]}: module {verilog.name} and {modules - 1} below it, "
        f"{verilog.text.count(chr(10)):,} lines; {', '.join(map(str, files[1:]))}",
        err=True,
    )


def _given(**options: int | str | None) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(component: str, whose: str, options: dict[str, Any]) -> None:
    """Options that the component does not have, if there is such a component."""
    if options and component in component_names():
        option = f"--{next(iter(options)).replace('_', '-')}"
        raise UserError(f"{option} is {whose}, not that of {component}; leave it away")


def _engine_config(name: str | None, codec: dict[str, Any], shape: dict[str, Any]) -> EngineConfig:
    chosen = preset(name or ENGINE_PRESET)
    changed = dataclasses.replace(chosen.codec, **codec)
    return dataclasses.replace(chosen, codec=changed, host_bytes=changed.sector_bytes, **shape)


def _buddy_config(name: str | None, entry: dict[str, Any], shape: dict[str, Any]) -> BuddyConfig:
    chosen = buddy_preset(name or BUDDY_PRESET)
    cache = chosen.cache
    if "metadata_cache" in shape:
        cache = find_named(METADATA_CACHES, shape.pop("metadata_cache"), field="metadata_cache")
    changed = dataclasses.replace(chosen.entry, **entry)
    return dataclasses.replace(chosen, entry=changed, cache=cache, **shape)


def _write(verilog: Verilog, folder: Path, assertions: bool) -> list[Path]:
    make_folder(folder)
    rtl = folder / f"{verilog.name}.{'sv' if assertions else 'v'}"
    sidecar = folder / f"{verilog.name}.json"
    with open_atomically(rtl, "w") as file:
        file.write(verilog.text)
    with open_atomically(sidecar, "w") as file:
        file.write(json.dumps({**verilog.sidecar, "file": rtl.name}, indent=2) + "\n")
    return [rtl, sidecar]


def _write_engine_headers(config: EngineConfig, folder: Path) -> list[Path]:
    """What software needs of the engine."""
    descriptors = folder / DESCRIPTOR_HEADER_NAME
    with open_atomically(descriptors, "w") as file:
        file.write(descriptor_header())
    header, index = _write_registers(engine_registers.register_source(config), folder)
    return [header, descriptors, index]


def _write_registers(source: RegisterSource, folder: Path) -> list[Path]:
    """A block's registers: the C header, and the first of the pages."""
    header = folder / header_name(source)
    with open_atomically(header, "w") as file:
        file.write(c_header(source))
    pages = folder / f"{source.top}_registers"
    try:
        index = write_html(pages, source)
    except OSError as error:
        raise os_user_error("write", pages, error) from error
    return [header, index]
