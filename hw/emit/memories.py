"""The memories of a generated block: how many of which sizes, and how they are replaced."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from amaranth.lib import wiring

from cdma.hw.lib.ram import Ram

_INSTANCE = re.compile(r"^\s*(\w+) \\?\S+ +\($", re.MULTILINE)


class NamedModule(Protocol):
    """A module of a design in which nothing is shared by way of parameters."""

    @property
    def name(self) -> str: ...

    @property
    def component(self) -> wiring.Component: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True, order=True)
class MemoryShape:
    """Memories of the same sizes, each with a port that writes and one that reads.

    Attributes
    ----------
    words, bits : int
        Of each.
    instances : int
    """

    words: int
    bits: int
    instances: int


def memories_of(modules: Sequence[NamedModule]) -> list[MemoryShape]:
    """List the memories of a design, its top first, from the smallest number of words up."""
    texts = {module.name: module.text for module in modules}
    counts = {modules[0].name: 1}
    # Each module comes before those below it, but may come before another one that has it, too.
    order = _parents_first(modules[0].name, texts)
    for name in order:
        for child, count in _children(texts[name], texts).items():
            counts[child] = counts.get(child, 0) + count * counts[name]
    shapes: Counter[tuple[int, int]] = Counter()
    for module in modules:
        if isinstance(module.component, Ram):
            shapes[module.component.depth, module.component.width] += counts[module.name]
    return sorted(MemoryShape(*sizes, instances) for sizes, instances in shapes.items())


def replaceable(text: str, top: str) -> str:
    """A memory's module, left out where the user of the block has one of his own."""
    return f"`ifndef {own_memories(top)}\n{text.rstrip()}\n`endif\n\n"


def own_memories(top: str) -> str:
    """Name the macro that says so."""
    return f"{top.upper()}_OWN_MEMORIES"


def _children(text: str, known: dict[str, str]) -> Counter[str]:
    return Counter(kind for kind in _INSTANCE.findall(text) if kind in known)


def _parents_first(top: str, texts: dict[str, str]) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name not in seen:
            seen.add(name)
            for child in _children(texts[name], texts):
                visit(child)
            found.append(name)

    visit(top)
    return found[::-1]
