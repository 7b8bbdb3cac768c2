"""Buddy memory at two places whose address bits above a page are each other's contrary.

Where all tests have it, a bit that is always the same would not be missed.
"""

import numpy as np
import pytest

from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.config import buddy_preset
from cdma.sim.driver import BuddyDriver
from cdma.sim.machine import BuddyMachine
from cdma.sim.machine.build.rtl import generated_buddy
from tests.golden.buddy.entries import mixed_entries
from tests.sim.driver.test_buddy_driver import MEMORY, QUIET, read, write

CONFIG = buddy_preset("tiny")
ENTRIES = 40


@pytest.mark.parametrize("base", [0x5A5A_5A5A_5A5A_0000, 0xA5A5_A5A5_A5A5_0000], ids=hex)
def test_entries_that_spill_elsewhere(base: int) -> None:
    data = mixed_entries(ENTRIES, seed=base % 1009)
    with BuddyMachine(
        generated_buddy(CONFIG),
        QUIET,
        device_bytes=MEMORY,
        buddy_bytes=MEMORY,
        buddy_base=base,
        stalls=0.2,
        seed=7,
    ) as machine:
        driver = BuddyDriver(machine)
        for target in Target:
            start = driver.allocate(CONFIG.page_bytes, target)
            assert not write(driver, start, data).any()
            for number, entry in enumerate(data):
                status, got = read(driver, start + number * ENTRY_BYTES)
                assert status == 0
                assert np.array_equal(got, entry)
        assert driver.counters()["spilled"] > 0
        assert driver.first_error() is None
