"""Configurations as tables again: for the JSON of every command, and as TOML."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from cdma.config.kinds import KINDS
from cdma.config.network import NetworkConfig

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def tables_of(*values: Any) -> dict[str, dict[str, Any]]:
    """The tables of configurations, by the names of their kinds; None is left out.

    Raises
    ------
    TypeError
        A value is of no kind's class.
    """
    return {kind_of(value): table_of(value) for value in values if value is not None}


def kind_of(value: Any) -> str:
    """The name of the kind of a configuration; `TypeError` if it is of none."""
    for name, kind in KINDS.items():
        if isinstance(value, kind.config):
            return name
    raise TypeError(f"{type(value).__name__} is the class of no kind")


def table_of(value: Any) -> dict[str, Any]:
    """All fields of a configuration, as its table in a file has them."""
    if isinstance(value, NetworkConfig):
        return value.table()
    return {
        field.name: _plain(each)
        for field in fields(value)
        if (each := getattr(value, field.name)) is not None
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return table_of(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def as_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables as TOML, which reads as the same tables."""
    return "\n".join("\n".join(_lines(name, content)) + "\n" for name, content in tables.items())


def _lines(name: str, content: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{name}]"
    inside = {}
    for key, value in content.items():
        if isinstance(value, Mapping) or _is_list_of_tables(value):
            inside[key] = value
        elif value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inside.items():
        path = f"{name}.{_key(key)}"
        if isinstance(value, Mapping):
            yield ""
            yield from _lines(path, value)
        else:
            for each in value:
                yield ""
                yield f"[[{path}]]"
                yield from (f"{_key(k)} = {_value(v)}" for k, v in each.items())


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A JSON text is a TOML text but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)
