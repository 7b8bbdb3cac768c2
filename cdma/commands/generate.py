"""`cdma generate`: a block as Verilog."""

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cdma import config as kinds
from cdma.builds.errors import CacheError
from cdma.commands.completers import among, named
from cdma.commands.config_options import METAVAR, OWN
from cdma.commands.json_option import json_text
from cdma.config.files import CONFIGURATION
from cdma.errors import UserError
from cdma.golden.buddy.entry import MODES
from cdma.hw.buddy import registers as buddy_registers
from cdma.hw.components import (
    BUDDY,
    COMPONENTS,
    ENGINE,
    ENTRY,
    Config,
    find_component,
)
from cdma.hw.config import (
    BUDDY_PRESETS,
    HOST_BYTES,
    LATENCIES,
    METADATA_CACHES,
    PRESETS,
    BuddyConfig,
    EngineConfig,
    find_named,
)
from cdma.hw.dma.control import registers as engine_registers
from cdma.hw.dma.control.descriptor_header import descriptor_header, descriptor_header_name
from cdma.hw.emit.ip.folder import ip_files
from cdma.hw.emit.names import check_module_name
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS
from cdma.hw.emit.verilog import STYLES, Verilog
from cdma.hw.emit.verilog import generate as generate_verilog
from cdma.hw.registers.docs import c_header, header_name, write_html
from cdma.hw.registers.map import RegisterSource
from cdma.outputs import Force, require_folder, write_all
from cdma.schemas import document
from cdma.sim.machine.build.rtl import kept

CLOCK_MHZ = 1000.0

Contents = dict[str, str | bytes]
"""Files of a folder by their names."""


def generate(
    component: Annotated[
        str,
        typer.Argument(
            metavar="COMPONENT",
            help="What is generated; `cdma list components` tells what there is.",
            show_default=False,
            autocompletion=named("components"),
        ),
    ],
    config: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"One of {', '.join(PRESETS)}; of the buddy controller and what belongs to it, "
            f"{', '.join(BUDDY_PRESETS)}; {OWN}. {ENGINE.default} and {BUDDY.default} if not "
            "given.",
            autocompletion=named("presets"),
        ),
    ] = None,
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1",
            help="Instead of the preset's: bytes that are zero or not as one.",
            autocompletion=among(4, 2, 1),
        ),
    ] = None,
    sector_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="32|64|128",
            help="Instead of the preset's: bytes per cycle.",
            autocompletion=among(32, 64, 128),
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(LATENCIES),
            autocompletion=among(*LATENCIES),
            help="Instead of the preset's: ZVC pipelines of the paper's stages, or one more each.",
        ),
    ] = None,
    units: Annotated[
        int | None, typer.Option(metavar="N", help="Engine: units, and memory ports, 1 to 16.")
    ] = None,
    host_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="|".join(map(str, HOST_BYTES)),
            help="Engine: width of the port to the link; a sector if not given.",
            autocompletion=among(*HOST_BYTES),
        ),
    ] = None,
    buffer_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Engine: room for lines on their way out.")
    ] = None,
    read_buffer_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Engine: room for streams on their way in.")
    ] = None,
    write_bursts: Annotated[
        int | None, typer.Option(metavar="N", help="Engine: write bursts outstanding to the host.")
    ] = None,
    split_lines: Annotated[
        int | None,
        typer.Option(
            metavar="1|2",
            help="Engine: lines per cycle on their way in.",
            autocompletion=among(1, 2),
        ),
    ] = None,
    drain_beats: Annotated[
        int | None,
        typer.Option(
            metavar="1|2",
            help="Engine: line beats per cycle on their way out.",
            autocompletion=among(1, 2),
        ),
    ] = None,
    split_beats: Annotated[
        int | None,
        typer.Option(
            metavar="1|2",
            help="Engine: line beats per cycle on their way in.",
            autocompletion=among(1, 2),
        ),
    ] = None,
    transfers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Engine: descriptors ahead, and transfers in each path."),
    ] = None,
    rings: Annotated[
        int | None,
        typer.Option(metavar="N", help="Engine: rings, each with its page of registers, 1 to 8."),
    ] = None,
    stream_id_bits: Annotated[
        int | None,
        typer.Option(metavar="BITS", help="Engine: width of AxUSER; 0 for none."),
    ] = None,
    host_clock: Annotated[
        bool,
        typer.Option(
            "--host-clock", help="Engine: a clock of its own for the bus to the host, host_clk."
        ),
    ] = False,
    ecc: Annotated[
        bool, typer.Option("--ecc", help="Engine: correct flipped bits of the memories for data.")
    ] = False,
    clock_gates: Annotated[
        bool,
        typer.Option(
            "--clock-gates",
            help="Engine: stop the clocks of data paths without work; adds the input test_enable.",
        ),
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(MODES),
            help="Entries: what compresses them.",
            autocompletion=among(*MODES),
        ),
    ] = None,
    metadata_cache: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help=f"Buddy controller: one of {', '.join(METADATA_CACHES)}.",
            autocompletion=named("metadata-caches"),
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
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of the top module and the files; the names of all modules begin with it, so that "
            "several shapes of a component fit one design. The component's if not given.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the files go.")] = Path(
        "build/verilog"
    ),
    ip: Annotated[
        bool,
        typer.Option(
            "--ip",
            help="A folder for other flows: IP-XACT, a FuseSoC core, constraints, a bench.",
        ),
    ] = False,
    clock_mhz: Annotated[
        float | None,
        typer.Option(metavar="MHZ", help=f"Of the constraints; {CLOCK_MHZ:g} if not given."),
    ] = None,
    host_clock_mhz: Annotated[
        float | None,
        typer.Option(metavar="MHZ", help="Of the constraints' host_clk; as clk if not given."),
    ] = None,
    assertions: Annotated[
        bool,
        typer.Option(
            "--assertions", help="Keep the RTL's assertions; the file is then SystemVerilog, .sv."
        ),
    ] = False,
    style: Annotated[
        str,
        typer.Option(
            metavar="|".join(STYLES),
            help="Modules with the source's names, if and case, or a netlist of wires by Yosys.",
            autocompletion=among(*STYLES),
        ),
    ] = STYLES[0],
    reset: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help=f"Of registers, one of {', '.join(RESETS)}.",
            autocompletion=among(*RESETS),
        ),
    ] = DEFAULT_RESET,
    force: Force = False,
) -> None:
    """Write a block as Verilog, with a JSON file that describes its ports.

    The engine and the buddy controller come with C headers and pages of their registers.
    """
    if clock_mhz is not None and not ip:
        raise UserError("--clock-mhz is of the constraints; give --ip too, or leave it away")
    if host_clock_mhz is not None and not ip:
        raise UserError("--host-clock-mhz is of the constraints; give --ip too, or leave it away")
    if assertions and ip:
        raise UserError("--ip is for flows that read Verilog; leave --assertions away")
    if style not in STYLES:
        raise UserError(f"--style must be one of {', '.join(STYLES)}, not {style}")
    if reset not in RESETS:
        raise UserError(f"--reset must be one of {', '.join(RESETS)}, not {reset}")
    if name is not None:
        check_module_name(name)
    # Before the RTL, which may take long; which files there will be is not known yet.
    require_folder(out)
    codec = _given(element_bytes=element_bytes, sector_bytes=sector_bytes)
    of_engine = _given(
        units=units,
        host_bytes=host_bytes,
        buffer_bytes=buffer_bytes,
        read_buffer_bytes=read_buffer_bytes,
        write_bursts=write_bursts,
        split_lines=split_lines,
        drain_beats=drain_beats,
        split_beats=split_beats,
        transfers=transfers,
        rings=rings,
        stream_id_bits=stream_id_bits,
        host_clock=host_clock or None,
        ecc=ecc or None,
        clock_gates=clock_gates or None,
    )
    of_zvc = _given(latency=latency)
    of_entries = _given(mode=mode)
    of_buddy = _given(
        metadata_cache=metadata_cache,
        page_bytes=page_bytes,
        pages=pages,
        reads=reads,
        writes=writes,
    )
    found = find_component(component)
    family, top = found.family, found.top if name is None else name
    if family is not ENGINE:
        _refuse(component, "the engine's", of_engine)
    if family in (ENTRY, BUDDY):
        _refuse(component, "that of zero-value codecs", of_zvc)
    if family is not BUDDY:
        _refuse(component, "the buddy controller's", of_buddy)
        if family is not ENTRY:
            _refuse(component, "that of entries", of_entries)

    chosen: Config
    registers: RegisterSource | None = None
    headers: dict[str, str] = {}
    if family in (ENTRY, BUDDY):
        buddy = _buddy_config(config, codec | of_entries, of_buddy)
        tables = kinds.tables_of(buddy)
        chosen = buddy.entry if family is ENTRY else buddy
        if component == "buddy":
            registers = buddy_registers.register_source(buddy, name=top)
    else:
        engine = _engine_config(config, codec | of_zvc, of_engine)
        tables = kinds.tables_of(engine)
        chosen = engine if family is ENGINE else engine.codec
        if component == "engine":
            registers = engine_registers.register_source(engine, name=top)
            headers[descriptor_header_name(top)] = descriptor_header()
    if host_clock_mhz is not None and not (component == "engine" and engine.host_clock):
        raise UserError(
            "--host-clock-mhz is of an engine's host_clk; give --host-clock too, or leave it away"
        )
    verilog = _kept(component, chosen, top, assertions, style, reset)
    sidecar = document("sidecar", {**verilog.sidecar, CONFIGURATION: tables})
    verilog = dataclasses.replace(verilog, sidecar=sidecar)
    if registers is not None:
        headers = {header_name(registers): c_header(registers), **headers}
    folder = out / verilog.name if ip else out
    if ip:
        texts: Contents = {
            **ip_files(
                verilog,
                clock_mhz=CLOCK_MHZ if clock_mhz is None else clock_mhz,
                other_clocks_mhz=host_clock_mhz,
                headers=headers,
                registers=registers,
                bench=found.bench(chosen, top, reset),
            )
        }
    else:
        texts = _contents(verilog, headers, assertions)
    html = _pages(registers, "doc/" if ip else "")
    write_all(folder, texts | html, force=force)
    # Of the pages only the one to begin with, and a folder's files only by their number.
    files = [folder / name for name in [*texts, *list(html)[:1]]]
    others = f"{folder}: {len(texts)} files" if ip else ", ".join(map(str, files[1:]))
    modules = verilog.text.count("\nendmodule")
    typer.echo(
        f"{files[0]}: module {verilog.name} and {modules - 1} below it, "
        f"{verilog.text.count(chr(10)):,} lines; {others}",
        err=True,
    )


def _kept(
    component: str, config: Config, name: str, assertions: bool, style: str, reset: str
) -> Verilog:
    """The component's Verilog, from the simulators' cache where possible."""

    def make() -> Verilog:
        return generate_verilog(
            component, config, name=name, assertions=assertions, style=style, reset=reset
        )

    try:
        key = f"generate {component} {config} {name} {assertions} {style} {reset}"
        return kept(COMPONENTS[component].module, key, make)
    except CacheError:
        # Only a second run is slower for it.
        return make()


def _given(**options: int | str | None) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(component: str, whose: str, options: dict[str, Any]) -> None:
    """Raise `UserError` for options that the component does not have."""
    if options:
        option = f"--{next(iter(options)).replace('_', '-')}"
        raise UserError(f"{option} is {whose}, not that of {component}; leave it away")


def _engine_config(name: str | None, codec: dict[str, Any], shape: dict[str, Any]) -> EngineConfig:
    chosen = kinds.find(kinds.ENGINE, name or ENGINE.default).value
    changed = dataclasses.replace(chosen.codec, **codec)
    if "sector_bytes" in codec:
        shape = {"host_bytes": changed.sector_bytes, **shape}
    return dataclasses.replace(chosen, codec=changed, **shape)


def _buddy_config(name: str | None, entry: dict[str, Any], shape: dict[str, Any]) -> BuddyConfig:
    chosen = kinds.find(kinds.BUDDY, name or BUDDY.default).value
    cache = chosen.cache
    if "metadata_cache" in shape:
        cache = find_named(METADATA_CACHES, shape.pop("metadata_cache"), field="metadata_cache")
    changed = dataclasses.replace(chosen.entry, **entry)
    return dataclasses.replace(chosen, entry=changed, cache=cache, **shape)


def _contents(verilog: Verilog, headers: Mapping[str, str], assertions: bool) -> Contents:
    """Collect the files that lie side by side, by name."""
    rtl = f"{verilog.name}.{'sv' if assertions else 'v'}"
    sidecar = json_text({**verilog.sidecar, "file": rtl}) + "\n"
    return {rtl: verilog.text, f"{verilog.name}.json": sidecar, **headers}


def _pages(source: RegisterSource | None, folder: str) -> Contents:
    """Collect the pages about a block's registers, if it has any, the main page first."""
    if source is None:
        return {}
    name = f"{folder}{source.name}_registers"
    with tempfile.TemporaryDirectory() as scratch:
        index = write_html(Path(scratch), source)
        others = sorted(path for path in Path(scratch).rglob("*") if path.is_file())
        paths = [index, *(path for path in others if path != index)]
        return {f"{name}/{path.relative_to(scratch)}": path.read_bytes() for path in paths}
