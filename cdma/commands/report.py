"""`cdma report`: the JSON of commands as one page."""

from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.html_option import require_page
from cdma.outputs import Force
from cdma.report import read_documents, write_report


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE.json…",
            help="What commands printed with --json, and what schedule --trace wrote.",
            show_default=False,
        ),
    ],
    html: Annotated[
        Path, typer.Option("--html", metavar="FILE.html", help="Where the page goes.")
    ] = Path("report.html"),
    force: Force = False,
) -> None:
    """Make a page of results: tables, pictures, timelines, configuration and versions.

    It is one file that loads nothing: it can be mailed, and opened without a network.
    """
    require_page(html, inputs=files, force=force)
    write_report(html, read_documents(files), force=force)
    typer.echo(f"{html}: {html.stat().st_size:,} bytes")
