"""The registers of the buddy controller, by the simulated controller."""

from random import Random

from cdma.hw.buddy.registers import register_map
from cdma.hw.config import buddy_preset
from cdma.sim.machine import BuddyMachine
from cdma.sim.machine.build.rtl import generated_buddy
from tests.sim.driver.test_buddy_driver import MEMORY, QUIET
from tests.sim.machine.register_bits import check_bits


def test_bits_are_stored_where_software_writes_them_and_nowhere_else() -> None:
    config = buddy_preset("tiny")
    with BuddyMachine(
        generated_buddy(config), QUIET, device_bytes=MEMORY, buddy_bytes=MEMORY, buddy_base=1 << 40
    ) as machine:
        bits = check_bits(machine, list(register_map(config).values()), Random(1))
    # Four addresses and sizes of 64 bits.
    assert bits > 256
