"""The sectors of kept entries that no BPC code stands for: those as they are, and those of ZVC."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import AS_IT_IS
from cdma.hw.codec.entry.payloads import ENTRY_BITS, EntrySector, KeptEntry
from cdma.hw.codec.payloads import LineBeat
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from cdma.hw.config import EntryConfig
from cdma.hw.lib.count import count_ones


class LineCutter(wiring.Component):
    """Cuts kept entries into the beats of a compressed line.

    An entry of ZVC is a line. One that is kept as it is becomes a dense line, and any other one
    without elements.

    Latency: 1 cycle. Throughput: a beat per cycle.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(KeptEntry()))`
    o : `Out(stream.Signature(LineBeat(config.zvc)))`
        Never damaged, whatever the class has room for, and lines are no transfers. Behind `count`
        is what was kept there.
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(KeptEntry())),
                "o": Out(stream.Signature(LineBeat(config.zvc))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        zvc = self.config.zvc
        kept = self.i.payload
        lanes, elements = zvc.lanes, zvc.elements
        sector_bits = 8 * zvc.sector_bytes

        busy = Signal()
        first = Signal(reset_less=True)
        mask = Signal(elements, reset_less=True)
        rest = Signal(ENTRY_BITS, reset_less=True)
        left = Signal(range(elements + 1), reset_less=True)
        final = Signal()
        m.d.comb += [
            final.eq(1 if zvc.sectors == 1 else left <= lanes),
            self.o.valid.eq(busy),
            self.i.ready.eq(~busy | (self.o.ready & final)),
        ]
        with m.If(self.i.ready):
            m.d.sync += [busy.eq(self.i.valid), first.eq(1)]
            with m.If(kept.metadata == AS_IT_IS):
                m.d.sync += [mask.eq(~0), rest.eq(kept.data), left.eq(elements)]
            with m.Else():
                m.d.sync += [
                    mask.eq(Mux(kept.metadata[-1], kept.data[:elements], 0)),
                    rest.eq(kept.data[elements:]),
                    left.eq(Mux(kept.metadata[-1], count_ones(kept.data[:elements]), 0)),
                ]
        with m.Elif(self.o.ready):
            m.d.sync += [first.eq(0), rest.eq(rest >> sector_bits), left.eq(left - lanes)]

        # If a line is a beat, that is its first one and its last one.
        beat = self.o.payload
        m.d.comb += [
            beat.mask.eq(mask if zvc.sectors == 1 else Mux(first, mask, 0)),
            beat.elements.eq(rest[:sector_bits]),
            beat.count.eq(left if zvc.sectors == 1 else Mux(final, left, lanes)),
            beat.sol.eq(1 if zvc.sectors == 1 else first),
            beat.eol.eq(final),
        ]
        return m


class SectorCutter(wiring.Component):
    """Cuts kept entries into sectors.

    Latency: 1 cycle. Throughput: a sector per cycle.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(KeptEntry()))`
    o : `Out(stream.Signature(EntrySector(config)))`
        Of entries as they are. Zeros for others.
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(KeptEntry())),
                "o": Out(stream.Signature(EntrySector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        kept = self.i.payload
        sectors, sector_bits = self.config.sectors, 8 * self.config.sector_bytes

        left = Signal(range(sectors + 1))
        rest = Signal(ENTRY_BITS, reset_less=True)
        m.d.comb += [
            self.o.valid.eq(left != 0),
            self.o.payload.data.eq(rest[:sector_bits]),
            self.i.ready.eq((left == 0) | ((left == 1) & self.o.ready)),
        ]
        with m.If(self.i.ready):
            m.d.sync += [
                left.eq(Mux(self.i.valid, sectors, 0)),
                rest.eq(Mux(kept.metadata == AS_IT_IS, kept.data, 0)),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += [left.eq(left - 1), rest.eq(rest >> sector_bits)]
        return m


class PlainSectors(wiring.Component):
    """The sectors of all entries, as far as no BPC code stands for them.

    Latency: 3 cycles with ZVC, 1 without. Throughput: a sector per cycle.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(KeptEntry()))`
    o : `Out(stream.Signature(EntrySector(config)))`
        Of entries as they are and of ZVC. Zeros for others; unspecified for those that
        `EntryPrechecker` finds to be bad.
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(KeptEntry())),
                "o": Out(stream.Signature(EntrySector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        if self.config.mode != "best-of":
            m.submodules.cutter = sector_cutter = SectorCutter(self.config)
            wiring.connect(m, wiring.flipped(self.i), sector_cutter.i)
            wiring.connect(m, sector_cutter.o, wiring.flipped(self.o))
            return m
        m.submodules.cutter = line_cutter = LineCutter(self.config)
        m.submodules.zvc = zvc = ZvcDecompressor(self.config.zvc)
        wiring.connect(m, wiring.flipped(self.i), line_cutter.i)
        wiring.connect(m, line_cutter.o, zvc.i)
        m.d.comb += [
            self.o.valid.eq(zvc.o.valid),
            self.o.payload.data.eq(zvc.o.payload.elements),
            zvc.o.ready.eq(self.o.ready),
        ]
        return m
