"""The whole controller as software sees it: a counter, lost metadata, and bursts at its bus."""

from dataclasses import replace
from functools import cache

import numpy as np

from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.buddy.frontend.admission import FETCHES
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.bus.burst import BusError
from cdma.hw.config import BUDDY_PRESETS
from tests.hw.buddy.address.pages import PLAIN
from tests.hw.buddy.logical_memory import Burst, LogicalMemory, Manager, beats_of
from tests.lib.rtl.axi4_bus import Behavior
from tests.lib.rtl.memory import Memory, serve

CONFIG = replace(BUDDY_PRESETS["tiny"], reads=4)
WIDTH = CONFIG.entry.sector_bytes
SIZE = WIDTH.bit_length() - 1
PATIENCE_CYCLES = 2000
ENTRIES_ID = 0
"""The ID of entries at device memory."""


class Session:
    """Software at the registers, and the bursts that it has the manager play meanwhile."""

    def __init__(self, bus, manager):
        self.map = controller().map
        self.bus = bus
        self.manager = manager

    async def play(self, *bursts):
        """Play these side by side until all are answered."""
        self.manager.play(list(bursts))
        for _ in range(PATIENCE_CYCLES):
            if self.manager.is_done:
                return
            await self.bus.tick()
        raise AssertionError("the bursts do not end")

    async def get(self, name):
        """Read a register's fields."""
        register = self.map[name]
        return register.values(await self.bus.get(register.offset))

    async def command(self, **fields):
        register = self.map["CONTROL"]
        word = sum(
            register.fields[key].put(value) for key, value in {"enable": 1, **fields}.items()
        )
        await self.bus.put(register.offset, word)

    async def flush(self):
        await self.command(flush=1)
        for _ in range(PATIENCE_CYCLES):
            if not (await self.get("STATUS"))["flushing"]:
                return
        raise AssertionError("the flush does not end")


@cache
def controller():
    return LogicalMemory(CONFIG)


def play(memory, starts, script, at_device=None):
    """Have `script(session)` play on pages that start there; device memory's bus afterwards."""
    whole = controller()
    ports = whole.controller
    devices = [
        Memory(ports.m_axi_device, memory.device.copy(), 0, at_device or Behavior(), 1),
        Memory(ports.m_axi_buddy, memory.buddy.copy(), memory.map.gbbr, Behavior(), 2),
    ]
    manager = Manager(ports.s_axi, 0.0, 3)
    ended = []

    async def software(bus):
        pages = [start // CONFIG.page_bytes for start in starts]
        await whole._set_up(bus, memory, pages, 1, 0)
        await script(Session(bus, manager))
        ended.append(True)

    async def traffic(bus):
        while not ended:
            manager.drive(bus.ctx)
            manager.observe(await serve(bus, devices, *manager.outputs()))

    whole.bench.run(software, traffic)
    return devices[0]


def page_of(memory, target):
    return memory.allocate(CONFIG.page_bytes, target or Target.X1, compressed=target is not PLAIN)


def noise(seed):
    """An entry that no codec makes smaller."""
    return np.random.default_rng(seed).integers(0, 256, ENTRY_BYTES).astype(np.uint8)


def burst_of(write, start, row, response=AxiResponse.OKAY, covered=None):
    """A write of an entry, or a read that must give it."""
    covered = np.ones(ENTRY_BYTES, np.bool_) if covered is None else covered
    return Burst(write, 1, start, SIZE, beats_of(WIDTH, start, SIZE, row, covered), response)


def test_accesses_that_need_buddy_memory_are_counted():
    memory = controller().golden()
    start = page_of(memory, Target.X2)
    noisy, smooth = noise(1), np.zeros(ENTRY_BYTES, np.uint8)

    async def script(session):
        counts = []
        for write, place, row in (
            *((True, start, noisy), (True, start + 128, smooth), (True, start + 256, smooth)),
            *((False, start, noisy), (False, start + 128, smooth)),
        ):
            await session.play(burst_of(write, place, row))
            counts.append((await session.get("SPILLED_LO"))["count"])
        assert counts == [1, 1, 1, 2, 2]

    play(memory, [start], script)


def test_once_metadata_are_lost_every_access_is_refused_until_clear():
    memory = controller().golden()
    compressed, plain = page_of(memory, Target.X2), page_of(memory, PLAIN)
    kept = noise(2)
    memory.write(plain, kept)

    async def script(session):
        await session.play(burst_of(True, compressed, noise(3)), burst_of(False, plain, kept))
        await session.flush()
        assert (await session.get("STATUS"))["lost"]
        assert (await session.get("ERROR_STATUS"))["status"] == AccessStatus.OK.value
        for write in (True, False):
            await session.play(burst_of(write, plain, noise(4), AxiResponse.SLVERR))
        error = await session.get("ERROR_STATUS")
        assert error == {"write": 1, "status": AccessStatus.METADATA_LOST.value}
        await session.command(clear=1)
        assert not (await session.get("STATUS"))["lost"]
        await session.play(burst_of(False, plain, kept))

    # The entry's sectors are written before its metadata.
    play(memory, [compressed, plain], script, Behavior(write_errors={1: BusError.SLVERR}))


def crossing(memory, start):
    """The entry of a page whose device slot crosses a boundary of 4 KiB."""
    places = start + ENTRY_BYTES * np.arange(CONFIG.page_bytes // ENTRY_BYTES)
    slots = memory.translate(places).device_address
    return int(places[slots // 4096 != (slots + 64) // 4096][0])


def test_two_bursts_for_each_entry_are_open_at_device_memory_and_no_more_if_one_ends_late():
    memory = controller().golden()
    starts = [page_of(memory, Target.X1_33) for _ in range(1 + FETCHES)]
    entries = [crossing(memory, start) for start in starts]
    rows = [noise(k) for k in range(len(entries))]
    for entry, row in zip(entries, rows, strict=True):
        memory.write(entry, row)
    byte = np.arange(ENTRY_BYTES) == 5
    one = burst_of(False, entries[0], rows[0])
    late = burst_of(False, entries[0], rows[0], AxiResponse.SLVERR)
    partial = [
        burst_of(True, entry, row, covered=byte)
        for entry, row in zip(entries[1:], rows[1:], strict=True)
    ]

    async def script(session):
        await session.play(one)
        await session.play(late)
        await session.play(*[one] * CONFIG.reads, *partial)

    # A line of metadata and two bursts come first. The last burst of the next entry ends long after
    # its sectors: the entry is answered, and the bus still owes the end.
    device = play(memory, starts, script, Behavior(late_last={4: 300}))
    most = 2 * (CONFIG.reads + FETCHES)
    assert device.most_open["r", ENTRIES_ID] == most
