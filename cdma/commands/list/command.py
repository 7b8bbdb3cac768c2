"""`cdma list`: every name that an option or an argument takes."""

from typing import Annotated, Any

import typer

from cdma.commands.completers import among
from cdma.commands.json_option import AsJson, print_json
from cdma.config.values import meant
from cdma.errors import UserError
from cdma.names import NAME_KINDS, NameKind
from cdma.schemas import document
from cdma.terminal.console import terminal


def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help=f"One of {', '.join(NAME_KINDS)}; all if none is given.",
            show_default=False,
            autocompletion=among(*NAME_KINDS),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the names that options and arguments take: components, networks, devices and others.

    With a kind, a name per line, and a phrase about it.
    """
    chosen = list(NAME_KINDS.values()) if kind is None else [_kind(kind)]
    if as_json:
        print_json(document("list", as_dict(chosen)))
    elif kind is None:
        _print_kinds(chosen)
    else:
        _print_names(chosen[0])


def _kind(name: str) -> NameKind:
    if name not in NAME_KINDS:
        raise UserError(
            f"there is no kind {name!r}; {meant(name, NAME_KINDS)}kinds are {', '.join(NAME_KINDS)}"
        )
    return NAME_KINDS[name]


def as_dict(kinds: list[NameKind]) -> dict[str, Any]:
    """The JSON form.

    Its key `kinds` is a list of `name`, `about`, `taken_by` (options, and commands whose argument
    it is) and `names`, a list of `name` and `about`.
    """
    return {
        "kinds": [
            {
                "name": kind.name,
                "about": kind.about,
                "taken_by": list(kind.taken_by),
                "names": [{"name": each, "about": kind.describe(each)} for each in kind.names()],
            }
            for kind in kinds
        ]
    }


def _print_kinds(kinds: list[NameKind]) -> None:
    console = terminal()
    for kind in kinds:
        console.print(kind.name, style="bold", markup=False, highlight=False, end=" ")
        names = f"({', '.join(kind.taken_by)}): {', '.join(kind.names())}"
        console.print(names, markup=False, highlight=False, soft_wrap=True)


def _print_names(kind: NameKind) -> None:
    """Print a line for each name, not wrapped, so that other programs can read them."""
    names = list(kind.names())
    width = max(map(len, names))
    for name in names:
        typer.echo(f"{name:{width}}  {kind.describe(name)}")
