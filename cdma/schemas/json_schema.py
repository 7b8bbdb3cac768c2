"""JSON Schema, draft 2020-12, of the shapes that `cdma.schemas.shapes` declares."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from cdma.builds.documents import MADE_BY, SCHEMA, VERSION
from cdma.schemas.registry import Schema
from cdma.schemas.shapes.common import Configuration, MadeBy

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_CONFIGURATION = get_args(Configuration)[1]

_PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    Any: {},
    object: {},
}


def json_schema(schema: Schema, *, closed: bool = False) -> dict[str, Any]:
    """The JSON Schema of a document.

    Parameters
    ----------
    schema : Schema
    closed : bool
        Whether keys that are not declared are refused. Without it they are let pass, as a newer
        cdma may add some to the same version.
    """
    maker = _Maker(closed=closed)
    of_head: dict[str, Any] = {
        SCHEMA: {"const": schema.name},
        VERSION: {"const": schema.version},
    }
    required = [SCHEMA, VERSION]
    if schema.has_command:
        of_head[MADE_BY] = maker.schema_of(MadeBy)
        required.append(MADE_BY)
    own = maker.object_of(schema.shape)
    return {
        "$schema": DRAFT,
        "title": schema.name,
        "description": schema.about,
        "type": "object",
        "properties": {**of_head, **own["properties"]},
        "required": [*required, *own["required"]],
        **({"additionalProperties": False} if closed else {}),
        "$defs": dict(sorted(maker.definitions.items())),
    }


class _Maker:
    """Makes schemas of types, and keeps those that have names."""

    def __init__(self, *, closed: bool) -> None:
        self.closed = closed
        self.definitions: dict[str, Any] = {}

    def schema_of(self, hint: Any) -> dict[str, Any]:
        """The schema of a type; `TypeError` for one that no shape should have."""
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
        if is_typeddict(hint) or is_dataclass(hint):
            return self._named(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(*arguments)
        if origin is NotRequired:
            return self.schema_of(arguments[0])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is list:
            return {"type": "array", "items": self.schema_of(arguments[0])}
        if origin is tuple:
            # As `tuple[str, ...]` in configurations.
            return {"type": "array", "items": self.schema_of(arguments[0])}
        if origin in (dict, Mapping) or hint is dict:
            values = self.schema_of(arguments[1]) if arguments else {}
            return {"type": "object", **({"additionalProperties": values} if values else {})}
        if origin in (Union, UnionType):
            return self._any_of(arguments)
        raise TypeError(f"no JSON is declared by {hint}")

    def object_of(self, shape: Any) -> dict[str, Any]:
        """The schema of a `TypedDict` or of a configuration's dataclass, in place."""
        hints = get_type_hints(shape, include_extras=True)
        if is_typeddict(shape):
            required = [key for key in hints if key in shape.__required_keys__]
        else:
            # A key without a value is left out of a table.
            required = [
                field.name
                for field in fields(shape)
                if not _may_be_none(hints[field.name])
                and (field.default is not None or field.default is MISSING)
            ]
        own = {"description": " ".join((shape.__doc__ or "").split("\n\n")[0].split())}
        return {
            **(own if not own["description"].startswith("dict(") else {}),
            "type": "object",
            "properties": {key: self.schema_of(hint) for key, hint in hints.items()},
            "required": required,
            **({"additionalProperties": False} if self.closed else {}),
        }

    def _named(self, shape: Any) -> dict[str, Any]:
        if shape.__name__ not in self.definitions:
            # Before it is made: it may be in itself.
            self.definitions[shape.__name__] = {}
            self.definitions[shape.__name__] = self.object_of(shape)
        return {"$ref": f"#/$defs/{shape.__name__}"}

    def _annotated(self, hint: Any, *texts: Any) -> dict[str, Any]:
        if _CONFIGURATION in texts:
            described = [text for text in texts if text != _CONFIGURATION]
            made = self._configuration()
        else:
            described, made = list(texts), self.schema_of(hint)
        return {**made, **({"description": "; ".join(described)} if described else {})}

    def _any_of(self, hints: tuple[Any, ...]) -> dict[str, Any]:
        made = [self.schema_of(hint) for hint in hints]
        if all(set(each) == {"type"} for each in made):
            return {"type": [each["type"] for each in made]}
        return {"anyOf": made}

    def _configuration(self) -> dict[str, Any]:
        """Tables by the names of their kinds; the classes are those that files are read to."""
        from cdma.config import KINDS, NETWORK

        if "Configuration" not in self.definitions:
            tables: dict[str, Any] = {}
            for name, kind in KINDS.items():
                # Of networks, which keys there are depends on where they are from.
                tables[name] = {"type": "object"} if kind is NETWORK else self._named(kind.config)
            self.definitions["Configuration"] = {
                "description": "tables that options take, as a file: docs/reference/"
                "configuration.md",
                "type": "object",
                "properties": tables,
                "additionalProperties": False,
            }
        return {"$ref": "#/$defs/Configuration"}


def _may_be_none(hint: Any) -> bool:
    return NoneType in get_args(hint)
