"""The option `--json`, and how a document is printed for it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object; `cdma schema` tells its keys."),
]


def json_text(document: Mapping[str, Any]) -> str:
    """The text of a document, as it is printed and as it is written to files.

    It is ASCII, and so right in every encoding that a terminal or a pipe may have.
    """
    return json.dumps(document, indent=2)


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document to the standard output."""
    typer.echo(json_text(document))
