"""Bit-plane compression of entries (Kim et al., ISCA 2016; Buddy Compression, §2.4).

The code is specified by `cdma.golden.formats.bpc.bpc`.
"""

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import PLANES
from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS, RAW_BITS
from cdma.hw.codec.bpc.codes import BASE_CODE_BITS, PLANE_CODE_BITS, BaseCoder, PlaneCoder
from cdma.hw.codec.bpc.planes import PlaneClassifier, PlaneSymbol, RunFinder, columns_of
from cdma.hw.codec.entry.payloads import ENTRY_BITS, EntryCode, EntrySector
from cdma.hw.config import EntryConfig
from cdma.hw.lib.count import total
from cdma.hw.lib.ram import Ram

CODES = 1 + PLANES
"""Codes of an entry: the base's, number 0, and those of planes 32 to 0; some are empty."""
PASSES = {1: 1, 2: 2, 4: 3}
"""Cycles in which an entry's codes go through the coders and the packer, by sectors per entry."""
PIECES = 3
"""Pieces of code that are put in their places in one cycle."""


class BpcCompressor(wiring.Component):
    """Compresses a sector per cycle.

    Stages:

    1. subtract neighboring words;
    2. classify the planes, a sector's columns at a time, and find the runs of zeros with the last;
    3. make codes of the symbols, all of an entry in 1, 2 or 3 passes;
    4. join the codes of a pass by four and then two by two, a stage for each time, until three
       pieces are left;
    5. put the pieces in their places, which the lengths before them make.

    Entries wait in a memory beside the pipeline, for those whose code is too long. All stages
    advance together, whenever the code at the end leaves or there is none.

    Latency: a code is valid `entry_latency` cycles after the entry's first sector was accepted, if
    its sectors were accepted in consecutive cycles: 10, 8 and 7 cycles for sectors of 32, 64 and
    128 B. Throughput: a sector per cycle while `o` is ready.

    Resources: for sectors of n words, n subtracters of 33 bits and 33 classifiers of n columns;
    coders and a packer for 12, 17 or 34 codes; three shifters as wide as the code; registers for
    the planes of two entries (one where a sector is an entry), and a memory of some entries.

    Parameters
    ----------
    config : EntryConfig
    longest_bits : int
        Codes that are longer are of no use, 1 to 1,024.

    Attributes
    ----------
    entry_latency : int
        Cycles from an entry's first sector to its code.

    Members
    -------
    i : `In(stream.Signature(EntrySector(config)))`
    o : `Out(stream.Signature(EntryCode()))`
        If the code is longer than `longest_bits`, the data is the entry as it is.
    """

    def __init__(self, config: EntryConfig, *, longest_bits: int = RAW_BITS) -> None:
        self.config = config
        self.longest_bits = longest_bits
        self.passes = PASSES[config.sectors]
        self.pass_codes = -(-CODES // self.passes)
        # How many are joined at once. The first codes are short, and shifters of them shallow.
        self.joins = [4]
        while -(-self.pass_codes // math.prod(self.joins)) > PIECES:
            self.joins.append(2)
        # A cycle each for deltas, planes, codes and places.
        self.entry_latency = config.sectors - 1 + self.passes - 1 + len(self.joins) + 4
        super().__init__(
            {
                "i": In(stream.Signature(EntrySector(config))),
                "o": Out(stream.Signature(EntryCode())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        passes = self.passes

        advance = Signal()
        done = Signal()
        m.d.comb += [
            advance.eq(self.o.ready | ~done),
            self.i.ready.eq(advance),
            self.o.valid.eq(done),
        ]

        planes = self._classified(m, advance)

        # Stage 3: the planes stay for the passes of their entry.
        number = Signal(range(passes))
        final = Signal()
        m.d.comb += final.eq(number == passes - 1 if passes > 1 else 1)
        with m.If(advance):
            with m.If(planes.complete):
                m.d.sync += [planes.valid.eq(1), number.eq(0)]
            with m.Elif(final):
                m.d.sync += planes.valid.eq(0)
            with m.Else():
                m.d.sync += number.eq(number + 1)
        with m.If(advance & planes.complete & planes.valid):
            m.d.sync += Assert(final)

        codes = self._coded(m, advance, planes, number)
        moves = [(planes.valid, final)]
        for level in range(1 + len(self.joins)):
            moving = (Signal(name=f"valid_{level}"), Signal(name=f"final_{level}", reset_less=True))
            with m.If(advance):
                m.d.sync += [own.eq(last) for own, last in zip(moving, moves[-1], strict=True)]
            moves.append(moving)

        # Stage 4. In the last level, the places of the pieces become known, too.
        *joins, last_join = self.joins
        for level, many in enumerate(joins):
            codes = self._joined(m, advance, codes, many, f"level_{level}")
        valid, final = moves[-2]
        place = Signal(range(MAX_CODE_BITS + 1))
        pieces = self._joined(m, advance, codes, last_join, "piece")
        ends = [Signal(range(MAX_CODE_BITS + 1), name=f"end_{k}") for k in range(len(pieces))]
        starts = [
            Signal.like(end, name=f"start_{k}", reset_less=True) for k, end in enumerate(ends)
        ]
        length = Signal.like(place, reset_less=True)
        m.d.comb += [
            end.eq(place + total([code.length for code in codes[: last_join * (k + 1)]]))
            for k, end in enumerate(ends)
        ]
        with m.If(advance):
            m.d.sync += [
                *(own.eq(end) for own, end in zip(starts, [place, *ends[:-1]], strict=True)),
                length.eq(ends[-1]),
            ]
            if passes > 1:
                with m.If(valid):
                    m.d.sync += place.eq(Mux(final, 0, ends[-1]))
        entry = self._entry(m, advance, leaves=valid & final)

        # Stage 5. What is beyond the longest code's end falls off.
        valid, final = moves[-1]
        placed = Signal(self.longest_bits)
        packed = Signal(ENTRY_BITS, reset_less=True)
        packed_length = Signal.like(length, reset_less=True)
        too_long = Signal()
        shifted = [_shifted(piece.bits, start) for piece, start in zip(pieces, starts, strict=True)]
        m.d.comb += [
            placed.eq(functools.reduce(operator.or_, shifted)),
            too_long.eq(length > self.longest_bits),
        ]
        joined = _in_bytes(placed)
        if passes > 1:
            begins = Signal(init=1)
            joined = Mux(begins, 0, packed) | joined
            with m.If(advance & valid):
                m.d.sync += begins.eq(final)
        with m.If(advance):
            m.d.sync += done.eq(valid & final)
        with m.If(advance & valid):
            m.d.sync += [
                packed.eq(Mux(final & too_long, entry, joined)),
                packed_length.eq(length),
            ]
        m.d.comb += [self.o.payload.data.eq(packed), self.o.payload.bits.eq(packed_length)]
        return m

    def _classified(self, m: Module, advance: Signal) -> "_Planes":
        """Stages 1 and 2: an entry's planes."""
        sectors = self.config.sectors
        columns = columns_of(self.config)
        words = self.i.payload.data.word_select
        sector = [words(k, 32) for k in range(self.config.sector_bytes // 4)]

        # Stage 1.
        slice_valid = Signal()
        slice_index = Signal(range(sectors), reset_less=True)
        deltas = [Signal(PLANES, name=f"delta_{k}", reset_less=True) for k in range(columns)]
        base = Signal(32, reset_less=True)
        pairs = list(itertools.pairwise(sector))
        differences = [after.as_signed() - before.as_signed() for before, after in pairs]
        i_fire = Signal()
        m.d.comb += i_fire.eq(advance & self.i.valid)
        with m.If(advance):
            m.d.sync += slice_valid.eq(self.i.valid)
        if sectors == 1:
            complete = slice_valid
            with m.If(i_fire):
                m.d.sync += base.eq(sector[0])
        else:
            index = Signal(range(sectors))
            last_word = Signal(32, reset_less=True)
            complete = Signal()
            first = Signal()
            m.d.comb += [
                first.eq(index == 0),
                complete.eq(slice_valid & (slice_index == sectors - 1)),
            ]
            # Column 0 of the first slice is void.
            across = sector[0].as_signed() - last_word.as_signed()
            differences.insert(0, Mux(first, 0, across))
            with m.If(i_fire):
                m.d.sync += [
                    index.eq(index + 1),
                    slice_index.eq(index),
                    last_word.eq(sector[-1]),
                ]
                with m.If(first):
                    m.d.sync += base.eq(sector[0])
        with m.If(i_fire):
            m.d.sync += [d.eq(value) for d, value in zip(deltas, differences, strict=True)]

        # Stage 2. The base is still that of this entry, as the next one's first word is only just
        # coming in.
        m.submodules.runs = runs = RunFinder()
        m.submodules.base = base_coder = BaseCoder()
        m.d.comb += base_coder.base.eq(base)
        planes = _Planes(complete)
        above: Value = C(0, columns)
        for k in range(PLANES):
            plane = Signal(columns, name=f"plane_{k}")
            m.submodules[f"classifier_{k}"] = classifier = PlaneClassifier(self.config)
            m.d.comb += [
                plane.eq(Cat(delta[PLANES - 1 - k] for delta in deltas)),
                classifier.plane.eq(plane),
                classifier.above.eq(above),
                runs.zero[k].eq(classifier.symbol.zero),
            ]
            if sectors > 1:
                m.d.comb += [
                    classifier.index.eq(slice_index),
                    classifier.take.eq(advance & slice_valid),
                ]
            above = plane
            with m.If(advance & complete):
                m.d.sync += [
                    planes.symbols[k].eq(classifier.symbol),
                    planes.last[k].eq(runs.last[k]),
                ]
        with m.If(advance & complete):
            m.d.sync += [
                planes.base_code.eq(base_coder.code),
                planes.base_length.eq(base_coder.length),
            ]
        return planes

    def _coded(
        self, m: Module, advance: Signal, planes: "_Planes", number: Signal
    ) -> list["_Piece"]:
        """Stage 3: the codes of a pass, which are those from `number * pass_codes` on."""
        base = _Piece(BASE_CODE_BITS, RAW_BITS, "code_0")
        codes = [base]
        with m.If(advance):
            m.d.sync += [base.bits.eq(planes.base_code), base.length.eq(planes.base_length)]
        for k in range(self.pass_codes):
            numbers = [n * self.pass_codes + k for n in range(self.passes)]
            if numbers == [0]:
                continue
            m.submodules[f"coder_{k}"] = coder = PlaneCoder()
            with m.Switch(number):
                for n, own in enumerate(numbers):
                    with m.Case(n) if self.passes > 1 else m.Default():
                        if 0 < own < CODES:
                            m.d.comb += [
                                coder.number.eq(own),
                                coder.symbol.eq(planes.symbols[own - 1]),
                                coder.run_ends.eq(~planes.symbols[own].zero if own < PLANES else 1),
                                coder.last.eq(planes.last[own - 1]),
                            ]
                        else:
                            # As inside a run: no code.
                            m.d.comb += coder.symbol.zero.eq(1)
            piece = base
            if k > 0:
                piece = _Piece(PLANE_CODE_BITS, RAW_BITS, f"code_{k}")
                codes.append(piece)
            # The base stands in place of the first pass's code 0.
            with m.If(advance & (number != 0) if k == 0 else advance):
                m.d.sync += [piece.bits.eq(coder.code), piece.length.eq(coder.length)]
        return codes

    def _joined(
        self, m: Module, advance: Signal, pieces: Sequence["_Piece"], many: int, name: str
    ) -> list["_Piece"]:
        """So many neighbors each, 2 or 4, behind one another; after a cycle."""
        if many > 2:
            pieces = self._paired(m.d.comb, pieces, f"{name}_half")
        with m.If(advance):
            joined = self._paired(m.d.sync, pieces, name)
        return joined

    def _paired(self, domain: Any, pieces: Sequence["_Piece"], name: str) -> list["_Piece"]:
        """Each two neighbors behind one another."""
        paired = []
        for k in range(0, len(pieces), 2):
            first, *others = pieces[k : k + 2]
            most = sum(piece.most for piece in (first, *others))
            piece = _Piece(most, self.longest_bits, f"{name}_{k // 2}")
            paired.append(piece)
            if others:
                (second,) = others
                bits = first.bits | _shifted(second.bits, first.length)
                domain += [piece.bits.eq(bits), piece.length.eq(first.length + second.length)]
            else:
                domain += [piece.bits.eq(first.bits), piece.length.eq(first.length)]
        return paired

    def _entry(self, m: Module, advance: Signal, *, leaves: Value) -> Signal:
        """Keep the entries in the pipeline, and return the one in stage 5."""
        sectors = self.config.sectors
        sector_bits = 8 * self.config.sector_bytes
        # As many as come in from an entry's first sector until it leaves.
        depth = 1 << ((self.entry_latency - 2) // sectors).bit_length()
        entry = Signal(ENTRY_BITS)
        into = Signal(range(depth))
        out_of = Signal(range(depth))
        i_fire = Signal()
        m.d.comb += i_fire.eq(advance & self.i.valid)
        with m.If(advance & leaves):
            m.d.sync += out_of.eq(out_of + 1)
        part = Signal(range(sectors))
        begins = Signal()
        ends = Signal()
        m.d.comb += [
            begins.eq(i_fire & (part == 0 if sectors > 1 else 1)),
            ends.eq(i_fire & (part == sectors - 1 if sectors > 1 else 1)),
        ]
        with m.If(i_fire & ~ends):
            m.d.sync += part.eq(part + 1)
        with m.If(ends):
            m.d.sync += [part.eq(0), into.eq(into + 1)]
        for k in range(sectors):
            m.submodules[f"entries_{k}"] = kept = Ram(sector_bits, depth)
            m.d.comb += [
                kept.write_enable.eq(i_fire & (part == k) if sectors > 1 else i_fire),
                kept.write_address.eq(into),
                kept.write_data.eq(self.i.payload.data),
                kept.read_enable.eq(advance),
                kept.read_address.eq(out_of),
                entry.word_select(k, sector_bits).eq(kept.read_data),
            ]
        # None is written over.
        held = Signal(range(depth + 1))
        m.d.sync += held.eq(held + begins - (advance & leaves))
        with m.If(begins):
            m.d.sync += Assert(held != depth)
        return entry


class _Planes:
    """An entry's planes, registered when `complete`, and the base's code."""

    def __init__(self, complete: Signal) -> None:
        self.complete = complete
        self.valid = Signal(name="planes_valid")
        self.base_code = Signal(BASE_CODE_BITS, reset_less=True)
        self.base_length = Signal(range(BASE_CODE_BITS + 1), reset_less=True)
        self.symbols = [
            Signal(PlaneSymbol(), name=f"symbol_{k}", reset_less=True) for k in range(PLANES)
        ]
        self.last = [
            Signal(range(PLANES), name=f"last_{k}", reset_less=True) for k in range(PLANES)
        ]


class _Piece:
    """Codes in a row in a register: `most` bits or less, of which `longest` are of use."""

    def __init__(self, most: int, longest: int, name: str) -> None:
        self.most = most
        self.bits = Signal(min(most, longest), name=f"{name}_bits", reset_less=True)
        self.length = Signal(range(most + 1), name=f"{name}_length", reset_less=True)


def _shifted(bits: Value, places: Value) -> Value:
    """Bits behind so many others."""
    return bits << places


def _in_bytes(bits: Signal) -> Value:
    """Convert words in sending order to bytes, the first one in the low bits."""
    return Cat(bits[k ^ 7] for k in range(len(bits)))
