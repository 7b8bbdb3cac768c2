"""`cdma report`: the JSON of commands as one page."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.html_option import require_page
from cdma.errors import STANDARD
from cdma.outputs import Force, shown_output
from cdma.report import read_documents, write_report


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE.json…",
            help="What commands printed with --json, and what schedule --trace wrote; - is the "
            "standard input.",
            show_default=False,
        ),
    ],
    html: Annotated[
        Path,
        typer.Option(
            "--html", metavar="FILE.html", help="Where the page goes; - is the standard output."
        ),
    ] = Path("report.html"),
    force: Force = False,
) -> None:
    """Make a page of results: tables, pictures, timelines, configuration and versions.

    It is one file that loads nothing: it can be mailed, and opened without a network.
    """
    require_page(html, inputs=files, force=force)
    documents = read_documents(files)
    nbytes = write_report(html, documents, force=force)
    typer.echo(f"{shown_output(html)}: {nbytes:,} bytes", err=os.fspath(html) == STANDARD)
