"""Files with configurations: TOML that users write, and the JSON that commands print."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from cdma.builds.documents import refusal
from cdma.config.kinds import KINDS
from cdma.config.values import known_keys, meant
from cdma.errors import FilePath, UserError
from cdma.files import read_bytes

CONFIGURATION = "configuration"
"""The key of the tables in JSON reports."""

SUFFIXES = (".toml", ".json")

Tables = Mapping[str, Mapping[str, Any]]
"""A file's tables by their kind's name."""


def read_tables(path: FilePath) -> Tables:
    """The tables of a file, each of a known kind.

    Raises
    ------
    UserError
        The file cannot be read, is neither TOML nor a command's JSON, or has something else in it
        than tables of the kinds.
    """
    name = str(path)
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8, byte {error.start}; save it as UTF-8") from error
    content = _of_json(text, name) if name.endswith(".json") else _of_toml(text, name)
    for key, value in content.items():
        if key in KINDS and isinstance(value, Mapping):
            continue
        if isinstance(value, Mapping):
            raise UserError(
                f"{name}: there is no table [{key}]; {meant(key, KINDS)}tables are "
                f"{', '.join(KINDS)}"
            )
        raise UserError(
            f"{name}: key {key!r} is in no table; write [{', '.join(_owners(key))}] above it"
        )
    return content


def _of_toml(text: str, name: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(
            f"{name} is not TOML: {error}; write KEY = VALUE in each line, texts in quotes"
        ) from error


def _of_json(text: str, name: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(f"{name} is not JSON: {error}; give what --json printed") from error
    refused = refusal(content, name) if isinstance(content, Mapping) else None
    if refused is not None:
        raise UserError(refused)
    found = content.get(CONFIGURATION) if isinstance(content, Mapping) else None
    if not isinstance(found, Mapping):
        raise UserError(
            f"{name} has no {CONFIGURATION!r} in it; give what a command printed with --json"
        )
    return {key: value for key, value in found.items() if value is not None}


def _owners(key: str) -> list[str]:
    """The tables that have such a key; one of those that there are, if none has."""
    return [name for name, kind in KINDS.items() if key in known_keys(kind.config)][:1] or [
        "engine"
    ]
