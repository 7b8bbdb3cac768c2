"""One way from what the user has typed to a checked configuration: `find`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from cdma.config.files import SUFFIXES, Tables, read_tables
from cdma.config.hooks import load_hook
from cdma.config.kinds import LINK, Kind
from cdma.config.values import PRESET, REFUSALS, meant
from cdma.errors import UserError
from cdma.hooks import is_hook

T = TypeVar("T")

_SHARED = re.compile(r"(.+)/([0-9]+)")


@dataclass(frozen=True, kw_only=True)
class Found(Generic[T]):
    """A configuration, and where it is from.

    Attributes
    ----------
    label : str
        For reports: the name, or what the user has typed.
    value : object
        Of the kind's class.
    base : str or None
        The preset that it is, or that its file begins with.
    path : Path or None
        The file that was read.
    tables : mapping
        All of the file's tables, by kind.
    """

    label: str
    value: T
    base: str | None = None
    path: Path | None = None
    tables: Tables = field(default_factory=dict, hash=False)


def find(kind: Kind[T], text: str) -> Found[T]:
    """A configuration by a name, a file or a hook.

    Parameters
    ----------
    kind : Kind
    text : str
        A name, the path of a .toml file or of a command's .json, or `module:function`; of a link
        also with `/4` behind it, as four devices share it.

    Raises
    ------
    UserError
        The file or the hook is wrong; the message names file, table, key and value.
    ConfigError, GraphError, LinkError, ScheduleError
        There is nothing of that name; the message lists what there is.
    """
    if text in kind.presets:
        return Found(label=text, value=kind.named(text), base=text)
    if kind.name == LINK.name and (shared := _SHARED.fullmatch(text)) and is_own(shared[1]):
        # The kind is that of links, and so is what it finds.
        own: Any = find(kind, shared[1])
        value = own.value.shared_by(int(shared[2]))
        return Found(label=text, value=value, path=own.path, tables=own.tables)
    if is_hook(text):
        return Found(label=text, value=load_hook(kind.config, text))
    if is_file(text):
        return _of_file(kind, text)
    return Found(label=text, value=_named(kind, text), base=text)


def _named(kind: Kind[T], text: str) -> T:
    """The preset of that name, which is none of the usual ones."""
    try:
        return kind.named(text)
    except REFUSALS as error:
        if Path(text).is_file():
            raise UserError(
                f"{text} ends in neither {' nor '.join(SUFFIXES)}; give the file such a name"
            ) from error
        near = meant(text, kind.presets)
        if not near:
            raise
        raise type(error)(f"{error}; {near.rstrip()}") from error


def is_file(text: str) -> bool:
    """Return True for a file, by how it is written."""
    return text.endswith(SUFFIXES)


def is_own(text: str) -> bool:
    """Return True for a file or a hook of the user's, by how it is written."""
    return is_file(text) or is_hook(text)


def _of_file(kind: Kind[T], text: str) -> Found[T]:
    tables = read_tables(text)
    if kind.name not in tables:
        has = ", ".join(f"[{name}]" for name in tables) or "no table"
        raise UserError(
            f"{text} has no [{kind.name}] but {has}; give a file with [{kind.name}] in it, or one "
            f"of {', '.join(kind.presets)}"
        )
    content = tables[kind.name]
    return Found(
        label=text,
        value=kind.of_table(content, text),
        base=_base_of(content),
        path=Path(text),
        tables=tables,
    )


def _base_of(content: Mapping[str, Any]) -> str | None:
    base = content.get(PRESET)
    return base if isinstance(base, str) else None
