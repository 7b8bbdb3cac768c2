"""`cdma synth`: what components cost as silicon, and how fast they clock."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cdma.console import terminal
from cdma.errors import UserError
from cdma.synth_report import json_of, print_report
from hw.config import BUDDY_PRESETS, PRESETS
from synth import UNIT_GATES, Library, block, block_names, synthesize
from synth.components import CODEC_PRESET, ENTRY_PRESET
from synth.report import ASIC, GENERIC, TARGETS, Row, read_baseline, row_of


def synth(
    components: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMPONENT]...",
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
            metavar="PRESET",
            help=f"Of codecs and the engine's parts {', '.join(PRESETS)}; of entries and Buddy's "
            f"{', '.join(BUDDY_PRESETS)}. {CODEC_PRESET} and {ENTRY_PRESET} if not given.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(TARGETS),
            help=f"{GENERIC}: the gates that come with cdma. {ASIC}: those of --liberty.",
        ),
    ] = None,
    liberty: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A library of standard cells, in Liberty's format."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where netlists and Yosys' logs go.")
    ] = Path("build/synth"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; its keys are stable.")
    ] = False,
) -> None:
    """Map components to gates: cells, flip-flops, area, depth and clock.

    Of the generic target, the table ends with what has changed since the committed baseline.
    """
    target = _target(target, liberty)
    names = _names(components or [], all_components, config)
    blocks = [block(name, config) for name in names]
    library = Library(liberty or UNIT_GATES)
    rows: list[Row] = []
    for chosen in blocks:
        typer.echo(f"{chosen.name} ({len(rows) + 1} of {len(blocks)})", err=True)
        synthesis = synthesize(chosen.verilog(), chosen.top, library, out / chosen.name)
        rows.append(row_of(chosen, synthesis, library, target))
    if as_json:
        typer.echo(json.dumps(json_of(rows, library, target), indent=2))
    else:
        print_report(terminal(), rows, library, target, read_baseline())


def _target(target: str | None, liberty: Path | None) -> str:
    chosen = target or (GENERIC if liberty is None else ASIC)
    if chosen not in TARGETS:
        raise UserError(f"unknown target {chosen!r}; choose {' or '.join(TARGETS)}")
    if chosen == ASIC and liberty is None:
        raise UserError(f"--target {ASIC} needs a library; name one with --liberty FILE")
    if chosen == GENERIC and liberty is not None:
        raise UserError(f"--target {GENERIC} has its own library; leave --liberty away")
    return chosen


def _names(components: list[str], all_components: bool, config: str | None) -> list[str]:
    if all_components and components:
        raise UserError("--all means every component; leave the names away, or --all")
    if not all_components and not components:
        raise UserError(f"no component given; name some of {', '.join(block_names())}, or --all")
    # A name twice is a row once.
    return block_names(config) if all_components else list(dict.fromkeys(components))
