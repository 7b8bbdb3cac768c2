"""Position of each beat of an access in its entry."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.buddy.payloads import ENTRY_OFFSET_BITS, EntryAccess
from cdma.hw.config import BuddyConfig


class BeatPosition(wiring.Component):
    """Counts the beats of an access, and tells in which sector of the entry each one lies.

    Latency: 0 cycles. Throughput: a beat per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    access : `In(EntryAccess(config))`
        Stable until its last beat has been transferred.
    fire : `In(1)`
        A beat is transferred in this cycle.
    sector : `Out(range(sectors))`
        Index in the entry of the present beat's sector.
    last : `Out(1)`
        The present beat is the access's last one.
    sector_last : `Out(1)`
        The next beat is in another sector, or there is none.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "access": In(EntryAccess(config)),
                "fire": In(1),
                "sector": Out(range(max(config.entry.sectors, 2))),
                "last": Out(1),
                "sector_last": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sector_bits = (self.config.entry.sector_bytes - 1).bit_length()
        beat = Signal(range(ENTRY_BYTES))
        # Counted from the entry's start: the first two in units of a beat, the others in bytes.
        first_unit = Signal(ENTRY_OFFSET_BITS)
        unit = Signal(ENTRY_OFFSET_BITS)
        offset = Signal(ENTRY_OFFSET_BITS)
        next_offset = Signal(ENTRY_OFFSET_BITS + 1)
        m.d.comb += [
            first_unit.eq(self.access.address[:ENTRY_OFFSET_BITS] >> self.access.size),
            unit.eq(first_unit + beat),
            offset.eq(unit << self.access.size),
            next_offset.eq((unit + 1) << self.access.size),
            self.sector.eq(offset[sector_bits:]),
            self.last.eq(beat == self.access.beats - 1),
            self.sector_last.eq(self.last | (next_offset[sector_bits:] != offset[sector_bits:])),
        ]
        with m.If(self.fire):
            m.d.sync += beat.eq(Mux(self.last, 0, beat + 1))
        return m
