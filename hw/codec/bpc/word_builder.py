"""Reconstruction of the words of entries from bases and planes, sector by sector."""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add

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

    Two stages: sums of base and deltas within groups of four and over the groups of each half; the
    sums over all, and the signs.

    Latency: `entry_latency` = 2 cycles to the first sector. Throughput: a sector per cycle.

    Resources: two entries of registers; 50 adders of 32 bits and 47 rows of full adders.

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

        # Stage 1: planes to deltas, and sums of these.
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
        terms = _group_sums(m, terms)
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
        words = _whole_sums(m, summed)
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


_GROUP = 4
_GROUPS = WORDS // _GROUP


def _group_sums(m: Module, terms: Sequence[Value]) -> list[Value]:
    """Sums over the terms of each group up to each word, and of some groups over more.

    A group's last word has the sum of all groups of its half of the entry up to it; the last group
    of a half has its own alone.
    """
    sums: list[Value] = []
    joined: list[Value] = []
    for first in range(0, WORDS, _GROUP):
        last = first + _GROUP - 1
        group = terms[first : last + 1]
        sums.append(group[0])
        for k in range(1, _GROUP - 1):
            sums.append(_sum_of(m, [sums[-1], group[k]], f"sum_{first + k}"))
        if last % (WORDS // 2) in (_GROUP - 1, WORDS // 2 - 1):
            joined = []
        # Of all groups at once: one behind the other, their full adders would be in a row.
        joined += _carry_save(m, group, f"group_{last}")
        sums.append(_sum_of(m, joined, f"sum_{last}"))
    return sums


def _whole_sums(m: Module, sums: Sequence[Value]) -> list[Value]:
    """Sums over all terms up to each word, from those of `_group_sums`."""
    totals = sums[_GROUP - 1 :: _GROUP]
    half = _GROUPS // 2
    words: list[Value] = []
    for group in range(_GROUPS):
        # What the group starts from: a sum that is there, or up to three.
        before: list[Value] = []
        if 0 < group < half:
            before = [totals[group - 1]]
        elif group >= half:
            before = [totals[half - 2], totals[half - 1], *totals[max(half, group - 1) : group]]
            before = _carry_save(m, before, f"before_{group}")
        is_joined = group not in (half - 1, _GROUPS - 1)
        for word in range(_GROUP * group, _GROUP * (group + 1)):
            added = before
            if word % _GROUP == _GROUP - 1 and is_joined:
                # The sum of all of this half is there.
                added = [totals[half - 2], totals[half - 1]] if group >= half else []
            words.append(_sum_of(m, [sums[word], *added], f"word_{word}"))
    return words


def _sum_of(m: Module, terms: Sequence[Value], name: str) -> Signal:
    """A sum of 32 bits; of more than two terms with full adders before the last addition."""
    total = Signal(32, name=name)
    m.d.comb += total.eq(reduce(add, _carry_save(m, terms, name)))
    return total


def _carry_save(m: Module, terms: Sequence[Value], name: str) -> list[Value]:
    """No more than two terms of the same sum: full adders make two terms of three."""
    left = list(terms)
    while len(left) > 2:
        a, b, c = left[:3]
        odd = Signal(32, name=f"{name}_odd_{len(left)}")
        carry = Signal(32, name=f"{name}_carry_{len(left)}")
        m.d.comb += [odd.eq(a ^ b ^ c), carry.eq((a & b | (a ^ b) & c) << 1)]
        left = [*left[3:], odd, carry]
    return left
