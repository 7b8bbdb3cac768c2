"""Address translation: where metadata begin, whatever software writes."""

from dataclasses import replace

import pytest
from amaranth.hdl import ClockDomain, Module

from cdma.golden.buddy.address_map import DEVICE_SLOT_BYTES, MapStatus, PageFields, Target
from cdma.hw.buddy.address.translation import AddressTranslation
from cdma.hw.config import BUDDY_PRESETS, METADATA_CACHES
from tests.lib.simulator import Simulator

LINES = (32, 64, 128)
LINE_AT = 0x2_0000
"""A place in device memory where a line begins, and a frame."""

SLOT = DEVICE_SLOT_BYTES[Target.X4]


@pytest.mark.parametrize("line_bytes", LINES)
def test_no_slot_is_in_a_line_of_metadata(line_bytes):
    """Metadata begin with their line, whichever; slots behind its first byte are refused."""
    tiny = BUDDY_PRESETS["tiny"]
    cache = replace(METADATA_CACHES["tiny"], capacity_bytes=1024, line_bytes=line_bytes)
    translation = AddressTranslation(replace(tiny, cache=cache))
    m = Module()
    m.domains.sync = ClockDomain()
    m.submodules.translation = translation
    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    frame_bytes = tiny.page_bytes // 16
    # The first page's slots end where the line begins, the second page's begin there.
    entries = tiny.page_bytes // 128
    starts = [LINE_AT - entries * SLOT, LINE_AT]

    async def body(ctx):
        ctx.set(translation.logical_bytes, tiny.pages * tiny.page_bytes)
        ctx.set(translation.carve_out_bytes, 1 << 20)
        while ctx.get(translation.clearing):
            await ctx.tick()
        for page, start in enumerate(starts):
            assert start % frame_bytes == 0
            entry = {
                "fields": PageFields(compressed=True, target=Target.X4).pack(),
                "frame": start // frame_bytes,
                "mapped": 1,
                "parameters": {},
            }
            ctx.set(translation.page_write.index, page)
            ctx.set(translation.page_write.entry, entry)
            ctx.set(translation.page_write.en, 1)
            await ctx.tick()
        ctx.set(translation.page_write.en, 0)
        ctx.set(translation.o.ready, 1)
        ctx.set(translation.mapping.ready, 1)
        for low_bits in (0, 1, line_bytes // 2, line_bytes - 1):
            ctx.set(translation.metadata_base, LINE_AT + low_bits)
            found = [
                await mapping_of(ctx, translation, address)
                for address in (0, tiny.page_bytes - 128, tiny.page_bytes)
            ]
            first, last, behind = found
            assert first.status == last.status == MapStatus.OK
            assert first.metadata_address == LINE_AT
            assert last.device_address + SLOT == LINE_AT
            assert behind.status == MapStatus.OUT_OF_REGION
        for lines in (1, 2):
            ctx.set(translation.metadata_base, LINE_AT + lines * line_bytes)
            found = await mapping_of(ctx, translation, 0)
            assert found.metadata_address == LINE_AT + lines * line_bytes

    simulator.add_testbench(body)
    simulator.run()


async def mapping_of(ctx, translation, address):
    """Translate the address of an access."""
    ctx.set(translation.i.payload.access.address, address)
    ctx.set(translation.i.valid, 1)
    await ctx.tick().until(translation.i.ready)
    ctx.set(translation.i.valid, 0)
    await ctx.tick().until(translation.mapping.valid)
    return ctx.get(translation.mapping.payload)
