"""A whole controller in Amaranth's simulator, between a manager and two memories of Python.

All of them stall at random. What the manager writes and reads is compared with the golden model,
which must have served the same bursts before.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from cdma.golden.buddy.address_map import AddressMap
from cdma.golden.buddy.entry import EntryCodec
from cdma.golden.buddy.memory import BuddyMemory
from cdma.hw.buddy.controller import BuddyController
from cdma.hw.buddy.registers import register_map
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.config import BuddyConfig
from tests.golden.buddy.entries import Entries
from tests.lib.rtl.axi4_bus import Behavior
from tests.lib.rtl.axi_lite import AxiLiteBus, RegisterBench
from tests.lib.rtl.memory import Memory, serve

PATIENCE_CYCLES = 3000
"""Without a transfer at the manager's port for so long, something hangs."""
INCR = 1


@dataclass
class Burst:
    """A burst of a manager, and what must become of it.

    Attributes
    ----------
    beats : list of (int, int)
        Data and strobe of each beat of a write; what is read, and which of its bytes are compared.
    """

    write: bool
    id: int
    address: int
    size: int
    beats: list[tuple[int, int]]
    response: AxiResponse = AxiResponse.OKAY
    burst: int = INCR


def beats_of(
    width: int, address: int, size: int, row: Entries, covered: Any
) -> list[tuple[int, int]]:
    """Data and strobes of the beats about some bytes of memory, of which `row` begins at address.

    `covered` has a bool for each byte of `row`.
    """
    beats = []
    place, step = address, 1 << size
    while place < address + row.size:
        end = min(place // step * step + step, address + row.size)
        data = strobe = 0
        for byte in range(place, end):
            if covered[byte - address]:
                data |= int(row[byte - address]) << 8 * (byte % width)
                strobe |= 1 << byte % width
        beats.append((data, strobe))
        place = end
    return beats


class Manager:
    """Plays bursts at a subordinate port, and checks the answers and their order."""

    def __init__(self, axi: Any, stall: float, seed: int) -> None:
        self.axi = axi
        self.random = random.Random(seed)
        self.stall = stall
        self.addresses: dict[str, deque[Burst]] = {"ar": deque(), "aw": deque()}
        self.data: deque[tuple[int, int, int]] = deque()
        self.reads: dict[int, deque[Burst]] = {}
        self.writes: deque[Burst] = deque()
        self.answering: tuple[Burst, int] | None = None
        self.offers = {"ar": False, "aw": False, "w": False}
        self.takes = {"r": False, "b": False}

    def play(self, bursts: list[Burst]) -> None:
        """Offer these, reads and writes side by side."""
        for burst in bursts:
            self.addresses["aw" if burst.write else "ar"].append(burst)
            if burst.write:
                self.writes.append(burst)
                last = len(burst.beats) - 1
                self.data += [(*beat, int(k == last)) for k, beat in enumerate(burst.beats)]
            else:
                self.reads.setdefault(burst.id, deque()).append(burst)

    @property
    def is_done(self) -> bool:
        return not self.writes and not any(self.reads.values())

    def outputs(self) -> list[Any]:
        names = ["arready", "awready", "wready", "rvalid", "rid", "rdata", "rresp", "rlast"]
        return [getattr(self.axi, name) for name in [*names, "bvalid", "bid", "bresp"]]

    def drive(self, ctx: Any) -> None:
        set_ = ctx.set
        for channel, queue in self.addresses.items():
            self._offer(channel, queue)
            set_(getattr(self.axi, f"{channel}valid"), self.offers[channel])
            if queue:
                burst = queue[0]
                values = (burst.id, burst.address, len(burst.beats) - 1, burst.size, burst.burst)
                for name, value in zip(("id", "addr", "len", "size", "burst"), values, strict=True):
                    set_(getattr(self.axi, channel + name), value)
        self._offer("w", self.data)
        set_(self.axi.wvalid, self.offers["w"])
        if self.data:
            for name, value in zip(("wdata", "wstrb", "wlast"), self.data[0], strict=True):
                set_(getattr(self.axi, name), value)
        for channel in self.takes:
            self.takes[channel] = self.random.random() >= self.stall
            set_(getattr(self.axi, f"{channel}ready"), self.takes[channel])

    def _offer(self, channel: str, queue: deque[Any]) -> None:
        if not self.offers[channel]:
            self.offers[channel] = bool(queue) and self.random.random() >= self.stall

    def observe(self, values: tuple[int, ...]) -> bool:
        """Check the wires at an edge; True if anything was transferred."""
        arready, awready, wready, rvalid, rid, rdata, rresp, rlast, bvalid, bid, bresp = values
        moved = False
        for channel, ready, queue in (
            ("ar", arready, self.addresses["ar"]),
            ("aw", awready, self.addresses["aw"]),
            ("w", wready, self.data),
        ):
            if ready and self.offers[channel]:
                queue.popleft()
                self.offers[channel] = False
                moved = True
        if rvalid and self.takes["r"]:
            self._take_beat(rid, rdata, rresp, rlast)
            moved = True
        if bvalid and self.takes["b"]:
            burst = self.writes.popleft()
            assert (bid, bresp) == (burst.id, burst.response.value), burst
            moved = True
        return moved

    def _take_beat(self, id: int, data: int, response: int, last: int) -> None:
        if self.answering is None:
            assert self.reads.get(id), f"a read of ID {id} that nobody has asked for"
            self.answering = self.reads[id][0], 0
        burst, beat = self.answering
        assert (id, last) == (burst.id, beat == len(burst.beats) - 1), burst
        right, strobe = burst.beats[beat]
        assert response == burst.response.value, (burst, beat)
        mask = sum(0xFF << 8 * lane for lane in range(strobe.bit_length()) if strobe >> lane & 1)
        if burst.response == AxiResponse.OKAY:
            assert data & mask == right & mask, (burst, beat)
        self.answering = (burst, beat + 1)
        if last:
            self.reads[id].popleft()
            self.answering = None


@dataclass
class Ends:
    """The end of a scene: counters by name, the first error, the interrupt, and STATUS.lost."""

    counters: dict[str, int] = field(default_factory=dict)
    error: dict[str, int] = field(default_factory=dict)
    irq: int = 0
    lost: int = 0


class LogicalMemory:
    """The controller and its memories; can play scene after scene, each from reset."""

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        self.map = register_map(config)
        self.controller = BuddyController(config)
        self.bench = RegisterBench(self.controller, self.controller.s_axil)

    def golden(self) -> BuddyMemory:
        """The golden model's memory, without a page."""
        logical = self.config.pages * self.config.page_bytes
        pages = 12 * self.config.page_bytes
        codec = EntryCodec(self.config.entry.mode, self.config.entry.element_bytes)
        return BuddyMemory(
            AddressMap(
                device_bytes=pages + logical // 256,
                logical_bytes=logical,
                carve_out_bytes=pages,
                gbbr=3 << 40,
                page_bytes=self.config.page_bytes,
            ),
            codec,
        )

    def play(
        self,
        memory: BuddyMemory,
        pages: list[int],
        rounds: list[list[Burst]],
        *,
        device: Entries,
        buddy: Entries,
        stall: float = 0.0,
        seed: int = 1,
        at_device: Behavior | None = None,
        at_buddy: Behavior | None = None,
        enable: int = 1,
        timeout: int = 0,
    ) -> Ends:
        """Map the pages of `memory`, and play rounds one after the other; changes both arrays.

        Errors in `at_device` and `at_buddy` are of the beats and bursts as these count them.
        """
        ends = Ends()
        state = {"pages": False, "traffic": False, "done": False}
        ports = self.controller
        quiet = Behavior(stall=stall)
        memories = [
            Memory(ports.m_axi_device, device, 0, at_device or quiet, seed),
            Memory(ports.m_axi_buddy, buddy, memory.map.gbbr, at_buddy or quiet, seed + 1),
        ]
        manager = Manager(ports.s_axi, stall, seed + 2)

        async def software(bus: AxiLiteBus) -> None:
            await self._set_up(bus, memory, pages, enable, timeout)
            state["pages"] = True
            while not state["traffic"]:
                await bus.tick()
            await self._flush(bus)
            for name, register in self.map.items():
                if name.endswith("_LO") and f"{name[:-3]}_HI" in self.map:
                    ends.counters[register.group] = await bus.get(register.offset)
            ends.error = self.map["ERROR_STATUS"].values(await self._get(bus, "ERROR_STATUS"))
            ends.error["address"] = await self._get(bus, "ERROR_ADDR_LO")
            ends.lost = self.map["STATUS"].values(await self._get(bus, "STATUS"))["lost"]
            (ends.irq,) = await bus.tick(ports.irq)
            state["done"] = True

        async def traffic(bus: AxiLiteBus) -> None:
            left = deque(rounds)
            moved = 0
            while not state["done"]:
                if state["pages"] and manager.is_done:
                    if left:
                        manager.play(left.popleft())
                    else:
                        state["traffic"] = True
                manager.drive(bus.ctx)
                values = await serve(bus, memories, *manager.outputs())
                if manager.observe(values) or manager.is_done:
                    moved = bus.cycle
                assert bus.cycle - moved < PATIENCE_CYCLES, "nothing moves any more"

        self.bench.run(software, traffic)
        return ends

    async def _get(self, bus: AxiLiteBus, name: str) -> int:
        return await bus.get(self.map[name].offset)

    async def _put(self, bus: AxiLiteBus, name: str, **fields: int) -> None:
        register = self.map[name]
        word = sum(register.fields[key].put(value) for key, value in fields.items())
        await bus.put(register.offset, word)

    async def _set_up(
        self, bus: AxiLiteBus, memory: BuddyMemory, pages: list[int], enable: int, timeout: int
    ) -> None:
        while self.map["STATUS"].values(await self._get(bus, "STATUS"))["clearing"]:
            pass
        for name, value in {
            "GBBR": memory.map.gbbr,
            "CARVE_OUT_BYTES": memory.map.carve_out_bytes,
            "LOGICAL_BYTES": memory.map.logical_bytes,
            "METADATA_BASE": memory.map.metadata_base,
        }.items():
            await bus.put(self.map[f"{name}_LO"].offset, value % 2**32)
            await bus.put(self.map[f"{name}_HI"].offset, value >> 32)
        await self._put(bus, "TIMEOUT_CYCLES", value=timeout)
        await self._put(bus, "IRQ_ENABLE", error=1, lost=1)
        for page in pages:
            fields, frame = memory.page_entry(page)
            bits = self.map["PAGE_FIELDS"].fields["fields"].width
            await self._put(bus, "PAGE_INDEX", index=page)
            await self._put(bus, "PAGE_FIELDS", mapped=1, fields=fields % (1 << bits))
            if "PAGE_PARAMETERS" in self.map:
                xc = fields >> bits
                await self._put(bus, "PAGE_PARAMETERS", centre=xc % 256, pattern=xc >> 8)
            await self._put(bus, "PAGE_FRAME", frame=frame)
        await self._put(bus, "CONTROL", enable=enable)

    async def _flush(self, bus: AxiLiteBus) -> None:
        await self._put(bus, "CONTROL", enable=1, flush=1)
        for _ in range(PATIENCE_CYCLES):
            if self.map["IRQ_STATUS"].values(await self._get(bus, "IRQ_STATUS"))["flushed"]:
                return
        raise AssertionError("the flush does not end")
