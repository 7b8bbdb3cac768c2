"""Places of XC's fields for proofs: stand-ins for all that moves bits, and counts of a line."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import C, Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import extra_bits


@dataclass(frozen=True)
class Level:
    """A level of a tree that has been cut out: fields, lengths, and whatever they become."""

    fields: Sequence[Value]
    sums: Sequence[Value]
    pieces: Sequence[Signal]


def are_one_tree(levels, first, lengths):
    """Conditions that levels follow one another, with these lengths.

    Parameters
    ----------
    levels : list of Level
    first : Value
        What the first one gets.
    lengths : list of list
        For each level, those of its pieces, of which the first of each two tells where they meet.
    """
    given = first
    for level, right in zip(levels, lengths, strict=True):
        yield Cat(level.fields) == given
        for own, length in zip(level.sums[::2], right[::2], strict=True):
            yield own == length
        given = Cat(level.pieces)


class CutFields:
    """Stand-ins for all that moves bits in a module, which note where they are told to move them.

    Attributes
    ----------
    places : dict of Value
        Of what is picked of a line, by the name of the ring.
    amounts : dict of Value
        By how much a ring is turned, or a row of bits shifted.
    starts : dict of Value
        Of the lane in which a row of lanes begins, by the name of its ways.
    counts : dict of Signal
        Of lanes that are counted, and whatever is counted, by name.
    widths : list of Value
        What is summed up.
    sum : Signal
        Whatever their sum is.
    ways, levels : dict of list
        Ways of a network as they are found, by their name, and as the network gets them, by its.
    moved : dict of list
        What a network moves.
    lines, rings : dict
        What is picked from, and whatever is picked.
    shifts : dict of Value
        Rows of bits that are shifted.
    shifted : dict of Value
        Whatever they are then.
    joined, parted : dict of Level
        Levels of trees, in the order in which they are made.
    """

    def __init__(self, bench, patch, module, lanes):
        self.places, self.starts, self.counts = {}, {}, {}
        self.counted_lanes, self.amounts = {}, {}
        self.widths = []
        self.sum = Signal((4 * lanes).bit_length(), name="sector_sum")
        m = bench.m
        m.d.comb += self.sum.eq(AnySeq(len(self.sum)))
        self.ways, self.levels, self.moved = {}, {}, {}
        self.lines, self.rings, self.shifts, self.shifted = {}, {}, {}, {}
        self.joined, self.parted = {}, {}

        def free(bits, name):
            signal = Signal(bits, name=f"any_{name}")
            bench.m.d.comb += signal.eq(AnySeq(bits))
            return signal

        bench.assume(self.sum <= 4 * lanes)

        def ones_before(m, present, *, name):
            count = Signal(range(lanes + 1), name=f"{name}_counted")
            bench.m.d.comb += count.eq(AnySeq(len(count)))
            bench.assume(count <= lanes)
            self.counts[name], self.counted_lanes[name] = count, present
            return [C(0, 1)] * lanes, count

        def swaps(m, ones, start=None, *, name):
            self.starts[name] = start
            self.ways[name] = [
                free(lanes // 2, f"{name}_{k}") for k in range((lanes - 1).bit_length())
            ]
            return self.ways[name]

        def picked(m, line, place, parts, *, name):
            self.places[name] = place
            self.lines[name] = Cat(line)
            self.rings[name] = [free(len(line[0]), f"{name}_{k}") for k in range(parts)]
            return self.rings[name]

        def gather(m, elements, levels, *, from_first=False, name):
            self.moved[name] = list(elements)
            self.levels[name] = list(levels)
            return list(elements)

        def turned(m, ring, amount, *, name):
            self.amounts[name] = amount
            return list(ring)

        def shifted(real):
            def shift(m, value, amount, width, *, name):
                # Those of a lane are shifts by themselves.
                if name.startswith(("trimmed", "whole")):
                    return real(m, value, amount, width, name=name)
                self.amounts[name] = amount
                self.shifts[name] = value
                self.shifted[name] = free(width, name)
                return self.shifted[name]

            return shift

        def merge_level(m, fields, sums, *, name):
            width = len(fields[0]) + len(fields[1])
            pieces = [free(width, f"{name}_{b}") for b in range(len(fields) // 2)]
            self.joined[name] = Level(list(fields), list(sums), pieces)
            return pieces

        def split_level(m, fields, sums, *, name):
            width = len(fields[0]) // 2
            pieces = [free(width, f"{name}_{b}") for b in range(2 * len(fields))]
            self.parted[name] = Level(list(fields), list(sums), pieces)
            return pieces

        def block_sums(m, widths, *, name):
            self.widths = list(widths)
            levels = [list(widths)]
            while len(levels[-1]) > 2:
                levels.append([C(0, 1)] * (len(levels[-1]) // 2))
            return [*levels, [self.sum]]

        for name, stand_in in {
            "ones_before": ones_before,
            "swaps": swaps,
            "picked": picked,
            "gather": gather,
            "scatter": gather,
            "turned_up": turned,
            "turned_down": turned,
            "shifted_up": shifted(getattr(module, "shifted_up", None)),
            "shifted_down": shifted(getattr(module, "shifted_down", None)),
            "merge_level": merge_level,
            "split_level": split_level,
            "block_sums": block_sums,
        }.items():
            if hasattr(module, name):
                patch.setattr(module, name, stand_in)


class LineGhosts:
    """Counts of a line before a sector: sectors, elements, bits of extras, and escapes."""

    def __init__(self, bench, shape, sectors):
        self.sectors = sectors
        self.position = Signal(range(sectors + 1), name="ghost_position")
        self.kept = Signal(range(shape.elements + 1), name="ghost_kept")
        self.bits = Signal(range(shape.bits + 1), name="ghost_bits")
        self.escapes = Signal(range(shape.elements + 1), name="ghost_escapes")
        self.lanes = shape.lanes
        self.bench = bench
        # As many as there are lanes.
        bench.require(
            self.position < sectors,
            self.kept <= shape.lanes * self.position,
            self.bits <= 4 * shape.lanes * self.position,
            self.escapes <= shape.lanes * self.position,
        )

    @property
    def begins(self):
        return self.position == 0

    @property
    def ends(self):
        return self.position == self.sectors - 1

    def goes_on(self, fires, ends, *, kept=0, bits=0, escapes=0):
        with self.bench.m.If(fires):
            self.bench.m.d.sync += [
                self.position.eq(Mux(ends, 0, self.position + 1)),
                self.kept.eq(Mux(ends, 0, self.kept + kept)),
                self.bits.eq(Mux(ends, 0, self.bits + bits)),
                self.escapes.eq(Mux(ends, 0, self.escapes + escapes)),
            ]


def number(bits, value, name, m):
    """A name for a value, so that it is computed once."""
    signal = Signal(bits, name=name)
    m.d.comb += signal.eq(value)
    return signal


class Places:
    """Places in bits of a sector's parts of fields in its line, by what came before.

    Of a raw line, each sector is where it was, and its escapes behind its rests.
    """

    def __init__(self, bench, shape, ghosts, *, raw, rest_at, rest_width, extras_at, escapes_at):
        m = bench.m
        field = shape.rest.width * shape.lanes
        sector_bits = shape.format.bits * shape.lanes
        raw_at = number(16, ghosts.position * sector_bits, "raw_at", m)
        self.rest = number(
            16, Mux(raw, raw_at, 8 * rest_at + ghosts.kept * rest_width), "rest_place", m
        )
        self.extras = number(16, 8 * extras_at + ghosts.bits, "extras_place", m)
        self.escapes = number(
            16,
            Mux(raw, raw_at + field, 8 * escapes_at + ghosts.escapes * shape.escapes.width),
            "escapes_place",
            m,
        )


def goes_these_ways(cuts, network, ways, raw):
    """Conditions that a network gets the ways that were found; of a raw line, it moves nothing."""
    for own, right in zip(cuts.levels[network], cuts.ways[ways], strict=True):
        yield own == Mux(raw, 0, right)


def len_of(lanes):
    """Bits of a lane's number."""
    return (lanes - 1).bit_length()


def cut_widths(bench, patch, module):
    """Let widths be anything; they are listed with their class and pattern."""
    cuts = []

    def width_of(m, number, pattern, *, name):
        width = Signal(3, name=name)
        m.d.comb += width.eq(AnySeq(3))
        cuts.append((number, pattern, width))
        return width

    patch.setattr(module, "width_of", width_of)
    return cuts


def own_width(cuts, sector, present, pattern, lane):
    """A lane's number that is summed up, as a class's width by the table; and the right one."""
    numbers = at([number for number, _, _ in cuts], lane)
    width = at([width for _, _, width in cuts], lane)
    return width == extra_bits(numbers, pattern), Mux(
        at(list(present), lane), extra_bits(numbers, pattern), 0
    )
