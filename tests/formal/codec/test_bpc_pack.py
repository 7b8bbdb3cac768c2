"""BPC's codes behind one another, at the widths that ship.

Coders are cut out: their codes are any bits, of any lengths that codes have. A code's place is the
sum of the lengths before it, over all passes of an entry: each piece that codes are joined to is
where its first code is. Of two that are joined, a bit that the solver picks is the OR of what both
have in its place; so is one that leaves, of the last pieces of each pass. As a code has zeros
behind it (`test_bpc_codes.py`), that is the bit of the code that the place belongs to.

Shifters are cut out as well. Of what puts the last pieces in their places no more is known than
that the picked bit is the one which is so many before it in the piece, and nothing in front of the
piece; that shifters do so is a theorem of its own, for every place that a piece may begin at.
"""

import itertools
import math
from functools import reduce
from operator import or_

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.golden.formats.bpc.bpc import MAX_CODE_BITS
from cdma.hw.codec.bpc import compressor
from cdma.hw.codec.bpc.codes import BASE_CODE_BITS, PLANE_CODE_BITS
from cdma.hw.codec.bpc.compressor import PIECES, BpcCompressor
from cdma.hw.codec.entry.compressor import LONGEST_BITS
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench, CutOut
from tests.formal.broken import break_elaborate, break_function, find_fault
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs, widths

SECTORS = [32, 64, 128]


def cut(monkeypatch):
    """Let codes be anything, whatever entries come in."""
    for name in ("PlaneClassifier", "RunFinder", "BaseCoder", "PlaneCoder"):
        made = getattr(compressor, name)
        monkeypatch.setattr(compressor, name, lambda *args, made=made: CutOut(made(*args)))


class Stage:
    """Pieces in registers, and ghosts beside them.

    `starts[q]` is the place of piece q, and of what is behind the last one.
    """

    def __init__(self, inside, names, level):
        self.bits = [inside[f"{name}_bits"] for name in names]
        self.lengths = [inside[f"{name}_length"] for name in names]
        self.valid = inside[f"valid_{level}"]
        self.final = inside[f"final_{level}"]
        self.starts = [
            Signal(range(MAX_CODE_BITS + 1), name=f"place_{level}_{q}")
            for q in range(len(names) + 1)
        ]


class AnyShifted:
    """Any bits in the place of what shifters give.

    `shifted` has what each of them is given, and the bits that it gives, in the order of the RTL.
    """

    def __init__(self):
        self.shifted = []

    def __call__(self, bits, places):
        moved = Signal(LONGEST_BITS, name=f"moved_{len(self.shifted)}")
        self.shifted.append((bits, places, moved))
        return moved

    def state(self, bench, place, last):
        """State of the last ones' bits at a place that they are the pieces' own."""
        for _bits, _places, moved in self.shifted:
            bench.m.d.comb += moved.eq(AnySeq(LONGEST_BITS))
        for bits, places, moved in self.shifted[-last:]:
            bench.assume(moved.bit_select(place, 1) == bit_behind(bits, places, place))


def bit_behind(bits, places, place):
    """The bit at a place, of bits behind so many others; zero where they have not begun."""
    return Mux(place >= places, (bits >> (place - places)[: len(place)])[0], 0)


def pack_proof(sector_bytes, patch, *, bits):
    """Codes are where the lengths before them say; or their bits are, if codes are there."""
    bench = Bench(relies=bits)
    m = bench.m
    block = BpcCompressor(EntryConfig(sector_bytes=sector_bytes), longest_bits=LONGEST_BITS)
    shifters = AnyShifted()
    with patch.context() as patched:
        cut(patched)
        patched.setattr(compressor, "_shifted", shifters)
        # Its own assertions are about the memory of entries.
        inside = bench.add(block, ignored=True)
    bench.drive(block.i)
    bench.watch(block.o)
    advance = inside["advance"]
    place = Signal(range(block.longest_bits))
    m.d.comb += place.eq(AnyConst(len(place)))
    bench.assume(place < block.longest_bits)

    stages = []
    count = block.pass_codes
    names = [f"code_{k}" for k in range(count)]
    for level, many in enumerate([*block.joins, 1]):
        stages.append(Stage(inside, names, level))
        count = -(-count // many)
        name = "piece" if level == len(block.joins) - 1 else f"level_{level}"
        names = [f"{name}_{q}" for q in range(count)]
    codes, *joined = stages
    last = stages[-1]
    shifters.state(bench, place, len(last.bits))

    # Codes: any bits, of lengths that codes have.
    bench.assume(codes.lengths[0] <= BASE_CODE_BITS)
    bench.assume(*(length <= PLANE_CODE_BITS for length in codes.lengths[1:]))
    before = Signal(range(MAX_CODE_BITS + 1))
    m.d.comb += codes.starts[0].eq(before)
    for k, length in enumerate(codes.lengths):
        m.d.comb += codes.starts[k + 1].eq(codes.starts[k] + length)
    # All codes of an entry together are no longer than this; of those beyond the last, none is.
    bench.assume(*(start <= MAX_CODE_BITS for start in codes.starts))
    with m.If(advance & codes.valid):
        m.d.sync += before.eq(Mux(codes.final, 0, codes.starts[-1]))

    # Ghosts go on with what they are of.
    for many, (stage, following) in zip(block.joins, itertools.pairwise(stages), strict=True):
        with m.If(advance):
            for q, start in enumerate(following.starts):
                m.d.sync += start.eq(stage.starts[min(many * q, len(stage.starts) - 1)])
    longest = [BASE_CODE_BITS] + [PLANE_CODE_BITS] * (block.pass_codes - 1)
    for many, stage in zip(block.joins, joined, strict=True):
        longest = [sum(longest[q : q + many]) for q in range(0, len(longest), many)]
        bench.implies(stage.valid, *(start <= MAX_CODE_BITS for start in stage.starts))
        for q, length in enumerate(stage.lengths):
            bench.implies(
                stage.valid,
                length <= longest[q],
                stage.starts[q + 1] == stage.starts[q] + length,
            )

    # Where a pass begins, the one before it ends.
    begins = [before]
    for stage in joined:
        bench.implies(stage.valid, begins[-1] == Mux(stage.final, 0, stage.starts[-1]))
        begins.append(Mux(stage.valid, stage.starts[0], begins[-1]))
    if block.passes > 1:
        bench.require(inside.register("place") == begins[-2])
    else:
        bench.require(before == 0)
        bench.implies(codes.valid, codes.final)
        for stage in joined:
            bench.implies(stage.valid, stage.final, stage.starts[0] == 0)
    for q, start in enumerate(last.starts[:-1]):
        bench.implies(last.valid, inside[f"start_{q}"] == start)
    bench.implies(last.valid, inside.register("length") == last.starts[-1])

    # What leaves.
    one = Signal()
    length = Signal(range(MAX_CODE_BITS + 1))
    is_begun = Signal()
    with m.If(advance & last.valid):
        m.d.sync += [
            one.eq(
                (one & is_begun)
                | reduce(
                    or_,
                    (
                        # As is claimed above, each start is where its piece's first code is.
                        bit_behind(piece, inside[f"start_{q}"], place)
                        for q, piece in enumerate(last.bits)
                    ),
                )
            ),
            length.eq(last.starts[-1]),
            is_begun.eq(~last.final),
        ]
    if block.passes > 1:
        bench.require(inside.register("begins") == ~is_begun)
    else:
        bench.require(~is_begun)
    is_short = length <= block.longest_bits
    bench.implies(block.o.valid, block.o.payload.bits == length)
    if bits:
        packed, data = inside.register("packed"), block.o.payload.data
        # The first bit of a code is the highest of its byte.
        bench.claim(
            ~is_begun | (packed.bit_select(place ^ 7, 1) == one),
            ~(block.o.valid & is_short) | (data.bit_select(place ^ 7, 1) == one),
        )
        bench.reach(block.o.valid & is_short & one & (place == block.longest_bits - 1))
    bench.cover(block.o.valid & ~is_short, block.o.valid & is_short)
    return bench


def pair_proof(first_most, second_most):
    """Two pieces of any bits and lengths, and what they are joined to."""
    bench = Bench()
    m = bench.m
    block = BpcCompressor(EntryConfig(), longest_bits=LONGEST_BITS)
    block._MustUse__used = True
    first, second = pieces = [
        compressor._Piece(most, block.longest_bits, name)
        for most, name in ((first_most, "first"), (second_most, "second"))
    ]
    for piece in pieces:
        m.d.comb += [
            piece.bits.eq(AnyConst(len(piece.bits))),
            piece.length.eq(AnyConst(len(piece.length))),
        ]
        bench.assume(piece.length <= piece.most)
    (joined,) = block._paired(m.d.comb, pieces, "joined")
    place = Signal(range(len(joined.bits)))
    m.d.comb += place.eq(AnyConst(len(place)))
    bench.assume(place < len(joined.bits))
    behind = Mux(
        place >= first.length, second.bits.bit_select((place - first.length)[: len(place)], 1), 0
    )
    bench.require(
        joined.length == first.length + second.length,
        joined.bits.bit_select(place, 1) == (first.bits.bit_select(place, 1) | behind),
    )
    bench.cover((place == len(joined.bits) - 1) & behind)
    return bench


def shift_proof(most):
    """A piece behind any number of others, one by one: its bits, and zeros in front of them."""
    bench = Bench()
    m = bench.m
    bits = Signal(min(most, LONGEST_BITS))
    m.d.comb += bits.eq(AnyConst(len(bits)))
    for start in range(MAX_CODE_BITS + 1):
        places = Signal(range(MAX_CODE_BITS + 1), name=f"places_{start}")
        m.d.comb += places.eq(start)
        moved = compressor._shifted(bits, places)[:LONGEST_BITS]
        bench.require(moved == Cat(Const(0, start), bits, Const(0, LONGEST_BITS))[:LONGEST_BITS])
        if start == LONGEST_BITS - 1:
            bench.cover(moved[-1])
    return bench


PAIRS = [(33, 32), (32, 32), (65, 64), (64, 64), (129, 128), (128, 128), (257, 256), (256, 256)]
"""Bits of what is joined: all that there are at three sizes of sectors."""


def pairs_of(sector_bytes):
    """Bits of the pieces that are joined two by two."""
    block = BpcCompressor(EntryConfig(sector_bytes=sector_bytes), longest_bits=LONGEST_BITS)
    block._MustUse__used = True
    most = [BASE_CODE_BITS] + [PLANE_CODE_BITS] * (block.pass_codes - 1)
    while len(most) > PIECES:
        pairs = [tuple(most[k : k + 2]) for k in range(0, len(most), 2)]
        yield from (pair for pair in pairs if len(pair) == 2)
        most = [sum(pair) for pair in pairs]


def last_pieces_of(sector_bytes):
    """Bits of the pieces that are put in their places."""
    block = BpcCompressor(EntryConfig(sector_bytes=sector_bytes), longest_bits=LONGEST_BITS)
    block._MustUse__used = True
    most = [BASE_CODE_BITS] + [PLANE_CODE_BITS] * (block.pass_codes - 1)
    joined = math.prod(block.joins)
    return [sum(most[k : k + joined]) for k in range(0, len(most), joined)]


LAST_PIECES = [32, 64, 128, 129, 256, 257, 512, 513]
"""Bits of what is put in its place, at three sizes of sectors."""


def test_these_are_all_pairs():
    assert {pair for size in SECTORS for pair in pairs_of(size)} == set(PAIRS)


def test_these_are_all_last_pieces():
    assert {most for size in SECTORS for most in last_pieces_of(size)} == set(LAST_PIECES)


@pytest.mark.verify
@pytest.mark.parametrize("most", LAST_PIECES)
def test_a_piece_is_shifted_to_any_place(most, tmp_path):
    check(shift_proof(most), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"), [("bits << places", "bits << places[:-1]"), ("bits << places", "bits")]
)
def test_a_piece_that_is_shifted_wrongly_is_found(right, wrong, monkeypatch, tmp_path):
    break_function(monkeypatch, compressor, "_shifted", right, wrong)
    find_fault(shift_proof(32), tmp_path, depth=1)


@pytest.mark.parametrize(
    "most", configs({f"{a}-{b}": (a, b) for a, b in PAIRS}, quick=["33-32", "65-64"])
)
def test_a_joined_piece_has_the_second_one_behind_the_first(most, tmp_path):
    check(pair_proof(*most), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("sector_bytes", widths(*SECTORS, quick=[32]))
def test_each_piece_is_where_the_lengths_before_it_say(sector_bytes, monkeypatch, tmp_path):
    prove(pack_proof(sector_bytes, monkeypatch, bits=False), tmp_path, depth=1, cover_depth=14)


@pytest.mark.verify
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sector_bytes", SECTORS)
def test_what_leaves_has_all_pieces_in_their_places(sector_bytes, monkeypatch, tmp_path):
    prove(
        pack_proof(sector_bytes, monkeypatch, bits=True),
        tmp_path,
        depth=1,
        cover_depth=14,
        timeout_s=600,
    )


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("end.eq(place + total(", "end.eq(total("),
        ("length.eq(ends[-1])", "length.eq(ends[-2])"),
        ("place.eq(Mux(final, 0, ends[-1]))", "place.eq(ends[-1])"),
        ("piece.length.eq(first.length + second.length)", "piece.length.eq(first.length)"),
    ],
)
def test_a_piece_in_another_place_is_found(right, wrong, monkeypatch, tmp_path):
    break_elaborate(monkeypatch, BpcCompressor, right, wrong)
    find_fault(pack_proof(32, monkeypatch, bits=False), tmp_path, depth=14)


@pytest.mark.verify
def test_a_second_piece_over_the_first_is_found(monkeypatch, tmp_path):
    right, wrong = "_shifted(second.bits, first.length)", "second.bits"
    break_elaborate(monkeypatch, BpcCompressor, right, wrong)
    find_fault(pair_proof(33, 32), tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("_shifted(piece.bits, start)", "piece.bits"),
        ("joined = _in_bytes(placed)", "joined = placed"),
    ],
    ids=["all at the start", "bits in the other order"],
)
def test_a_bit_in_another_place_is_found(right, wrong, monkeypatch, tmp_path):
    break_elaborate(monkeypatch, BpcCompressor, right, wrong)
    find_fault(pack_proof(128, monkeypatch, bits=True), tmp_path, depth=12)
