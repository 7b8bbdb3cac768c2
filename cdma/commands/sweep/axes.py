"""Axes of a sweep: options of a command with several values each, from a line or from a file."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdma.commands.sweep.swept import SweptCommand
from cdma.errors import UserError
from cdma.files import read_bytes

AxisValue = str | int | float | bool | list[Any]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An option, or the command's arguments, with the values that it takes in turn.

    Attributes
    ----------
    name : str
        The option without its dashes; the arguments' own name.
    values : tuple
        At least one, none twice.
    """

    name: str
    values: tuple[AxisValue, ...]


def axes_of_line(command: SweptCommand, words: Sequence[str]) -> list[Axis]:
    """Read the words behind the command's name.

    Commas separate the values of an option; words that belong to no option are values of the
    command's arguments, one each.

    Raises
    ------
    UserError
        There is no such option, it is given twice, or it has no value.
    """
    axes: list[Axis] = []
    arguments: list[AxisValue] = []
    place = 0
    left = iter(words)
    for word in left:
        if not word.startswith("--"):
            place = place if arguments else len(axes)
            arguments.append(word)
            continue
        option, equals, text = word.partition("=")
        flag = command.flag(option)
        if flag is not None:
            if equals:
                raise UserError(f"{option} takes no value; leave {word.removeprefix(option)!r} out")
            name, value = flag
            axes.append(Axis(name=name, values=(value,)))
            continue
        name = command.option(option)
        text = text if equals else next(left, "")
        values = [value.strip() for value in text.split(",")]
        if not all(values):
            raise UserError(f"{option} must have values with commas between, not {text!r}")
        axes.append(Axis(name=name, values=_once(values)))
    if arguments:
        axes.insert(place, Axis(name=command.arguments(), values=_once(arguments)))
    return axes


def axes_of_file(command: SweptCommand, path: Path) -> list[Axis]:
    """Read a TOML or JSON file: an object of options without dashes, with a value or a list each.

    A value that is a list itself gives the option several times; a flag is true or false.

    Raises
    ------
    UserError
        The file cannot be read, or holds anything else.
    """
    content = read_bytes(path)
    if path.suffix not in (".toml", ".json"):
        raise UserError(
            f"--axes reads TOML and JSON, not {path.name!r}; name a .toml or .json file"
        )
    try:
        text = content.decode()
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise UserError(f"{path} is no {path.suffix[1:].upper()} file: {error}; mend it") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} must hold an object of options, not {type(found).__name__}")
    return [_axis_of_file(command, path, name, value) for name, value in found.items()]


def _axis_of_file(command: SweptCommand, path: Path, name: str, found: object) -> Axis:
    values = found if isinstance(found, list) else [found]
    is_flag = name != command.arguments(missing_ok=True) and command.is_flag(f"--{name}")
    if not values:
        raise UserError(f"{name} in {path} has no values; give it some, or leave it out")
    for value in values:
        parts = value if isinstance(value, list) else [value]
        plain = all(isinstance(part, str | int | float) for part in parts)
        if not plain or any(isinstance(part, bool) != is_flag for part in parts):
            kind = "true or false" if is_flag else "strings, numbers or lists of them"
            raise UserError(f"values of {name} in {path} must be {kind}, not {json.dumps(value)}")
    return Axis(name=name, values=_once(values))


def combined(axes: Sequence[Axis]) -> list[Axis]:
    """The axes of a file and of a line together; `UserError` if one is given twice."""
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{name} is given twice; give it once, with commas between its values")
    return list(axes)


def grid(axes: Sequence[Axis]) -> Iterator[Mapping[str, AxisValue]]:
    """All combinations of values, those of the last axis beside each other."""
    if not axes:
        yield {}
        return
    first, *others = axes
    for value in first.values:
        for rest in grid(others):
            yield {first.name: value, **rest}


def _once(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values, each once; 1, 1.0 and true are three."""
    return tuple({json.dumps(value): value for value in values}.values())
