"""The ring in its window, from registers, two cycles later."""

import pytest

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.dma.control.windows import RingWindowChecker
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver import Windows
from tests.lib.simulator import Simulator

BASE = 0x7_0000_0000
END = 1 << 64


def outside(cases):
    """What the checker says of each ring, a window and a ring in each cycle: `(window, base,
    entries)`."""
    component = RingWindowChecker()
    seen = []

    async def body(ctx):
        for window, base, entries in cases:
            first, last = Windows(descriptors=window).ends("descriptors")
            ctx.set(component.base, base // ENTRY_BYTES)
            ctx.set(component.log2_entries, entries.bit_length() - 1)
            ctx.set(component.window, {"base": first // PAGE_BYTES, "last": last // PAGE_BYTES})
            await ctx.tick().repeat(2)
            seen.append(ctx.get(component.outside))

    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return seen


TWO_PAGES = range(BASE, BASE + 2 * PAGE_BYTES)
LAST_PAGE = range(END - PAGE_BYTES, END)


@pytest.mark.parametrize(
    ("window", "base", "entries", "expected"),
    [
        (None, 0, 2, 0),
        (None, END - 2 * ENTRY_BYTES, 2, 0),
        # The second descriptor would be at address 0.
        (None, END - ENTRY_BYTES, 2, 1),
        (TWO_PAGES, BASE, 128, 0),
        (TWO_PAGES, BASE, 256, 1),
        (TWO_PAGES, BASE - ENTRY_BYTES, 2, 1),
        (TWO_PAGES, BASE + ENTRY_BYTES, 128, 1),
        (TWO_PAGES, BASE + 2 * PAGE_BYTES - 2 * ENTRY_BYTES, 2, 0),
        (TWO_PAGES, BASE + 2 * PAGE_BYTES - ENTRY_BYTES, 2, 1),
        (TWO_PAGES, BASE + 2 * PAGE_BYTES, 2, 1),
        (TWO_PAGES, 0, 2, 1),
        (range(0, PAGE_BYTES), 0, 64, 0),
        (range(0, PAGE_BYTES), 0, 128, 1),
        (range(0, PAGE_BYTES), END - ENTRY_BYTES, 2, 1),
        (LAST_PAGE, END - PAGE_BYTES, 64, 0),
        (LAST_PAGE, END - PAGE_BYTES, 32768, 1),
        (range(0), PAGE_BYTES, 2, 1),
        (range(0), 0, 2, 1),
    ],
)
def test_ring_lies_in_its_window_with_its_last_descriptor(window, base, entries, expected):
    # After each of the others, so that nothing of them is left.
    for before in ((None, 0, 2), (range(0), 0, 32768)):
        assert outside([before, (window, base, entries)])[1] == expected
