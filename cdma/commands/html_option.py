"""The option `--html` of commands whose JSON `cdma report` shows, too."""

import json
import os
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cdma.errors import STANDARD, FilePath, UserError
from cdma.outputs import require_outputs

SUFFIXES = (".html", ".htm")

HtmlFile = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE.html",
        help="Write a page of its own with tables, pictures, configuration and versions; - is the "
        "standard output, which then has nothing else.",
    ),
]


def require_page(
    html: Path | None,
    *,
    inputs: Collection[FilePath],
    others: Collection[FilePath] = (),
    force: bool,
) -> None:
    """Refuse a page, or what is written beside it, that cannot be written, before long work begins.

    Parameters
    ----------
    html : Path or None
    inputs : collection of path
        Files that the command reads.
    others : collection of path
        What else it writes, which is refused likewise.
    force : bool

    Raises
    ------
    UserError
        The name is no page's, or as of `cdma.outputs.require_outputs`.
    MissingPackageError
        The page's pictures need matplotlib, which is not installed.
    """
    require_outputs(others, inputs=inputs, force=force)
    if html is None:
        return
    if os.fspath(html) != STANDARD and html.suffix.lower() not in SUFFIXES:
        raise UserError(f"a page is HTML, not {html.name!r}; name a .html file")
    require_outputs([*others, html], inputs=inputs, force=force)
    # A second, for what else would be found out when all is computed.
    from cdma.builds.extras import extra

    with extra("plan"):
        import_module("matplotlib")


def write_page(html: Path | None, documents: Mapping[str, Mapping[str, Any]], force: bool) -> None:
    """Write the page of JSON objects by name; nothing if none is asked for.

    They go through JSON, so that the page is that of `cdma report` on what `--json` prints.
    """
    if html is None:
        return
    from cdma.report import Document, write_report

    made = [Document(name, json.loads(json.dumps(each))) for name, each in documents.items()]
    write_report(html, made, force=force)
