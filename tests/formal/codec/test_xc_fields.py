"""XC's networks, bit by bit, and the window in which a line grows: complete, without state.

`test_xc_written_places.py` and `test_xc_read_places.py` have where they are told to put them. A
part of a row lands in the line at its place and nowhere else, and is picked from there; a row is
shifted and turned as far as it is told; two pieces that are joined are parted again. At all widths
that ship.
"""

import pytest
from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal
from amaranth.hdl._ast import AnySeq

from cdma.hw.codec.xc.compressor import window
from cdma.hw.codec.xc.compressor.placer import PlacedSector
from cdma.hw.codec.xc.payloads import LineShape
from cdma.hw.lib import fields, places
from tests.formal.bench import Bench
from tests.formal.broken import break_function, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import SHAPES, any_number, shape_of
from tests.formal.smtbmc import check, prove
from tests.lib.shares import configs, widths

LINE_BYTES = 128
RINGS = {
    f"{parts}x{count}": (parts, count)
    for parts, count in sorted(
        {
            (field.parts, 8 * LINE_BYTES // field.part_bits)
            for name in SHAPES
            for shape in [LineShape.of(*shape_of(name))]
            for field in (shape.rest, shape.escapes)
        }
        | {
            (shape.lanes, count)
            for name in SHAPES
            for shape in [LineShape.of(*shape_of(name))]
            for count in (LINE_BYTES, shape.class_lanes)
        }
    )
}
"""Parts of all rings that ship, and of the lines where they land."""


def any_bits(bench, count, name):
    bits = [Signal(name=f"{name}_{k}") for k in range(count)]
    for bit in bits:
        bench.m.d.comb += bit.eq(AnySeq(1))
    return bits


def landing_proof(parts, count):
    """A part of the line, which the solver picks, has what of the ring lands there."""
    bench = Bench()
    ring = any_bits(bench, parts, "ring")
    place = any_number(bench, range(2 * count), "place")
    part = any_number(bench, range(count), "part")
    groups = -(-count // parts)
    line = places.landed(bench.m, ring, place, groups, name="line")
    bench.assume(part < count)
    is_there = (part >= place) & (part < place + parts)
    own = at(ring, part[: (parts - 1).bit_length()])
    bench.require(at(line, part) == Mux(is_there, own, 0))
    bench.cover(is_there & own & (part == count - 1), is_there & own & (part == 0))
    return bench


def picking_proof(parts, count):
    """A part of the ring has what is in its place of the line."""
    bench = Bench()
    line = any_bits(bench, count, "line")
    place = any_number(bench, range(2 * count), "place")
    lane = any_number(bench, range(parts), "lane")
    ring = places.picked(bench.m, line, place, parts, name="ring")
    # The first one from the place on that is in this lane.
    ahead = (lane - place)[: (parts - 1).bit_length()]
    source = Signal(range(4 * count))
    bench.m.d.comb += source.eq(place + ahead)
    bench.require(at(ring, lane) == Mux(source < count, at(line, source), 0))
    bench.cover(at(ring, lane) & (source == count - 1))
    return bench


def turned_down_proof(lanes):
    bench = Bench()
    bits = (lanes - 1).bit_length()
    ring = any_bits(bench, lanes, "ring")
    amount = any_number(bench, bits, "amount")
    lane = any_number(bench, bits, "lane")
    turned = places.turned_down(bench.m, ring, amount, name="turned")
    bench.require(at(turned, lane) == at(ring, (lane + amount)[:bits]))
    bench.cover(at(turned, lane) & (lane == lanes - 1) & (amount == 1))
    return bench


def shift_proof(row_bits, amount_bits):
    """A row is shifted up and down by a number of bits; a bit that the solver picks."""
    bench = Bench()
    m = bench.m
    row = any_number(bench, row_bits, "row")
    amount = any_number(bench, amount_bits, "amount")
    bit = any_number(bench, range(row_bits), "bit")
    width = row_bits + (1 << amount_bits) - 1
    up = fields.shifted_up(m, row, amount, width, name="up")
    down = fields.shifted_down(m, row, amount, row_bits, name="down")
    source = Signal(range(2 * width))
    m.d.comb += source.eq(bit + amount)
    bench.assume(bit < row_bits)
    # Behind the row there are zeros.
    longer = Signal(width, name="longer")
    m.d.comb += longer.eq(row)
    bench.require(
        up.bit_select(source, 1) == longer.bit_select(bit, 1),
        down.bit_select(bit, 1) == longer.bit_select(source, 1),
        (up & ((1 << amount)[:width] - 1)[:width]) == 0,
    )
    bench.cover(up.bit_select(source, 1) & (source == width - 1))
    return bench


def join_proof(width, lengths):
    """Two pieces of one width are joined, and parted with anything behind them.

    The first one has each of some lengths.
    """
    bench = Bench()
    m = bench.m
    first, second, behind = (
        any_number(bench, bits, name)
        for bits, name in ((width, "first"), (width, "second"), (2 * width, "behind"))
    )
    other = any_number(bench, range(width + 1), "length_1")
    for start in lengths:
        length = Signal(range(width + 1), name=f"length_0_{start}")
        m.d.comb += length.eq(start)
        # With zeros behind it.
        piece = Signal(width, name=f"piece_{start}")
        m.d.comb += piece.eq(first[:start])
        sums = [length, other]
        (joined,) = fields.merge_level(m, [piece, second], sums, name=f"joined_{start}")
        bench.require(joined == Cat(first[:start], second))
        given = Signal(2 * width, name=f"given_{start}")
        m.d.comb += given.eq(Cat(first[:start], behind))
        parted = fields.split_level(m, [given], sums, name=f"parted_{start}")
        bench.require(parted[0][:start] == first[:start], parted[1] == behind[:width])
        if start in (lengths[0], lengths[-1]):
            bench.cover(joined[start + width - 1] & parted[1][-1])
    return bench


class JoinedLine(Elaboratable):
    """The window alone: a line that grows out of parts, as they are."""

    def __init__(self, config, form):
        self.config, self.form = config, form
        self.sector = Signal(PlacedSector(config, form))
        self.fires = Signal()
        self.whole = Signal(8 * config.line_bytes)

    def elaborate(self, platform):
        m = Module()
        line = window.line_of(m, self.config, self.sector, self.fires, self.form)
        m.d.comb += self.whole.eq(line)
        return m


def window_proof(shape_name):
    """A bit of a line is what its sectors' parts have there, all of them joined."""
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes, sectors = shape.lanes, config.sectors
    bench = Bench()
    m = bench.m
    block = JoinedLine(config, form)
    inside = bench.add(block)
    sector, fires, whole = block.sector, block.fires, block.whole
    m.d.comb += [
        sector.as_value().eq(AnySeq(len(sector.as_value()))),
        fires.eq(AnySeq(1)),
    ]
    position = Signal(range(sectors + 1), name="ghost_position")
    bench.assume(sector.begins == (position == 0), sector.ends == (position == sectors - 1))
    bench.require(position < sectors, inside["position"] == position)
    with m.If(fires):
        m.d.sync += position.eq(Mux(sector.ends, 0, position + 1))
    bit = any_number(bench, range(8 * config.line_bytes), "bit")

    def lands(ring, place):
        parts, width = len(ring), len(ring[0])
        part = Signal(16)
        m.d.comb += part.eq(bit >> (width - 1).bit_length())
        own = at(list(ring), part[: (parts - 1).bit_length()])
        is_there = (part >= place) & (part < place + parts)
        return Mux(is_there, own.bit_select(bit[: (width - 1).bit_length()], 1), 0)

    in_sector = bit - position * lanes
    now = Signal()
    m.d.comb += now.eq(
        lands(list(sector.rest), sector.rest_at)
        | lands(list(sector.extras), sector.extras_at)
        | lands(list(sector.escapes), sector.escapes_at)
        # There is room for as many classes as a line can have behind its mask.
        | Mux(bit < 2 * shape.class_lanes, lands(list(sector.classes), sector.classes_at), 0)
        | Mux(
            (bit >= position * lanes) & (bit < (position + 1) * lanes),
            sector.present.bit_select(in_sector[: (lanes - 1).bit_length()], 1),
            0,
        )
    )
    before, joined = Signal(), Signal()
    m.d.comb += joined.eq(now | (before & ~sector.begins))
    with m.If(fires):
        m.d.sync += before.eq(joined)
    bench.require(whole.bit_select(bit, 1) == joined)
    if sectors > 1:
        kept = at([inside[f"window_{j}"] for j in range(config.line_bytes)], bit[3:])
        bench.require((position == 0) | (kept.bit_select(bit[:3], 1) == before))
        bench.cover(sector.ends & joined & ~now)
    bench.cover(sector.ends & now & fires)
    return bench


SHIFTS = {
    f"{bits}-{amount}": (bits, amount)
    for bits, amount in sorted(
        {
            (shape.lanes * width, 3)
            for name in SHAPES
            for shape in [LineShape.of(*shape_of(name))]
            for width in (4, shape.rest.width, shape.escapes.width)
        }
    )
}
"""Bits of all rows that are shifted to their place in a byte, and of the amount."""

JOINED = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
"""Bits of all pieces that are joined: indices, up to 64 lanes of them, and trimmed rests."""
TOGETHER = 48
"""Lengths of the first piece of which a proof is. With a length that the solver picks, pieces of
more than 64 bits were undecided in 400 s."""
PIECES = {
    f"{width}-from-{start}": (width, range(start, min(start + TOGETHER, width + 1)))
    for width in JOINED
    for start in range(0, width + 1, TOGETHER)
}


def pieces_of(shape):
    """Bits of the pieces that a shape joins, level by level."""
    span = 1
    while span < shape.lanes:
        yield 4 * span
        if shape.format.trims:
            yield shape.rest.width * span
        span *= 2


def test_these_are_all_pieces():
    shapes = [LineShape.of(*shape_of(name)) for name in SHAPES]
    assert {width for shape in shapes for width in pieces_of(shape)} == set(JOINED)


@pytest.mark.parametrize("ring", configs(RINGS, quick=["16x128"]))
def test_a_ring_lands_at_its_place_and_nowhere_else(ring, tmp_path):
    check(landing_proof(*ring), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("ring", configs(RINGS, quick=["16x128"]))
def test_a_ring_is_picked_from_its_place(ring, tmp_path):
    check(picking_proof(*ring), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("lanes", widths(8, 16, 32, 64, 128, quick=[16]))
def test_a_ring_is_turned_back(lanes, tmp_path):
    check(turned_down_proof(lanes), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("row", configs(SHIFTS, quick=["64-3"]))
def test_a_row_is_shifted_as_far_as_it_is_told(row, tmp_path):
    check(shift_proof(*row), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("pieces", configs(PIECES, quick=["4-from-0"]))
def test_pieces_that_are_joined_are_parted_again(pieces, tmp_path):
    check(join_proof(*pieces), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_line_has_the_parts_of_its_sectors_at_their_places(shape, tmp_path):
    prove(window_proof(shape), tmp_path, depth=1, cover_depth=6)


FAULTS = {
    "landed": ("below = group[g - 1] if g else C(0, 1)", "below = group[g]", landing_proof),
    "picked": ("upper[lane], group[g], below", "upper[lane], group[g], group[g]", picking_proof),
    "turned_down": ("ring[(i + distance) % len(ring)]", "ring[i - distance]", turned_down_proof),
}


@pytest.mark.verify
@pytest.mark.parametrize("name", list(FAULTS))
def test_rings_that_go_elsewhere_are_found(name, tmp_path, monkeypatch):
    right, wrong, proof = FAULTS[name]
    break_function(monkeypatch, places, name, right, wrong)
    bench = proof(8) if proof is turned_down_proof else proof(8, 32)
    find_fault(bench, tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("merge_level", "sums[b], width", "sums[b + 1], width"),
        ("split_level", "sums[2 * b], half", "sums[2 * b + 1], half"),
        ("shifted_down", "width + distance - 1", "width"),
    ],
)
def test_pieces_that_are_joined_elsewhere_are_found(name, right, wrong, tmp_path, monkeypatch):
    break_function(monkeypatch, fields, name, right, wrong)
    find_fault(join_proof(8, range(9)), tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("own & ~sector.begins.replicate(8)", "own"),
        ("(position == s).replicate(8)", "(position != s).replicate(8)"),
        ("reduce(or_, parts[j], kept)", "reduce(or_, parts[j][1:], kept)"),
    ],
    ids=["the line before stays", "masks in other places", "a field is left out"],
)
def test_lines_that_are_joined_wrongly_are_found(right, wrong, tmp_path, monkeypatch):
    break_function(monkeypatch, window, "line_of", right, wrong)
    find_fault(window_proof("bf16-S64"), tmp_path, depth=4)
