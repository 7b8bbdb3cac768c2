"""Packing: the elements of the lines, nothing else, in order, and back; whatever the stream holds.

Both directions are held to one picture: a transfer is a sequence of elements, mask elements and
payload elements alike. The rules of `LineBeat` say how lines are cut from it, in one way only, so
that unpacking restores the line beats that were packed.
"""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.stream.pack import ElementPacker, Packer
from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from tests.formal.bench import Bench, Condition, Inside, Port, Rules
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.packets import FollowedPacket, UnpackerPorts
from tests.formal.codec.slots import StraightSlots
from tests.formal.lines import NARROW, TINY, WITH_SHIPPED
from tests.formal.order import Order, Run, one
from tests.formal.rules import LineRules, beat_rules, minimum, received_rules
from tests.formal.smtbmc import prove
from tests.lib.shares import configs


def line_elements(config: CodecConfig, moves: Value, beat) -> list[Run]:
    """A line beat's mask and payload elements."""
    bits = 8 * config.element_bytes
    masked = beat.sol & ~beat.empty & (beat.truncation != Truncation.MASK)
    mask = [beat.mask[j * bits : (j + 1) * bits] for j in range(config.mask_elements)]
    return [
        Run(Mux(moves & masked, config.mask_elements, 0), mask),
        Run(Mux(moves, beat.count, 0), [beat.elements[i] for i in range(config.lanes)]),
    ]


def beat_elements(config: CodecConfig, moves: Value, beat) -> list[Run]:
    """A byte beat's whole elements."""
    bits = 8 * config.element_bytes
    elements = [beat.data.word_select(i, bits) for i in range(config.lanes)]
    return [Run(Mux(moves, beat.size // config.element_bytes, 0), elements)]


def marked(runs: list[Run], end: Value) -> list[Run]:
    """Elements, and behind them a mark if the transfer ends."""
    bits = len(runs[0].items[0])
    plain = [
        Run(run.count, [Value.cast(item) | Const(0, bits + 1) for item in run.items])
        for run in runs
    ]
    return [*plain, one(end, Const(1 << bits, bits + 1))]


def packed_elements(inside: Inside, prefix: str = "") -> list[Signal]:
    """The packer's registers of elements, in their order."""
    count = sum(name.startswith(f"{prefix}packed_") for name in inside.signals)
    return [inside[f"{prefix}packed_{j}"] for j in range(count)]


def packer_proof(config: CodecConfig, packer: Packer) -> Bench:
    lanes = config.lanes
    bench = Bench()
    inside = bench.add(packer)
    line_rules = LineRules(config, damaged=False)
    i = bench.drive(packer.i, line_rules)
    o = bench.watch(packer.o, beat_rules(config.sector_bytes))
    fill, ending = inside["elements.fill"], inside["elements.ending"]
    packed = packed_elements(inside, "elements.")

    order = Order(bench, 8 * config.element_bytes + 1, count_bits=(len(packed) + 1).bit_length())
    order.comes(*marked(line_elements(config, i.moves, i.payload), i.moves & i.payload.last))
    order.leaves(*marked(beat_elements(config, o.moves, o.payload), o.moves & o.payload.last))
    order.on_the_way(*marked([Run(fill, packed)], ending))
    bench.require(fill <= len(packed))
    bench.implies(line_rules.inside, line_rules.left != 0)
    for j, element in enumerate(packed):
        bench.implies(fill <= j, element == 0)
    bench.implies(o.valid, o.payload.size % config.element_bytes == 0)
    # Whoever is outside is willing: then something moves at once.
    bench.implies(i.valid & o.ready, i.ready | o.valid)
    bench.cover(
        o.moves & o.payload.last & (o.payload.size == 0),
        o.moves & o.payload.last & (o.payload.size == config.sector_bytes),
        i.moves & o.moves & (fill > lanes),
    )
    return bench


@pytest.mark.parametrize("config", configs(WITH_SHIPPED, quick=()))
def test_packer_gives_the_elements_in_order(config, tmp_path):
    prove(packer_proof(config, Packer(config)), tmp_path, depth=1)


def chunk_packer_proof(config: CodecConfig, packer: ElementPacker) -> Bench:
    """Chunks of any number of elements, whatever lines they are of."""
    bench = Bench()
    inside = bench.add(packer)
    capacity = packer.chunk_beats * (config.lanes + config.head_elements)

    def chunk_rules(bench: Bench, port: Port) -> list[Condition]:
        chunk = port.payload
        return [
            (Const(1), chunk.count <= capacity),
            *((chunk.count <= j, chunk.elements[j] == 0) for j in range(capacity)),
        ]

    i = bench.drive(packer.i, chunk_rules)
    o = bench.watch(packer.o, beat_rules(config.sector_bytes))
    fill, ending = inside["fill"], inside["ending"]
    packed = packed_elements(inside)
    order = Order(bench, 8 * config.element_bytes + 1, count_bits=(len(packed) + 1).bit_length())
    chunk = [i.payload.elements[j] for j in range(capacity)]
    order.comes(*marked([Run(Mux(i.moves, i.payload.count, 0), chunk)], i.moves & i.payload.last))
    order.leaves(*marked(beat_elements(config, o.moves, o.payload), o.moves & o.payload.last))
    order.on_the_way(*marked([Run(fill, packed)], ending))
    bench.require(fill <= len(packed))
    for j, element in enumerate(packed):
        bench.implies(fill <= j, element == 0)
    bench.implies(o.valid, o.payload.size % config.element_bytes == 0)
    bench.implies(i.valid & o.ready, i.ready | o.valid)
    # A chunk is taken whenever no more than a beat would wait behind the one that leaves.
    bench.implies(~ending & (fill < 2 * config.lanes) & (i.payload.count != 0), i.ready)
    bench.cover(
        o.moves & o.payload.last & (o.payload.size == 0),
        i.moves & (i.payload.count == capacity) & (fill == 2 * config.lanes - 1),
    )
    return bench


WIDE = {
    **{name: NARROW[name] for name in ("4x2", "2x4")},
    "2x8": CodecConfig(element_bytes=1, sector_bytes=2, line_bytes=16),
}
"""The others stay undecided for ten minutes. The last one's head is as long as a beat, so that four
beats leave the unpacker's slots at a time."""


@pytest.mark.parametrize("config", configs(NARROW, quick=()))
def test_packer_gives_the_elements_of_chunks_of_two_beats_in_order(config, tmp_path):
    packer = ElementPacker(config, chunk_beats=2)
    prove(chunk_packer_proof(config, packer), tmp_path, depth=1, cover_depth=8)


def pair_rules(
    config: CodecConfig,
    line_rules: LineRules,
    *,
    wide: bool,
    announces: Callable[[Value], Value] = count_ones,
) -> Rules:
    """`LinePair`: a line beat, and what may be paired with it is a whole line.

    In chunks of two beats it is a line's first beat, behind another one's last. What its mask
    announces is as for `LineRules`.
    """

    def rules(bench: Bench, port: Port) -> list[Condition]:
        first, second = port.payload.first, port.payload.second
        paired = port.payload.paired
        announced = announces(second.mask)
        count = minimum(announced, config.lanes)
        whole = [
            second.sol,
            ~second.empty & (second.truncation == Truncation.NONE),
            second.count == (count if wide else announced),
            second.eol == ((announced <= config.lanes) if wide else 1),
            second.eol | ~second.last,
        ]
        of_first = line_rules(bench, replace(port, payload=first))
        with bench.m.If(port.moves & paired):
            bench.m.d.sync += [
                line_rules.inside.eq(~second.eol),
                line_rules.left.eq(announced - second.count),
            ]
        return [
            *of_first,
            *((paired, condition) for condition in whole),
            (paired, first.eol & ~first.last & ~first.empty),
            *([] if wide else [(paired, first.sol)]),
            (~paired, (second.mask == 0) & (second.count == 0) & ~second.last),
            *((second.count <= i, second.elements[i] == 0) for i in range(config.lanes)),
        ]

    return rules


def counted_beats(
    bench: Bench, config: CodecConfig, inside: Inside, i: Port, *, counts: bool = True
) -> Port:
    """The beats as the unpacker's slots get them: those that have come in, but for the last one.

    Where ones are counted in a cycle of their own, the register is a queue (`test_buffers.py`), and
    takes nothing behind a packet's last beat. It may be left to others whether `counts` are right.
    """
    element_bits = 8 * config.element_bytes
    register = inside.component("counting").o
    beat = register.payload
    words = [beat.elements[k] for k in range(config.lanes)]
    payload = SimpleNamespace(
        data=Cat(word[:element_bits] for word in words),
        size=beat.size,
        last=beat.last,
        framing_error=beat.framing_error,
    )
    arriving = bench.observe(register, payload, received_rules(config.sector_bytes))
    for word in words if counts else ():
        bench.implies(arriving.valid, word[element_bits:] == count_ones(word[:element_bits]))
    active, ended = inside["packet.active"], inside["packet.ended"]
    bench.implies(arriving.valid, active & ~ended)
    bench.require(inside["last_taken"] == (ended | (arriving.valid & beat.last)))
    bench.implies(i.valid & i.ready, active & ~inside["last_taken"])
    return arriving


def unpacker_proof(config: CodecConfig, unpacker: Unpacker) -> Bench:
    lanes = config.lanes
    bench = Bench()
    m = bench.m
    inside = bench.add(unpacker)
    line_rules = LineRules(config, damaged=True)
    command = bench.drive(unpacker.command)
    outside = bench.drive(unpacker.i, received_rules(config.sector_bytes))
    i = counted_beats(bench, config, inside, outside) if unpacker.counts_apart else outside
    tail = bench.watch(unpacker.tail)
    slots = sum(name.startswith("slots.slot_") for name in inside.signals)
    word_bits = len(inside["slots.slot_0"]) // lanes
    words = [
        inside[f"slots.slot_{s}"].word_select(k, word_bits)
        for s in range(slots)
        for k in range(lanes)
    ]
    elements = [word[: 8 * config.element_bytes] for word in words]
    if unpacker.lines_per_cycle == 1:
        o = bench.watch(unpacker.o, line_rules)
        first, paired, second_ends = o.payload, Const(0), Const(0)
        runs = line_elements(config, o.moves, first)
        last = first.last
    else:
        wide = unpacker.chunk_beats == 2
        o = bench.watch(unpacker.o, pair_rules(config, line_rules, wide=wide))
        first, second, paired = o.payload.first, o.payload.second, o.payload.paired
        second_ends = second.eol
        runs = [
            *line_elements(config, o.moves, first),
            *line_elements(config, o.moves & paired, second),
        ]
        last = first.last | second.last
        was_paired = Signal()
        m.d.sync += was_paired.eq(paired)
        bench.require(inside["waits_alone"] == (o.waiting & ~was_paired))
        bench.implies(o.valid & paired, unpacker.second == second)
        most = lanes if wide else lanes - config.mask_elements
        if wide and config.sectors > 1:
            bench.cover(o.moves & paired & ~first.sol & ~second.eol)
        bench.cover(o.moves & paired & second.last, o.moves & paired & (second.count == most))
    for word, element in zip(words, elements, strict=True):
        bench.require(word[len(element) :] == count_ones(element))
    level, start = inside["slots.level"], inside["slots.start"]
    held_count = inside["slots.held_count"]

    ports = UnpackerPorts(command, outside, i, o, tail, first, paired, second_ends, last)
    packet = FollowedPacket(bench, inside, ports)
    closed, done = packet.closed, packet.done

    # What is given out is what came in, from the packet's start up to its end or a tear.
    room = slots * lanes
    order = Order(bench, 8 * config.element_bytes, count_bits=room.bit_length())
    order.comes(*beat_elements(config, i.moves & ~closed & ~done, i.payload))
    order.leaves(*runs)
    order.on_the_way(Run(level, elements, start))
    order.restart(tail.moves)

    packet.holds(config, line_rules, held_count == 0, start == 0)
    bench.require(held_count <= slots, start + level <= held_count * lanes)
    bench.implies((held_count != 0) & ~done, start + level + lanes >= held_count * lanes)
    bench.implies(~closed, (start + level == held_count * lanes) | done)

    packet.goes_on(config)
    return bench


PAIRS = {name: config for name, config in NARROW.items() if name != "8x2"}
"""Its induction, and that of the shipped shape, stay undecided for ten minutes."""


@pytest.fixture
def straight_slots(monkeypatch):
    """Unpackers have slots that do what a ring does (`test_slots.py`), and whose beats move."""
    monkeypatch.setattr("cdma.hw.codec.stream.unpack.ElementSlots", StraightSlots)


@pytest.mark.parametrize("config", configs(NARROW, quick=()))
def test_unpacker_finds_the_lines_of_any_stream(config, tmp_path, straight_slots):
    prove(unpacker_proof(config, Unpacker(config)), tmp_path, depth=1, cover_depth=25)


@pytest.mark.parametrize("config", configs(PAIRS, quick=()))
def test_unpacker_finds_two_lines_at_once_in_any_stream(config, tmp_path, straight_slots):
    unpacker = Unpacker(config, lines_per_cycle=2)
    prove(unpacker_proof(config, unpacker), tmp_path, depth=1, cover_depth=25)


@pytest.mark.parametrize("config", configs(WIDE, quick=()))
def test_unpacker_finds_the_lines_of_any_stream_two_beats_at_once(config, tmp_path, straight_slots):
    unpacker = Unpacker(config, lines_per_cycle=2, chunk_beats=2)
    prove(unpacker_proof(config, unpacker), tmp_path, depth=1, cover_depth=25)


FAULTS = {
    "gives a line too many": ("& ~(packet.lines_left.is_zero | packet.lines_left.is_one)", ""),
    "pairs what it has offered alone": ("paired.eq(fits & ~waits_alone)", "paired.eq(fits)"),
    "gives a line that is not all there": ("(count[:bits] <= rest if most else 1)", "1"),
    "gives a line that is too long": ("(count <= most)", "(count <= lanes)"),
    "forgets that there were two": ("second_given = paired & line.second_ends", "pass"),
}


@pytest.mark.parametrize("fault", configs(FAULTS, quick=()))
def test_unpacker_with_a_fault_is_found(fault, tmp_path, monkeypatch, straight_slots):
    break_elaborate(monkeypatch, Unpacker, *fault)
    unpacker = Unpacker(TINY, lines_per_cycle=2)
    find_fault(unpacker_proof(TINY, unpacker), tmp_path, depth=10)
