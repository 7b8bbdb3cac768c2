"""Runs of consecutive sectors, split into bursts that cross no 4 KiB boundary."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES
from cdma.hw.buddy.payloads import SECTOR_OFFSET_BITS, SectorRun
from cdma.hw.bus.burst import PAGE_BYTES, ReadRequest

PAGE_SECTORS = PAGE_BYTES // SECTOR_BYTES


class RunSplitter(wiring.Component):
    """Splits a run of sectors into one or two bursts; an empty run takes none.

    Latency: 0 cycles. Throughput: a burst per cycle; an empty run takes a cycle.

    Parameters
    ----------
    address_bits

    Members
    -------
    i : `In(stream.Signature(SectorRun(address_bits)))`
    o : `Out(stream.Signature(ReadRequest(address_bits)))`
        Write requests have the same shape.
    """

    def __init__(self, address_bits: int) -> None:
        self.address_bits = address_bits
        super().__init__(
            {
                "i": In(stream.Signature(SectorRun(address_bits))),
                "o": Out(stream.Signature(ReadRequest(address_bits))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        run = self.i.payload
        second = Signal()  # The first of two bursts has been issued.
        end = Signal(range(PAGE_SECTORS + ENTRY_SECTORS + 1))
        crosses = Signal()
        more = Signal()
        first_sectors = Signal(range(ENTRY_SECTORS + 1))
        page = Signal(self.address_bits - 12)
        in_page = Signal(12 - SECTOR_OFFSET_BITS)
        m.d.comb += [
            Cat(in_page, page).eq(run.address[SECTOR_OFFSET_BITS:]),
            end.eq(in_page + run.sectors),
            crosses.eq(end > PAGE_SECTORS),
            more.eq(crosses & ~second),
            first_sectors.eq(PAGE_SECTORS - in_page),
            self.o.valid.eq(self.i.valid & (run.sectors != 0)),
            self.i.ready.eq((run.sectors == 0) | (self.o.ready & ~more)),
        ]
        with m.If(second):
            m.d.comb += [
                self.o.payload.address.eq(Cat(C(0, 12), page + 1)),
                self.o.payload.beats.eq(run.sectors - first_sectors - 1),
            ]
        with m.Else():
            m.d.comb += [
                self.o.payload.address.eq(Cat(C(0, SECTOR_OFFSET_BITS), in_page, page)),
                self.o.payload.beats.eq(Mux(crosses, first_sectors, run.sectors) - 1),
            ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += second.eq(more)
        return m
