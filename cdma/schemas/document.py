"""Heads of documents that a command makes."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from cdma.builds.documents import HEAD, MADE_BY, head
from cdma.terminal.command_line import portable_command_line


def document(schema: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """A command's result with its head before it: schema, version, and what made it.

    Parameters
    ----------
    schema : str
        One of `cdma.builds.documents.VERSIONS`.
    content : mapping
        The result, without a head.
    """
    found = [key for key in HEAD if key in content]
    assert not found, f"{schema} has a key of heads: {found}"
    made_by = {"cdma": version("cdma-rtl"), "command": portable_command_line()}
    return {**head(schema), MADE_BY: made_by, **content}
