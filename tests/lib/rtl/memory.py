"""A memory of Python behind an AXI4 port, which stalls and fails as `Axi4Bus` does."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.lib.rtl.axi4_bus import Axi4Bus, Behavior
from tests.lib.rtl.axi_lite import AxiLiteBus


class _Bytes(dict[int, int]):
    """Stores bytes in an array, by their addresses, and in no other place."""

    def __init__(self, memory: NDArray[np.uint8], base: int) -> None:
        super().__init__()
        self.memory = memory
        self.base = base

    def __setitem__(self, address: int, byte: int) -> None:
        assert 0 <= address - self.base < self.memory.size, f"write outside memory: {address:#x}"
        self.memory[address - self.base] = byte


class Memory(Axi4Bus):
    """A subordinate that keeps what is written.

    Parameters
    ----------
    axi
        The manager's port.
    memory : uint8 array
        Its content, which several ports may share.
    base
        The address of the first byte.
    behavior, seed
        As of `Axi4Bus`.

    Attributes
    ----------
    asked : list of int
        Addresses of all bursts, in the order in which they came.
    """

    def __init__(
        self, axi: Any, memory: NDArray[np.uint8], base: int, behavior: Behavior, seed: int
    ) -> None:
        super().__init__(axi, behavior, seed)
        self.memory = memory
        self.base = base
        self.written = _Bytes(memory, base)
        self.asked: list[int] = []

    def _take_burst(self, answers: str, fields: tuple[int, ...]) -> tuple[int, int, int]:
        burst = super()._take_burst(answers, fields)
        self.asked.append(burst[1])
        return burst

    def _read_wires(self) -> list[int]:
        if self.offered_read is None:
            return super()._read_wires()
        valid, id, _, response, last = super()._read_wires()
        start = self.offered_read[2] - self.base
        assert 0 <= start <= self.memory.size - self.width, f"read outside memory: {start:#x}"
        data = self.memory[start : start + self.width].tobytes()
        return [valid, id, int.from_bytes(data, "little"), response, last]


async def serve(bus: AxiLiteBus, memories: Sequence[Memory], *wires: Any) -> tuple[int, ...]:
    """Let memories do what they do in a cycle; other wires just before its clock edge."""
    for memory in memories:
        for wire, value in zip(memory.inputs(), memory.drive(bus.ctx, bus.cycle), strict=True):
            bus.ctx.set(wire, value)
    outputs = [memory.outputs() for memory in memories]
    values = await bus.tick(*wires, *(wire for each in outputs for wire in each))
    start = len(wires)
    for memory, each in zip(memories, outputs, strict=True):
        memory.observe(bus.cycle, values[start : start + len(each)])
        start += len(each)
    return values[: len(wires)]
