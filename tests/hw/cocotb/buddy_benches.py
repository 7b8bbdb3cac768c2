"""What runs inside the simulator: managers and memories of cocotbext-axi at the buddy controller.

`tests.hw.cocotb.simulate` starts these; the environment carries a `BuddyScenario`.
"""

import dataclasses
import json
import logging
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import Task
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import (
    AxiBurstType,
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiMaster,
    AxiResp,
    AxiSlave,
)

from golden.buddy import AddressMap, PageFields, Target
from golden.buddy_memory import BuddyMemory
from golden.entry import EntryCodec
from golden.stream import ByteArray
from hw.buddy.payloads import AccessStatus
from hw.buddy.registers import register_map
from hw.config import BuddyConfig, EntryConfig, MetadataCacheConfig
from tests.hw.cocotb.stalling import channels_of, stall

PERIOD_NS = 2
TIMEOUT_US = 400
"""For one access."""

PATIENCE = 2000
IDS = 4
GBBR = 0x12_3456_7800_0000
UNDER_WAY = 12
"""Accesses at once."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Random accesses from reset.

    Attributes
    ----------
    count
        How many.
    stall
        The fraction of cycles in which a channel is paused, for each of all channels.
    write, partial
        The fractions of accesses that write, and of writes that cover entries in part.
    entries
        How many neighboring entries of each page are touched: few, so that accesses meet.
    seed
    """

    count: int
    stall: float = 0.0
    write: float = 0.5
    partial: float = 0.3
    entries: int = 64
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class BuddyScenario:
    """Which controller, and what it does.

    Attributes
    ----------
    config
        A `BuddyConfig` as a dict.
    runs
    unknown
        Bits may be X where they do not matter: memories then take them for 0 or 1.
    """

    config: dict[str, Any]
    runs: tuple[Run, ...]
    unknown: bool = False
    seed: int = 1

    @property
    def controller(self) -> BuddyConfig:
        return BuddyConfig(
            **{
                **self.config,
                "entry": EntryConfig(**self.config["entry"]),
                "cache": MetadataCacheConfig(**self.config["cache"]),
            }
        )

    def to_env(self) -> dict[str, str]:
        unknown = {"COCOTB_RESOLVE_X": "random"} if self.unknown else {}
        return {"SCENARIO": json.dumps(asdict(self)), **unknown}

    @classmethod
    def from_env(cls) -> "BuddyScenario":
        fields = json.loads(os.environ["SCENARIO"])
        return cls(**{**fields, "runs": tuple(Run(**run) for run in fields["runs"])})


class Memory:
    """A memory as a port sees it.

    Attributes
    ----------
    refused
        Addresses that are answered with SLVERR, as (first, end, "read" or "write").
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


def entry_data(draw: random.Random) -> bytes:
    """An entry, more or less compressible."""
    kind = draw.randrange(6)
    generator = np.random.default_rng(draw.getrandbits(32))
    if kind == 0:
        return bytes(128)
    if kind == 1:
        return generator.integers(0, 2**32, 32, np.uint32).tobytes()
    if kind == 2:
        start, step = draw.getrandbits(31), draw.randrange(-5, 6)
        return (start + step * np.arange(32)).astype(np.int64).astype(np.uint32).tobytes()
    if kind == 3:
        values = generator.standard_normal(32).astype(np.float32)
        return np.where(generator.random(32) < draw.random(), values, 0).astype("<f4").tobytes()
    if kind == 4:
        return generator.integers(0, 1 << draw.randrange(1, 20), 32).astype(np.uint32).tobytes()
    words = np.zeros(32, np.uint32)
    words[draw.randrange(32)] = draw.getrandbits(32)
    return words.tobytes()


@dataclass
class WriteUnderWay:
    address: int
    data: bytes
    ended: bool = False


@dataclass
class Bench:
    """The controller between managers and memories that are not ours."""

    dut: Any
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        dut = self.dut
        self.scenario = BuddyScenario.from_env()
        self.config = self.scenario.controller
        self.map = register_map(self.config)
        for name in ("s_axi", "s_axil", "m_axi_device", "m_axi_buddy"):
            logging.getLogger(f"cocotb.{dut._name}.{name}").setLevel(logging.CRITICAL)
        cocotb.start_soon(Clock(dut.clk, PERIOD_NS, unit="ns").start())
        dut.rst.value = 1
        clock = (dut.clk, dut.rst)
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), *clock)
        self.manager = AxiMaster(AxiBus.from_prefix(dut, "s_axi"), *clock)
        self.device_port = AxiSlave(AxiBus.from_prefix(dut, "m_axi_device"), *clock)
        self.buddy_port = AxiSlave(AxiBus.from_prefix(dut, "m_axi_buddy"), *clock)
        self.channels = channels_of(self.registers, self.manager, self.device_port, self.buddy_port)
        self.stalling: Task[None] | None = None

    async def prepare(self, run: Run) -> None:
        """From reset, with memories that hold something, to a controller that is enabled."""
        self.draw = random.Random(run.seed)
        config = self.config
        page = config.page_bytes
        pages = min(config.pages, 12)
        logical = config.pages * page
        self.golden = golden = BuddyMemory(
            AddressMap(
                device_bytes=pages * page + logical // 256,
                logical_bytes=logical,
                carve_out_bytes=pages * page,
                gbbr=GBBR,
                page_bytes=page,
            ),
            EntryCodec(config.entry.mode, config.entry.element_bytes),
        )
        self.pages: list[int] = []
        targets: list[Target | None] = [*Target, None]
        while len(self.pages) < pages:
            target = targets[len(self.pages) % len(targets)]
            address = golden.allocate(page, target or Target.X1, compressed=target is not None)
            self.pages.append(address)
            for entry in range(0, min(run.entries, page // 128), 3):
                data = np.frombuffer(entry_data(self.draw), np.uint8)
                golden.write(address + 128 * entry, data)
        self.device = Memory(golden.device.copy(), 0)
        self.buddy = Memory(golden.buddy.copy(), GBBR)
        for port, memory in ((self.device_port, self.device), (self.buddy_port, self.buddy)):
            port.write_if.target = port.read_if.target = memory
        if self.stalling is not None:
            self.stalling.cancel()
        for channel in self.channels:
            channel.pause = False
        await self.reset()
        await self.configure()
        if run.stall:
            self.stalling = cocotb.start_soon(
                stall(self.dut.clk, self.channels, run.stall, random.Random(self.draw.random()))
            )

    async def configure(self) -> None:
        golden = self.golden
        for name, value in (
            ("GBBR", golden.map.gbbr),
            ("CARVE_OUT_BYTES", golden.map.carve_out_bytes),
            ("LOGICAL_BYTES", golden.map.logical_bytes),
            ("METADATA_BASE", golden.map.metadata_base),
        ):
            for half, word in (("LO", value % 2**32), ("HI", value >> 32)):
                await self.write_word(f"{name}_{half}", word)
        await self.until(lambda: self._is("STATUS", "clearing", 0))
        for address in self.pages:
            page = address // self.config.page_bytes
            await self.map_page(page, *golden.page_entry(page))
        await self.write("CONTROL", enable=1)

    async def map_page(self, page: int, fields: int, frame: int, *, mapped: bool = True) -> None:
        await self.write("PAGE_INDEX", index=page)
        await self.write("PAGE_FIELDS", fields=fields, mapped=mapped)
        await self.write("PAGE_FRAME", frame=frame)

    async def reset(self) -> None:
        self.dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def read(self, name: str) -> dict[str, int]:
        """A register's fields."""
        register = self.map[name]
        answer = await with_timeout(self.registers.read(register.offset, 4), TIMEOUT_US, "us")
        assert answer.resp == AxiResp.OKAY, name
        return register.values(int.from_bytes(answer.data, "little"))

    async def write(self, name: str, **fields: int) -> None:
        """These fields, and zeros to the others."""
        register = self.map[name]
        word = sum(register.fields[field].put(int(value)) for field, value in fields.items())
        await self.write_word(name, word)

    async def write_word(self, name: str, word: int) -> None:
        data = word.to_bytes(4, "little")
        answer = await with_timeout(
            self.registers.write(self.map[name].offset, data), TIMEOUT_US, "us"
        )
        assert answer.resp == AxiResp.OKAY, name

    # Accesses.

    async def load(self, address: int, length: int, number: int = 0, **more: Any) -> Any:
        operation = self.manager.read(address, length, arid=number % IDS, **more)
        return await with_timeout(operation, TIMEOUT_US, "us")

    async def store(self, address: int, data: bytes, number: int = 0, **more: Any) -> Any:
        operation = self.manager.write(address, data, awid=number % IDS, **more)
        return await with_timeout(operation, TIMEOUT_US, "us")

    async def accesses(self, run: Run) -> None:
        """Many at once, each checked when it ends."""
        draw = self.draw
        under_way: list[Task[None]] = []
        self.writes: list[WriteUnderWay] = []
        for number in range(run.count):
            page = draw.choice(self.pages)
            span = min(run.entries * 128, self.config.page_bytes)
            # Bursts are of whole-width beats or, now and then, of narrow ones.
            widest = self.config.entry.sector_bytes.bit_length() - 1
            size = draw.randrange(widest) if draw.random() < 0.2 else widest
            longest = min(span, 256 << size if size < 4 else 700)
            if draw.random() < run.write:
                if draw.random() < run.partial:
                    length = draw.randrange(1, min(longest, 300))
                    offset = draw.randrange(span - length + 1)
                else:
                    count = draw.choice((1, 1, 2, 4))
                    count = min(count, max(1, longest // 128))
                    length = 128 * count
                    offset = 128 * draw.randrange(span // 128 - count + 1)
                data = b"".join(entry_data(draw) for _ in range(length // 128 + 1))[:length]
                access = self._store(page + offset, data, number, size)
            else:
                length = draw.choice((1, 32, 64, 128, 128, 256, draw.randrange(1, longest)))
                length = min(length, longest)
                offset = draw.randrange(span - length + 1)
                if draw.random() < 0.6:
                    offset &= ~127
                access = self._load(page + offset, length, number, size)
            under_way.append(cocotb.start_soon(access))
            await RisingEdge(self.dut.clk)
            while len(under_way) >= UNDER_WAY:
                await under_way.pop(draw.randrange(len(under_way)))
        for task in under_way:
            await task

    async def _store(self, address: int, data: bytes, number: int, size: int) -> None:
        write = WriteUnderWay(address, data)
        # Managers start bursts in the order in which they are asked to.
        self.writes.append(write)
        self.golden.write(address, np.frombuffer(data, np.uint8))
        answer = await self.store(address, data, number, size=size)
        assert answer.resp == AxiResp.OKAY, f"write {number} at {address:#x}: {answer.resp}"
        write.ended = True

    async def _load(self, address: int, length: int, number: int, size: int) -> None:
        before = self.golden.read(address, length)
        first = len(self.writes)
        while first and not self.writes[first - 1].ended:
            first -= 1
        earlier = [write for write in self.writes[:first] if not write.ended]
        answer = await self.load(address, length, number, size=size)
        assert answer.resp == AxiResp.OKAY, f"read {number} at {address:#x}: {answer.resp}"
        got = np.frombuffer(answer.data, np.uint8)
        wrong = got != before
        # A byte may be that of any write that was under way meanwhile, or as it was before them.
        for write in earlier + self.writes[first:]:
            start = max(write.address, address)
            end = min(write.address + len(write.data), address + length)
            if start < end:
                wrong[start - address : end - address] = False
        assert not wrong.any(), (
            f"read {number} at {address:#x}: byte {int(wrong.argmax())} of {length} is "
            f"{int(got[wrong.argmax()]):#x}, not {int(before[wrong.argmax()]):#x}"
        )

    async def finish(self) -> None:
        """Metadata written back, and the memories as they must be."""
        await self.until(lambda: self._is("STATUS", "idle", 1))
        await self.write("CONTROL", enable=1, flush=1)
        await self.until(lambda: self._is("STATUS", "flushing", 0))
        for name, got, expected in (
            ("device", self.device.data, self.golden.device),
            ("buddy", self.buddy.data, self.golden.buddy),
        ):
            wrong = np.flatnonzero(got != expected)
            assert not wrong.size, (
                f"{name} memory: {wrong.size} bytes differ, the first at {wrong[0]:#x}: "
                f"{got[wrong[0]]:#x}, not {expected[wrong[0]]:#x}"
            )

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(PATIENCE):
            if await condition():
                return
        raise AssertionError("waited too long")

    async def _is(self, name: str, field_name: str, value: int) -> bool:
        return (await self.read(name))[field_name] == value


@cocotb.test()
async def random_accesses(dut: Any) -> None:
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        await bench.accesses(run)
        await bench.finish()
        assert (await bench.read("IRQ_STATUS"))["error"] == 0
        assert (await bench.read("STATUS"))["lost"] == 0


@dataclass(frozen=True)
class Expected:
    """An access that fails."""

    address: int
    status: AccessStatus
    write: bool = False


class Faults:
    """One fault after the other, each followed by accesses that succeed."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.golden = bench.golden
        self.size = bench.golden.map.page_bytes

    def page(self, target: Target | None) -> int:
        """The logical address of a page of this target, or of one that is not compressed."""
        for address in self.bench.pages:
            where = self.golden.translate(np.array([address]))
            compressed = bool(where.compressed[0])
            if compressed == (target is not None) and (not compressed or where.target[0] == target):
                return address
        raise LookupError(target)

    async def fails(self, expected: Expected, **more: Any) -> None:
        """The access is answered with SLVERR, and the registers tell why."""
        bench = self.bench
        await bench.write("IRQ_STATUS", error=1)
        if expected.write:
            data = more.pop("data", bytes(range(128)))
            answer = await bench.store(expected.address, data, **more)
        else:
            answer = await bench.load(expected.address, more.pop("length", 128), **more)
        assert answer.resp == AxiResp.SLVERR, f"{expected}: {answer.resp}"
        status = await bench.read("ERROR_STATUS")
        assert status["status"] == expected.status.value, f"{expected}: {status}"
        assert status["write"] == expected.write, f"{expected}: {status}"
        low, high = await bench.read("ERROR_ADDR_LO"), await bench.read("ERROR_ADDR_HI")
        address = low["address"] | high["address"] << 32
        assert address == expected.address, f"{expected}: {address:#x}"
        assert (await bench.read("IRQ_STATUS"))["error"] == 1

    async def stored(self, address: int, data: bytes) -> None:
        answer = await self.bench.store(address, data)
        assert answer.resp == AxiResp.OKAY, f"write at {address:#x}"
        self.golden.write(address, np.frombuffer(data, np.uint8))

    async def loaded(self, address: int, length: int = 128) -> None:
        answer = await self.bench.load(address, length)
        assert answer.resp == AxiResp.OKAY, f"read at {address:#x}"
        assert answer.data == self.golden.read(address, length).tobytes(), f"read at {address:#x}"

    async def works(self) -> None:
        """Pages of all kinds are read and written."""
        for target in (*Target, None):
            address = self.page(target) + 128 * self.bench.draw.randrange(16)
            await self.stored(address, entry_data(self.bench.draw))
            await self.stored(address + 40, bytes(self.bench.draw.randrange(1, 60)))
            await self.loaded(address)


INCOMPRESSIBLE = np.random.default_rng(5).integers(0, 256, 128).astype(np.uint8).tobytes()


@cocotb.test()
async def refused_accesses(dut: Any) -> None:
    """What the map, the port or software refuses."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        size, pages = faults.size, bench.config.pages
        unmapped = size * (pages - 1)
        beyond = size * pages + 0x80
        for address in (unmapped + 0x100, beyond, 2**40 - 128):
            for write in (False, True):
                await faults.fails(Expected(address, AccessStatus.OUT_OF_REGION, write))
        await faults.works()
        spare = unmapped // size
        for bits, frame, status in (
            (PageFields(compressed=True, target=5), 0, AccessStatus.BAD_TARGET),
            (PageFields(compressed=True, target=7), 0, AccessStatus.BAD_TARGET),
            (
                PageFields(compressed=True, target=Target.X4, buddy_page=2**20 - 1),
                0,
                AccessStatus.CARVE_OUT_OVERFLOW,
            ),
            (PageFields(compressed=False), 2**28 - 1, AccessStatus.OUT_OF_REGION),
        ):
            await bench.map_page(spare, bits.pack(), frame)
            for write in (False, True):
                await faults.fails(Expected(unmapped, status, write))
        await faults.works()
        for burst in (AxiBurstType.FIXED, AxiBurstType.WRAP):
            for write in (False, True):
                expected = Expected(faults.page(None), AccessStatus.UNSUPPORTED_BURST, write)
                await faults.fails(expected, burst=burst)
        await faults.works()
        await bench.write("CONTROL", enable=0)
        for write in (False, True):
            await faults.fails(Expected(faults.page(Target.X2), AccessStatus.DISABLED, write))
        await bench.write("CONTROL", enable=1)
        await faults.works()
        await bench.finish()


@cocotb.test()
async def memory_errors(dut: Any) -> None:
    """Memories that refuse, and entries that are damaged."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        address = faults.page(Target.X2) + 128 * 3
        where = bench.golden.translate(np.array([address]))
        device, buddy = int(where.device_address[0]), int(where.buddy_address[0])
        for memory, start, reads, writes in (
            (bench.device, device, AccessStatus.DEVICE_READ, AccessStatus.DEVICE_WRITE),
            (bench.buddy, buddy, AccessStatus.BUDDY_READ, AccessStatus.BUDDY_WRITE),
        ):
            await faults.stored(address, INCOMPRESSIBLE)
            memory.refused = [(start, start + 64, "read")]
            await faults.fails(Expected(address, reads))
            # A write of a part reads the entry before: nothing is written then.
            await faults.fails(Expected(address + 5, reads, True), data=b"1234")
            memory.refused = []
            await faults.loaded(address)
            memory.refused = [(start, start + 64, "write")]
            await faults.fails(Expected(address, writes, True), data=INCOMPRESSIBLE[::-1])
            memory.refused = []
            # What is there now is no entry, until it is written whole.
            await faults.fails(Expected(address, AccessStatus.CORRUPT_ENTRY))
            corrupt = Expected(address + 7, AccessStatus.CORRUPT_ENTRY, True)
            await faults.fails(corrupt, data=b"12345")
            await faults.loaded(address + 128)
            await faults.stored(address, bytes(range(128)))
            await faults.loaded(address)
            await faults.works()

        # An entry's own bytes are damaged in memory.
        ramp = np.arange(7, 39, dtype=np.uint32).tobytes()
        await faults.stored(address, ramp)
        kept = bench.device.data[device : device + 32].copy()
        bench.device.data[device : device + 32] = 0xFF
        await faults.fails(Expected(address, AccessStatus.CORRUPT_ENTRY))
        bench.device.data[device : device + 32] = kept
        await faults.loaded(address)

        # A page that is not compressed has no metadata to tell.
        plain = faults.page(None)
        start = int(bench.golden.translate(np.array([plain])).device_address[0])
        bench.device.refused = [(start, start + 32, "write")]
        await faults.fails(Expected(plain, AccessStatus.DEVICE_WRITE, True), data=bytes(32))
        bench.device.refused = [(start, start + 32, "read")]
        await faults.fails(Expected(plain, AccessStatus.DEVICE_READ), length=32)
        bench.device.refused = []
        await faults.stored(plain, bytes(range(64)))
        await faults.works()
        # The refused writes have left something behind the entry, which is nobody's.
        await faults.stored(address, INCOMPRESSIBLE)
        await bench.finish()


@cocotb.test()
async def metadata_errors(dut: Any) -> None:
    """Lines of metadata that cannot be read."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        address = faults.page(Target.X2)
        base = bench.golden.map.metadata_base
        await bench.write("CONTROL", enable=1, invalidate=1)
        await bench.until(lambda: bench._is("STATUS", "flushing", 0))
        bench.device.refused = [(base, base + bench.golden.map.metadata_bytes, "read")]
        await faults.fails(Expected(address, AccessStatus.METADATA_READ))
        await faults.fails(Expected(address, AccessStatus.METADATA_READ, True))
        await faults.fails(Expected(address + 1, AccessStatus.METADATA_READ, True), data=b"1")
        await faults.loaded(faults.page(None))
        bench.device.refused = []
        await faults.loaded(address)
        await faults.works()
        await bench.finish()


@cocotb.test()
async def dead_memories(dut: Any) -> None:
    """Memories that stop to answer, for longer than TIMEOUT_CYCLES."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        faults = Faults(bench)
        await bench.write_word("TIMEOUT_CYCLES", 60)
        address = faults.page(Target.X2) + 256
        for port in (bench.device_port, bench.buddy_port):
            for channel, write in (
                (port.read_if.ar_channel, False),
                (port.read_if.r_channel, False),
                (port.write_if.aw_channel, True),
                (port.write_if.w_channel, True),
                (port.write_if.b_channel, True),
            ):
                await faults.stored(address, INCOMPRESSIBLE)
                channel.pause = True
                expected = Expected(address, AccessStatus.TIMEOUT, write)
                await faults.fails(expected, **({"data": INCOMPRESSIBLE[::-1]} if write else {}))
                channel.pause = False
                await bench.until(lambda: bench._is("STATUS", "idle", 1))
                if write:
                    await faults.fails(Expected(address, AccessStatus.CORRUPT_ENTRY))
                else:
                    await faults.loaded(address)
                await faults.stored(address, INCOMPRESSIBLE)
                await faults.works()
        await bench.finish()


@cocotb.test()
async def flush_under_traffic(dut: Any) -> None:
    """Metadata are written back again and again while entries are read and written."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(run)
        flushes = 0

        async def flush(bench: Bench = bench) -> None:
            nonlocal flushes
            while True:
                order = bench.draw.choice(("flush", "invalidate"))
                await bench.write("CONTROL", enable=1, **{order: 1})
                await bench.until(lambda: bench._is("STATUS", "flushing", 0))
                flushes += 1
                for _ in range(50):
                    await RisingEdge(dut.clk)

        flushing = cocotb.start_soon(flush())
        await bench.accesses(run)
        flushing.cancel()
        await bench.until(lambda: bench._is("STATUS", "flushing", 0))
        assert flushes > 5
        await bench.finish()


@cocotb.test()
async def manager_that_takes_nothing(dut: Any) -> None:
    """Beats that a manager leaves standing stop no writes, and responses no reads."""
    bench = Bench(dut)
    for run in bench.scenario.runs:
        await bench.prepare(dataclasses.replace(run, stall=0.0))
        faults = Faults(bench)
        address = faults.page(Target.X2)
        await faults.stored(address, INCOMPRESSIBLE)
        reads = bench.manager.read_if.r_channel
        reads.pause = True
        waiting = [
            cocotb.start_soon(bench.load(faults.page(None) + 2048, 1024, k)) for k in range(4)
        ]
        for _ in range(200):
            await RisingEdge(dut.clk)
        await faults.stored(address, INCOMPRESSIBLE[::-1])
        # This one fetches its entry before.
        await faults.stored(address + 3, b"12345")
        reads.pause = False
        for read in waiting:
            assert (await read).resp == AxiResp.OKAY
        responses = bench.manager.write_if.b_channel
        responses.pause = True
        data = bytes(128)
        waiting = [cocotb.start_soon(bench.store(address + 1024, data, k)) for k in range(8)]
        bench.golden.write(address + 1024, np.frombuffer(data, np.uint8))
        for _ in range(200):
            await RisingEdge(dut.clk)
        await faults.loaded(address)
        responses.pause = False
        for write in waiting:
            assert (await write).resp == AxiResp.OKAY
        await faults.works()
        await bench.finish()
