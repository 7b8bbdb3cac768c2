"""Buddy memory at two places whose address bits above a page are each other's contrary.

Where all tests have it, a bit that is always the same would not be missed. While software says that
memory is at the other place, nothing is found, and nothing that is there changes.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from cdma.golden.buddy.address_map import PageFields, Target
from cdma.golden.buddy.entry import ENTRY_BYTES, EntryCodec
from cdma.hw.config import METADATA_CACHES, BuddyConfig, buddy_preset
from cdma.sim.driver import BuddyDriver
from cdma.sim.machine import Access, BuddyMachine
from cdma.sim.machine.buddy.trace import OKAY, SLVERR
from cdma.sim.machine.build.rtl import generated_buddy
from tests.golden.buddy.entries import mixed_entries
from tests.sim.driver.test_buddy_driver import MEMORY, QUIET, read, write

CONFIG = buddy_preset("tiny")
PAGE = CONFIG.page_bytes
ENTRIES = 40
KINDS = (*Target, None)
"""A page of each target, and one that is not compressed."""


@dataclass(frozen=True)
class Bases:
    """Places at which memories begin, and how software tells them.

    Attributes
    ----------
    device, buddy : int
        Addresses of their first bytes, multiples of `MEMORY`.
    first_buddy_page : int
        The number of the buddy page that begins there, so that GBBR is below.
    """

    device: int
    buddy: int
    first_buddy_page: int

    def tell(self, driver: BuddyDriver, *, beyond: int = 0) -> None:
        """Drop what the controller knows of another place, and let it look here.

        For metadata so far beyond, as they can be anywhere and pages only where frames reach.
        """
        driver.invalidate()
        driver.disable()
        unit = driver.map.buddy_unit_bytes
        registers = driver.registers
        registers.write_long("GBBR", self.buddy - self.first_buddy_page * unit)
        registers.write_long("CARVE_OUT_BYTES", 1 << 40)
        metadata = self.device + MEMORY - driver.map.metadata_bytes
        registers.write_long("METADATA_BASE", metadata + beyond)
        map_pages(driver, len(KINDS), self.device, self.first_buddy_page)
        driver.enable()


def map_pages(driver: BuddyDriver, count: int, device: int, first_buddy_page: int) -> None:
    """Map so many pages, of all kinds in turn, to places one behind the other."""
    for page in range(count):
        target = KINDS[page % len(KINDS)]
        fields = PageFields(
            compressed=target is not None,
            target=target or Target.X1,
            buddy_page=first_buddy_page + page * (PAGE // driver.map.buddy_unit_bytes),
        )
        driver.map_page(page, fields, (device + page * PAGE) // driver.map.frame_bytes)


BASES = (
    Bases(0x0A_5A58_0000, 0x5A5A_5A5A_5A58_0000, 0x5_A5A0),
    Bases(0x15_A5A4_0000, 0xA5A5_A5A5_A5A4_0000, 0xA_5A5C),
)
FRAMES_END = 1 << 37
DEVICE_END = 1 << 40


@pytest.mark.parametrize(("here", "there"), [BASES, BASES[::-1]], ids=["low", "high"])
def test_entries_that_spill_elsewhere(here: Bases, there: Bases) -> None:
    data = mixed_entries(ENTRIES, seed=7)
    with BuddyMachine(
        generated_buddy(CONFIG),
        QUIET,
        device_bytes=MEMORY,
        buddy_bytes=MEMORY,
        device_base=here.device,
        buddy_base=here.buddy,
        stalls=0.2,
        seed=7,
    ) as machine:
        driver = BuddyDriver(machine)
        starts = [number * PAGE for number in range(len(KINDS))]

        def check() -> None:
            for start in starts:
                for number, entry in enumerate(data):
                    status, got = read(driver, start + number * ENTRY_BYTES)
                    assert status == OKAY
                    assert np.array_equal(got, entry)

        here.tell(driver)
        for start in starts:
            assert (write(driver, start, data) == OKAY).all()
        check()
        assert driver.counters()["spilled"] > 0
        driver.flush()
        before = machine.device.copy(), machine.buddy.copy()

        there.tell(driver, beyond=DEVICE_END - FRAMES_END)
        for start in starts:
            assert (write(driver, start, data[::-1]) == SLVERR).all()
            reads = [Access(start + n * ENTRY_BYTES, ENTRY_BYTES) for n in range(ENTRIES)]
            assert (machine.play(reads).responses == SLVERR).all()
        assert driver.first_error() is not None
        driver.clear_error()

        here.tell(driver)
        for kept, memory in zip(before, (machine.device, machine.buddy), strict=True):
            assert np.array_equal(kept, memory)
        check()
        assert driver.first_error() is None
        assert not driver.lost


SLICES = replace(
    CONFIG,
    pages=512,
    cache=replace(METADATA_CACHES["paper_table2"], capacity_bytes=8192, slices=4, ways=2),
)
"""A page table whose metadata are more lines than the cache has, in all of its slices."""
MIRRORED = 1 << 24
SLOW = replace(QUIET, device_latency_ns=400)
"""A memory that has not yet answered some writes of lines when more are to be written."""
PAGE_ENTRIES = 2
METADATA = (0x0A_5ABF_C000, DEVICE_END - 0x4000 - 0x0A_5ABF_C000)
"""Contrary in all bits above a page table's metadata."""
PAGES_FROM = (0x0A_5A00_0000, 0x15_A580_0000)
BUDDY_FROM = (0x5A5A_5A5A_5A50_0000, 0xA5A5_A5A5_A5A8_0000)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(CONFIG, id="tiny"),
        pytest.param(SLICES, id="slices", marks=pytest.mark.verify),
    ],
)
def test_metadata_are_written_wherever_software_has_them(config: BuddyConfig) -> None:
    """To memory that is at both places, as its upper address lines lead nowhere."""
    codec = EntryCodec(config.entry.mode, config.entry.element_bytes)
    with BuddyMachine(
        generated_buddy(config),
        SLOW,
        device_bytes=MIRRORED,
        buddy_bytes=MIRRORED,
        mirrored=True,
        stalls=0.2,
        seed=8,
    ) as machine:
        driver = BuddyDriver(machine)
        registers, unit = driver.registers, driver.map.buddy_unit_bytes
        entries = PAGE_ENTRIES * config.pages
        places = np.arange(entries) // PAGE_ENTRIES * (PAGE // ENTRY_BYTES)
        # At all places of a page's metadata.
        numbers = np.arange(entries)
        places += (numbers * 5 + numbers // 32) % (PAGE // ENTRY_BYTES)
        compressed = np.array(
            [KINDS[page % len(KINDS)] is not None for page in range(config.pages)]
        )
        compressed = compressed[places // (PAGE // ENTRY_BYTES)]
        for visit, side in enumerate((0, 1, 0)):
            driver.invalidate()
            driver.disable()
            registers.write_long("GBBR", BUDDY_FROM[side] - visit * unit)
            registers.write_long("CARVE_OUT_BYTES", MIRRORED)
            registers.write_long("METADATA_BASE", METADATA[side])
            map_pages(driver, config.pages, PAGES_FROM[side], visit)
            driver.enable()

            data = mixed_entries(entries, seed=visit)[:entries]
            written = [
                Access(int(place) * ENTRY_BYTES, ENTRY_BYTES, entry)
                for place, entry in zip(places, data, strict=True)
            ]
            assert not machine.play(written).failed()
            driver.flush()
            start = METADATA[side] % MIRRORED
            nibbles = machine.device[start + places // 2] >> places % 2 * 4 & 0xF
            np.testing.assert_array_equal(nibbles[compressed], codec.encode(data)[0][compressed])
            driver.invalidate()
            read_back = machine.play(
                [Access(int(place) * ENTRY_BYTES, ENTRY_BYTES) for place in places]
            )
            assert not read_back.failed()
            for number, entry in enumerate(data):
                assert np.array_equal(read_back.bytes_of(number), entry)
        assert driver.first_error() is None
        driver.reset()
        assert read(driver, 0)[0] == SLVERR
