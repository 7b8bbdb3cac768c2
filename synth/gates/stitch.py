"""Netlists of parts put together to one of the whole, flat, so that paths lead through all."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Net = int | str
"""A number, or a constant as "0", "1", "x"."""


@dataclass(frozen=True)
class PlacedPart:
    """A part where it stands in the whole.

    Attributes
    ----------
    path : str
        The instances on the way to it, joined by periods; empty of the top.
    module : str
    """

    path: str
    module: str

    @property
    def kind(self) -> str:
        """The path without the numbers of instances, which all of a kind share."""
        return ".".join(re.sub(r"_\d+$", "", name) for name in self.path.split("."))


def stitch(modules: Mapping[str, Any], top: str) -> dict[str, Any]:
    """Put modules together.

    Parameters
    ----------
    modules
        By name, as in Yosys' JSON. A cell whose type is among them is an instance of it.
    top

    Returns
    -------
    dict
        A module like them, without instances. Names are preceded by the path of their part.
    """
    nets = _Nets()
    cells: dict[str, Any] = {}
    names: dict[str, Any] = {}
    for placed, offset in _walk(modules, top, nets):
        module = modules[placed.module]
        prefix = f"{placed.path}." if placed.path else ""
        for name, cell in module["cells"].items():
            if cell["type"] not in modules:
                moved = {
                    pin: [_moved(bit, offset) for bit in bits]
                    for pin, bits in cell["connections"].items()
                }
                cells[prefix + name] = {**cell, "connections": moved}
        for name, net in module["netnames"].items():
            if not net.get("hide_name"):
                bits = [_moved(bit, offset) for bit in net["bits"]]
                names[prefix + name] = {"hide_name": 0, "bits": bits}
    for cell in cells.values():
        for pin, bits in cell["connections"].items():
            cell["connections"][pin] = [nets.find(bit) for bit in bits]
    for net in names.values():
        net["bits"] = [nets.find(bit) for bit in net["bits"]]
    ports = {
        name: {**port, "bits": [nets.find(bit) for bit in port["bits"]]}
        for name, port in modules[top]["ports"].items()
    }
    return {"ports": ports, "cells": cells, "netnames": names}


def placed_parts(modules: Mapping[str, Any], top: str) -> Iterator[PlacedPart]:
    """Every part of a whole, as often as it stands in it."""
    for placed, _offset in _walk(modules, top, _Nets()):
        yield placed


def _walk(modules: Mapping[str, Any], top: str, nets: "_Nets") -> Iterator[tuple[PlacedPart, int]]:
    """Each placed part and what its nets' numbers are moved by; joins nets at the parts' ports."""
    sizes = {name: _nets_of(module) for name, module in modules.items()}
    waiting = [(PlacedPart("", top), 0)]
    used = sizes[top]
    while waiting:
        placed, offset = waiting.pop(0)
        yield placed, offset
        for name, cell in modules[placed.module]["cells"].items():
            below = modules.get(cell["type"])
            if below is None:
                continue
            path = f"{placed.path}.{name}" if placed.path else name
            waiting.append((PlacedPart(path, cell["type"]), used))
            for port, bits in cell["connections"].items():
                for inner, outer in zip(below["ports"][port]["bits"], bits, strict=True):
                    nets.join(_moved(inner, used), _moved(outer, offset))
            used += sizes[cell["type"]]


def _nets_of(module: Mapping[str, Any]) -> int:
    """More than any number of a net in it."""
    lists = [net["bits"] for net in module["netnames"].values()]
    lists += [bits for cell in module["cells"].values() for bits in cell["connections"].values()]
    return 1 + max((bit for bits in lists for bit in bits if isinstance(bit, int)), default=0)


def _moved(bit: Net, offset: int) -> Net:
    return bit + offset if isinstance(bit, int) else bit


class _Nets:
    """Nets that are one: a forest, whose roots stand for all; a constant is always a root."""

    def __init__(self) -> None:
        self._above: dict[Net, Net] = {}

    def find(self, bit: Net) -> Net:
        root = bit
        while (above := self._above.get(root)) is not None:
            root = above
        while bit != root:
            self._above[bit], bit = root, self._above[bit]
        return root

    def join(self, one: Net, other: Net) -> None:
        one, other = self.find(one), self.find(other)
        if one == other:
            return
        if isinstance(one, str):
            one, other = other, one
        # Of two constants, one is what nothing drives: it is left apart.
        if isinstance(one, int):
            self._above[one] = other
