"""The decompressor of 128 B entries: see `cdma.golden.buddy.entry`."""

import numpy as np
from amaranth.hdl import C, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, SIZES
from cdma.golden.formats.bpc.bpc import encode_entries
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.decompressor import BpcDecompressor
from cdma.hw.codec.bpc.plane_decoder import BpcPlaneDecoder
from cdma.hw.codec.bpc.step_reader import STEPS
from cdma.hw.codec.bpc.word_builder import BpcWordBuilder
from cdma.hw.codec.entry.checker import EntryChecker, EntryNote, EntryPrechecker
from cdma.hw.codec.entry.payloads import (
    CODE_BYTES,
    ENTRY_BITS,
    EntrySector,
    KeptEntry,
    RestoredSector,
)
from cdma.hw.codec.entry.sectors import PlainSectors
from cdma.hw.config import EntryConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.fork import Fork

_ZEROS = encode_entries(np.zeros(ENTRY_BYTES, np.uint8))


class EntryDecompressor(wiring.Component):
    """Restores a sector per cycle, and finds the first error as `EntryCodec.decode` does.

    BPC codes are decoded as in `BpcDecompressor`. Beside it go the entries of ZVC and those as
    they are, which wait for the others, so that all take as long and none overtakes; what is wrong
    with an entry beside its code is told between the decoder's planes and its words. In place of a
    code that an entry does not have, the decoder is given that of zeros.

    Latency: `entry_latency` = 11 cycles from an entry to its first sector, whatever is kept and
    whatever the sector's size. Throughput: an entry per `sectors` cycles, without bubbles. A
    damaged entry takes as long and leaves nothing behind.

    Resources: a `BpcDecompressor`, a `ZvcDecompressor` if the mode has one, and a memory for the
    sectors under way: 14, 12 or 11 of 32, 64 or 128 B.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    entry_latency : int
        Cycles from an entry to its first sector.

    Members
    -------
    i : `In(stream.Signature(KeptEntry()))`
        With any metadata; what is behind the class's size is not looked at.
    o : `Out(stream.Signature(RestoredSector(config)))`
    """

    entry_latency = BpcDecompressor.entry_latency

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(KeptEntry())),
                "o": Out(stream.Signature(RestoredSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        # Beside the decoder as many entries as are in it when it is stopped, or there would be
        # bubbles after that; two sectors more make up for the memory's latency. For what is behind
        # the decoder there is room in front of the memory.
        decoding = -(-STEPS // config.sectors)
        m.submodules.fork = fork = Fork(KeptEntry(), 3)
        m.submodules.plane_decoder = plane_decoder = BpcPlaneDecoder(config)
        m.submodules.word_builder = word_builder = BpcWordBuilder(config)
        m.submodules.appraiser = appraiser = EntryPrechecker(config)
        m.submodules.notes = notes = Fifo(EntryNote(), decoding)
        m.submodules.judge = judge = EntryChecker(config)
        m.submodules.plain = plain = PlainSectors(config)
        m.submodules.waiting = waiting = Fifo(EntrySector(config), decoding * config.sectors + 2)

        wiring.connect(m, wiring.flipped(self.i), fork.i)
        coded, noted, cut = fork.o
        kept, code = coded.payload, plane_decoder.i.payload
        m.d.comb += [
            plane_decoder.i.valid.eq(coded.valid),
            coded.ready.eq(plane_decoder.i.ready),
            code.data.eq(C(int.from_bytes(_ZEROS.data[0].tobytes(), "little"), ENTRY_BITS)),
            code.size.eq(CODE_BYTES),
        ]
        with m.Switch(kept.metadata):
            for number in range(1, AS_IT_IS):
                with m.Case(number):
                    m.d.comb += [code.data.eq(kept.data), code.size.eq(SIZES[number])]

        wiring.connect(m, noted, appraiser.i)
        wiring.connect(m, appraiser.o, notes.i)
        wiring.connect(m, notes.o, judge.note)
        wiring.connect(m, plane_decoder.o, judge.planes)
        wiring.connect(m, judge.o, word_builder.i)
        wiring.connect(m, cut, plain.i)
        wiring.connect(m, plain.o, waiting.i)

        # Of the two, at least one is zero.
        built, stored, out = word_builder.o.payload, waiting.o.payload, self.o.payload
        m.d.comb += [
            self.o.valid.eq(word_builder.o.valid & waiting.o.valid),
            word_builder.o.ready.eq(self.o.ready & waiting.o.valid),
            waiting.o.ready.eq(self.o.ready & word_builder.o.valid),
            out.data.eq(built.data | Mux(built.status == StreamStatus.OK, stored.data, 0)),
            out.status.eq(built.status),
            out.offset.eq(built.offset),
        ]
        return m
