"""Benches inside the simulator: memories and an AXI4-Lite master of cocotbext-axi at the engine.

`tests.hw.cocotb.simulate` starts these; the environment carries an `EngineScenario`.
"""

import itertools
import json
import os
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotbext.axi import AxiResp

from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.descriptor import Opcode, Status
from cdma.hw.dma.control.registers import register_map
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.hw.cocotb.block_bench import BlockBench, Memory
from tests.hw.cocotb.engine import plans
from tests.hw.cocotb.engine.plans import Plan

TIMEOUT_US = 100
"""For one access of a register."""

PATIENCE = 3000
"""So many times is looked whether something has ended."""

OUTWARD = (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
CHANNELS = ("aw", "w", "b", "ar", "r")
FROM_MANAGER = ("aw", "w", "ar")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A plan, and how the buses behave.

    Attributes
    ----------
    plan, arguments
        Of `plans.make`.
    stall
        The fraction of cycles in which a channel is paused, for each of all channels.
    seed
        Of the plan and the stalls.
    """

    plan: str
    arguments: dict[str, int] = field(default_factory=dict)
    stall: float = 0.0
    seed: int = 1

    def make(self, config: EngineConfig) -> Plan:
        return plans.make(config, self.plan, self.seed, **self.arguments)


@dataclass(frozen=True, kw_only=True)
class EngineScenario:
    """An engine, what it does, each time from reset, and the file for what was seen.

    Attributes
    ----------
    config
        An `EngineConfig` as a dict.
    runs
    log
        A file: all transfers at all ports, with their cycles.
    save
        A folder: the memories after each run, by its number.
    unknown
        Bits may be X where they do not matter: memories then take them for 0 or 1.
    """

    config: dict[str, Any]
    runs: tuple[Run, ...]
    log: str = ""
    save: str = ""
    unknown: bool = False
    seed: int = 1

    @property
    def engine(self) -> EngineConfig:
        codec = self.config["codec"]
        # JSON has lists only.
        codec = CodecConfig(**{**codec, "codecs": tuple(codec["codecs"])})
        return EngineConfig(**{**self.config, "codec": codec})

    def to_env(self) -> dict[str, str]:
        unknown = {"COCOTB_RESOLVE_X": "random"} if self.unknown else {}
        return {"SCENARIO": json.dumps(asdict(self)), **unknown}

    @classmethod
    def from_env(cls) -> "EngineScenario":
        fields = json.loads(os.environ["SCENARIO"])
        return cls(**{**fields, "runs": tuple(Run(**run) for run in fields["runs"])})


class Bench(BlockBench):
    """The engine between memories that are not ours."""

    def __init__(self, dut: Any) -> None:
        self.scenario = EngineScenario.from_env()
        self.config = self.scenario.engine
        self.ports = [f"m_axi_mem{k}" for k in range(self.config.units)] + ["m_axi_host"]
        super().__init__(
            dut,
            register_map(self.config),
            slaves=self.ports,
            managers=[],
            timeout_us=TIMEOUT_US,
        )

    async def prepare(self, run: Run) -> None:
        """Bring an engine from reset, with the run's memories, to waiting for descriptors."""
        self.plan = plan = run.make(self.config)
        self.draw = random.Random(run.seed)
        self.device = plan.device.before.copy()
        self.host = plan.host.before.copy()
        device, host = Memory(self.device, plan.device.base), Memory(self.host, plan.host.base)
        for slave in self.slaves:
            target = host if slave is self.slaves[-1] else device
            slave.write_if.target = slave.read_if.target = target
        await self.reset()
        self.stall(run.stall, self.draw)
        await self.write("RING_BASE_LO", address=plan.ring_base % 2**32 >> 6)
        await self.write("RING_BASE_HI", address=plan.ring_base >> 32)
        await self.write("RING_SIZE", log2_entries=plan.log2_entries)
        await self.write("CONTROL", enable=1)

    def put(self, index: int) -> None:
        """A descriptor into its slot."""
        start = self.plan.slot(index) - self.plan.host.base
        self.host[start : start + ENTRY_BYTES] = np.frombuffer(self.plan.packed(index), np.uint8)

    async def ring(self, given: int) -> None:
        """The doorbell."""
        await self.write("RING_TAIL", index=given % 2**16)

    async def done(self) -> int:
        return (await self.read("RING_DONE"))["index"]

    async def run(self) -> None:
        """All descriptors, a few at a time, with room in the ring or without."""
        draw = self.draw
        count = len(self.plan.steps)
        given = done = quiet = 0
        while done < count:
            room = min(count, done + self.plan.entries) - given
            if room and draw.random() < 0.7:
                # Often all that fit, so that the ring is full.
                for _ in range(draw.choice((1, room, room))):
                    self.put(given)
                    given += 1
                await self.ring(given)
            if draw.random() < 0.2:
                await self.look_around()
            before = done
            done += (await self.done() - done) % 2**16
            assert done <= given, f"{done} records for {given} descriptors"
            # A record is in memory when RING_DONE counts it.
            for index in range(before, done):
                self.plan.check_record(index, self.host)
            quiet = 0 if done > before else quiet + 1
            if quiet > PATIENCE:
                raise AssertionError(f"nothing has ended since {self.plan.steps[done].name}")
        await self.finish()

    async def look_around(self) -> None:
        """Registers are answered, and right, whatever goes on."""
        for name in ("ID", "VERSION", "CONFIG0", "CONFIG1"):
            register = self.map[name]
            assert await self.read(name) == register.values(register.reset), name
        assert (await self.read("CONTROL"))["enable"] == 1
        assert (await self.read("STATUS"))["ring_error"] == 0
        answer = await with_timeout(self.registers.read(0xFFC, 4), TIMEOUT_US, "us")
        assert answer.resp == AxiResp.SLVERR

    async def finish(self) -> None:
        """The engine is idle, and the memories are as they must be."""
        for _ in range(PATIENCE):
            if (await self.read("STATUS"))["idle"]:
                break
        else:
            raise AssertionError("not idle")
        self.plan.check(self.device, self.host)
        steps = self.plan.steps
        written = sum(s.record["out_size"] for s in steps if s.descriptor["opcode"] in OUTWARD)
        assert (await self.read("STREAM_BYTES_OUT_LO"))["count"] == written
        failed = any(s.record["status"] not in (Status.OK, Status.OK_EXPANDED) for s in steps)
        assert (await self.read("IRQ_STATUS"))["error"] == failed


async def log_transfers(dut: Any, ports: list[str], lines: list[str]) -> None:
    """Writes down every transfer at every port, with its cycle."""
    channels = [Channel(dut, port, name) for port in ("s_axil", *ports) for name in CHANNELS]
    edge = RisingEdge(dut.clk)
    for cycle in itertools.count():
        await edge
        for channel in channels:
            if channel.valid.value and channel.ready.value:
                fields = " ".join(str(handle.value) for handle in channel.fields)
                lines.append(f"{cycle} {channel.name} {fields}")


class Channel:
    """A channel's handles."""

    def __init__(self, dut: Any, port: str, channel: str) -> None:
        self.name = f"{port}_{channel}"
        self.valid = getattr(dut, f"{self.name}valid")
        self.ready = getattr(dut, f"{self.name}ready")
        self.fields = sorted(
            (
                handle
                for handle in dut
                if handle._name.startswith(self.name)
                and handle._name not in (f"{self.name}valid", f"{self.name}ready")
            ),
            key=lambda handle: handle._name,
        )
        from_engine = (channel in FROM_MANAGER) == port.startswith("m_")
        self.outputs = [self.valid] if from_engine else [self.ready]
        self.payload = self.fields if from_engine else []


async def require_known_outputs(dut: Any, ports: list[str]) -> None:
    """No output may be X after reset: a valid or ready never, the rest not while valid.

    Of write data that is so for the bytes that WSTRB names.
    """
    channels = [Channel(dut, port, name) for port in ("s_axil", *ports) for name in CHANNELS]
    edge = RisingEdge(dut.clk)
    while True:
        await edge
        await ReadOnly()
        assert dut.irq.value.is_resolvable, "irq is unknown"
        for channel in channels:
            for handle in channel.outputs:
                assert handle.value.is_resolvable, f"{handle._name} is unknown"
            if not channel.payload or not channel.valid.value:
                continue
            for handle in channel.payload:
                value = str(handle.value)
                if handle._name.endswith("wdata"):
                    strobe = str(getattr(dut, f"{channel.name}strb").value)
                    lanes = [value[place : place + 8] for place in range(0, len(value), 8)]
                    pairs = zip(lanes, strobe, strict=True)
                    value = "".join(lane for lane, named in pairs if named != "0")
                assert set(value) <= {"0", "1"}, f"{handle._name} is unknown while valid: {value}"


@cocotb.test()
async def transfers(dut: Any) -> None:
    bench = Bench(dut)
    scenario = bench.scenario
    lines: list[str] = []
    if scenario.log:
        cocotb.start_soon(log_transfers(dut, bench.ports, lines))
    try:
        for number, run in enumerate(scenario.runs):
            await bench.prepare(run)
            await bench.run()
            if scenario.save:
                memories = Path(scenario.save) / f"{number}.npz"
                np.savez(memories, device=bench.device, host=bench.host)
    finally:
        if scenario.log:
            Path(scenario.log).write_text("\n".join(lines) + "\n")


@cocotb.test()
async def outputs_are_known_after_reset(dut: Any) -> None:
    bench = Bench(dut)
    await bench.reset()
    cocotb.start_soon(require_known_outputs(dut, bench.ports))
    for run in bench.scenario.runs:
        await bench.prepare(run)
        await bench.run()


class Interrupts:
    """Software's use of interrupts: each step asks for one, or does not."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.irq = bench.dut.irq
        self.edge = RisingEdge(bench.dut.clk)
        self.given = 0

    async def give(self, count: int = 1) -> None:
        for _ in range(count):
            self.bench.put(self.given)
            self.given += 1
        await self.bench.ring(self.given)

    async def quiet(self, cycles: int) -> None:
        """The pin stays low."""
        for _ in range(cycles):
            await self.edge
            assert not self.irq.value, "an interrupt that nothing asked for"

    async def all_done(self) -> None:
        for _ in range(PATIENCE):
            if await self.bench.done() == self.given:
                return
        raise AssertionError("no end")

    async def raised(self) -> int:
        """The pin rises, and then all records are there. The cycles that it took."""
        for cycle in range(PATIENCE):
            await self.edge
            if self.irq.value:
                for index in range(self.given):
                    self.bench.plan.check_record(index, self.bench.host)
                assert await self.bench.done() == self.given
                return cycle
        raise AssertionError("no interrupt")

    async def acknowledge(self, **events: int) -> None:
        assert (
            await self.bench.read("IRQ_STATUS") == {"done": 0, "error": 0, "ring_error": 0} | events
        )
        await self.bench.write("IRQ_STATUS", **events)
        await self.quiet(20)


@cocotb.test()
async def interrupts(dut: Any) -> None:
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        cpu = Interrupts(bench)
        await cpu.quiet(20)
        # Not enabled.
        await cpu.give()
        await cpu.all_done()
        await cpu.quiet(20)
        await bench.write("IRQ_ENABLE", done=1)
        await cpu.raised()
        await cpu.acknowledge(done=1)
        # Each of them.
        for _ in range(2):
            await cpu.give()
            await cpu.raised()
            await cpu.acknowledge(done=1)
        # Only every third.
        await bench.write("IRQ_COALESCE_COUNT", value=3)
        await cpu.give(2)
        await cpu.all_done()
        await cpu.quiet(200)
        await cpu.give()
        await cpu.raised()
        await cpu.acknowledge(done=1)
        # Or after some time.
        await bench.write("IRQ_COALESCE_CYCLES", value=600)
        await cpu.give()
        await cpu.all_done()
        waited = await cpu.raised()
        assert 300 < waited < 600, waited
        await cpu.acknowledge(done=1)
        await bench.write("IRQ_COALESCE_COUNT", value=1)
        # A descriptor that does not ask.
        await cpu.give()
        await cpu.all_done()
        await cpu.quiet(50)
        # One that fails asks by doing so.
        await bench.write("IRQ_ENABLE", done=1, error=1)
        await cpu.give()
        await cpu.raised()
        step = bench.plan.steps[cpu.given - 1]
        assert await bench.read("ERROR_STATUS") == {
            "status": step.record["status"],
            "detail": step.record["detail"],
        }
        assert await bench.read("ERROR_TAG") == {"value": step.record["tag"]}
        await cpu.acknowledge(error=1)
        assert cpu.given == len(bench.plan.steps)
        bench.plan.check(bench.device, bench.host)
