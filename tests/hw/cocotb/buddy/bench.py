"""The buddy controller between a manager and memories, beside the golden memory."""

import json
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

import cocotb
import numpy as np
from cocotb.task import Task
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiResp

from cdma.golden.buddy.address_map import FIELD_BITS, AddressMap, PageFields, Target
from cdma.golden.buddy.entry import EntryCodec
from cdma.golden.buddy.memory import BuddyMemory
from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.hw.buddy.registers import register_map
from cdma.hw.config import BuddyConfig, EntryConfig, MetadataCacheConfig
from tests.hw.cocotb.block_bench import BlockBench, Memory

TIMEOUT_US = 400
"""For one access."""

PATIENCE = 2000
IDS = 4
GBBR = 0x12_3456_7800_0000
OUTSTANDING = 12
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
    """A controller, and what it does.

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


def entry_data(draw: random.Random, *, bf16: bool = False) -> bytes:
    """An entry, more or less compressible; of bf16, where others have noise."""
    kind = draw.randrange(6)
    generator = np.random.default_rng(draw.getrandbits(32))
    if kind == 0:
        return bytes(128)
    if kind == 1 and bf16:
        return rounded_to_bf16(generator.standard_normal(64).astype(np.float32)).tobytes()
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
class OutstandingWrite:
    address: int
    data: bytes
    ended: bool = False


class Bench(BlockBench):
    """The controller between managers and memories that are not ours."""

    def __init__(self, dut: Any) -> None:
        self.scenario = BuddyScenario.from_env()
        self.config = self.scenario.controller
        super().__init__(
            dut,
            register_map(self.config),
            slaves=["m_axi_device", "m_axi_buddy"],
            managers=["s_axi"],
            timeout_us=TIMEOUT_US,
        )
        (self.manager,) = self.managers
        self.device_port, self.buddy_port = self.slaves

    async def prepare(self, run: Run) -> None:
        """Bring a controller from reset, with memories that hold something, to being enabled."""
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
            # One page in three has no entries of XC, whatever the mode has.
            centre = 126 if config.entry.has_parameters and len(self.pages) % 3 else 0
            address = golden.allocate(
                page, target or Target.X1, compressed=target is not None, centre=centre
            )
            self.pages.append(address)
            for entry in range(0, min(run.entries, page // 128), 3):
                data = np.frombuffer(self.entry_data(), np.uint8)
                golden.write(address + 128 * entry, data)
        self.device = Memory(golden.device.copy(), 0)
        self.buddy = Memory(golden.buddy.copy(), GBBR)
        for port, memory in ((self.device_port, self.device), (self.buddy_port, self.buddy)):
            port.write_if.target = port.read_if.target = memory
        await self.reset()
        await self.configure()
        self.stall(run.stall, self.draw)

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
        bits = fields & (1 << FIELD_BITS) - 1
        await self.write("PAGE_FIELDS", fields=bits, mapped=mapped)
        if self.config.entry.has_parameters:
            xc = PageFields.unpack(fields)
            await self.write("PAGE_PARAMETERS", centre=xc.centre, pattern=xc.pattern)
        await self.write("PAGE_FRAME", frame=frame)

    def entry_data(self) -> bytes:
        return entry_data(self.draw, bf16=self.config.entry.has_parameters)

    async def load(self, address: int, length: int, number: int = 0, **more: Any) -> Any:
        operation = self.manager.read(address, length, arid=number % IDS, **more)
        return await with_timeout(operation, TIMEOUT_US, "us")

    async def store(self, address: int, data: bytes, number: int = 0, **more: Any) -> Any:
        operation = self.manager.write(address, data, awid=number % IDS, **more)
        return await with_timeout(operation, TIMEOUT_US, "us")

    async def accesses(self, run: Run) -> None:
        """Many at once, each checked when it ends."""
        draw = self.draw
        outstanding: list[Task[None]] = []
        self.writes: list[OutstandingWrite] = []
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
                data = b"".join(self.entry_data() for _ in range(length // 128 + 1))[:length]
                access = self._store(page + offset, data, number, size)
            else:
                length = draw.choice((1, 32, 64, 128, 128, 256, draw.randrange(1, longest)))
                length = min(length, longest)
                offset = draw.randrange(span - length + 1)
                if draw.random() < 0.6:
                    offset &= ~127
                access = self._load(page + offset, length, number, size)
            outstanding.append(cocotb.start_soon(access))
            await RisingEdge(self.dut.clk)
            while len(outstanding) >= OUTSTANDING:
                await outstanding.pop(draw.randrange(len(outstanding)))
        for task in outstanding:
            await task

    async def _store(self, address: int, data: bytes, number: int, size: int) -> None:
        write = OutstandingWrite(address, data)
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
