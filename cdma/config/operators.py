"""Layers of a `[[network.layers]]` list: their keys are the arguments of the builder's methods."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from cdma.config.values import TablePlace, meant, require_known, scalar, shown, type_name
from cdma.plan.workload.builder import Builder, Pair
from cdma.plan.workload.layers import GraphError

OP, NAME = "op", "name"
"""Keys that every layer has."""

LEFT_OUT = ("lstm", "shape", "table")
"""Public methods of the builder that are no layer of one output; a hook may call them."""

_TENSORS = ("x", "factor", "summand", "xs", "tensors")
"""Arguments that are tensors; in a file they are the names of the layers that make them."""

_PREVIOUS = ("x", "tensors")
"""Those that are the layer before if they are not given."""


@dataclass(frozen=True)
class Argument:
    """An argument of an operator.

    Attributes
    ----------
    name : str
    hint : type
    tensor : bool
        Whether it is a tensor, by name.
    many : bool
        Whether it is a list of any length.
    needed : bool
        Whether a layer must have it.
    default : object
        None without one.
    """

    name: str
    hint: Any
    tensor: bool
    many: bool
    needed: bool
    default: Any

    @property
    def type_name(self) -> str:
        """Its type in the words of the reference."""
        if self.tensor:
            return "list of names of layers" if self.many else "name of a layer"
        return f"list of {_pair_or(self.hint)}s" if self.many else _pair_or(self.hint)


def _pair_or(hint: Any) -> str:
    return "whole number, or list of two" if hint == Pair else type_name(hint)


@cache
def operators() -> Mapping[str, tuple[Argument, ...]]:
    """The operators by name, each with its arguments but for `name`."""
    return {
        name: _arguments(method)
        for name, method in inspect.getmembers(Builder, inspect.isfunction)
        if not name.startswith("_") and name not in LEFT_OUT
    }


def _arguments(method: Any) -> tuple[Argument, ...]:
    hints = get_type_hints(method)
    parameters = inspect.signature(method).parameters.values()
    return tuple(
        Argument(
            name=one.name,
            hint=hints[one.name],
            tensor=one.name in _TENSORS,
            many=one.kind is one.VAR_POSITIONAL,
            needed=one.name not in _PREVIOUS
            and one.default is one.empty
            # An input may have no shape, of a number per image.
            and (one.kind is not one.VAR_POSITIONAL or one.name in _TENSORS),
            default=None if one.default is one.empty else one.default,
        )
        for one in parameters
        if one.name not in ("self", NAME)
    )


def checked_layers(content: Any, place: TablePlace) -> tuple[Mapping[str, Any], ...]:
    """The layers of a file, each with an operator and arguments that this has.

    Raises
    ------
    UserError
        A layer is none; names its number and its key.
    """
    if not isinstance(content, list) or not content:
        raise place.error(
            f"layers must be a list, each written below [[{place.table}.layers]], not "
            f"{shown(content)}"
        )
    names: list[str] = []
    layers = []
    for number, layer in enumerate(content, 1):
        inside = place.below(f"layers {number}")
        if not isinstance(layer, Mapping):
            raise inside.error(f"must be a table, not {shown(layer)}")
        layers.append(_checked(layer, inside, names))
        names.append(layer[NAME])
    return tuple(layers)


def _checked(
    layer: Mapping[str, Any], place: TablePlace, before: Sequence[str]
) -> Mapping[str, Any]:
    for key in (OP, NAME):
        if not isinstance(layer.get(key), str):
            raise place.error(f"{key} must be a text in quotes, not {shown(layer.get(key))}")
    known = operators()
    if layer[OP] not in known:
        raise place.error(
            f"op must be one of {', '.join(known)}, not {layer[OP]!r}"
            + (f"; {near.rstrip()}" if (near := meant(layer[OP], known)) else "")
        )
    arguments = known[layer[OP]]
    require_known(layer, [OP, NAME, *(one.name for one in arguments)], place)
    missing = [one.name for one in arguments if one.needed and one.name not in layer]
    if missing:
        raise place.error(f"{layer[OP]} needs {', '.join(missing)}; add KEY = VALUE for each")
    for one in arguments:
        if one.name in layer:
            _require_argument(layer[one.name], one, place, before)
        elif one.name in _PREVIOUS and not before:
            raise place.error(f"{layer[OP]} has no layer before it; begin with an op 'input'")
    return dict(layer)


def _require_argument(value: Any, one: Argument, place: TablePlace, before: Sequence[str]) -> None:
    if one.many != isinstance(value, list) and one.hint != Pair:
        raise place.error(f"{one.name} must be {one.type_name}, not {shown(value)}")
    for each in value if isinstance(value, list) else [value]:
        if one.tensor:
            if each not in before:
                near = meant(each, before) if isinstance(each, str) else ""
                raise place.error(
                    f"{one.name} must be the name of a layer before it, not {shown(each)}; "
                    f"{near}there are {', '.join(before) or 'none'}"
                )
        else:
            scalar(each, int if one.hint == Pair else one.hint, one.name, place)
    if one.hint == Pair and isinstance(value, list) and len(value) != 2:
        raise place.error(f"{one.name} must be {one.type_name}, not {shown(value)}")


def write_layers(net: Builder, layers: Sequence[Mapping[str, Any]]) -> None:
    """Write checked layers into a builder.

    Raises
    ------
    GraphError
        A layer's shapes do not fit; names the layer.
    """
    outputs: dict[str, int] = {}
    last = ""
    for layer in layers:
        many: list[Any] = []
        named: dict[str, Any] = {}
        for one in operators()[layer[OP]]:
            if one.name in layer:
                value = layer[one.name]
            elif one.name in _PREVIOUS:
                value = [last] if one.many else last
            else:
                continue
            if one.tensor:
                value = [outputs[name] for name in value] if one.many else outputs[value]
            if one.many:
                many = value
            else:
                named[one.name] = tuple(value) if isinstance(value, list) else value
        try:
            outputs[layer[NAME]] = getattr(net, layer[OP])(layer[NAME], *many, **named)
        except (IndexError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            # A layer of sequences on images, or the other way round.
            raise GraphError(
                f"layer {layer[NAME]}: {layer[OP]} does not take the shape that it is given; use "
                "another op before it"
            ) from error
        last = layer[NAME]
