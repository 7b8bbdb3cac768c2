"""Decompression of BPC codes (Kim et al., ISCA 2016; Buddy Compression, §2.4)."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.bpc.plane_decoder import BpcPlaneDecoder, SizedCode
from cdma.hw.codec.bpc.step_reader import STEPS
from cdma.hw.codec.bpc.word_builder import BpcWordBuilder, DecodedSector
from cdma.hw.config import EntryConfig


class BpcDecompressor(wiring.Component):
    """Decompresses a sector per cycle, and finds the first error of damaged codes.

    Codes are read four at a time, in `STEPS` cycles; words are built and checked in two more.

    Latency: `entry_latency` = 11 cycles from a code to its entry's first sector, whatever the
    sector's size; the paper's figure (Buddy Compression, §3.5). Throughput: an entry per `sectors`
    cycles, without bubbles. A damaged code takes as long and leaves nothing behind.

    Resources: those of its two parts.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    entry_latency : int
        Cycles from a code to its entry's first sector.

    Members
    -------
    i : `In(stream.Signature(SizedCode()))`
    o : `Out(stream.Signature(DecodedSector(config)))`
    """

    entry_latency = STEPS + BpcWordBuilder.entry_latency

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(SizedCode())),
                "o": Out(stream.Signature(DecodedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.plane_decoder = plane_decoder = BpcPlaneDecoder(self.config)
        m.submodules.word_builder = word_builder = BpcWordBuilder(self.config)
        wiring.connect(m, wiring.flipped(self.i), plane_decoder.i)
        wiring.connect(m, plane_decoder.o, word_builder.i)
        wiring.connect(m, word_builder.o, wiring.flipped(self.o))
        return m
