"""Windows: the addresses that descriptors, records and data may have."""

from amaranth.hdl import C, Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.dma.control.descriptor import HOST_ADDRESS_BITS
from cdma.hw.dma.control.ring import BASE_BITS, ENTRY_BITS

PAGE_BITS = (PAGE_BYTES - 1).bit_length()


class Window(data.StructLayout):
    """A range of whole pages of 4 KiB, both its ends among them.

    No burst crosses a page, so a burst with a byte inside lies inside as a whole, with what its
    first and last beat have around the data.

    Parameters
    ----------
    address_bits
        Width of an address.

    Members
    -------
    base, last
        Numbers of the first and the last page; the window is empty if the last comes first.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__({"base": address_bits - PAGE_BITS, "last": address_bits - PAGE_BITS})


def page_outside(window: data.View, page: Value) -> Value:
    """Return whether a page, by its number, lies outside of a window."""
    return (page < window.base) | (page > window.last)


def range_outside(window: data.View, limit: Value, start: Value, end: Value) -> Value:
    """Return whether a range of bytes, of which there is at least one, leaves a window.

    Parameters
    ----------
    window
    limit
        The number of the page behind the window's last one.
    start, end
        The first address, and the one behind the last.
    """
    return (start[PAGE_BITS:] < window.base) | (end > Cat(C(0, PAGE_BITS), limit))


class RingWindowChecker(wiring.Component):
    """Reports whether the ring leaves its window, be it by a single descriptor.

    The registers hold still while the ring is in use, so the answer is there before it is needed.

    Latency: 2 cycles, one to add up where the ring ends, one to compare.

    Resources: 60 flip-flops, an addition and two comparisons.

    Members
    -------
    base : `In(58)`
        The ring's address, in descriptors.
    log2_entries : `In(4)`
        Logarithm of the ring's size.
    window : `In(Window(64))`
    outside : `Out(1)`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "base": In(BASE_BITS),
                "log2_entries": In(4),
                "window": In(Window(HOST_ADDRESS_BITS)),
                "outside": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        entries_in_page = PAGE_BITS - ENTRY_BITS
        # A bit wider than an address: a ring beyond the last address is outside.
        last_entry = Signal(BASE_BITS + 1, reset_less=True)
        m.d.sync += [
            last_entry.eq(self.base + ((C(1, 1) << self.log2_entries) - 1)),
            self.outside.eq(
                (self.base[entries_in_page:] < self.window.base)
                | (last_entry[entries_in_page:] > self.window.last)
            ),
        ]
        return m
