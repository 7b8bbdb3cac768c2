"""The parsers of the commands: Typer's, with plain help, as `cdma --help` has it."""

from typing import Any

import typer


def plain_typer(**options: Any) -> typer.Typer:
    """Make a `typer.Typer` whose help is plain text.

    Rich's help takes twice the time, and tells of each flag that it is a `<bool>`, which it takes
    no value of.

    Parameters
    ----------
    **options
        Those of `typer.Typer`.
    """
    return typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options
    )
