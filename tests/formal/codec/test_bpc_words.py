"""BPC's deltas give back the words of an entry, and a good code's signs are never refused.

The decoder adds up a base and 31 deltas in two networks of carry-save adders. As one formula, that
their 32 sums are the words is too much for a solver; it is four theorems instead:

- full adders: the two words that `_carry_save` makes of more have the same sum, modulo 2^32;
- networks: each adder gives what it is there for, a difference of two of the words or a word, if
  its terms are what their adders are there for; two words that `_carry_save` makes are any two of
  the right sum, so this holds whatever way the sum is split;
- deltas: the low 32 bits of a delta, as the compressor takes it, are that difference, and its sign
  follows from its bit 31 and the signs of the two words;
- component: with any words in the place of the sums, `BpcWordBuilder` gives them sector by sector,
  and refuses an entry for its signs if and only if plane 32 is not theirs.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq, Assign

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES, WORDS
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc import word_builder
from cdma.hw.codec.bpc.word_builder import BpcWordBuilder
from cdma.hw.config import EntryConfig
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, break_function, find_fault
from tests.formal.parts import prove_part
from tests.formal.smtbmc import check, prove

TERMS = (1, 2, 3, 4, 6)
"""Numbers of terms that the networks' carry-save adders have."""

GROUP, HALF = 4, WORDS // 2
"""Words whose sums are taken together, and those of a half, whose groups' sums are joined."""


def any_words(m: Module, count: int, name: str) -> list[Signal]:
    """Words of any value that stays."""
    words = [Signal(32, name=f"{name}_{k}") for k in range(count)]
    m.d.comb += [word.eq(AnyConst(32)) for word in words]
    return words


def sum_of(m: Module, terms: Sequence[Value], name: str) -> Signal:
    """The sum of all terms modulo 2^32, one after the other."""
    total = Signal(32, name=name)
    m.d.comb += total.eq(reduce(add, terms)[:32])
    return total


def full_adders_proof() -> Bench:
    """Three words become two of the same sum; of more words, three at a time do."""
    bench = Bench()
    m = bench.m
    words = any_words(m, max(TERMS), "word")
    two = word_builder._carry_save(m, words[:3], "three")
    assert len(two) == 2
    bench.require(sum_of(m, two, "sum_of_two") == sum_of(m, words[:3], "sum_of_three"))
    for many in TERMS:
        left = words[:many]
        while len(left) > 2:
            left = [*left[3:], *word_builder._carry_save(m, left[:3], f"own_{len(left)}_of_{many}")]
        together = word_builder._carry_save(m, words[:many], f"of_{many}")
        bench.require(Cat(together) == Cat(left))
    bench.cover(two[1] != 0)
    return bench


def networks_proof(patch: pytest.MonkeyPatch) -> Bench:
    """The sums over the deltas of any 32 words are the words.

    Each adder gives the difference of two of the words that it is there for, or a word. The adders
    behind it are given that difference, not a sum, so that no formula is about more than one of
    them; a carry-save adder gives any two words of the right sum.
    """
    bench = Bench()
    m = bench.m
    words = any_words(m, WORDS, "own")
    add_up = word_builder._sum_of

    def due(name: str) -> Value:
        kind, number = name.split("_")
        k = int(number)
        if kind == "word":
            return words[k]
        if kind == "before":
            return words[GROUP * k - 1]
        ends_groups = kind == "sum" and k % GROUP == GROUP - 1 and k % HALF != HALF - 1
        first = k - k % (HALF if ends_groups else GROUP)
        return (words[k] - words[first - 1])[:32] if first else words[k]

    def claim(total: Value, name: str) -> Value:
        bench.require(total == due(name))
        return due(name)

    def any_two(m: Module, terms: Sequence[Value], name: str) -> list[Value]:
        assert len(terms) in TERMS
        if len(terms) <= 2:
            return list(terms)
        total: Value = sum_of(m, terms, f"{name}_terms")
        if name.startswith(("group_", "before_")):
            total = claim(total, name)
        odd = Signal(32, name=f"{name}_any_odd")
        carry = Signal(32, name=f"{name}_any_carry")
        m.d.comb += [odd.eq(AnyConst(32)), carry.eq((total - odd)[:32])]
        return [odd, carry]

    patch.setattr(word_builder, "_carry_save", any_two)
    patch.setattr(
        word_builder, "_sum_of", lambda m, terms, name: claim(add_up(m, terms, name), name)
    )
    deltas = [Signal(32, name=f"own_delta_{i}") for i in range(DELTAS)]
    m.d.comb += [
        delta.eq((high - low)[:32])
        for delta, (low, high) in zip(deltas, pairwise(words), strict=True)
    ]
    sums = word_builder._group_sums(m, [words[0], *deltas])
    built = word_builder._whole_sums(m, sums)
    assert len(sums) == len(built) == WORDS
    bench.require(*(ours == word for ours, word in zip(built, words, strict=True)))
    bench.cover(words[WORDS - 1] == 1)
    return bench


def sign_of(low: Value, high: Value, fall: Value) -> Value:
    """The sign of two words' delta; `fall` is its bit 31.

    A negative word is less than one that is not; two of the same sign are near enough for 32 bits.
    """
    return Mux(low[31] ^ high[31], high[31], fall)


def deltas_proof() -> Bench:
    """A delta, as the compressor takes it, gives its second word back, and its sign is `sign_of`'s.

    Its low 32 bits are the words' difference modulo 2^32, which the networks' theorem is about.
    """
    bench = Bench()
    m = bench.m
    low, high = any_words(m, 2, "word")
    delta = Signal(PLANES)
    m.d.comb += delta.eq(high.as_signed() - low.as_signed())
    bench.require(
        delta[:32] == (high - low)[:32],
        (low + delta[:32])[:32] == high,
        delta[32] == (high.as_signed() < low.as_signed()),
        delta[32] == sign_of(low, high, delta[31]),
    )
    bench.cover(delta[32] & ~delta[31], ~delta[32] & delta[31], delta[32] & delta[31], delta == 1)
    return bench


class OwnEntry:
    """An entry that is followed: what came in, and what has to go out."""

    def __init__(self, m: Module, given: Any) -> None:
        self.words = [Signal(32, name=f"own_{k}") for k in range(WORDS)]
        self.falls = Signal(DELTAS, name="own_falls")
        self.signs = Signal(DELTAS, name="own_signs")
        self.given_status = Signal.like(given.status, name="own_given_status")
        self.given_offset = Signal.like(given.offset, name="own_given_offset")
        self.bits = Signal.like(given.bits, name="own_bits")
        self.refused = Signal(name="own_refused")
        self.status = Signal.like(given.status, name="own_status")
        self.offset = Signal.like(given.offset, name="own_offset")
        whole = (StreamStatus.OK, StreamStatus.NONZERO_FILL, StreamStatus.LENGTH_MISMATCH)
        signs = Cat(
            sign_of(low, high, fall)
            for (low, high), fall in zip(pairwise(self.words), self.falls, strict=True)
        )
        m.d.comb += [
            self.refused.eq(
                Cat(self.given_status == status for status in whole).any() & (self.signs != signs)
            ),
            self.status.eq(Mux(self.refused, StreamStatus.BAD_TOKEN, self.given_status)),
            self.offset.eq(Mux(self.refused, 0, self.given_offset)),
        ]

    def load(self, words: Sequence[Value], planes: Sequence[Value], given: Any) -> list[Assign]:
        """It comes in now."""
        return [
            *(own.eq(word) for own, word in zip(self.words, words, strict=True)),
            self.falls.eq(planes[31]),
            self.signs.eq(planes[32]),
            self.given_status.eq(given.status),
            self.given_offset.eq(given.offset),
            self.bits.eq(given.bits),
        ]


def builder_proof(bench: Bench, config: EntryConfig, patch: pytest.MonkeyPatch) -> None:
    """Each entry that comes in goes out in order, sector by sector, as soon as the sink lets it.

    An entry is followed by its number among those that came, modulo 4: it is the last of that
    number that came in, and no more than two are inside. The words stand for the sums of their
    deltas, in the registers between the networks, too. They come with any planes: that the sums
    of planes 31 to 0 are these words is the networks' theorem, and no part of this one.
    """
    m = bench.m
    words = [Signal(32, name=f"given_{k}") for k in range(WORDS)]
    m.d.comb += [word.eq(AnySeq(32)) for word in words]
    terms: list[Value] = []

    def group_sums(_m: Module, of: Sequence[Value]) -> list[Value]:
        terms.extend(of)
        return list(words)

    patch.setattr(word_builder, "_group_sums", group_sums)
    patch.setattr(word_builder, "_whole_sums", lambda _m, sums: list(sums))
    builder = BpcWordBuilder(config)
    inside = bench.add(builder)
    given, out = builder.i.payload, builder.o.payload
    i_port = bench.drive(builder.i)
    o_port = bench.watch(builder.o)

    # The networks sum up the base and the deltas: bit p of each is in plane p.
    planes = [given.planes.word_select(p, DELTAS) for p in range(PLANES)]
    bench.require(terms[0] == given.base)
    for i, term in enumerate(terms[1:]):
        bench.require(term == Cat(planes[p][i] for p in range(32)))

    number = Signal(2, name="number")
    came, went = Signal(2, name="came"), Signal(2, name="went")
    sector = Signal(range(config.sectors), name="sector")
    own = OwnEntry(m, given)
    m.d.comb += number.eq(AnyConst(2))
    with m.If(i_port.moves):
        m.d.sync += came.eq(came + 1)
        with m.If(came == number):
            m.d.sync += own.load(words, planes, given)
    with m.If(o_port.moves):
        m.d.sync += sector.eq(sector + 1)
        with m.If(sector == config.sectors - 1):
            m.d.sync += [sector.eq(0), went.eq(went + 1)]

    left, held = inside["left"], inside["summed.held_valid"]
    shown = left != 0
    bench.require(
        left <= config.sectors,
        builder.o.valid == shown,
        (came - went)[:2] == held + shown,
        sector == Mux(shown, config.sectors - left, 0)[: len(sector)],
    )
    bench.implies(
        held & ((came - 1)[:2] == number),
        *(inside[f"summed_{k}"] == word for k, word in enumerate(own.words)),
        inside["summed_falls"] == own.falls,
        inside["summed_signs"] == own.signs,
        inside["summed_status"] == own.given_status,
        inside["summed_offset"] == own.given_offset,
        inside["summed_bits"] == own.bits,
    )
    is_out = Signal(name="is_out")
    m.d.comb += is_out.eq(shown & (went == number))
    bits = 8 * config.sector_bytes
    data = Cat(own.words)
    for many in range(1, config.sectors + 1):
        kept = inside["entry"][: many * bits] == data[-many * bits :]
        bench.implies(is_out & (left == many), kept)
    is_good = own.status == StreamStatus.OK
    bench.implies(
        is_out,
        out.data == Mux(is_good, data.word_select(sector, bits), 0),
        out.status == own.status,
        out.offset == own.offset,
        out.bits == own.bits,
    )
    last = sector == config.sectors - 1
    bench.cover(
        is_out & last & is_good & (out.data != 0),
        is_out & last & own.refused,
        is_out & last & ~is_good & ~own.refused,
        is_out & held,
    )


BUILDER_PARTS = 4
"""Parts of the induction about the component, where one is too much."""


def test_carry_save_adders_keep_the_sum(tmp_path):
    check(full_adders_proof(), tmp_path, depth=1, cover_depth=1)


def test_sums_of_the_deltas_of_any_words_are_the_words(tmp_path, monkeypatch):
    check(networks_proof(monkeypatch), tmp_path, depth=1, cover_depth=1)


def test_delta_of_two_words_gives_back_the_second_and_its_sign(tmp_path):
    check(deltas_proof(), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
@pytest.mark.parametrize("sector_bytes", [32, 128])
def test_builder_gives_any_entry_in_order_and_refuses_wrong_signs(
    sector_bytes, tmp_path, monkeypatch
):
    bench = Bench()
    builder_proof(bench, EntryConfig(sector_bytes=sector_bytes), monkeypatch)
    prove(bench, tmp_path, depth=1, cover_depth=8)


@pytest.mark.verify
@pytest.mark.parametrize("part", list(range(BUILDER_PARTS)))
def test_builder_does_so_in_two_sectors(part, tmp_path, monkeypatch):
    def proof(bench):
        builder_proof(bench, EntryConfig(sector_bytes=64), monkeypatch)

    prove_part(proof, tmp_path, part, parts=BUILDER_PARTS)


@pytest.mark.verify
@pytest.mark.parametrize(
    "fault",
    [
        ("a & b | (a ^ b) & c) << 1", "a & b | (a ^ b) & c)"),
        ("a & b | (a ^ b) & c", "a & b | a & c"),
        ("[*left[3:], odd, carry]", "[*left[4:], odd, carry]"),
    ],
)
def test_carry_save_adder_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_function(monkeypatch, word_builder, "_carry_save", *fault)
    find_fault(full_adders_proof(), tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    "fault",
    [
        ("_group_sums", "_carry_save(m, group, ", "_carry_save(m, group[1:], "),
        ("_group_sums", "[sums[-1], group[k]]", "[sums[-1], group[k - 1]]"),
        ("_whole_sums", "totals[half - 1], *totals", "totals[half - 2], *totals"),
        ("_whole_sums", "(half - 1, _GROUPS - 1)", "(_GROUPS - 1,)"),
    ],
)
def test_network_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_function(monkeypatch, word_builder, *fault)
    find_fault(networks_proof(monkeypatch), tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    "fault",
    [
        # The sign of the wrong word.
        ("summed_falls[i], high[31])", "summed_falls[i], low[31])"),
        ("summed_falls.eq(planes[31])", "summed_falls.eq(planes[30])"),
        ("Cat(planes[p][i] for p in range(32))", "Cat(planes[p][i] for p in range(1, 33))"),
        ("entry >> sector_bits", "entry"),
        ("(left == 1) & self.o.ready", "(left == 1)"),
    ],
)
def test_builder_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, BpcWordBuilder, *fault)
    bench = Bench()
    builder_proof(bench, EntryConfig(sector_bytes=64), monkeypatch)
    find_fault(bench, tmp_path, depth=5)
