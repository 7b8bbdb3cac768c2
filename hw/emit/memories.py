"""The memories of a generated block: how many of which sizes, and how they are replaced."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from amaranth.lib import wiring

from cdma.hw.emit.netlist import instances_in
from cdma.hw.lib.clocks.two_clock_ram import TwoClockRam
from cdma.hw.lib.ram import Ram


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
    clocks : int
        1, or 2 if the ports have a clock each.
    """

    words: int
    bits: int
    instances: int
    clocks: int


def memories_of(modules: Sequence[NamedModule]) -> list[MemoryShape]:
    """List the memories of a design, its top first, from the smallest number of words up."""
    texts = {module.name: module.text for module in modules}

    @cache
    def inside(name: str) -> Counter[str]:
        """A module and all below it, by the module."""
        found = Counter([name])
        for child, count in instances_in(texts[name], texts).items():
            for kind, number in inside(child).items():
                found[kind] += count * number
        return found

    counts = inside(modules[0].name)
    shapes: Counter[tuple[int, int, int]] = Counter()
    for module in modules:
        if isinstance(module.component, Ram):
            ram, clocks = module.component, 1 + isinstance(module.component, TwoClockRam)
            shapes[ram.depth, ram.width, clocks] += counts[module.name]
    return sorted(
        MemoryShape(words, bits, instances, clocks)
        for (words, bits, clocks), instances in shapes.items()
    )


def own_memories(top: str) -> str:
    """Name the macro that says so."""
    return f"{top.upper()}_OWN_MEMORIES"
