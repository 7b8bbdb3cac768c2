"""Documents of a report: the JSON objects of commands, told apart by their keys."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdma.errors import UserError
from cdma.files import read_bytes

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
"""Keys that the objects of a kind have, all of them; the first kind that fits is meant."""

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
        for kind, keys in KINDS.items():
            if all(key in self.content for key in keys):
                return kind
        return OTHER


def read_documents(paths: Sequence[Path]) -> list[Document]:
    """Read JSON files that commands have written.

    Raises
    ------
    UserError
        A file cannot be read, or is no JSON object.
    """
    return [Document(str(path), _object(path)) for path in paths]


def _object(path: Path) -> dict[str, Any]:
    mend = "give what a command printed with --json, or what cdma schedule --trace wrote"
    try:
        content = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no JSON ({error}); {mend}") from error
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} is no JSON object of a command; {mend}")
    return content
