"""The packer at the shapes that ship: as in `test_pack.py`, of an element in a picked lane.

What is packed moves by whole beats, so an element stays in its lane from the cycle in which it
lands on. The solver picks a lane, and an element by its number: if it lands in that lane, it is
followed. As any lane and any element may have been picked, it stands for all of them. The networks
that turn what comes in are cut out (`lane_theorems.py`).
"""

from collections.abc import Sequence

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.stream.pack import ElementPacker, Packer
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, Condition, CutOut, Port, anything
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at, cut_turns
from tests.formal.codec.test_pack import packed_elements
from tests.formal.codec.test_zvc import BeatPosition
from tests.formal.lines import SHIPPED, TINY
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs

PACKER = ElementPacker.__module__


class FollowedElements:
    """A sequence of elements and marks behind packets, of which the solver picks one by its number.

    Attributes
    ----------
    index : Signal
        Where among those that come the picked one is.
    ahead : Signal
        How many are to leave before the picked one, if it has come.
    is_mark : Signal
        It is a mark.
    has_lane : Signal
        It has landed in the picked lane.
    value : Signal
        The picked element, if it has.
    """

    def __init__(self, bench: Bench, element_bits: int, count_bits: int) -> None:
        self.bench = bench
        self.came = Signal(count_bits, name="followed_came")
        self.left = Signal(count_bits, name="followed_left")
        self.picked = Signal(count_bits, name="followed_number")
        self.index = Signal(count_bits, name="followed_index")
        self.ahead = Signal(count_bits, name="followed_ahead")
        self.is_mark = Signal(name="followed_is_mark")
        self.has_lane = Signal(name="followed_has_lane")
        self.value = Signal(element_bits, name="followed_value")
        bench.m.d.comb += [
            self.picked.eq(AnyConst(count_bits)),
            self.index.eq(self.picked - self.came),
            self.ahead.eq(self.picked - self.left),
        ]

    def comes(self, count: Value, last: Value, has_lane: Value, value: Value) -> None:
        """So many come, and a mark if they are the last; lane and value are of that at `index`."""
        m = self.bench.m
        with m.If(self.index < count):
            m.d.sync += [
                self.is_mark.eq(0),
                self.has_lane.eq(has_lane),
                self.value.eq(value),
            ]
        with m.Elif((self.index == count) & last):
            m.d.sync += self.is_mark.eq(1)
        m.d.sync += self.came.eq(self.came + count + last)

    def leaves(self, count: Value, last: Value) -> None:
        """So many leave, and a mark if they are the last."""
        self.bench.m.d.sync += self.left.eq(self.left + count + last)


def wide_packer_proof(
    bench: Bench,
    config: CodecConfig,
    chunk_beats: int,
    picked: range,
    patch: pytest.MonkeyPatch,
) -> None:
    """Any chunks: their elements in order, packet by packet; of one of some lanes."""
    lanes, element_bits = config.lanes, 8 * config.element_bytes
    lane_bits = (lanes - 1).bit_length()
    m = bench.m
    cuts = cut_turns(patch, PACKER)
    packer = ElementPacker(config, chunk_beats=chunk_beats)
    inside = bench.add(packer)
    lane = Signal(lane_bits, name="picked_lane")
    own = Signal(range(len(picked)), name="picked_own")
    m.d.comb += [own.eq(AnyConst(len(own))), lane.eq(picked.start + own)]

    def in_lane(words: Sequence[Value]) -> Value:
        """The picked lane's of these words, one for each lane; 0 where there are too few."""
        return at(words[picked.start : picked.stop] or [Const(0, element_bits)], own)

    # Of each group of lanes that comes in, the element that is turned to the picked lane.
    capacity = chunk_beats * (lanes + config.head_elements)
    chunk = packer.i.payload
    offset = inside["offset"][:lane_bits]
    source = Signal(lane_bits, name="picked_source")
    m.d.comb += source.eq(lane - offset)
    turned: list[Value] = []
    for g in range(-(-capacity // lanes)):
        word = Signal(element_bits, name=f"picked_of_{g}")
        if g < len(cuts):
            # By `turns` that in `source`. Nothing else looks at the group, whose elements are free:
            # so is any one of them.
            m.d.comb += word.eq(AnySeq(element_bits))
            bench.assume(in_lane(cuts[g].lanes_out) == word)
            bench.require(cuts[g].amount == offset)
        else:
            m.d.comb += word.eq(Mux(source == 0, chunk.elements[g * lanes], 0))
        turned.append(word)

    def chunk_rules(_bench: Bench, port: Port) -> list[Condition]:
        count = port.payload.count
        return [
            (Const(1), count <= capacity),
            *((count <= g * lanes + source, word == 0) for g, word in enumerate(turned)),
        ]

    i = bench.drive(packer.i, chunk_rules)
    count = Mux(i.moves, i.payload.count, 0)

    packed = packed_elements(inside)
    column: list[Value] = []
    for first in range(0, len(packed), lanes):
        word = Signal(element_bits, name=f"picked_packed_{first}")
        m.d.comb += word.eq(in_lane(packed[first : first + lanes]))
        column.append(word)
    fill, ending, rest = inside["fill"], inside["ending"], inside["rest"]

    out = packer.o.payload
    m.d.comb += packer.o.ready.eq(AnySeq(1))
    elements_out = [out.data.word_select(k, element_bits) for k in range(lanes)]
    seen = Signal(element_bits, name="seen")
    m.d.comb += seen.eq(in_lane(elements_out))
    given = Signal(range(lanes + 1), name="given")
    m.d.comb += given.eq(out.size // config.element_bytes)

    def beat_rules(_bench: Bench, port: Port) -> list[Condition]:
        return [
            (Const(1), out.size <= config.sector_bytes),
            (Const(1), out.size % config.element_bytes == 0),
            (~out.last, out.size == config.sector_bytes),
            (given <= lane, seen == 0),
        ]

    position = BeatPosition(packer.o.valid, packer.o.ready, Cat(seen, out.size, out.last))
    o = bench.observe(position, out, beat_rules)

    followed = FollowedElements(bench, element_bits, (len(packed) + 1).bit_length() + 1)
    followed.comes(
        count,
        i.moves & i.payload.last,
        (rest + followed.index)[:lane_bits] == lane,
        at(turned, followed.index >> lane_bits),
    )
    followed.leaves(Mux(o.moves, given, 0), o.moves & out.last)
    ahead = followed.ahead
    bench.require((followed.left + fill + ending)[: len(followed.came)] == followed.came)
    bench.implies(
        ahead < fill,
        ~followed.is_mark,
        followed.has_lane == (ahead[:lane_bits] == lane),
        ~followed.has_lane | (at(column, ahead >> lane_bits) == followed.value),
    )
    bench.implies(ending & (ahead == fill), followed.is_mark)
    bench.implies(
        o.valid & (ahead < given),
        ~followed.is_mark,
        followed.has_lane == (ahead == lane),
        ~followed.has_lane | (seen == followed.value),
    )
    bench.implies(o.valid & out.last & (ahead == given), followed.is_mark)

    bench.require(fill <= len(packed))
    for c, word in enumerate(column):
        bench.implies(fill <= c * lanes + lane, word == 0)
    # Whoever is outside is willing: then something moves at once.
    bench.implies(i.valid & o.ready, i.ready | o.valid)
    bench.cover(
        o.moves & out.last & (out.size == 0),
        o.moves & out.last & (out.size == config.sector_bytes),
        i.moves & (i.payload.count == capacity) & (fill > lanes),
        o.moves & followed.has_lane & (ahead == lane) & (seen != 0) & (lane != 0),
    )


LANES_AT_ONCE = 16
"""The solver is quick to decide a few lanes at a time, and slow to decide all at once."""

SHAPES = {
    f"{name}-{chunk_beats}-{first}": (
        config,
        chunk_beats,
        range(first, min(first + LANES_AT_ONCE, config.lanes)),
    )
    for name, config in SHIPPED.items()
    for chunk_beats in (1, 2)
    for first in range(0, config.lanes, LANES_AT_ONCE)
}
"""In chunks of one beat or two, for lanes from the last number on."""


@pytest.mark.parametrize("shape", configs(SHAPES, quick=()))
def test_packer_gives_a_followed_element_of_any_chunk_in_order(shape, tmp_path, monkeypatch):
    bench = Bench()
    wide_packer_proof(bench, *shape, patch=monkeypatch)
    prove(bench, tmp_path, depth=1)


def head_proof(config: CodecConfig, patch: pytest.MonkeyPatch) -> Bench:
    """The chunk of a line beat is its mask and its payload; the elements' packer does the rest."""
    patch.setattr(f"{PACKER}.ElementPacker", lambda config: CutOut(ElementPacker(config)))
    bench = Bench()
    packer = Packer(config)
    inside = bench.add(packer)
    bench.m.d.comb += [*anything(packer.i), packer.o.ready.eq(AnySeq(1))]
    line = packer.i.payload
    bench.assume(line.truncation == Truncation.NONE, line.count <= config.lanes)
    elements = inside.component("elements")
    chunk = elements.i.payload
    bits, heads = 8 * config.element_bytes, config.head_elements
    masked = line.sol & ~line.empty
    head = [line.mask.word_select(k, bits) for k in range(heads)]
    payload = [line.elements[k] for k in range(config.lanes)]
    bench.require(
        elements.i.valid == packer.i.valid,
        packer.i.ready == elements.i.ready,
        Cat(packer.o.valid, packer.o.payload) == Cat(elements.o.valid, elements.o.payload),
        elements.o.ready == packer.o.ready,
        chunk.last == line.last,
        chunk.count == line.count + Mux(masked, heads, 0),
    )
    for k, word in enumerate([*head, *payload]):
        bench.implies(masked, chunk.elements[k] == word)
    for k, word in enumerate([*payload, *(Const(0, bits) for _ in head)]):
        bench.implies(~masked, chunk.elements[k] == word)
    bench.cover(masked & (chunk.count == config.lanes + heads), ~masked & (chunk.count != 0))
    return bench


@pytest.mark.parametrize("config", configs(SHIPPED, quick=()))
def test_packer_puts_the_mask_before_the_payload(config, tmp_path, monkeypatch):
    check(head_proof(config, monkeypatch), tmp_path, depth=1, cover_depth=1)


FAULTS = {
    "lands where the packet began": ("group, offset[:lane_bits]", "group, 0 * offset[:lane_bits]"),
    "lands round the end of the ring": ("lands[1].eq((ahead ^ ~upper)", "lands[1].eq(upper"),
    "keeps what has left": ("Mux(sent, stays, word)", "word"),
    "ends with the next packet": ("(fill <= lanes)", "1"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_packer_with_a_fault_is_found(fault, tmp_path, monkeypatch):
    break_elaborate(monkeypatch, ElementPacker, *fault)
    bench = Bench()
    wide_packer_proof(bench, TINY, 2, range(TINY.lanes), monkeypatch)
    find_fault(bench, tmp_path, depth=8)


@pytest.mark.verify
def test_packer_that_forgets_the_head_of_an_empty_line_is_found(tmp_path, monkeypatch):
    break_elaborate(monkeypatch, Packer, "masked.eq(beat.sol & ~beat.empty)", "masked.eq(beat.sol)")
    find_fault(head_proof(TINY, monkeypatch), tmp_path, depth=1)
