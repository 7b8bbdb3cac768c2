"""Address translation: admitted accesses, and the places of their entries in memory."""

from amaranth.hdl import C, Cat, Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.address.mapper import REGION_BITS, SectorMapper
from cdma.hw.buddy.address.page_table import PageTable, PageWrite
from cdma.hw.buddy.payloads import SECTOR_OFFSET_BITS, AdmittedAccess, Mapping
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.fifo import Fifo

TRANSLATIONS = 8
"""Accesses in the page table and the mapper."""


class AddressTranslation(wiring.Component):
    """Translates the logical addresses of accesses (Buddy Compression, §3.2).

        i ─┬─ page table ─ mapper ─ mapping
           └─────── FIFO ────────── o

    Latency: 4 cycles. Throughput: an access per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i, o : `In`, `Out(stream.Signature(AdmittedAccess(config)))`
    mapping : `Out(stream.Signature(Mapping(config)))`
        One for each access of `o`.
    logical_bytes, metadata_base, carve_out_bytes, gbbr : `In(64)`
        As in `SectorMapper`; of `metadata_base` the bits below a line of metadata are ignored.
    page_write : `In(PageWrite(config))`
    clearing : `Out(1)`
        As in `PageTable`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(AdmittedAccess(config))),
                "o": Out(stream.Signature(AdmittedAccess(config))),
                "mapping": Out(stream.Signature(Mapping(config))),
                "logical_bytes": In(REGION_BITS),
                "metadata_base": In(REGION_BITS),
                "carve_out_bytes": In(REGION_BITS),
                "gbbr": In(REGION_BITS),
                "page_write": In(PageWrite(config)),
                "clearing": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.accesses = accesses = Fifo(AdmittedAccess(self.config), TRANSLATIONS)
        m.submodules.page_table = page_table = PageTable(self.config)
        m.submodules.mapper = mapper = SectorMapper(self.config)
        line_bits = (self.config.cache.line_bytes - 1).bit_length()
        m.d.comb += [
            page_table.i.payload.address.eq(self.i.payload.access.address),
            page_table.i.valid.eq(self.i.valid & accesses.i.ready),
            accesses.i.payload.eq(self.i.payload),
            accesses.i.valid.eq(self.i.valid & page_table.i.ready),
            self.i.ready.eq(page_table.i.ready & accesses.i.ready),
            mapper.logical_bytes.eq(self.logical_bytes),
            # Whatever software has written, no slot shares a line with metadata, which is fetched
            # and written back whole; and buddy slots are sector-aligned.
            mapper.metadata_base.eq(_aligned(self.metadata_base, line_bits)),
            mapper.carve_out_bytes.eq(self.carve_out_bytes),
            mapper.gbbr.eq(_aligned(self.gbbr, SECTOR_OFFSET_BITS)),
            self.clearing.eq(page_table.clearing),
        ]
        wiring.connect(m, wiring.flipped(self.page_write), page_table.write)
        wiring.connect(m, page_table.o, mapper.i)
        wiring.connect(m, mapper.o, wiring.flipped(self.mapping))
        wiring.connect(m, accesses.o, wiring.flipped(self.o))
        return m


def _aligned(address: Value, low_bits: int) -> Value:
    return Cat(C(0, low_bits), address[low_bits:])
