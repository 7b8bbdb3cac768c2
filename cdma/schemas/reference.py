"""The JSON of all commands, as a document: `python -m cdma.schemas.reference`.

Names, commands, keys and types are those that `cdma.schemas` declares.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cdma.builds.documents import HEAD
from cdma.schemas.json_schema import json_schema
from cdma.schemas.registry import SCHEMAS, Schema

DOCUMENT = "docs/reference/json.md"

_HEAD = f"""\
# JSON documents

<!-- Generated: .venv/bin/python -m cdma.schemas.reference > {DOCUMENT} -->

Every JSON object that a command prints or writes begins with its head:

| key | value |
|---|---|
| `schema` | text: the kind of document, a name of the table below |
| `version` | whole number: the version of that schema |
| `made_by` | object: `cdma`, the version, and `command`, the command line, absolute paths cut |

`cdma schema NAME` prints the JSON Schema of a kind (draft 2020-12), `cdma list schemas` all names:

```
cdma schema swap > swap.schema.json
cdma list schemas
```

The configuration that a result comes from is in it, under `configuration`, as tables that options
take again ([config](../guide/config.md)).

A version grows when a key goes or means something else. A key that is new changes nothing for
readers, who should let pass what they do not know. Commands that read documents (`report`,
`--config` and its like, `--density`, `--capture`) refuse another schema than theirs, and a version
that is newer than they know. They read older ones, and those from before there were heads; what
differs: a `capture` of version 1 has `format`, "cdma-capture", instead of `schema`, and a `sidecar`
of version 1 has `format`, 1, instead of its head. A `capture` has no `made_by`: its recipe says
what made it, and the same training gives the same file."""


def document() -> str:
    """Compose the text that `DOCUMENT` must hold."""
    sections = ["\n".join(_section(schema)) for schema in SCHEMAS.values()]
    return "\n\n".join([_HEAD, "\n".join(_table()), *sections]) + "\n"


def _table() -> Iterator[str]:
    yield "| schema | version | written by | what it is |"
    yield "|---|---|---|---|"
    for schema in SCHEMAS.values():
        name = f"[`{schema.name}`](#{schema.name})"
        yield f"| {name} | {schema.version} | `cdma {schema.written_by}` | {schema.about} |"


def _section(schema: Schema) -> Iterator[str]:
    made = json_schema(schema)
    yield f"## {schema.name}"
    yield ""
    yield f"{schema.about} [What the keys mean](../{schema.page})."
    yield ""
    yield from _keys(made)
    for name in _used(made, made["$defs"]):
        definition = made["$defs"][name]
        yield ""
        yield f"`{name}`: {_sentence(definition.get('description', ''))}"
        yield ""
        yield from _keys(definition)


def _keys(made: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | value |"
    yield "|---|---|"
    for key, each in made["properties"].items():
        if key in HEAD:
            continue
        always = "" if key in made["required"] else ", not always there"
        meaning = f": {each['description']}" if "description" in each else ""
        yield f"| `{key}` | {_type(each)}{always}{meaning} |"


def _used(made: Any, definitions: Mapping[str, Any]) -> list[str]:
    """Names of the definitions that a schema leads to, but those of head and configurations, which
    have pages of their own."""
    found: list[str] = []

    def look(part: Any) -> None:
        if isinstance(part, list):
            for each in part:
                look(each)
        elif isinstance(part, Mapping):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in ("Configuration", "MadeBy") and name not in found:
                found.append(name)
                look(definitions[name])
            for each in part.values():
                look(each)

    look({key: each for key, each in made.items() if key != "$defs"})
    return found


def _type(made: Mapping[str, Any]) -> str:
    """A schema in a word."""
    if "$ref" in made:
        name = made["$ref"].rpartition("/")[2]
        return "[tables](configuration.md)" if name == "Configuration" else f"`{name}`"
    if "enum" in made:
        return " or ".join(f"`{value}`" for value in made["enum"])
    if "anyOf" in made:
        return " or ".join(map(_type, made["anyOf"]))
    kinds = made.get("type", "any")
    if kinds == "array":
        return f"list of {_type(made['items'])}"
    if kinds == "object":
        inner = made.get("additionalProperties")
        return f"object of {_type(inner)}" if inner else "object"
    names = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_WORDS.get(str(name), str(name)) for name in names)


_WORDS = {
    "integer": "whole number",
    "string": "text",
    "boolean": "true or false",
}


def _sentence(text: str) -> str:
    return text[:1].lower() + text[1:]


if __name__ == "__main__":
    print(document(), end="")
