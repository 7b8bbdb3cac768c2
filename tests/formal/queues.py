"""Queues whose insides a proof can see."""

from typing import Any

import pytest
from amaranth.hdl import Module, Signal, Value

from hw.stream import Fifo
from tests.formal.bench import Bench, Inside
from tests.formal.order import Run, one


class OpenFifo(Fifo):
    """A `Fifo` that shows what its memory holds.

    Attributes
    ----------
    rows : list[Signal]
        What is in each place.
    first, free : Signal
        The place of the oldest one that is stored there, and that of the next one to come.
    """

    def __init__(self, shape: Any, depth: int) -> None:
        super().__init__(shape, depth)
        bits = len(Value.cast(self.o.payload))
        self.rows = [Signal(bits, name=f"row_{i}") for i in range(depth)]
        self.first = Signal(range(depth))
        self.free = Signal(range(depth))

    def elaborate(self, platform) -> Module:
        m = super().elaborate(platform)
        storage, _src_loc = m._named_submodules["storage"]
        m.d.comb += [
            self.first.eq(storage.read_ports[0].addr),
            self.free.eq(storage.write_ports[0].addr),
        ]
        for address, row in enumerate(self.rows):
            port = storage.read_port(domain="comb")
            m.d.comb += [port.addr.eq(address), row.eq(Value.cast(port.data))]
        return m


def open_fifos(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Components of these modules get their queues opened."""
    for module in modules:
        monkeypatch.setattr(f"{module}.Fifo", OpenFifo)


class Queue:
    """What an opened queue holds.

    Attributes
    ----------
    count : Value
        How many.
    runs : list[Run]
        The oldest first.
    items : list[tuple[Value, Value]]
        The same, one by one: whether there are so many, and what it is.
    """

    def __init__(self, bench: Bench, fifo: OpenFifo, inside: Inside, prefix: str = "") -> None:
        stored, holds = inside[f"{prefix}stored"], inside[f"{prefix}holds"]
        self.count = stored + holds
        self.runs = [
            one(holds, Value.cast(fifo.o.payload)),
            Run(stored, [*fifo.rows, *fifo.rows], fifo.first),
        ]
        self.items = [(holds, Value.cast(fifo.o.payload))]
        for ahead in range(fifo.depth):
            item = Signal(len(fifo.rows[0]), name=f"queued_{ahead}")
            for start in range(fifo.depth):
                with bench.m.If(fifo.first == start):
                    bench.m.d.comb += item.eq(fifo.rows[(start + ahead) % fifo.depth])
            self.items.append((stored > ahead, item))
        bench.require(stored <= fifo.depth, fifo.first < fifo.depth, fifo.free < fifo.depth)
        end = fifo.first + stored
        bench.require((fifo.free == end) | (fifo.free + fifo.depth == end))

    @classmethod
    def inside(cls, bench: Bench, inside: Inside, path: str) -> "Queue":
        """That of a component inside another one."""
        return cls(bench, inside.component(path), inside, f"{path}.")
