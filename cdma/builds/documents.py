"""The head of the project's JSON documents: what they are, in which version, and what made them.

A document is a JSON object that a command prints or writes. It begins with its head:

=========== ==================================================================
`schema`    the name of its schema, one of `VERSIONS`
`version`   the schema's version, a whole number from 1 on
`made_by`   the version of cdma, and the command line, of what a command makes
=========== ==================================================================

Documents from before there were heads have none of the three; readers tell those by their keys.
"""

from collections.abc import Mapping
from typing import Any

SCHEMA, VERSION, MADE_BY = "schema", "version", "made_by"

HEAD = (SCHEMA, VERSION, MADE_BY)

VERSIONS: Mapping[str, int] = {
    "board": 1,
    # 1 had `format`, "cdma-capture", in the place of `schema`.
    "capture": 2,
    "config": 1,
    "energy": 1,
    "estimate": 1,
    "inspect": 1,
    "largest": 1,
    "list": 1,
    "profile": 1,
    "replay": 1,
    "reproduce": 1,
    "schedule": 1,
    # 1 had `format`, 1, in the place of the head.
    "sidecar": 2,
    "swap": 1,
    "sweep": 1,
    "sweep-point": 1,
    "synth": 1,
    "trace": 1,
    "train": 1,
    "value": 1,
}
"""Every schema's version, the newest that this cdma writes and reads.

It grows when a key goes, or means something else; a key that is new changes nothing for readers.
"""


def head(schema: str) -> dict[str, Any]:
    """The head of a document that no command line belongs to."""
    return {SCHEMA: schema, VERSION: VERSIONS[schema]}


def body(content: Mapping[str, Any]) -> dict[str, Any]:
    """A document without its head."""
    return {key: value for key, value in content.items() if key not in HEAD}


def refusal(content: Mapping[str, Any], file: str, *schemas: str) -> str | None:
    """Tell by its head why a reader cannot take a document.

    Parameters
    ----------
    content : mapping
        The whole document.
    file : str
        Its name for people.
    *schemas : str
        Those that the reader takes; any that there is if none is given.

    Returns
    -------
    str or None
        "cause; mend". None if the reader can take it, or if it has no `schema` and so is from
        before there were heads.
    """
    if SCHEMA not in content:
        return None
    schema, version = content[SCHEMA], content.get(VERSION)
    if not isinstance(schema, str) or schema not in VERSIONS:
        return (
            f"{file} has the schema {schema!r}, which this cdma does not know; update cdma, or "
            "give a file that it has written"
        )
    if schemas and schema not in schemas:
        return f"{file} has the schema {schema!r}; give one with {' or '.join(map(repr, schemas))}"
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        return (
            f"{file} has version {version!r} of the schema {schema!r}, and versions are whole "
            "numbers from 1 on; make the file again"
        )
    if version > VERSIONS[schema]:
        return (
            f"{file} has version {version} of the schema {schema!r}, and this cdma reads up to "
            f"{VERSIONS[schema]}; update cdma, or make the file again with this one"
        )
    return None
