"""The tables of configuration files, as a document: `python -m cdma.config.reference`.

Keys, types and defaults are the dataclasses' fields, meanings their docstrings', and what is right
is taken from the refusal of a value that is wrong; so nothing in it is written twice.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any

from cdma.config.kinds import KINDS, NETWORK, Kind
from cdma.config.network import KEYS, NetworkConfig
from cdma.config.operators import OP, operators
from cdma.config.values import NESTED_PRESETS, PRESET, REFUSALS, hints_of, type_name
from cdma.plan.workload.builder import Builder

DOCUMENT = "docs/reference/configuration.md"

_HEAD = f"""\
# Tables of configuration files

<!-- Generated: .venv/bin/python -m cdma.config.reference > {DOCUMENT} -->

[The guide](../guide/config.md) shows how files are written and given to commands. Every key may be
left out but those that are needed; `{PRESET}` names what a table begins with, and
`cdma list` prints all names. A whole number may be written as 12e9, too. Limits that depend
on other keys are those of the defaults."""

_NONE = "–"


def document() -> str:
    """Compose the text that `DOCUMENT` must hold."""
    sections = ["\n".join(_section(kind)) for kind in KINDS.values()]
    return "\n\n".join([_HEAD, *sections]) + "\n"


def _section(kind: Kind[Any]) -> Iterator[str]:
    yield f"## [{kind.name}]"
    yield ""
    yield f"{kind.about} Options: {', '.join(f'`{option}`' for option in kind.options)}."
    yield ""
    yield f"Presets: {', '.join(f'`{name}`' for name in kind.presets)}."
    yield ""
    if kind is NETWORK:
        yield from _network()
    else:
        yield from _table(kind.config, _example(kind), kind.name, kind.implied)


def _example(kind: Kind[Any]) -> Any:
    """The kind's defaults; of a class that needs keys, its first preset."""
    try:
        return kind.config()
    except TypeError:
        return next(iter(kind.presets.values()))


def _table(
    config: type, example: Any, path: str, implied: Mapping[str, str] | None = None
) -> Iterator[str]:
    texts = described(config)
    yield "| key | type | if not given | what is right | meaning |"
    yield "|---|---|---|---|---|"
    nested: list[tuple[str, Any]] = []
    for field in fields(config):
        hint: Any = hints_of(config)[field.name]
        if is_dataclass(hint):
            nested.append((field.name, hint))
        cells = (
            f"`{field.name}`",
            type_name(hint),
            (implied or {}).get(field.name) or _if_not_given(field, example),
            _right(example, field.name),
            texts.get(field.name) or _NONE,
        )
        yield f"| {' | '.join(cells)} |"
    for name, hint in nested:
        yield ""
        yield f"### [{path}.{name}]"
        yield ""
        if presets := NESTED_PRESETS.get(hint):
            yield f"Presets: {', '.join(f'`{each}`' for each in presets)}."
            yield ""
        yield from _table(hint, getattr(example, name), f"{path}.{name}")


def _if_not_given(field: Field[Any], example: Any) -> str:
    if field.default is MISSING and field.default_factory is MISSING:
        return "needed"
    # A part's values are those of what it is in, which may be another preset's.
    value = getattr(example, field.name)
    if field.default is None:
        return "none"
    if is_dataclass(value):
        return "the table below"
    if isinstance(value, Mapping):
        return f"{', '.join(f'{key} {part:g}' for key, part in value.items())}"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(_quoted, value))}]`"
    return f"`{_quoted(value)}`"


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _right(example: Any, name: str) -> str:
    """Return what a class tells of a field when it refuses a value that is surely wrong."""
    value = getattr(example, name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _NONE
    try:
        replace(example, **{name: "?" if isinstance(value, str) else -1})
    except REFUSALS as error:
        found = re.search(rf"\b{name}\b.*? must (be )?(?P<right>.*), not ", str(error))
        return found["right"] if found else _NONE
    return _NONE


def described(config: type) -> Mapping[str, str]:
    """Meanings of a class's fields, from its docstring's parameters or attributes."""
    text = inspect.getdoc(config) or ""
    section = re.search(
        r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w[\w ]*\n-{3,}\n|\Z)", text, re.M | re.S
    )
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else []:
        if line.strip() and not line.startswith(" "):
            names = [name.strip() for name in line.split(" : ")[0].split(",")]
            found.update(dict.fromkeys(names, ""))
        else:
            for name in names:
                found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _network() -> Iterator[str]:
    texts = described(NetworkConfig)
    yield "| key | meaning |"
    yield "|---|---|"
    for key in KEYS:
        yield f"| `{key}` | {texts[key]} |"
    yield ""
    yield "### [[network.layers]]"
    yield ""
    yield (
        f"Each layer has `{OP}`, `name`, and the keys of its operator; those in brackets may be "
        "left out. A tensor is the name of the layer that makes it; `x` and `tensors` are the "
        "layer before if they are not given. What these cannot say, as LSTMs or 24 blocks that "
        "are alike, a hook says in Python."
    )
    yield ""
    yield f"| `{OP}` | keys | meaning |"
    yield "|---|---|---|"
    for name, arguments in operators().items():
        keys = ", ".join(
            text if one.needed else f"[{text}]"
            for one in arguments
            for text in [f"`{one.name}` ({one.type_name}{_or(one.default)})"]
        )
        about = (inspect.getdoc(getattr(Builder, name)) or "").split("\n\n")[0]
        yield f"| `{name}` | {keys} | {' '.join(about.split())} |"


def _or(default: Any) -> str:
    return "" if default is None else f"; {_quoted(default)}"


if __name__ == "__main__":
    print(document(), end="")
