"""Benches inside the simulator: sources and sinks of cocotbext-axi around an AXI4-Stream top.

`tests.hw.cocotb.simulate` starts these; the environment carries a `Scenario`.
"""

import itertools
import json
import logging
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from cdma.golden import StreamStatus
from cdma.hw.config import CodecConfig
from tests.lib.rtl.transfers import Transfer, transfers

COMMAND_FIELDS = {
    "zvc-compressor": ("length",),
    "zvc-decompressor": ("length", "crc32", "check_crc"),
}
STATUS_FIELDS = ("status", "offset", "out_size", "crc32")
TIMEOUT_US = 200
PERIOD_NS = 2


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A top, its stalls, and the file for what was seen.

    `stalls` are pairs of probabilities, of the sources' and of the sinks'; the transfers are run
    once for each pair.
    """

    component: str
    element_bytes: int
    sector_bytes: int
    stalls: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    seed: int = 1
    log: str = ""

    @property
    def config(self) -> CodecConfig:
        return CodecConfig(element_bytes=self.element_bytes, sector_bytes=self.sector_bytes)

    def to_env(self) -> dict[str, str]:
        return {"SCENARIO": json.dumps(asdict(self))}

    @classmethod
    def from_env(cls) -> "Scenario":
        return cls(**json.loads(os.environ["SCENARIO"]))


def pauses(probability: float, seed: int) -> Iterator[bool]:
    generator = random.Random(seed)
    while True:
        # Runs of pauses fill and drain the buffers.
        yield from [generator.random() < probability] * generator.choice((1, 1, 1, 2, 7))


@dataclass(frozen=True)
class Result:
    """Outcome of a transfer."""

    output: bytes
    beats: int
    status: tuple[int, ...]


class Snapshot:
    """A signal that is read once per time step; the sink would read it for each byte of a beat."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.time = -1
        self.known = 0

    def __len__(self) -> int:
        return len(self.handle)

    @property
    def value(self) -> int:
        now = get_sim_time()
        if now != self.time:
            self.time, self.known = now, int(self.handle.value)
        return self.known


class Bench:
    """The top with a driver at every port."""

    def __init__(self, dut: Any, scenario: Scenario) -> None:
        self.dut = dut
        self.scenario = scenario
        for prefix in ("s_axis", "m_axis"):
            logging.getLogger(f"cocotb.{dut._name}.{prefix}").setLevel(logging.ERROR)
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk, dut.rst)
        self.sink.bus.tdata = Snapshot(dut.m_axis_tdata)
        self.sink.bus.tkeep = Snapshot(dut.m_axis_tkeep)
        dut.s_cmd_valid.value = 0
        for name in COMMAND_FIELDS[scenario.component]:
            getattr(dut, f"s_cmd_{name}").value = 0
        dut.m_sts_ready.value = 0

    async def reset(self, cycles: int = 3) -> None:
        self.dut.rst.value = 1
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def command(self, chosen: list[Transfer], stall: float = 0.0) -> None:
        """Gives the commands, as early as they are taken."""
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        stalls = pauses(stall, self.scenario.seed + 2)
        for transfer in chosen:
            while next(stalls):
                await edge
            for name, value in transfer.command.items():
                getattr(dut, f"s_cmd_{name}").value = int(value)
            dut.s_cmd_valid.value = 1
            await edge
            while not dut.s_cmd_ready.value:
                await edge
            dut.s_cmd_valid.value = 0

    async def statuses(self, count: int, stall: float) -> list[tuple[int, ...]]:
        """Takes the status records."""
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        stalls = pauses(stall, self.scenario.seed + 3)
        records: list[tuple[int, ...]] = []
        while len(records) < count:
            dut.m_sts_ready.value = int(not next(stalls))
            await edge
            if dut.m_sts_valid.value and dut.m_sts_ready.value:
                records.append(
                    tuple(int(getattr(dut, f"m_sts_{name}").value) for name in STATUS_FIELDS)
                )
        dut.m_sts_ready.value = 0
        return records

    async def run(self, chosen: list[Transfer]) -> None:
        """All transfers, back to back; what comes of them is checked."""
        for source, sink in self.scenario.stalls:
            await self.run_stalled(chosen, source, sink)

    async def run_stalled(self, chosen: list[Transfer], source: float, sink: float) -> None:
        seed = self.scenario.seed
        self.source.set_pause_generator(pauses(source, seed))
        self.sink.set_pause_generator(pauses(sink, seed + 1))
        cocotb.start_soon(self.command(chosen, source))
        taking = cocotb.start_soon(self.statuses(len(chosen), sink))
        for transfer in chosen:
            self.source.send_nowait(frame_of(transfer))
        outputs = []
        for _ in chosen:
            frame = await with_timeout(self.sink.recv(compact=False), TIMEOUT_US, "us")
            outputs.append(dense_bytes(frame, self.scenario.sector_bytes))
        records = await with_timeout(taking, TIMEOUT_US, "us")
        # Nothing more comes.
        for _ in range(40):
            await RisingEdge(self.dut.clk)
        assert self.sink.empty(), "a packet too many"
        assert not self.dut.m_sts_valid.value, "a status too many"
        results = [
            Result(output, beats, record)
            for (output, beats), record in zip(outputs, records, strict=True)
        ]
        check(chosen, results, self.scenario.sector_bytes)


def frame_of(transfer: Transfer) -> AxiStreamFrame:
    data = b"".join(data for data, _ in transfer.packet)
    width = len(transfer.packet[0][0])
    keep = [keep >> lane & 1 for _, keep in transfer.packet for lane in range(width)]
    return AxiStreamFrame(data, tkeep=keep)


def dense_bytes(frame: AxiStreamFrame, width: int) -> tuple[bytes, int]:
    """The packet's bytes and beats; TKEEP must be ones, and zeros only on the last beat."""
    kept = sum(frame.tkeep)
    lanes = len(frame.tkeep)
    assert frame.tkeep == [1] * kept + [0] * (lanes - kept), "TKEEP has holes"
    assert lanes - kept <= width, "more than one beat is partial"
    return bytes(frame.tdata[:kept]), lanes // width


def check(chosen: list[Transfer], results: list[Result], width: int) -> None:
    for index, (transfer, result) in enumerate(zip(chosen, results, strict=True)):
        where = f"transfer {index} ({transfer.name})"
        want = tuple(map(int, transfer.status))
        assert result.status == want, f"{where}: {result.status}, not {want}"
        differs = first_difference(result.output, transfer.output)
        assert differs is None, (
            f"{where}: byte {differs} differs:\n"
            f"{result.output.hex(' ')}\nand not\n{transfer.output.hex(' ')}"
        )
        # An error at the start of a sector is found when the one before has left: then, and for a
        # packet of no bytes, the last beat has none.
        beats = -(-len(transfer.output) // width)
        allowed = {max(beats, 1)} if want[0] == StreamStatus.OK else {beats, beats + 1}
        assert result.beats in allowed, f"{where}: {result.beats} beats"


def first_difference(got: bytes, want: bytes) -> int | None:
    pairs = itertools.zip_longest(got, want)
    return next((i for i, (g, w) in enumerate(pairs) if g != w), None)


async def log_transfers(dut: Any, lines: list[str]) -> None:
    """Writes down every transfer at every port, with its cycle."""
    channels = []
    for prefix, valid, ready in (
        ("s_cmd", "s_cmd_valid", "s_cmd_ready"),
        ("s_axis", "s_axis_tvalid", "s_axis_tready"),
        ("m_axis", "m_axis_tvalid", "m_axis_tready"),
        ("m_sts", "m_sts_valid", "m_sts_ready"),
    ):
        fields = [
            handle
            for handle in dut
            if handle._name.startswith(f"{prefix}_") and handle._name not in (valid, ready)
        ]
        fields.sort(key=lambda handle: handle._name)
        channels.append((prefix, getattr(dut, valid), getattr(dut, ready), fields))
    edge = RisingEdge(dut.clk)
    for cycle in itertools.count():
        await edge
        for prefix, valid, ready, fields in channels:
            if valid.value and ready.value:
                lines.append(f"{cycle} {prefix} {' '.join(str(f.value) for f in fields)}")


async def require_known_outputs(dut: Any) -> None:
    """No output may be X after reset: a valid or ready never, the rest not while valid."""
    edge = RisingEdge(dut.clk)
    while True:
        await edge
        await ReadOnly()
        for name in ("s_cmd_ready", "s_axis_tready", "m_axis_tvalid", "m_sts_valid"):
            assert getattr(dut, name).value.is_resolvable, f"{name} is unknown"
        if dut.m_axis_tvalid.value:
            for name in ("m_axis_tdata", "m_axis_tkeep", "m_axis_tlast"):
                assert getattr(dut, name).value.is_resolvable, f"{name} is unknown while valid"
        if dut.m_sts_valid.value:
            for name in STATUS_FIELDS:
                assert getattr(dut, f"m_sts_{name}").value.is_resolvable, f"m_sts_{name} is unknown"


@cocotb.test()
async def good_and_malformed_packets(dut: Any) -> None:
    scenario = Scenario.from_env()
    bench = Bench(dut, scenario)
    await bench.reset()
    lines: list[str] = []
    if scenario.log:
        cocotb.start_soon(log_transfers(dut, lines))
    await bench.run(transfers(scenario.component, scenario.config))
    if scenario.log:
        Path(scenario.log).write_text("\n".join(lines) + "\n")


@cocotb.test()
async def outputs_are_known_after_reset(dut: Any) -> None:
    scenario = Scenario.from_env()
    bench = Bench(dut, scenario)
    await bench.reset()
    cocotb.start_soon(require_known_outputs(dut))
    # Icarus is slow: some of each kind.
    await bench.run(transfers(scenario.component, scenario.config)[::3])


@cocotb.test()
async def reset_in_the_middle_of_a_packet(dut: Any) -> None:
    scenario = Scenario.from_env()
    bench = Bench(dut, scenario)
    await bench.reset()
    chosen = transfers(scenario.component, scenario.config, malformed=False)
    longest = max(chosen, key=lambda transfer: len(transfer.packet))
    for cycles in range(4, 30, 5):
        bench.source.send_nowait(frame_of(longest))
        commanding = cocotb.start_soon(bench.command([longest]))
        for _ in range(cycles):
            await RisingEdge(dut.clk)
        commanding.cancel()
        bench.source.clear()
        dut.s_cmd_valid.value = 0
        dut.rst.value = 1
        await ReadOnly()
        assert not dut.m_axis_tvalid.value, "TVALID is high in reset"
        assert not dut.m_sts_valid.value, "the status is valid in reset"
        await RisingEdge(dut.clk)
        await bench.reset()
        bench.sink.clear()
        # Short ones show what was left in the buffers.
        await bench.run(chosen[1:3])
