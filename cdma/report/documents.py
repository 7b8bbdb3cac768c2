"""Documents of a report: the JSON objects of commands, told apart by their schemas."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdma.builds.documents import SCHEMA, refusal
from cdma.errors import UserError
from cdma.files import open_input, shown_input

KINDS = {
    "trace": ("traceEvents",),
    "schedule": ("assumptions", "bounds", "engine_worth", "policies"),
    "largest": ("largest_batches",),
    "estimate": ("assumptions", "tensors", "total", "sweep"),
    "value": ("break_even_gain", "values", "rows"),
    "swap": ("arrays", "total", "link", "clock_hz"),
    "synth": ("target", "components"),
    "profile": ("allocations", "modes", "over_time"),
    "replay": ("allocations", "baseline", "runs"),
}
"""The schemas that have sections of their own, each with keys that all of its objects have: those
of objects from before there were schemas are told by them, and the first that fits is meant."""

OTHER = "other"
"""The kind of other commands' objects, which get tables without sentences and pictures."""


@dataclass(frozen=True)
class Document:
    """A JSON object, and where it is from.

    Attributes
    ----------
    name : str
        Its file, or what else the page calls it.
    content : dict
    """

    name: str
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        """One of `KINDS`, or `OTHER`."""
        if SCHEMA in self.content:
            schema = self.content[SCHEMA]
            return schema if schema in KINDS else OTHER
        for kind, keys in KINDS.items():
            if all(key in self.content for key in keys):
                return kind
        return OTHER


def read_documents(paths: Sequence[Path]) -> list[Document]:
    """Read JSON files that commands have written.

    Raises
    ------
    UserError
        A file cannot be read, is no JSON object, or is one of a schema or a version that this
        cdma does not know.
    """
    return [Document(shown_input(path), _object(path)) for path in paths]


def _object(path: Path) -> dict[str, Any]:
    name = shown_input(path)
    mend = "give what a command printed with --json, or what cdma schedule --trace wrote"
    with open_input(path) as file:
        text = file.read()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name} is no JSON ({error}); {mend}") from error
    if not isinstance(content, dict) or not content:
        raise UserError(f"{name} is no JSON object of a command; {mend}")
    refused = refusal(content, name)
    if refused is not None:
        raise UserError(refused)
    return content
