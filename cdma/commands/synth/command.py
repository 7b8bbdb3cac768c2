"""`cdma synth`: what components cost as silicon, and how fast they clock."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.completers import among, named
from cdma.commands.config_options import METAVAR, OWN
from cdma.commands.html_option import HtmlFile, require_page, write_page
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.standard_output import goes_to_standard_output
from cdma.commands.synth.configuration import configured, names_with
from cdma.commands.synth.report import (
    FpgaTarget,
    fpga_json_of,
    json_of,
    print_fpga_report,
    print_report,
)
from cdma.errors import UserError
from cdma.hw.config import BUDDY_PRESETS, PRESETS
from cdma.outputs import Force, claim_folder
from cdma.schemas import document
from cdma.synth import (
    UNIT_GATES,
    ComponentBlock,
    Library,
    Synthesis,
    block_names,
    map_to,
    place_and_route,
    resources,
)
from cdma.synth.baseline import ECP5, GENERIC, read_baseline
from cdma.synth.components import CODEC_PRESET, ENTRY_PRESET
from cdma.synth.fpga.ecp5 import SEED, SPEED, SPEEDS, too_large
from cdma.synth.fpga.resources import FAMILIES
from cdma.synth.gates.timing import slowest_path
from cdma.synth.report import ASIC, TARGETS, FpgaRow, GateRow, fpga_row_of, row_of
from cdma.synth.tools.opensta import opensta_period_ps
from cdma.terminal.console import terminal

GATED = "gated"
"""Folder, in a component's, of its netlist with gated clocks."""


def synth(
    components: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMPONENT]...",
            autocompletion=named("components"),
            help=f"Of {', '.join(block_names())}.",
            show_default=False,
        ),
    ] = None,
    all_components: Annotated[
        bool, typer.Option("--all", help="All that have the configuration; takes a while.")
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"Of codecs and the engine's parts {', '.join(PRESETS)}; of entries and Buddy's "
            f"{', '.join(BUDDY_PRESETS)}; {OWN}. {CODEC_PRESET} and {ENTRY_PRESET} if not given.",
            autocompletion=named("presets"),
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(TARGETS),
            autocompletion=among(*TARGETS),
            help=f"{GENERIC}: the gates that come with cdma. {ASIC}: those of --liberty. The "
            f"others are FPGAs; {ECP5} is placed and routed.",
        ),
    ] = None,
    liberty: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A library of standard cells, in Liberty's format. Given again: another corner of "
            "it, in which the same netlist is timed.",
        ),
    ] = None,
    opensta: Annotated[
        bool, typer.Option("--opensta", help="Time each netlist with OpenSTA, too.")
    ] = False,
    speed: Annotated[
        int | None,
        typer.Option(
            metavar="|".join(map(str, SPEEDS)),
            autocompletion=among(*SPEEDS),
            help=f"Grade of the {ECP5}; {SPEED} if not given.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**31 - 1,
            help=f"Of the placer's random numbers, on {ECP5}; {SEED} if not given.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where netlists and Yosys' logs go.")
    ] = Path("build/synth"),
    html: HtmlFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Map components to gates or to an FPGA: what they take, their depth and their clock.

    Of the generic target and of ECP5, the table ends with what has changed since the committed
    baseline.
    """
    target = _target(target, liberty)
    device = _device(target, speed, seed)
    if opensta and device is not None:
        raise UserError(f"--opensta is of gates; leave it away, or --target {target}")
    names = _names(components or [], all_components, config)
    blocks, configuration, read = configured(names, config)
    inputs = [*(liberty or []), *read]
    quiet = goes_to_standard_output(as_json=as_json, html=html)
    require_page(html, inputs=inputs, force=force)
    library, *corners = [Library(path) for path in liberty or [UNIT_GATES]]
    place = out if device is None else out / device.target
    for chosen in blocks:
        claim_folder(place / chosen.name, inputs=inputs, force=force)
    if device is not None:
        wholes = [chosen.name for chosen in blocks if chosen.is_whole]
        if wholes and not all_components:
            raise UserError(
                f"{wholes[0]} is a whole, which FPGAs have no room for; leave it away, or --target"
            )
        blocks = [chosen for chosen in blocks if not chosen.is_whole]
        fpga_rows = [_fpga_row(chosen, device, place) for chosen in _told(blocks)]
        report = fpga_json_of(fpga_rows, device, configuration)
    else:
        rows = _gate_rows(blocks, library, corners, target, place, opensta=opensta)
        report = json_of(rows, library, target, configuration)
    report = document("synth", report)
    write_page(html, {"synth.json": report}, force)
    if as_json:
        print_json(report)
    elif device is not None and not quiet:
        baseline = read_baseline(ECP5) if device.as_in_baseline else None
        print_fpga_report(terminal(), fpga_rows, device, baseline)
    elif not quiet:
        print_report(terminal(), rows, library, target, read_baseline())


def _gate_rows(
    blocks: list[ComponentBlock],
    library: Library,
    corners: list[Library],
    target: str,
    out: Path,
    *,
    opensta: bool,
) -> list[GateRow]:
    """Map to gates, each component in turn."""
    rows = []
    for chosen in _told(blocks):
        folder = out / chosen.name
        synthesis = chosen.synthesize(library, folder, corners)
        gated = None
        if chosen.is_gated and library.clock_gates:
            gated = chosen.synthesize(library, folder / GATED, clock_gating=True)
        row = row_of(chosen, synthesis, library, target, gated)
        if opensta:
            row = replace(row, opensta=_second_opinion(synthesis, library, folder))
        rows.append(row)
    return rows


def _second_opinion(synthesis: Synthesis, library: Library, folder: Path) -> dict[str, float]:
    module = synthesis.module
    own = slowest_path(module, library, library.wire_load, between_registers=True)
    return {
        "period_ps": round(opensta_period_ps(module, library, folder), 2),
        "own_period_ps": round(own.period_ps, 2),
    }


def _fpga_row(chosen: ComponentBlock, device: FpgaTarget, out: Path) -> FpgaRow:
    folder = out / chosen.name
    module = map_to(device.target, chosen.verilog(), chosen.top, folder)
    found = resources(module, device.target)
    if device.speed is None or device.seed is None:
        return fpga_row_of(chosen, found, f"no place and route for {device.target}")
    routed = too_large(module) or place_and_route(
        module, folder, speed=device.speed, seed=device.seed
    )
    return fpga_row_of(chosen, found, routed)


def _told(blocks: list[ComponentBlock]) -> Iterator[ComponentBlock]:
    """The blocks, each told as its turn comes: they take a while."""
    for number, chosen in enumerate(blocks, 1):
        typer.echo(f"{chosen.name} ({number} of {len(blocks)})", err=True)
        yield chosen


def _target(target: str | None, liberty: list[Path] | None) -> str:
    chosen = target or (GENERIC if not liberty else ASIC)
    if chosen not in TARGETS:
        raise UserError(f"unknown target {chosen!r}; choose one of {', '.join(TARGETS)}")
    if chosen == ASIC and liberty is None:
        raise UserError(f"--target {ASIC} needs a library; name one with --liberty FILE")
    if chosen == GENERIC and liberty is not None:
        raise UserError(f"--target {GENERIC} has its own library; leave --liberty away")
    if chosen in FAMILIES and liberty is not None:
        raise UserError(f"--target {chosen} is an FPGA, without a library; leave --liberty away")
    return chosen


def _device(target: str, speed: int | None, seed: int | None) -> FpgaTarget | None:
    """The FPGA that is meant; None if it is none."""
    for option, value in (("--speed", speed), ("--seed", seed)):
        if value is not None and target != ECP5:
            raise UserError(
                f"{option} is of place and route; leave it away, or choose --target {ECP5}"
            )
    if speed is not None and speed not in SPEEDS:
        raise UserError(f"--speed must be one of {', '.join(map(str, SPEEDS))}, not {speed}")
    if target == ECP5:
        return FpgaTarget(target, SPEED if speed is None else speed, SEED if seed is None else seed)
    return FpgaTarget(target) if target in FAMILIES else None


def _names(components: list[str], all_components: bool, config: str | None) -> list[str]:
    if all_components and components:
        raise UserError("--all means every component; leave the names away, or --all")
    if not all_components and not components:
        raise UserError(f"no component given; name some of {', '.join(block_names())}, or --all")
    # A name twice is a row once.
    return names_with(config) if all_components else list(dict.fromkeys(components))
