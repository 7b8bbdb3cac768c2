"""Reconstruction of the words of entries from bases and planes, sector by sector."""

from collections.abc import Sequence
from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES, WORDS
from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.last_step import DecodedPlanes
from cdma.hw.codec.entry.payloads import ENTRY_BITS, STATUS_BITS
from cdma.hw.config import EntryConfig
from cdma.hw.lib.pipeline import PipelineControl


class DecodedSector(data.StructLayout):
    """A sector of an entry that was decoded from its BPC code.

    Members
    -------
    data
        Bytes, the first in the low bits; zeros if the code is bad.
    status, offset, bits
        Those of the whole entry, the same on each of its sectors; see
        `cdma.golden.formats.bpc.decoder.DecodedEntries`.
    """

    def __init__(self, config: EntryConfig) -> None:
        super().__init__(
            {
                "data": 8 * config.sector_bytes,
                "status": STATUS_BITS,
                "offset": range(ENTRY_BYTES + 1),
                "bits": range(MAX_CODE_BITS + 1),
            }
        )


class BpcWordBuilder(wiring.Component):
    """Builds the words and checks that plane 32, the deltas' signs, is theirs.

    Two stages: the prefix sum of base and deltas over spans of 8; the sums over all, and the signs.

    Latency: `entry_latency` = 2 cycles to the first sector. Throughput: a sector per cycle.

    Resources: two entries of registers; 80 adders of 32 bits.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    entry_latency : int
        Cycles from planes to the first sector.

    Members
    -------
    i : `In(stream.Signature(DecodedPlanes()))`
        With any status. BAD_TOKEN at 0 takes the place of those that come behind a whole code:
        NONZERO_FILL and LENGTH_MISMATCH.
    o : `Out(stream.Signature(DecodedSector(config)))`
    """

    entry_latency = 2

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(DecodedPlanes())),
                "o": Out(stream.Signature(DecodedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sectors, sector_bits = self.config.sectors, 8 * self.config.sector_bytes
        given = self.i.payload

        # Stage 1: planes to deltas, and sums over 8 of them.
        m.submodules.summed = control = PipelineControl()
        summed = [Signal(32, name=f"summed_{i}", reset_less=True) for i in range(WORDS)]
        summed_signs = Signal(DELTAS, reset_less=True)
        summed_falls = Signal(DELTAS, reset_less=True)
        summed_status = Signal(STATUS_BITS, reset_less=True)
        summed_offset = Signal.like(given.offset, name="summed_offset", reset_less=True)
        summed_bits = Signal.like(given.bits, name="summed_bits", reset_less=True)

        planes = [given.planes.word_select(p, DELTAS) for p in range(PLANES)]
        terms: list[Value] = [given.base]
        for i in range(DELTAS):
            delta = Signal(32, name=f"delta_{i}")
            m.d.comb += delta.eq(Cat(planes[p][i] for p in range(32)))
            terms.append(delta)
        for span in (1, 2, 4):
            terms = _joined_sums(m, terms, span)
        m.d.comb += [control.i_valid.eq(self.i.valid), self.i.ready.eq(control.i_ready)]
        with m.If(control.load):
            m.d.sync += [
                *(reg.eq(term) for reg, term in zip(summed, terms, strict=True)),
                summed_signs.eq(planes[32]),
                summed_falls.eq(planes[31]),
                summed_status.eq(given.status),
                summed_offset.eq(given.offset),
                summed_bits.eq(given.bits),
            ]

        # Stage 2: all sums, and whether the signs fit. Two words of the same sign are as far apart
        # as 32 bits can tell; of others, the negative one is less.
        words: list[Value] = list(summed)
        for span in (8, 16):
            words = _joined_sums(m, words, span)
        falls = Signal(DELTAS)
        m.d.comb += falls.eq(
            Cat(
                Mux(low[31] == high[31], summed_falls[i], high[31])
                for i, (low, high) in enumerate(pairwise(words))
            )
        )
        unlike = Signal()
        whole = Signal()
        m.d.comb += [
            whole.eq(
                (summed_status == StreamStatus.OK)
                | (summed_status == StreamStatus.NONZERO_FILL)
                | (summed_status == StreamStatus.LENGTH_MISMATCH)
            ),
            unlike.eq(whole & (falls != summed_signs)),
        ]

        left = Signal(range(sectors + 1))
        entry = Signal(ENTRY_BITS, reset_less=True)
        status = Signal(STATUS_BITS, reset_less=True)
        offset = Signal.like(given.offset, name="offset", reset_less=True)
        bits = Signal.like(given.bits, name="bits", reset_less=True)
        m.d.comb += control.o_ready.eq((left == 0) | ((left == 1) & self.o.ready))
        with m.If(control.o_ready):
            m.d.sync += [
                left.eq(Mux(control.o_valid, sectors, 0)),
                entry.eq(Cat(words)),
                status.eq(Mux(unlike, StreamStatus.BAD_TOKEN, summed_status)),
                offset.eq(Mux(unlike, 0, summed_offset)),
                bits.eq(summed_bits),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += [left.eq(left - 1), entry.eq(entry >> sector_bits)]

        out = self.o.payload
        m.d.comb += [
            self.o.valid.eq(left != 0),
            out.data.eq(Mux(status == StreamStatus.OK, entry[:sector_bits], 0)),
            out.status.eq(status),
            out.offset.eq(offset),
            out.bits.eq(bits),
        ]
        return m


def _joined_sums(m: Module, sums: Sequence[Value], span: int) -> list[Value]:
    """Sklansky's prefix sum, one level: from sums within spans to those within twice as many."""
    wider = list(sums)
    for i in range(len(sums)):
        if i & span:
            below = (i & ~(2 * span - 1)) + span - 1
            total = Signal(32, name=f"sum_{2 * span}_{i}")
            m.d.comb += total.eq(sums[below] + sums[i])
            wider[i] = total
    return wider
