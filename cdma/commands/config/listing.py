"""`cdma config list`: the names of every kind."""

import json
from typing import Annotated

import typer

from cdma.commands.config.kinds import kinds_of
from cdma.config import KINDS
from cdma.terminal.console import terminal


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help=f"One of {', '.join(KINDS)}; all if none.", show_default=False
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; its keys are stable.")
    ] = False,
) -> None:
    """List the names of each kind of configuration, and the options that take them."""
    chosen = kinds_of(kind)
    if as_json:
        names = {
            one.name: {"options": list(one.options), "names": list(one.presets)} for one in chosen
        }
        typer.echo(json.dumps(names, indent=2))
        return
    console = terminal()
    for one in chosen:
        console.print(f"[{one.name}]", style="bold", markup=False, highlight=False, end=" ")
        console.print(f"{', '.join(one.options)}: {', '.join(one.presets)}", highlight=False)
