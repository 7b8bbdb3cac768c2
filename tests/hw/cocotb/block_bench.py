"""Shared by benches of whole blocks: a clock, registers, memories and stalls around the block."""

import heapq
import itertools
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import Task
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster, AxiResp, AxiSlave

from cdma.golden.formats.stream import ByteArray
from cdma.hw.registers.map import Register

PERIOD_NS = 2


class Memory:
    """A memory as a port sees it. What lies outside is answered with SLVERR.

    Attributes
    ----------
    refused
        Addresses that are answered with SLVERR, too, as (first, end, "read" or "write").
    """

    def __init__(self, data: ByteArray, base: int) -> None:
        self.data = data
        self.base = base
        self.refused: list[tuple[int, int, str]] = []

    async def read(self, address: int, length: int) -> bytes:
        return self._span(address, length, "read").tobytes()

    async def write(self, address: int, data: bytes) -> None:
        self._span(address, len(data), "write")[:] = np.frombuffer(data, np.uint8)

    def _span(self, address: int, length: int, access: str) -> ByteArray:
        start = address - self.base
        if not 0 <= start <= len(self.data) - length:
            raise IndexError(f"{address:#x} is not in the memory")
        for first, end, kind in self.refused:
            if kind == access and first < address + length and address < end:
                raise ValueError(f"{address:#x} is refused")
        return self.data[start : start + length]


class BlockBench:
    """A block with registers at `s_axil`, between managers and memories that are not ours.

    Parameters
    ----------
    dut
    register_map
        Of the block.
    slaves, managers
        Names of the block's ports to memories, and of those to managers.
    timeout_us
        For one access of a register.
    """

    def __init__(
        self,
        dut: Any,
        register_map: Mapping[str, Register],
        *,
        slaves: list[str],
        managers: list[str],
        timeout_us: int,
    ) -> None:
        self.dut = dut
        self.map = register_map
        self.timeout_us = timeout_us
        for name in ("s_axil", *slaves, *managers):
            logging.getLogger(f"cocotb.{dut._name}.{name}").setLevel(logging.CRITICAL)
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        dut.rst.value = 1
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.managers = [AxiMaster(AxiBus.from_prefix(dut, n), dut.clk, dut.rst) for n in managers]
        self.slaves = [AxiSlave(AxiBus.from_prefix(dut, n), dut.clk, dut.rst) for n in slaves]
        self.channels = channels_of(self.registers, *self.managers, *self.slaves)
        self._stalling: Task[None] | None = None

    async def reset(self) -> None:
        """With no channel paused any more."""
        if self._stalling is not None:
            self._stalling.cancel()
        for channel in self.channels:
            channel.pause = False
        self.dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    def stall(self, probability: float, draw: random.Random) -> None:
        """Pause all channels at random from now on."""
        if probability:
            seed = random.Random(draw.random())
            task = stall(self.dut.clk, self.channels, probability, seed)
            self._stalling = cocotb.start_soon(task)

    async def read(self, name: str) -> dict[str, int]:
        """A register's fields."""
        register = self.map[name]
        access = self.registers.read(register.offset, 4)
        answer = await with_timeout(access, self.timeout_us, "us")
        assert answer.resp == AxiResp.OKAY, name
        return register.values(int.from_bytes(answer.data, "little"))

    async def write(self, name: str, **fields: int) -> None:
        """These fields, and zeros to the others."""
        register = self.map[name]
        word = sum(register.fields[field].put(int(value)) for field, value in fields.items())
        await self.write_word(name, word)

    async def write_word(self, name: str, word: int) -> None:
        data = word.to_bytes(4, "little")
        access = self.registers.write(self.map[name].offset, data)
        answer = await with_timeout(access, self.timeout_us, "us")
        assert answer.resp == AxiResp.OKAY, name


async def stall(
    clock: Any, channels: Sequence[Any], probability: float, draw: random.Random
) -> None:
    """Pauses all channels at random; one coroutine, since each costs time in every cycle."""
    flips = [(0, number) for number in range(len(channels))]
    edge = RisingEdge(clock)
    for cycle in itertools.count():
        await edge
        while flips[0][0] <= cycle:
            _, number = flips[0]
            channel = channels[number]
            channel.pause = not channel.pause
            # Long pauses fill and drain the buffers.
            length = draw.choice((1, 1, 1, 2, 7, 30))
            if not channel.pause:
                length *= (1 - probability) / probability
            heapq.heapreplace(flips, (cycle + max(1, round(length)), number))


def channels_of(*ports: Any) -> list[Any]:
    """All channels of these ports."""
    return [
        getattr(half, f"{channel}_channel")
        for port in ports
        for half, names in ((port.write_if, ("aw", "w", "b")), (port.read_if, ("ar", "r")))
        for channel in names
    ]
