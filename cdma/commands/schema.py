"""`cdma schema`: the JSON Schema of a kind of document."""

from typing import Annotated

import typer

from cdma.commands.completers import named
from cdma.commands.json_option import print_json
from cdma.config.values import meant
from cdma.errors import UserError
from cdma.schemas import SCHEMAS
from cdma.schemas.json_schema import json_schema


def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="What a document has under its key schema; `cdma list schemas` tells all.",
            show_default=False,
            autocompletion=named("schemas"),
        ),
    ],
) -> None:
    """Print the JSON Schema of the documents that a command prints or writes.

    Draft 2020-12. A document is valid against that of the name and version at its beginning.
    """
    if name not in SCHEMAS:
        raise UserError(
            f"there is no schema {name!r}; {meant(name, SCHEMAS)}schemas are {', '.join(SCHEMAS)}"
        )
    print_json(json_schema(SCHEMAS[name]))
