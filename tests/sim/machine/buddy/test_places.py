"""Buddy memory at two places whose address bits above a page are each other's contrary.

Where all tests have it, a bit that is always the same would not be missed. While software says that
memory is at the other place, nothing is found, and nothing that is there changes.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from cdma.golden.buddy.address_map import PageFields, Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.config import buddy_preset
from cdma.sim.driver import BuddyDriver
from cdma.sim.machine import BuddyMachine
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
        for number, target in enumerate(KINDS):
            fields = PageFields(
                compressed=target is not None,
                target=target or Target.X1,
                buddy_page=self.first_buddy_page + number * (PAGE // unit),
            )
            frame = (self.device + number * PAGE) // driver.map.frame_bytes
            driver.map_page(number, fields, frame)
        driver.enable()


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
            assert read(driver, start)[0] == SLVERR
        assert driver.first_error() is not None
        driver.clear_error()

        here.tell(driver)
        for kept, memory in zip(before, (machine.device, machine.buddy), strict=True):
            assert np.array_equal(kept, memory)
        check()
        assert driver.first_error() is None
        assert not driver.lost
