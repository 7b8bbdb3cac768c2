"""The unpacker at the shapes that ship: as in `test_pack.py`, of an element that the solver picks.

The slots are anything that keeps to what `test_wide_slots.py` has proven of them, and what picks
the second line is cut out (`behind_proof`). What a head announces is what its words tell, whatever
that is: the proof does not depend on the codec.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.packets import FollowedPacket, UnpackerPorts
from tests.formal.codec.test_pack import counted_beats, pair_rules
from tests.formal.codec.test_zvc import BeatPosition
from tests.formal.codec.wide_slots import AnySlots, PromisedSlots
from tests.formal.lines import SHIPPED, TINY
from tests.formal.parts import prove_part
from tests.formal.rules import LineRules, received_rules
from tests.formal.smtbmc import check
from tests.lib.shares import configs

UNPACK = Unpacker.__module__

KINDS = {"alone": (1, 1), "pairs": (2, 1), "wide": (2, 2)}
"""Lines per cycle, and line beats."""


@dataclass(frozen=True)
class CutBehind:
    """The network that picks the second line's words, cut out.

    Attributes
    ----------
    follows : sequence of Value
        The words behind the first line's head.
    announced : Value
        Elements of the first line.
    behind : sequence of Signal
        Whatever is picked.
    """

    follows: Sequence[Value]
    announced: Value
    behind: Sequence[Signal]

    def place_of(self, place: Value) -> Value:
        """The word that has to be at a place, by its number behind the first line's head."""
        width = len(self.follows) + len(self.behind)
        return (place + self.announced)[: width.bit_length()]

    def picks(self, place: Value) -> Value:
        """The theorem: at a place is the word so far behind those that the first line announces."""
        return at(self.behind, place) == at(self.follows, self.place_of(place))


def cut_behind(patch: pytest.MonkeyPatch) -> list[CutBehind]:
    """Put a stand-in in the place of `Unpacker._behind`; each is listed as it is made."""
    cuts: list[CutBehind] = []

    def stand_in(
        unpacker: Unpacker, m: Module, follows: Sequence[Value], announced: Value, shown: int
    ) -> list[Value]:
        behind = [Signal(len(follows[0]), name=f"any_behind_{i}") for i in range(shown)]
        m.d.comb += [word.eq(AnySeq(len(word))) for word in behind]
        cuts.append(CutBehind(list(follows), announced, behind))
        return list(behind)

    patch.setattr(Unpacker, "_behind", stand_in)
    return cuts


def control_of(beat) -> Value:
    """A line beat but for its elements."""
    return Cat(beat.count, beat.sol, beat.eol, beat.last, beat.empty, beat.truncation)


def wide_unpacker_proof(
    bench: Bench, config: CodecConfig, kind: tuple[int, int], patch: pytest.MonkeyPatch
) -> None:
    """Any beats: their elements in order, cut as their heads announce; of one that is picked."""
    lanes, element_bits = config.lanes, 8 * config.element_bytes
    m = bench.m
    patch.setattr(f"{UNPACK}.ElementSlots", AnySlots)
    cuts = cut_behind(patch)
    lines_per_cycle, chunk_beats = kind
    unpacker = Unpacker(config, lines_per_cycle=lines_per_cycle, chunk_beats=chunk_beats)
    inside = bench.add(unpacker)
    slots = inside.component("slots")
    head = slots.head_elements
    promised = PromisedSlots(bench, slots)
    same, ahead = promised.same, promised.ahead

    command = bench.drive(unpacker.command)
    outside = bench.drive(unpacker.i, received_rules(config.sector_bytes))
    if unpacker.counts_apart:
        i = counted_beats(bench, config, inside, outside, counts=False)
        register = inside.component("counting")
        coming = register.i.payload.elements
        bench.require(slots.beat.as_value() == register.o.payload.elements.as_value())
    else:
        i, coming = outside, slots.beat
    for k in range(lanes):
        its = coming[k][:element_bits]
        bench.require(its == outside.payload.data.word_select(k, element_bits))
    tail = bench.watch(unpacker.tail)

    def announced_by_first(_mask: Value) -> Value:
        return Mux(inside["packet_empty"], 0, slots.announced)

    line_rules = LineRules(config, damaged=True, announces=announced_by_first)

    def is_whole(beat) -> Value:
        return beat.sol & ~beat.empty & (beat.truncation != Truncation.MASK)

    m.d.comb += unpacker.o.ready.eq(AnySeq(1))
    offered = unpacker.o.payload
    wide = chunk_beats == 2
    if lines_per_cycle == 1:
        first, paired, second_ends = offered, Const(0), Const(0)
        last, rules = first.last, line_rules
        control = control_of(first)
    else:
        first, second, paired = offered.first, offered.second, offered.paired
        second_ends = second.eol
        last = first.last | second.last
        control = Cat(control_of(first), paired, control_of(second))
        rules = pair_rules(
            config, line_rules, wide=wide, announces=lambda _mask: inside["second_announced"]
        )
        bench.implies(unpacker.o.valid & paired, unpacker.second == second)
    # Elements stay, as each is that of its number, and as many are given.
    position = BeatPosition(unpacker.o.valid, unpacker.o.ready, control)
    o = bench.observe(position, offered, rules)
    if lines_per_cycle == 2:
        was_paired = Signal()
        m.d.sync += was_paired.eq(paired)
        bench.require(inside["waits_alone"] == (o.waiting & ~was_paired))

    ports = UnpackerPorts(command, outside, i, o, tail, first, paired, second_ends, last)
    packet = FollowedPacket(bench, inside, ports)
    closed, done = packet.closed, packet.done

    def claim_given(
        there: Value,
        beat,
        begins: Value,
        heads: Value,
        announced: Value,
        steps: Callable[[Value, Value], Iterator[Value]] = lambda place, element: iter(()),
    ) -> Value:
        """Ask for the picked element in its place of a beat; returns where the next one begins.

        `steps` are those towards it, from its place and what is given there.
        """
        place = (ahead - begins)[: len(ahead)]
        here = there & same & (ahead >= begins)
        words = [beat.mask.word_select(k, element_bits) for k in range(head)]
        elements = [beat.elements[k] for k in range(lanes)]
        given = (place - heads)[: len(ahead)]
        bench.implies(here & (place < heads), at(words, place) == promised.value)
        bench.implies(here & (heads != 0) & (place == 0), announced == promised.length)
        element = at(elements, given)
        bench.implies(
            here & (place >= heads) & (given < beat.count),
            element == promised.value,
            by=list(steps(place, element)),
        )
        return begins + heads + beat.count

    first_heads = Mux(is_whole(first), head, 0)
    count = claim_given(o.valid, first, Const(0), first_heads, slots.announced)
    if lines_per_cycle == 2:
        (cut,) = cuts
        behind = (ahead - count)[: len(ahead)]
        bench.assume(~(paired & (behind < len(cut.behind))) | cut.picks(behind))

        def steps_behind(place: Value, element: Value) -> Iterator[Value]:
            """It is behind the first line, stands there, and is what was picked."""
            yield first.count == cut.announced
            yield cut.place_of(place) == (ahead - first_heads)[: len(cut.place_of(place))]
            yield at(cut.follows, cut.place_of(place)) == promised.value
            yield element == at(cut.behind, place)

        own = inside["second_announced"]
        both = claim_given(o.valid & paired, second, count, Const(head), own, steps_behind)
        count = Mux(paired, both, count)
    promised.leaves(Mux(o.moves, count, 0), tail.moves)
    bench.require(slots.clear == tail.moves)

    packet.holds(config, line_rules, promised.came == 0, ~promised.partial, ~promised.dropped)
    bench.implies(promised.partial, closed)
    bench.implies(promised.dropped, done)
    bench.implies(~closed & ~done, ~promised.partial)
    packet.goes_on(config)


def parts_of(name: str, kind: str) -> int:
    """So many parts make each proof short enough; of the widest, a quarter as much is in each."""
    shown = SHIPPED[name].lanes * KINDS[kind][1]
    return max(shown // (32 if shown <= 128 else 8), 1)


PIECES = {"E1-S128-wide-9": 6}
"""Parts that are too much for a solver at once, and in how many pieces they are."""

Shape = tuple[CodecConfig, tuple[int, int], dict[str, int]]
"""A configuration, lines and beats, and which part of how many, and which piece."""


def shapes() -> Iterator[tuple[str, Shape]]:
    """Each proof's name, and what it is of."""
    for (name, config), kind in product(SHIPPED.items(), KINDS):
        parts = parts_of(name, kind)
        for part in range(parts):
            own = f"{name}-{kind}-{part}"
            pieces = PIECES.get(own, 1)
            for piece in range(pieces):
                share = {"part": part, "parts": parts, "piece": piece, "pieces": pieces}
                yield own if pieces == 1 else f"{own}-{piece}", (config, KINDS[kind], share)


SHAPES = dict(shapes())


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_unpacker_gives_a_picked_element_of_any_stream(shape, tmp_path, monkeypatch):
    config, kind, share = shape

    def proof(bench: Bench) -> None:
        wide_unpacker_proof(bench, config, kind, monkeypatch)

    prove_part(proof, tmp_path, **share, timeout_s=1200)


def behind_proof(config: CodecConfig, chunk_beats: int) -> Bench:
    """The second line is picked as a stand-in is said to pick it; a bit of each is enough."""
    bench = Bench()
    unpacker = Unpacker(config, lines_per_cycle=2, chunk_beats=chunk_beats)
    # It is not elaborated.
    unpacker._MustUse__used = True
    head, lanes = unpacker.codec.head_bytes(config) // config.element_bytes, config.lanes
    shown = chunk_beats * (lanes + head)
    follows = [Signal(name=f"follows_{i}") for i in range(shown - head)]
    announced, place = Signal(range(config.elements + 1)), Signal(range(shown))
    for free in (*follows, announced, place):
        bench.m.d.comb += free.eq(AnyConst(len(free)))
    picked = lanes if chunk_beats == 1 else lanes + head
    behind = unpacker._behind(bench.m, follows, announced, picked)
    # More of the first line, and no second one fits.
    bench.assume(place < picked, announced <= (lanes if chunk_beats == 2 else lanes - head))
    bench.require(CutBehind(follows, announced, behind[:picked]).picks(place))
    bench.cover((announced == lanes - head) & (place == head - 1) & at(behind, place))
    return bench


BEHIND = {
    f"{name}-{chunk_beats}": (config, chunk_beats)
    for name, config in SHIPPED.items()
    for chunk_beats in (1, 2)
}


@pytest.mark.parametrize("shape", configs(BEHIND, quick=()))
def test_stand_ins_of_what_picks_the_second_line_are_right(shape, tmp_path):
    check(behind_proof(*shape), tmp_path, depth=1, cover_depth=1)


FAULTS = {
    "gives a line too many": ("& ~(packet.lines_left.is_zero | packet.lines_left.is_one)", ""),
    "pairs what it has offered alone": ("paired.eq(fits & ~waits_alone)", "paired.eq(fits)"),
    "gives a line that is not all there": ("(count[:bits] <= rest if most else 1)", "1"),
    "reads the first line alone": ("reads_both.eq(paired)", "reads_both.eq(0)"),
    "stores behind the lines": ("kept.eq(beat_fire & ~drops)", "kept.eq(beat_fire)"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_unpacker_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, Unpacker, *fault)
    bench = Bench()
    wide_unpacker_proof(bench, TINY, KINDS["pairs"], monkeypatch)
    find_fault(bench, tmp_path, depth=10)


@pytest.mark.verify
def test_second_line_that_is_picked_a_word_too_far_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, Unpacker, "distance = 1 << k", "distance = 1 + k")
    find_fault(behind_proof(SHIPPED["E4-S32"], 1), tmp_path, depth=1)
