"""Counts of simulations, merged by component and line of the source."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from amaranth.lib import wiring

from tests.coverage.instrument import TAKEN
from tests.lib.paths import ROOT

KINDS = ("line", "branch", "port")

COUNT = re.compile(r"v_toggle/(\w+)\x01o\x02(\w+(?:\[\d+\])?):([01]->[01])\x01.*' ([1-9]\d*)$")
"""A line of Verilator's file of a count that is not zero: module, signal and edge."""


@dataclass(frozen=True, order=True)
class Point:
    """Something to cover.

    Attributes
    ----------
    component : str
        The class, under `cdma`.
    kind : str
        "line", "branch" or "port".
    where : str
        Path and line, or the port.
    what : str
        The branch, or the port's bit; empty of a line.
    """

    component: str
    kind: str
    where: str
    what: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.component, self.kind, self.where, self.what)))

    @property
    def group(self) -> str:
        """A name that stays when lines move: the source's text stands for its number."""
        if self.kind == "port":
            return f"{self.component} port {self.where}"
        return " ".join(filter(None, (self.component, self.kind, self._bare, source(self.where))))

    @property
    def _bare(self) -> str:
        return self.what.partition(" #")[0]


@cache
def _lines(path: str) -> list[str]:
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def source(where: str) -> str:
    """The text of a line that `path:line` names."""
    path, _, line = where.rpartition(":")
    return _lines(path)[int(line) - 1].strip()


def counted(text: str) -> dict[str, dict[str, set[str]]]:
    """The edges that were seen in Verilator's file of counts, by module and signal."""
    found: dict[str, dict[str, set[str]]] = {}
    for line in text.splitlines():
        match = COUNT.search(line)
        if match:
            found.setdefault(match[1], {}).setdefault(match[2], set()).add(match[3])
    return found


@dataclass
class Totals:
    """The points there are, and the covered ones among them.

    Attributes
    ----------
    points : dict of Point to bool
    constant : Counter of str
        Bits of ports that no input can change, by component, in the configuration with most.
    """

    points: dict[Point, bool]
    constant: Counter[str]

    @classmethod
    def empty(cls) -> "Totals":
        return cls({}, Counter())

    def add(self, modules: Mapping[str, Any], counts: Mapping[str, Mapping[str, set[str]]]) -> None:
        """Add a design: what its modules have to cover, and the edges that were seen in it."""
        constant: Counter[str] = Counter()
        for name, module in modules.items():
            seen = counts.get(name, {})
            component = module["component"]
            width = len(module["branches"])
            taken = [
                "0->1" in seen.get(f"{TAKEN}[{k}]" if width > 1 else TAKEN, ())
                for k in range(width)
            ]
            for branch, was_taken in zip(module["branches"], taken, strict=True):
                where = f"{branch['path']}:{branch['line']}"
                self._add(Point(component, "branch", where, branch["kind"]), was_taken)
            for line in module["statements"]:
                where = f"{line['path']}:{line['line']}"
                within = [taken[number] for number in line["branches"]]
                self._add(Point(component, "line", where), any(within) or not within)
            for port, bits in module["ports"].items():
                for number, bit in enumerate(bits):
                    if not bit:
                        constant[component] += 1
                        continue
                    signal = f"{port}[{number}]" if len(bits) > 1 else port
                    edges = seen.get(signal, ())
                    self._add(Point(component, "port", port, bit), len(edges) == 2)
        for component, count in constant.items():
            self.constant[component] = max(count, self.constant[component])

    def _add(self, point: Point, covered: bool) -> None:
        self.points[point] = self.points.get(point, False) or covered

    @property
    def components(self) -> list[str]:
        return sorted({point.component for point in self.points})

    def uncovered(self) -> list[Point]:
        """Points that nothing has covered."""
        return sorted(point for point, covered in self.points.items() if not covered)


def components_of_hw() -> set[str]:
    """The names of all components' classes in `cdma.hw`."""
    package = import_module("cdma.hw")
    names = [info.name for info in walk_packages(package.__path__, "cdma.hw.")]
    found = set()
    for name in names:
        if name.endswith("__main__"):
            continue
        for value in vars(import_module(name)).values():
            if (
                isinstance(value, type)
                and issubclass(value, wiring.Component)
                and value.__module__ == name
            ):
                found.add(f"{name.removeprefix('cdma.')}.{value.__qualname__}")
    return found


def ranges(points: Iterable[Point]) -> list[str]:
    """Points as text, those of a port's bits in one line for each field."""
    found: dict[str, list[str]] = {}
    for point in points:
        name, bracket, bit = point.what.partition("[")
        if point.kind == "port" and bracket:
            head = f"{point.component} port {point.where}: {name}"
            found.setdefault(head, []).append(bit.removesuffix("]"))
        else:
            found[str(point)] = []
    return [
        f"{head}[{_spans(sorted(map(int, bits)))}]" if bits else head
        for head, bits in found.items()
    ]


def _spans(numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{end}:{start}" if start < end else f"{start}" for start, end in spans)


def groups(points: Iterable[Point]) -> Counter[str]:
    """Count the points of each name."""
    return Counter(point.group for point in points)
