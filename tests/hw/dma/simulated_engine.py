"""A whole engine in Amaranth's simulator, between the software of its rings and two memories.

Software is a coroutine of the test, which sees what a driver sees: registers, descriptors and
records. All ports stall at random.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import DESCRIPTOR_DTYPE, RECORD_DTYPE
from cdma.hw.dma.control.registers import register_map
from cdma.hw.dma.engine import DmaEngine
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.lib.rtl.axi4_bus import Behavior
from tests.lib.rtl.axi_lite import AxiLiteBus, RegisterBench
from tests.lib.rtl.memory import Memory, serve

DEVICE_BASE = 0x12_3456_8000
HOST_BASE = 0x89AB_CDEF_0000_0000
ENTRIES = 16
RING_BYTES = ENTRIES * ENTRY_BYTES
"""In host memory the rings come first, then as many records for each, then what is moved."""
PATIENCE_CYCLES = 8000
POLL_CYCLES = 40

Records = NDArray[np.void]
Program = Callable[["Software"], Coroutine[Any, Any, None]]


class Software:
    """A driver, in one scene.

    Attributes
    ----------
    host : Memory
    tails : list of int
        Descriptors that were submitted, of each ring.
    """

    def __init__(self, bus: AxiLiteBus, engine: "SimulatedEngine", host: Memory) -> None:
        self.bus = bus
        self.engine = engine
        self.host = host
        self.tails = [0] * engine.config.rings

    def _name(self, name: str, ring: int) -> str:
        return f"RING{ring}_{name}" if ring else name

    async def get(self, name: str, ring: int = 0) -> int:
        return await self.bus.get(self.engine.map[self._name(name, ring)].offset)

    async def put(self, name: str, word: int, ring: int = 0) -> None:
        await self.bus.put(self.engine.map[self._name(name, ring)].offset, word)

    async def put_long(self, name: str, value: int, ring: int = 0) -> None:
        await self.put(f"{name}_LO", value % 2**32, ring)
        await self.put(f"{name}_HI", value >> 32, ring)

    async def get_long(self, name: str, ring: int = 0) -> int:
        return await self.get(f"{name}_HI", ring) << 32 | await self.get(f"{name}_LO", ring)

    async def fields(self, name: str, ring: int = 0) -> dict[str, int]:
        register = self.engine.map[self._name(name, ring)]
        return register.values(await self.get(name, ring))

    async def start(self, **settings: int) -> None:
        """Set up the rings, and what else is told by register, and enable all."""
        for name, word in settings.items():
            await self.put(name, word)
        for ring in range(self.engine.config.rings):
            await self.put_long("RING_BASE", HOST_BASE + ring * RING_BYTES, ring)
            await self.put("RING_SIZE", (ENTRIES - 1).bit_length(), ring)
            # `Axi4Bus` wants AxPROT to be 0.
            for bus in ("HOST_BUS", "DEVICE_BUS"):
                prot = self.engine.map[bus].fields["prot"]
                await self.put(
                    bus, self.engine.map[bus].reset & ~prot.put((1 << prot.width) - 1), ring
                )
            await self.put("IRQ_ENABLE", 7, ring)
            await self.put("CONTROL", 1, ring)

    async def begin_again(self, ring: int = 0) -> None:
        """Use a ring that was reset, which has disabled it."""
        assert (await self.fields("CONTROL", ring))["enable"] == 0
        assert await self.get("RING_TAIL", ring) == 0
        self.tails[ring] = 0
        await self.put("CONTROL", 1, ring)

    def record_place(self, ring: int, index: int) -> int:
        """The offset of a record in host memory."""
        return (self.engine.config.rings + ring) * RING_BYTES + index % ENTRIES * ENTRY_BYTES

    async def submit(self, descriptors: Sequence[Mapping[str, int]], ring: int = 0) -> None:
        """Put descriptors into a ring, and ring its bell."""
        for fields in descriptors:
            entry = np.zeros(1, DESCRIPTOR_DTYPE)
            record = HOST_BASE + self.record_place(ring, self.tails[ring])
            for name, value in {"record": record, **fields}.items():
                entry[name] = value
            start = ring * RING_BYTES + self.tails[ring] % ENTRIES * ENTRY_BYTES
            self.host.memory[start : start + ENTRY_BYTES] = entry.view(np.uint8)
            self.tails[ring] += 1
        await self.put("RING_TAIL", self.tails[ring], ring)

    async def ended(self, ring: int = 0) -> Records:
        """Wait until all that was submitted has ended; the records that the ring still has."""
        since = self.bus.cycle
        while await self.get("RING_DONE", ring) != self.tails[ring]:
            assert self.bus.cycle - since < PATIENCE_CYCLES, "the ring does not get on"
            await self.wait(POLL_CYCLES)
        first = max(0, self.tails[ring] - ENTRIES)
        places = [self.record_place(ring, index) for index in range(first, self.tails[ring])]
        rows = [self.host.memory[place : place + ENTRY_BYTES] for place in places]
        return np.concatenate(rows).view(RECORD_DTYPE)

    async def carry_out(self, descriptors: Sequence[Mapping[str, int]], ring: int = 0) -> Records:
        await self.submit(descriptors, ring)
        return await self.ended(ring)

    async def wait(self, cycles: int) -> None:
        for _ in range(cycles):
            await self.bus.tick()

    async def until(self, name: str, field: str, ring: int = 0) -> dict[str, int]:
        """Wait until a field of a register is set; the register's."""
        since = self.bus.cycle
        while not (fields := await self.fields(name, ring))[field]:
            assert self.bus.cycle - since < PATIENCE_CYCLES, f"{name} never says {field}"
        return fields


class SimulatedEngine:
    """The engine; can play scene after scene, each from reset."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.map = register_map(config)
        self.engine: Any = DmaEngine(config)
        self.bench = RegisterBench(self.engine, self.engine.s_axil)

    def play(
        self,
        program: Program,
        *,
        device: ByteArray,
        host: ByteArray,
        stall: float = 0.0,
        seed: int = 1,
        at_host: Behavior | None = None,
        at_device: Behavior | None = None,
    ) -> list[Memory]:
        """Run software to its end; changes both arrays.

        Returns what stood at the ports: host memory's, then device memory's of each unit, to whose
        first one `at_device` applies.
        """
        quiet = Behavior(stall=stall)
        memories = [Memory(self.engine.m_axi_host, host, HOST_BASE, at_host or quiet, seed)]
        for unit in range(self.config.units):
            port = getattr(self.engine, f"m_axi_mem{unit}")
            behavior = quiet if unit or at_device is None else at_device
            memories.append(Memory(port, device, DEVICE_BASE, behavior, seed + 1 + unit))
        is_done = False

        async def software(bus: AxiLiteBus) -> None:
            nonlocal is_done
            await program(Software(bus, self, memories[0]))
            is_done = True

        async def traffic(bus: AxiLiteBus) -> None:
            while not is_done:
                await serve(bus, memories)

        self.bench.run(software, traffic)
        return memories
