"""The page table: where the pages of logical memory are (§3.2)."""

from amaranth.hdl import C, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.payloads import LOGICAL_ADDRESS_BITS, MapRequest, PageEntry
from cdma.hw.config import BuddyConfig

PAGE_INDEX_BITS = 20
"""Of pages' numbers, as software writes them."""


class PageLookup(data.StructLayout):
    """A logical address whose page is looked up.

    Members
    -------
    address
        Of any byte.
    """

    def __init__(self) -> None:
        super().__init__({"address": LOGICAL_ADDRESS_BITS})


class PageWrite(wiring.Signature):
    """A change of the page table, from the writer's side.

    Members
    -------
    en
        Writes now.
    index
        The page's number. One beyond the table is ignored.
    entry
    """

    def __init__(self) -> None:
        super().__init__({"en": Out(1), "index": Out(PAGE_INDEX_BITS), "entry": Out(PageEntry())})


class PageTable(wiring.Component):
    """Finds the pages of logical addresses in a memory of their entries.

    A lookup that is taken in the cycle of a write, or before, has the entry as it was. Reset unmaps
    all pages, which takes a cycle for each; lookups wait so long.

    Latency: `latency` cycles. Throughput: a lookup per cycle, and a write. Cost: a memory of
    `pages` entries of 53 bits, whose output is not registered once more.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(PageLookup()))`
    o : `Out(stream.Signature(MapRequest()))`
        Not mapped where the address is beyond the table.
    write : `In(PageWrite())`
    clearing : `Out(1)`
        High for `pages` cycles from reset on: what is written then is lost.
    """

    latency = 1

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(PageLookup())),
                "o": Out(stream.Signature(MapRequest())),
                "write": In(PageWrite()),
                "clearing": Out(1, init=1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        pages = self.config.pages
        m.submodules.entries = entries = memory.Memory(shape=PageEntry(), depth=pages, init=[])
        write = entries.write_port()
        read = entries.read_port()

        page_bits = (self.config.page_bytes - 1).bit_length()
        number = Signal(LOGICAL_ADDRESS_BITS)
        address = Signal(LOGICAL_ADDRESS_BITS, reset_less=True)
        beyond = Signal(reset_less=True)
        holds = Signal()
        takes = Signal()
        cleared = Signal(range(pages))
        # Every number may be one of the table's.
        in_table = C(1) if pages == 1 << PAGE_INDEX_BITS else self.write.index < pages
        m.d.comb += [
            number.eq(self.i.payload.address >> page_bits),
            self.i.ready.eq((self.o.ready | ~holds) & ~self.clearing),
            takes.eq(self.i.valid & self.i.ready),
            read.addr.eq(number),
            read.en.eq(takes),
            self.o.valid.eq(holds),
            self.o.payload.address.eq(address),
            self.o.payload.page.fields.eq(read.data.fields),
            self.o.payload.page.frame.eq(read.data.frame),
            self.o.payload.page.mapped.eq(read.data.mapped & ~beyond),
            # Memories are not reset, and have no initial content.
            write.addr.eq(Mux(self.clearing, cleared, self.write.index)),
            write.data.eq(Mux(self.clearing, 0, Value.cast(self.write.entry))),
            write.en.eq(self.clearing | (self.write.en & in_table)),
        ]
        with m.If(self.clearing):
            m.d.sync += [cleared.eq(cleared + 1), self.clearing.eq(cleared != pages - 1)]
        with m.If(takes):
            m.d.sync += [
                holds.eq(1),
                address.eq(self.i.payload.address),
                beyond.eq(number >= pages),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += holds.eq(0)
        return m
