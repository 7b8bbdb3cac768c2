"""Values of a file's table, turned into a dataclass: keys, types and what the class itself checks.

The classes are those of the rooms; nothing about their fields is written here a second time. Each
error names the file, the table, the key, its value and what would be right.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cdma.errors import UserError
from cdma.hw.config import METADATA_CACHES, ConfigError, MetadataCacheConfig
from cdma.plan.platform.link import LinkError
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.layers import GraphError

PRESET = "preset"
"""The key that names what a table begins with."""

REFUSALS = (ConfigError, GraphError, LinkError, ScheduleError)
"""What the classes raise for values that they cannot have; the messages name field and value."""

NESTED_PRESETS: Mapping[type, Mapping[str, Any]] = {MetadataCacheConfig: METADATA_CACHES}
"""Named values of classes that are parts of other ones."""

_TYPES: Mapping[type, tuple[str, str]] = {
    int: ("a whole number", "whole number"),
    float: ("a number", "number"),
    str: ("a text in quotes", "text"),
    bool: ("true or false", "true or false"),
}

T = TypeVar("T")


@dataclass(frozen=True)
class TablePlace:
    """A table of a file, for messages.

    Attributes
    ----------
    file : str
        As the user has written it.
    table : str
        With dots, as `engine.codec`.
    """

    file: str
    table: str

    def below(self, key: str) -> "TablePlace":
        """The place of a table in this one."""
        return TablePlace(self.file, f"{self.table}.{key}")

    def error(self, message: str) -> UserError:
        """The error about this place."""
        return UserError(f"{self.file}: [{self.table}] {message}")


def known_keys(kind: type) -> list[str]:
    """The keys of a class's table, in the order of its fields."""
    return [field.name for field in fields(kind)]


def hints_of(kind: Any) -> dict[str, Any]:
    """Types of a class's fields."""
    return get_type_hints(kind)


def require_known(keys: Iterable[str], known: Iterable[str], place: TablePlace) -> None:
    """Refuse a key that a table does not have, and tell the nearest that it has.

    Raises
    ------
    UserError
        There is such a key.
    """
    names = list(known)
    for key in keys:
        if key not in names:
            raise place.error(
                f"has no key {key!r}; {meant(key, names)}it may have {', '.join(names)}"
            )


def meant(word: str, known: Iterable[str]) -> str:
    """The beginning of a mend that asks for the nearest known word; empty if none is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def read_table(
    kind: type[T],
    content: Mapping[str, Any],
    place: TablePlace,
    base: T | None = None,
    *,
    complete: Callable[[dict[str, Any], Mapping[str, Any]], None] | None = None,
) -> T:
    """Make a dataclass of a table's values.

    Parameters
    ----------
    kind : type
        A frozen dataclass.
    content : mapping
        The table, without the key `preset`.
    place : TablePlace
    base : object of that class, optional
        What keys have that are not given; the fields' defaults without it.
    complete : callable, optional
        Changes the fields that are set, which it is given beside the table: what follows from keys
        that are given and is not the default.

    Raises
    ------
    UserError
        A key is unknown or missing, or a value has another type or is none that the class takes.
    """
    require_known(content, known_keys(kind), place)
    hints = hints_of(kind)
    given: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in content:
            before = getattr(base, field.name, None) if base is not None else _default(field)
            keys = field.metadata.get("keys")
            value, hint = content[field.name], hints[field.name]
            given[field.name] = _value(value, hint, field.name, place, before, keys)
    if complete is not None:
        complete(given, content)
    if base is None:
        missing = [
            field.name
            for field in fields(kind)  # type: ignore[arg-type]
            if field.name not in given
            and field.default is MISSING
            and field.default_factory is MISSING
        ]
        if missing:
            raise place.error(f"needs {', '.join(missing)}; add a line KEY = VALUE for each")
    try:
        return kind(**given) if base is None else replace(base, **given)  # type: ignore[type-var]
    except REFUSALS as error:
        raise place.error(str(error)) from error


def _default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return None if field.default_factory is MISSING else field.default_factory()


def _value(
    value: Any,
    hint: Any,
    key: str,
    place: TablePlace,
    before: Any,
    keys: Iterable[str] | None = None,
) -> Any:
    """A value of a type; `before` is what the key has without it, `keys` are a mapping's."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        (inner,) = [each for each in get_args(hint) if each is not NoneType]
        return _value(value, inner, key, place, before, keys)
    if is_dataclass(hint):
        return _nested(value, hint, key, place, before)
    if origin is tuple:
        if not isinstance(value, list):
            raise place.error(f'{key} must be a list, as ["zvc", "raw"], not {shown(value)}')
        return tuple(_value(each, get_args(hint)[0], key, place, None) for each in value)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(value, get_args(hint)[1], key, place, before, keys)
    return scalar(value, hint, key, place)


def _nested(value: Any, hint: Any, key: str, place: TablePlace, before: Any) -> Any:
    inside = place.below(key)
    if not isinstance(value, Mapping):
        raise place.error(f"{key} must be a table, written as [{inside.table}], not {shown(value)}")
    presets = NESTED_PRESETS.get(hint)
    if presets is None or PRESET not in value:
        return read_table(hint, value, inside, before)
    name = value[PRESET]
    if name not in presets:
        raise inside.error(f"preset must be one of {', '.join(presets)}, not {shown(name)}")
    rest = {key: each for key, each in value.items() if key != PRESET}
    return read_table(hint, rest, inside, presets[name])


def _mapping(
    value: Any,
    hint: Any,
    key: str,
    place: TablePlace,
    before: Any,
    keys: Iterable[str] | None,
) -> Any:
    """A table, of whose values without it some are replaced. Without `keys` it may have those."""
    inside = place.below(key)
    if not isinstance(value, Mapping):
        raise place.error(f"{key} must be a table, written as [{inside.table}], not {shown(value)}")
    known = dict(before or {})
    require_known(value, known if keys is None else keys, inside)
    return known | {name: scalar(each, hint, name, inside) for name, each in value.items()}


def scalar(value: Any, kind: type, key: str, place: TablePlace) -> Any:
    """A number, text or truth value of a type. A number such as 12e9 is a whole one, too.

    Raises
    ------
    UserError
        It is of another type, or not finite.
    """
    right, _ = _TYPES[kind]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (int, float) and number and math.isfinite(value):
        if kind is float:
            return float(value)
        if value == int(value):
            return int(value)
    elif kind in (str, bool) and isinstance(value, kind):
        return value
    raise place.error(f"{key} must be {right}, not {shown(value)}")


def shown(value: Any) -> str:
    """A value as it stands in a message: short, and as the user has written it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def type_name(hint: Any) -> str:
    """A type in the words of the reference: `whole number`, `list of text`, `table`."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        (inner,) = [each for each in get_args(hint) if each is not NoneType]
        return type_name(inner)
    if origin is tuple:
        return f"list of {type_name(get_args(hint)[0])}"
    if is_dataclass(hint) or (origin is not None and issubclass(origin, Mapping)):
        return "table"
    return _TYPES[hint][1]
