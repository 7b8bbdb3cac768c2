"""Bench in the simulator: packets through the LiteX store, between ports of cocotbext-axi.

`tests.hw.cocotb.simulate` starts it; the environment carries a `Scenario`.
"""

import json
import logging
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from cdma.golden import StreamStatus, codec

PERIOD_NS = 2
TIMEOUT_US = 100
WRONG = 2
"""The packet that is announced four bytes longer than it is."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The codec's shape and the probability of stalls at both ends."""

    element_bytes: int
    sector_bytes: int
    stall: float
    seed: int = 1

    def to_env(self) -> dict[str, str]:
        return {"SCENARIO": json.dumps(asdict(self))}

    @classmethod
    def from_env(cls) -> "Scenario":
        return cls(**json.loads(os.environ["SCENARIO"]))


def packets(scenario: Scenario) -> list[bytes]:
    """Packets of whole and partial lines, from dense to empty of all but zeros."""
    generator = np.random.default_rng(scenario.seed)
    found = []
    for elements, density in ((64, 0.5), (1, 1.0), (33, 0.3), (96, 0.0), (80, 1.0), (101, 0.1)):
        values = generator.integers(0, 256, (elements, scenario.element_bytes), np.uint8)
        values[generator.random(elements) >= density] = 0
        found.append(values.tobytes())
    return found


def pauses(probability: float, seed: int) -> Iterator[bool]:
    generator = random.Random(seed)
    while True:
        yield from [generator.random() < probability] * generator.choice((1, 1, 2, 7))


async def records(dut: Any, name: str, count: int) -> list[tuple[int, int]]:
    """Status and size of so many packets."""
    found = []
    while len(found) < count:
        await RisingEdge(dut.clk)
        if int(getattr(dut, f"{name}_valid").value):
            found.append(
                (
                    int(getattr(dut, f"{name}_status").value),
                    int(getattr(dut, f"{name}_out_size").value),
                )
            )
    return found


async def kept_packets(dut: Any, count: int) -> list[bytes]:
    """Bytes of so many compressed packets on their way into the FIFO."""
    found, packet = [], bytearray()
    while len(found) < count:
        await RisingEdge(dut.clk)
        if not int(dut.kept_valid.value):
            continue
        size = int(dut.kept_keep.value).bit_count()
        packet += int(dut.kept_data.value).to_bytes(len(dut.kept_keep), "little")[:size]
        if int(dut.kept_last.value):
            found.append(bytes(packet))
            packet.clear()
    return found


@cocotb.test()
async def store_gives_back_what_it_took(dut: Any) -> None:
    scenario = Scenario.from_env()
    for prefix in ("s_axis", "m_axis"):
        logging.getLogger(f"cocotb.{dut._name}.{prefix}").setLevel(logging.ERROR)
    dut.rst.value = 1
    dut.sim_trace.value = 0
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst)
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk, dut.rst)
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    if scenario.stall:
        source.set_pause_generator(pauses(scenario.stall, scenario.seed))
        sink.set_pause_generator(pauses(scenario.stall, scenario.seed + 1))

    given = packets(scenario)
    stored = cocotb.start_soon(records(dut, "stored", len(given)))
    restored = cocotb.start_soon(records(dut, "restored", len(given)))
    kept = cocotb.start_soon(kept_packets(dut, len(given)))
    for number, packet in enumerate(given):
        announced = len(packet) + 4 * (number == WRONG)
        await source.send(AxiStreamFrame(packet, tuser=announced))
    taken = [bytes(await with_timeout(sink.recv(), TIMEOUT_US, "us")) for _ in given]

    zvc = codec("zvc", scenario.element_bytes)
    streams = [zvc.compress(np.frombuffer(packet, np.uint8)).tobytes() for packet in given]
    statuses = [StreamStatus.OK] * len(given)
    statuses[WRONG] = StreamStatus.LENGTH_MISMATCH
    found = await stored
    assert [status for status, _ in found] == statuses
    for number, packet in enumerate(given):
        if number == WRONG:
            continue
        assert (await kept)[number].hex() == streams[number].hex(), number
        assert found[number] == (StreamStatus.OK, len(streams[number])), number
        assert taken[number].hex() == packet.hex(), number
        assert (await restored)[number] == (StreamStatus.OK, len(packet)), number
    await ReadOnly()
