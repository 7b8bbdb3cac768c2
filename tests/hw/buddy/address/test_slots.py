"""Places of the sectors of entries, for every target and all metadata."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from cdma.golden.buddy.address_map import Target, split_sectors
from cdma.golden.buddy.entry import MODES, SECTOR_BYTES, SECTORS, EntryCodec
from cdma.hw.buddy.address import slots
from cdma.hw.buddy.payloads import Mapping
from cdma.hw.config import BuddyConfig, EntryConfig
from tests.lib.simulator import Simulator


def test_sectors_are_split_as_golden_does():
    m = Module()
    target, metadata = Signal(3), Signal(4)
    device, buddy = slots.split_sectors(m, target, metadata, name="entry")
    whole = Signal(3)
    m.d.comb += whole.eq(slots.slot_sectors(target))
    simulator = Simulator(m)

    async def body(ctx):
        for number in Target:
            ctx.set(target, number)
            classes = np.arange(8)
            assert ctx.get(whole) == max(split_sectors(number, classes)[0])
            for value in (*range(8), *range(9, 15)):
                ctx.set(metadata, value)
                found = ctx.get(device), ctx.get(buddy)
                expected = split_sectors(number, np.array([value]))
                assert found == tuple(int(part[0]) for part in expected), (number, value)
                assert sum(found) == SECTORS[value % 8]
                assert sum(found) * SECTOR_BYTES <= 128

    simulator.add_testbench(body)
    simulator.run()


@pytest.mark.parametrize("mode", MODES)
def test_classes_are_those_of_golden(mode):
    config = BuddyConfig(entry=EntryConfig(mode=mode))
    m = Module()
    metadata, place = Signal(4), Signal(Mapping(config))
    number = Signal(3)
    m.d.comb += number.eq(slots.size_class(config, metadata, place))
    simulator = Simulator(m)

    async def body(ctx):
        for xc in (0, 3 << 8, 1, 126, 3 << 8 | 255):
            if config.entry.has_parameters:
                ctx.set(place.parameters, {"centre": xc % 256, "pattern": xc >> 8})
            for value in range(16):
                ctx.set(metadata, value)
                (expected,) = EntryCodec(mode).classes(np.array([value], np.uint8), xc)
                assert ctx.get(number) == expected, (value, xc)

    simulator.add_testbench(body)
    simulator.run()
