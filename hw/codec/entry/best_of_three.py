"""Entries of three codes: XC beside BPC and ZVC, and the codecs of any mode.

The two other codes are those of the mode "best-of", whose codecs know nothing of the third. Which
entries are of XC is specified by `cdma.golden.buddy.entry`.
"""

from dataclasses import replace

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import AS_IT_IS, XC_METADATA
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.entry.compressor import EntryCompressor
from cdma.hw.codec.entry.decompressor import EntryDecompressor
from cdma.hw.codec.entry.payloads import EntrySector, KeptEntry, RestoredSector
from cdma.hw.codec.entry.xc.compressor import XcEntryCompressor
from cdma.hw.codec.entry.xc.decompressor import XcEntryDecompressor
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.config import EntryConfig
from cdma.hw.lib.fork import Fork
from cdma.hw.lib.pipeline import registered


def _two_codes(config: EntryConfig) -> EntryConfig:
    return replace(config, mode="best-of")


class BestOfThreeCompressor(wiring.Component):
    """Compresses a sector per cycle to what is kept of entries, by BPC, ZVC or XC.

        i -+-> EntryCompressor, BPC and ZVC --+-> o
           +-> XcEntryCompressor -------------+

    XC's code is kept where the entry would be kept as it is by the other two, and XC's fits.

    Latency: `entry_latency` cycles from an entry's first sector to what is kept of it, as in
    `EntryCompressor`: 11, 9 and 8 cycles for sectors of 32, 64 and 128 B. Throughput: a sector per
    cycle while what comes out is taken when offered.

    Resources: an `EntryCompressor` and an `XcEntryCompressor`; for sectors of 64 and 128 B two and
    three codes of registers.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    entry_latency : int
        Cycles from an entry's first sector to what is kept of it.

    Members
    -------
    parameters : `In(Parameters())`
        XC's, of the page whose sector is offered at `i`. Without a centre the page has no entries
        of XC.
    i : `In(stream.Signature(EntrySector(config)))`
    o : `Out(stream.Signature(KeptEntry()))`
        In the order of the entries.
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        self._two = EntryCompressor(_two_codes(config))
        self._xc = XcEntryCompressor(config)
        self.entry_latency = self._two.entry_latency
        super().__init__(
            {
                "parameters": In(Parameters()),
                "i": In(stream.Signature(EntrySector(config))),
                "o": Out(stream.Signature(KeptEntry())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.two = two = self._two
        m.submodules.xc = xc = self._xc
        waits = self.entry_latency - xc.code_latency
        coded = registered(m, xc.o, waits, name="coded")
        kept, code = two.o.payload, coded.payload
        of_xc = Signal()
        m.d.comb += [
            # Both take a sector, or none does.
            two.i.valid.eq(self.i.valid & xc.i.ready),
            xc.i.valid.eq(self.i.valid & two.i.ready),
            self.i.ready.eq(two.i.ready & xc.i.ready),
            two.i.payload.eq(self.i.payload),
            xc.i.payload.eq(self.i.payload),
            xc.parameters.eq(self.parameters),
            of_xc.eq((kept.metadata == AS_IT_IS) & code.fits),
            self.o.valid.eq(two.o.valid & coded.valid),
            two.o.ready.eq(self.o.ready & coded.valid),
            coded.ready.eq(self.o.ready & two.o.valid),
            self.o.payload.metadata.eq(Mux(of_xc, XC_METADATA, kept.metadata)),
            self.o.payload.data.eq(Mux(of_xc, code.data, kept.data)),
        ]
        return m


class BestOfThreeDecompressor(wiring.Component):
    """Restores a sector per cycle, and finds the first error as `EntryCodec.decode` does.

        i -+-> EntryDecompressor, BPC and ZVC --+-> o
           +-> XcEntryDecompressor -------------+

    Each of the two gives zeros for the entries of the other.

    Latency: `entry_latency` = 11 cycles from an entry to its first sector, whatever is kept and
    whatever the sector's size (Buddy Compression, §3.5). Throughput: an entry per `sectors` cycles,
    without bubbles. A damaged entry takes as long and leaves nothing behind.

    Resources: an `EntryDecompressor` and an `XcEntryDecompressor`.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    entry_latency : int
        Cycles from an entry to its first sector.

    Members
    -------
    parameters : `In(Parameters())`
        XC's, of the page whose entry is offered at `i`. Without a centre the page has no entries of
        XC.
    i : `In(stream.Signature(KeptEntry()))`
        With any metadata; what is behind the class's size is not looked at.
    o : `Out(stream.Signature(RestoredSector(config)))`
    """

    entry_latency = EntryDecompressor.entry_latency

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "parameters": In(Parameters()),
                "i": In(stream.Signature(KeptEntry())),
                "o": Out(stream.Signature(RestoredSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.fork = fork = Fork(KeptEntry(), 2)
        m.submodules.two = two = EntryDecompressor(_two_codes(self.config))
        m.submodules.xc = xc = XcEntryDecompressor(self.config)
        wiring.connect(m, wiring.flipped(self.i), fork.i)
        by_two, by_xc = fork.o
        kept, entry = self.i.payload, xc.i.payload
        of_xc = Signal()
        m.d.comb += [
            of_xc.eq((kept.metadata == XC_METADATA) & self.parameters.centre.any()),
            two.i.valid.eq(by_two.valid),
            by_two.ready.eq(two.i.ready),
            two.i.payload.data.eq(kept.data),
            # What is of XC goes there as an entry of zeros.
            two.i.payload.metadata.eq(Mux(of_xc, 0, kept.metadata)),
            xc.i.valid.eq(by_xc.valid),
            by_xc.ready.eq(xc.i.ready),
            entry.of_xc.eq(of_xc),
            entry.parameters.eq(self.parameters),
            entry.data.eq(kept.data),
        ]
        first, second, out = two.o.payload, xc.o.payload, self.o.payload
        m.d.comb += [
            self.o.valid.eq(two.o.valid & xc.o.valid),
            two.o.ready.eq(self.o.ready & xc.o.valid),
            xc.o.ready.eq(self.o.ready & two.o.valid),
            out.data.eq(first.data | second.data),
            out.status.eq(Mux(first.status == StreamStatus.OK, second.status, first.status)),
            out.offset.eq(first.offset | second.offset),
        ]
        return m


def entry_compressor(config: EntryConfig) -> EntryCompressor | BestOfThreeCompressor:
    """The compressor of a mode's entries."""
    return BestOfThreeCompressor(config) if config.has_parameters else EntryCompressor(config)


def entry_decompressor(config: EntryConfig) -> EntryDecompressor | BestOfThreeDecompressor:
    """The decompressor of a mode's entries."""
    return BestOfThreeDecompressor(config) if config.has_parameters else EntryDecompressor(config)
