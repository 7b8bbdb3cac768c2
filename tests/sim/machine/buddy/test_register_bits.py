"""The registers of the buddy controller, by the simulated controller."""

from collections.abc import Iterator
from random import Random

import pytest

from cdma.hw.buddy.registers import register_map
from cdma.hw.config import buddy_preset
from cdma.sim.machine import BuddyMachine
from cdma.sim.machine.build.rtl import generated_buddy
from tests.sim.driver.test_buddy_driver import MEMORY, QUIET
from tests.sim.machine.register_bits import check_bits, check_gaps

CONFIG = buddy_preset("tiny")
REGISTERS = list(register_map(CONFIG).values())
BLOCK_BYTES = 4096


@pytest.fixture
def machine() -> Iterator[BuddyMachine]:
    with BuddyMachine(
        generated_buddy(CONFIG), QUIET, device_bytes=MEMORY, buddy_bytes=MEMORY, buddy_base=1 << 40
    ) as made:
        yield made


def test_bits_are_stored_where_software_writes_them_and_nowhere_else(machine) -> None:
    # Four addresses and sizes of 64 bits.
    assert check_bits(machine, REGISTERS, Random(1)) > 256


def test_words_without_a_register_are_refused(machine) -> None:
    before = [machine.read_register(register.offset) for register in REGISTERS]
    assert check_gaps(machine, REGISTERS, BLOCK_BYTES) > 800
    assert [machine.read_register(register.offset) for register in REGISTERS] == before
