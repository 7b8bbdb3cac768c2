"""Benches inside the simulator: cocotbext-axi's AXI4-Lite master at the register block.

`tests.hw.cocotb.simulate` starts these; the environment carries a `RegisterScenario`.
"""

import json
import logging
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from cdma.hw.dma.control.registers import register_map
from cdma.hw.registers.map import Kind

PERIOD_NS = 2
TIMEOUT_US = 1000


@dataclass(frozen=True, kw_only=True)
class RegisterScenario:
    """`stall` is the probability of a pause, on each of the five channels; `inputs` are the ports
    by which hardware shows something."""

    inputs: tuple[str, ...]
    stall: float = 0.0
    seed: int = 1

    def to_env(self) -> dict[str, str]:
        return {"SCENARIO": json.dumps(asdict(self))}

    @classmethod
    def from_env(cls) -> "RegisterScenario":
        return cls(**json.loads(os.environ["SCENARIO"]))


def pauses(probability: float, seed: int) -> Iterator[bool]:
    generator = random.Random(seed)
    while True:
        yield from [generator.random() < probability] * generator.choice((1, 1, 1, 2, 7))


class Bench:
    """The block with a master at its port and zeros at all other inputs."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.scenario = RegisterScenario.from_env()
        self.map = register_map()
        logging.getLogger(f"cocotb.{dut._name}.s_axil").setLevel(logging.ERROR)
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        dut.rst.value = 1
        for name in self.scenario.inputs:
            getattr(dut, name).value = 0
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        channels = (
            self.master.write_if.aw_channel,
            self.master.write_if.w_channel,
            self.master.write_if.b_channel,
            self.master.read_if.ar_channel,
            self.master.read_if.r_channel,
        )
        for number, channel in enumerate(channels):
            seed = self.scenario.seed + number
            channel.set_pause_generator(pauses(self.scenario.stall, seed))

    async def reset(self) -> None:
        self.dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def read(self, address: int) -> int:
        answer = await with_timeout(self.master.read(address, 4), TIMEOUT_US, "us")
        assert answer.resp == AxiResp.OKAY, hex(address)
        return int.from_bytes(answer.data, "little")

    async def write(self, address: int, data: bytes) -> None:
        answer = await with_timeout(self.master.write(address, data), TIMEOUT_US, "us")
        assert answer.resp == AxiResp.OKAY, hex(address)


@cocotb.test()
async def software_finds_the_map(dut: Any) -> None:
    bench = Bench(dut)
    await bench.reset()
    generator = random.Random(bench.scenario.seed)
    memory = bytearray(0x180)
    writable = bytearray(0x180)
    for register in bench.map.values():
        place = slice(register.offset, register.offset + 4)
        memory[place] = register.reset.to_bytes(4, "little")
        stored = sum(f.mask for f in register.fields.values() if f.kind is Kind.STORED)
        writable[place] = stored.to_bytes(4, "little")
        assert await bench.read(register.offset) == register.reset, register.name

    # Any run of bytes within registers that neither clear nor start anything.
    quiet = [
        r
        for r in bench.map.values()
        if any(f.kind is Kind.STORED for f in r.fields.values())
        and not any(f.kind is Kind.PULSE for f in r.fields.values())
    ]
    for _ in range(60):
        writes = []
        for register in generator.sample(quiet, 3):
            start = generator.randrange(4)
            data = generator.randbytes(generator.randint(1, 4 - start))
            at = register.offset + start
            for i, byte in enumerate(data, at):
                memory[i] = memory[i] & ~writable[i] | byte & writable[i]
            writes.append(bench.master.init_write(at, data))
        for write in writes:
            await with_timeout(write.wait(), TIMEOUT_US, "us")
        # Several reads under way.
        chosen = generator.sample(quiet, 3)
        reads = [bench.master.init_read(register.offset, 4) for register in chosen]
        for register, read in zip(chosen, reads, strict=True):
            await with_timeout(read.wait(), TIMEOUT_US, "us")
            expected = memory[register.offset : register.offset + 4]
            assert read.data.data == expected, register.name


@cocotb.test()
async def addresses_without_a_register_give_slverr(dut: Any) -> None:
    bench = Bench(dut)
    await bench.reset()
    taken = {register.offset for register in bench.map.values()}
    free = [address for address in range(0, 0x1000, 4) if address not in taken]
    for address in free[::7]:
        answer = await with_timeout(bench.master.read(address, 4), TIMEOUT_US, "us")
        assert (answer.resp, answer.data) == (AxiResp.SLVERR, bytes(4)), hex(address)
        answer = await with_timeout(bench.master.write(address, b"\xff" * 4), TIMEOUT_US, "us")
        assert answer.resp == AxiResp.SLVERR, hex(address)
    for register in bench.map.values():
        assert await bench.read(register.offset) == register.reset, register.name


@cocotb.test()
async def counters_are_read_whole_while_they_overflow(dut: Any) -> None:
    bench = Bench(dut)
    await bench.reset()
    low, high = (bench.map[f"RAW_BYTES_OUT_{half}"].offset for half in ("LO", "HI"))
    step = 0xFFFF
    dut.raw_bytes_out_increment.value = step
    # Up to shortly before the lower half overflows.
    for _ in range((1 << 32) // step - 60):
        await RisingEdge(dut.clk)
    before = 0
    for _ in range(60):
        total = await bench.read(low)
        total += await bench.read(high) << 32
        # Since 2**32 leaves 1, halves of different moments show.
        assert total % step == 0, f"{total:#x} after {before:#x}"
        assert total > before
        before = total
    assert before >> 32 == 1


@cocotb.test()
async def reset_in_the_middle_of_accesses(dut: Any) -> None:
    bench = Bench(dut)
    await bench.reset()
    timeout = bench.map["TIMEOUT_CYCLES"]
    for cycles in range(1, 9):
        bench.master.init_write(timeout.offset, b"\xff" * 4)
        bench.master.init_read(timeout.offset, 4)
        for _ in range(cycles):
            await RisingEdge(dut.clk)
        dut.rst.value = 1
        await ReadOnly()
        assert not dut.s_axil_bvalid.value, "BVALID is high in reset"
        assert not dut.s_axil_rvalid.value, "RVALID is high in reset"
        await RisingEdge(dut.clk)
        await bench.reset()
        for _ in range(4):
            await RisingEdge(dut.clk)
            assert not dut.s_axil_bvalid.value, "an answer from before the reset"
            assert not dut.s_axil_rvalid.value, "an answer from before the reset"
        assert await bench.read(timeout.offset) == 0
        await bench.write(timeout.offset, cycles.to_bytes(4, "little"))
        assert await bench.read(timeout.offset) == cycles
