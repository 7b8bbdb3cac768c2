"""The page table: place and target ratio of each page of logical memory (§3.2)."""

from amaranth.hdl import C, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.payloads import LOGICAL_ADDRESS_BITS, MapRequest, PageEntry
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.pipeline import PipelineControl

PAGE_INDEX_BITS = 20
"""Width of a page number, as software writes it."""


class PageLookup(data.StructLayout):
    """A lookup in the page table.

    Members
    -------
    address
        Logical address of any byte of the page.
    """

    def __init__(self) -> None:
        super().__init__({"address": LOGICAL_ADDRESS_BITS})


class PageWrite(wiring.Signature):
    """The write port of the page table, from the writer's side.

    Members
    -------
    en
        The entry is written in this cycle.
    index
        Page number. A write beyond the table is ignored.
    entry
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {"en": Out(1), "index": Out(PAGE_INDEX_BITS), "entry": Out(PageEntry(config))}
        )


class PageTable(wiring.Component):
    """Looks up pages of logical addresses in a memory of page entries.

    A lookup that is accepted in the cycle of a write, or earlier, returns the entry before the
    write. Reset unmaps all pages at a page per cycle; lookups are stalled meanwhile.

    Latency: `latency` = 1 cycle. Throughput: a lookup and a write per cycle. Cost: a memory of
    `pages` entries of 53 bits, or 63 where entries may be of XC, with no output register.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(PageLookup()))`
    o : `Out(stream.Signature(MapRequest(config)))`
        The page is not mapped if the address is beyond the table.
    write : `In(PageWrite(config))`
    clearing : `Out(1)`
        High for `pages` cycles after reset; writes in that time are lost.
    """

    latency = 1

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(PageLookup())),
                "o": Out(stream.Signature(MapRequest(config))),
                "write": In(PageWrite(config)),
                "clearing": Out(1, init=1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        pages = self.config.pages
        m.submodules.entries = entries = memory.Memory(
            shape=PageEntry(self.config), depth=pages, init=[]
        )
        write = entries.write_port()
        read = entries.read_port()
        m.submodules.lookup = lookup = PipelineControl()

        page_bits = (self.config.page_bytes - 1).bit_length()
        page_number = Signal(LOGICAL_ADDRESS_BITS)
        address = Signal(LOGICAL_ADDRESS_BITS, reset_less=True)
        beyond = Signal(reset_less=True)
        clear_index = Signal(range(pages))
        # A table of 2^20 pages has every number.
        in_table = C(1) if pages == 1 << PAGE_INDEX_BITS else self.write.index < pages
        m.d.comb += [
            page_number.eq(self.i.payload.address >> page_bits),
            lookup.i_valid.eq(self.i.valid & ~self.clearing),
            lookup.o_ready.eq(self.o.ready),
            self.i.ready.eq(lookup.i_ready & ~self.clearing),
            read.addr.eq(page_number),
            read.en.eq(lookup.load),
            self.o.valid.eq(lookup.o_valid),
            self.o.payload.address.eq(address),
            self.o.payload.page.fields.eq(read.data.fields),
            self.o.payload.page.frame.eq(read.data.frame),
            self.o.payload.page.mapped.eq(read.data.mapped & ~beyond),
            # Memories have neither reset nor initial content, so all entries are written.
            write.addr.eq(Mux(self.clearing, clear_index, self.write.index)),
            write.data.eq(Mux(self.clearing, 0, Value.cast(self.write.entry))),
            write.en.eq(self.clearing | (self.write.en & in_table)),
            self.o.payload.page.parameters.eq(read.data.parameters),
        ]
        with m.If(self.clearing):
            m.d.sync += [
                clear_index.eq(clear_index + 1),
                self.clearing.eq(clear_index != pages - 1),
            ]
        with m.If(lookup.load):
            m.d.sync += [
                address.eq(self.i.payload.address),
                beyond.eq(page_number >= pages),
            ]
        return m
