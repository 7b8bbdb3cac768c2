"""`cdma config show`: a configuration with all its keys, as TOML."""

from typing import Annotated, Any

import typer

from cdma.commands.completers import among
from cdma.commands.config.kinds import kinds_of, kinds_with
from cdma.commands.json_option import AsJson, print_json
from cdma.config import KINDS, as_toml, find, tables_of
from cdma.config.files import read_tables
from cdma.config.resolve import is_file
from cdma.errors import UserError
from cdma.hooks import is_hook
from cdma.schemas import document

KindName = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help=f"Only that of {', '.join(KINDS)}.",
        show_default=False,
        autocompletion=among(*KINDS),
    ),
]


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE|HOOK",
            help="What options of commands take.",
            show_default=False,
            autocompletion=among(*(name for kind in KINDS.values() for name in kind.presets)),
        ),
    ],
    kind: KindName = None,
    as_json: AsJson = False,
) -> None:
    """Print a configuration with every key, as a file that options take in its place."""
    tables = tables_of(*configurations(name, kind))
    if as_json:
        print_json(document("config", {"configuration": tables}))
    else:
        typer.echo(as_toml(tables), nl=False)


def configurations(text: str, kind: str | None) -> list[Any]:
    """All checked configurations that a name, a file or a hook stands for.

    Raises
    ------
    UserError
        There are none, or one is wrong.
    """
    if is_hook(text):
        if kind is None:
            raise UserError(f"{text} may be of any kind; say which with --kind engine, device, …")
        return [find(one, text).value for one in kinds_of(kind)]
    if not is_file(text):
        return [find(one, text).value for one in kinds_with(text, kind)]
    tables = read_tables(text)
    if kind is None and not tables:
        raise UserError(f"{text} is empty; write a table in it, as [engine] with units = 3 below")
    wanted = kinds_of(kind) if kind is not None else [KINDS[name] for name in tables]
    return [find(one, text).value for one in wanted]
