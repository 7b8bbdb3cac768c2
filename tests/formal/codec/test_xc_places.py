"""The places of an element's fields in a line of XC: the compressor and its reader agree.

A field of an element begins behind those of all elements before it in the line. Each stage counts
that sector by sector; here it is compared with ghosts that count in the plainest way, of any line.
The networks that move bits are cut out: what is proven is where they are told to move them, and
`test_xc_fields.py` has what they then do. Pipeline registers are left out (`Straight`).
"""

from types import SimpleNamespace

import pytest
from amaranth.hdl import C, Cat, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.hw.codec.xc.compressor import meter, placer
from cdma.hw.codec.xc.compressor.meter import LineMeter, LineTotals
from cdma.hw.codec.xc.compressor.placer import FieldPlacer, SectorCounter
from cdma.hw.codec.xc.decompressor import class_reader, escape_reader, index_reader
from cdma.hw.codec.xc.decompressor.class_reader import ClassReader, WidthCounter
from cdma.hw.codec.xc.decompressor.escape_reader import EscapeReader
from cdma.hw.codec.xc.decompressor.index_reader import IndexReader
from cdma.hw.codec.xc.payloads import LineShape
from cdma.hw.codec.xc.trees import block_sums
from cdma.hw.lib.count import total
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import (
    SHAPES,
    any_number,
    extra_bits,
    padded,
    shape_of,
    straighten,
)
from tests.formal.sby import check, prove
from tests.lib.shares import names, widths

QUICK = ("bf16-S32",)


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
    """

    def __init__(self, bench, patch, module, lanes):
        self.places, self.starts, self.counts = {}, {}, {}
        self.counted_lanes, self.amounts = {}, {}
        self.widths = []
        self.sum = Signal((4 * lanes).bit_length(), name="sector_sum")
        m = bench.m
        m.d.comb += self.sum.eq(AnySeq(len(self.sum)))
        self.ways, self.levels, self.moved = {}, {}, {}
        self.lines, self.rings, self.shifts = {}, {}, {}

        def free(bits, name):
            signal = Signal(bits, name=f"any_{name}")
            bench.m.d.comb += signal.eq(AnySeq(bits))
            return signal

        real_shift = getattr(module, "shifted_down", None)
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

        def shifted(m, value, amount, width, *, name):
            if name.startswith("trimmed"):
                return real_shift(m, value, amount, width, name=name)
            self.amounts[name] = amount
            self.shifts[name] = value
            return free(width, name)

        def merge_level(m, fields, sums, *, name):
            return [C(0, len(a) + len(b)) for a, b in zip(fields[::2], fields[1::2], strict=True)]

        def split_level(m, fields, sums, *, name):
            return [C(0, len(field) // 2) for field in fields for _ in range(2)]

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
            "shifted_up": shifted,
            "shifted_down": shifted,
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


def placer_proof(shape_name, patch):
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes = shape.lanes
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        cuts = CutFields(bench, context, placer, lanes)
        made = straighten(context, placer)
        block = FieldPlacer(config, form)
        inside = bench.add(block)
    bench.drive(block.i)
    plans = bench.drive(block.plan)
    m.d.comb += block.o.ready.eq(AnySeq(1))
    sector, plan = block.i.payload, block.plan.payload
    out = made[0].i.payload
    kept, escapes = sector["present_count"], sector["escape_count"]
    length = sector[f"sum_{lanes}_0"]
    ghosts = LineGhosts(bench, shape, config.sectors)
    bench.assume(
        kept <= lanes,
        escapes <= lanes,
        length <= 4 * lanes,
        sector.coded.ends == ghosts.ends,
        ~(plan.raw & plan.sparse),
        # So that places do not go round.
        plan.rest_at <= config.line_bytes,
        plan.extras_at <= config.line_bytes,
        plan.escapes_at <= config.line_bytes,
    )
    rest_width = shape.rest.width
    if form.trims:
        rest_width = plan.rest_width
        bench.assume(plan.rest_width <= shape.rest.width)
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    ghosts.goes_on(fires, sector.coded.ends, kept=kept, bits=length, escapes=escapes)
    places = Places(
        bench,
        shape,
        ghosts,
        raw=plan.raw,
        rest_at=plan.rest_at,
        rest_width=rest_width,
        extras_at=plan.extras_at,
        escapes_at=plan.escapes_at,
    )
    # A line's plan waits until its last sector goes.
    bench.require(inside.register("begins") == ghosts.begins, ghosts.begins | plans.waiting)
    steady = ~ghosts.begins & ~ResetSignal()
    rest_unit, escape_unit = shape.rest.unit, shape.escapes.unit
    class_at = number(16, Mux(plan.sparse, 4 * shape.mask_bytes, 0) + ghosts.kept, "class_at", m)
    bench.implies(
        steady & ~plan.raw,
        inside.register("later_classes_at") == class_at,
        inside.register("later_extras_at") == places.extras,
    )
    for name, place, unit in (
        ("rest", places.rest, rest_unit),
        ("escapes", places.escapes, escape_unit),
    ):
        register = inside.register(f"later_{name}_at")
        bench.implies(steady, unit * register == place)

    # A line that is one sector has all of its fields from a byte on.
    last_bit = 8 * config.line_bytes - (1 if config.sectors > 1 else 8)
    # Where what goes on is said to land.
    goes = block.o.valid & ~ResetSignal()
    placed = out.placed
    landing = {}
    for name, field in (("rest", shape.rest), ("escapes", shape.escapes)):
        landing[name] = (
            8 * placed[f"{name}_at"] + out[f"{name}_shift"]
            if field.is_packed
            else field.width * placed[f"{name}_at"]
        )
    bench.implies(
        goes & ~plan.raw,
        placed.classes_at == class_at,
        8 * placed.extras_at + out.shift == places.extras,
    )
    bench.implies(goes, landing["rest"] == places.rest, landing["escapes"] == places.escapes)
    bench.require(placed.plan.as_value() == plan.as_value())

    # What goes into the networks, of a lane that the solver picks.
    lane = any_number(bench, range(lanes), "lane")
    coded = sector.coded
    word = number(form.bits, at([coded.elements[i] for i in range(lanes)], lane), "word", m)
    present, escape = at(list(coded.present), lane), at(list(sector.escape), lane)
    rest = Cat(word[: form.mantissa_bits], word[-1])
    if form.trims:
        rest = rest >> plan.dropped
    raw_bits = coded.elements.as_value()
    rests = shape.rest.width * lanes
    own = {
        "classes": (present, at([coded.codes[i].number for i in range(lanes)], lane), C(0)),
        "rest": (
            present,
            rest,
            at([raw_bits[:rests].word_select(i, shape.rest.width) for i in range(lanes)], lane),
        ),
        "escapes": (
            escape,
            word[form.mantissa_bits : -1],
            at(
                [raw_bits[rests:].word_select(i, form.exponent_bits) for i in range(lanes)],
                lane,
            ),
        ),
    }
    for name, (flag, value, raw_value) in own.items():
        bench.require(
            at(cuts.moved[name], lane) == Mux(plan.raw, raw_value, Mux(flag, value, 0)),
            *goes_these_ways(cuts, name, f"{name}_swap", plan.raw),
        )
        start = cuts.starts[f"{name}_swap"]
        if start is not None:
            bench.require(start == placed[f"{name}_at"][: len_of(lanes)])
    bench.require(at(list(placed.classes), lane) == at(cuts.moved["classes"], lane))
    bench.require(placed.present == Mux(plan.sparse, coded.present, 0))
    for name, field in (("rest", shape.rest), ("escapes", shape.escapes)):
        if field.is_packed:
            bench.require(out[f"{name}_row"] == Cat(cuts.moved[name]))
        else:
            bench.require(at(list(placed[name]), lane) == at(cuts.moved[name], lane))
    bench.implies(goes, placed.begins == ghosts.begins, placed.ends == ghosts.ends)
    bench.cover(
        goes & ghosts.ends & ~plan.raw & (places.extras == last_bit),
        goes & ghosts.ends & plan.raw,
    )
    return bench


def cut_reader(bench, module, patch, make):
    """A reader with its networks cut out, what it was told, and what stands for its registers."""
    with patch.context() as context:
        made = straighten(context, module)
        block, lanes = make()
        cuts = CutFields(bench, context, module, lanes)
        inside = bench.add(block)
    return SimpleNamespace(block=block, inside=inside, cuts=cuts, made=made)


def keeps_its_layout(bench, fires, begins, layout):
    """A line has one layout: that of its first sector."""
    held = Signal(len(layout.as_value()), name="held_layout")
    with bench.m.If(fires):
        bench.m.d.sync += held.eq(layout.as_value())
    bench.assume(begins | (layout.as_value() == held))
    return held


def index_proof(shape_name, patch):
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes, field = shape.lanes, shape.rest
    bench = Bench()
    m = bench.m
    cut = cut_reader(
        bench, index_reader, patch, lambda: (IndexReader(config, form, staged=True), lanes)
    )
    block, inside, cuts = cut.block, cut.inside, cut.cuts
    bench.drive(block.i)
    bench.drive(block.line)
    m.d.comb += [block.o.ready.eq(AnySeq(1)), block.passed.ready.eq(AnySeq(1))]
    summed = block.i.payload
    sector = summed.sector
    layout = sector.layout
    length = summed[f"sum_{lanes}_0"]
    ghosts = LineGhosts(bench, shape, config.sectors)
    bench.assume(
        length <= 4 * lanes,
        sector.begins == ghosts.begins,
        sector.ends == ghosts.ends,
        layout.rest_at <= config.line_bytes,
        layout.extras_at <= config.line_bytes,
    )
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    kept = cuts.counts["present"]
    ghosts.goes_on(fires, sector.ends, kept=kept, bits=length)
    held = keeps_its_layout(bench, fires, ghosts.begins, layout)
    rest_width = shape.rest.width
    if form.trims:
        rest_width = layout.rest_width
        bench.assume(layout.rest_width <= shape.rest.width)
    places = Places(
        bench,
        shape,
        ghosts,
        raw=layout.raw,
        rest_at=layout.rest_at,
        rest_width=rest_width,
        extras_at=layout.extras_at,
        escapes_at=0,
    )
    # While a line goes on, registers are of its layout.
    same = ~ghosts.begins & (layout.as_value() == held)
    bench.implies(
        same,
        field.unit * inside.register("later_rest") == places.rest,
        inside.register("later_bits") == places.extras,
    )
    # A line that is one sector has all of its fields from a byte on.
    last_bit = 8 * config.line_bytes - (1 if config.sectors > 1 else 8)
    goes = block.i.valid & ~ResetSignal()
    rest_read = place_read(
        bench,
        cuts,
        field,
        lanes,
        ring="rest_ring",
        row="rest_row",
        turned="rests",
        swap="rest_swap",
        moved="rest",
    )
    body = block.line.payload.payload.as_value()
    bench.require(
        cuts.lines["rest_ring"] == body,
        cuts.lines["extras_ring"] == body,
        cuts.shifts["field"] == Cat(cuts.rings["extras_ring"])[: len(cuts.shifts["field"])],
    )
    if form.trims:
        for own, right in zip(block.o.payload.ways, cuts.ways["rest_swap"], strict=True):
            bench.require(own == Mux(layout.raw, 0, right))
    else:
        bench.require(*goes_these_ways(cuts, "rest", "rest_swap", layout.raw))
    bench.implies(goes, rest_read == places.rest)
    bench.implies(
        goes & ~layout.raw,
        8 * cuts.places["extras_ring"] + cuts.amounts["field"] == places.extras,
        cuts.amounts["extras"] == cuts.places["extras_ring"][: len_of(lanes)],
    )
    bench.require(cuts.counted_lanes["present"] == sector.present)
    bench.cover(
        goes & ghosts.ends & ~layout.raw & (places.extras == last_bit),
        goes & ghosts.ends & layout.raw,
    )
    return bench


def len_of(lanes):
    """Bits of a lane's number."""
    return (lanes - 1).bit_length()


def place_read(bench, cuts, field, lanes, *, ring, row, turned, swap, moved):
    """The bit of a line from which a field is read; all that moves it on is told the same place.

    The names are those of the networks: a ring, and the row and the turning of a field that is
    packed, or the swap and the moving of one that is not.
    """
    place = cuts.places[ring]
    if not field.is_packed:
        bench.require(
            cuts.starts[swap] == place[: len_of(lanes)],
            Cat(cuts.moved[moved]) == Cat(cuts.rings[ring]),
        )
        return field.width * place
    bench.require(
        cuts.amounts[turned] == place[: (field.parts - 1).bit_length()],
        cuts.shifts[row] == Cat(cuts.rings[ring])[: len(cuts.shifts[row])],
    )
    return 8 * place + cuts.amounts[row]


def escape_proof(shape_name, patch):
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes, field = shape.lanes, shape.escapes
    bench = Bench()
    m = bench.m
    cut = cut_reader(bench, escape_reader, patch, lambda: (EscapeReader(config, form), lanes))
    block, inside, cuts = cut.block, cut.inside, cut.cuts
    bench.drive(block.i)
    bench.drive(block.line)
    bench.drive(block.total)
    m.d.comb += block.o.ready.eq(AnySeq(1))
    indexed = block.i.payload
    sector = indexed.sector
    layout = sector.layout
    ghosts = LineGhosts(bench, shape, config.sectors)
    bench.assume(
        sector.begins == ghosts.begins,
        sector.ends == ghosts.ends,
        layout.extras_at <= layout.size,
        layout.size <= config.line_bytes,
        block.total.payload <= shape.bits,
    )
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    escapes = cuts.counts["escape"]
    ghosts.goes_on(fires, sector.ends, escapes=escapes)
    held = keeps_its_layout(bench, fires, ghosts.begins, layout)
    # The line's extras, which are told with its first sector.
    held_bits = Signal.like(block.total.payload)
    total = Mux(ghosts.begins, block.total.payload, held_bits)
    with m.If(fires):
        m.d.sync += held_bits.eq(total)
    bench.require(held_bits <= shape.bits)
    escapes_at = number(16, layout.extras_at + padded(total), "escapes_at", m)
    places = Places(
        bench,
        shape,
        ghosts,
        raw=layout.raw,
        rest_at=0,
        rest_width=shape.rest.width,
        extras_at=0,
        escapes_at=escapes_at,
    )
    same = ~ghosts.begins & (layout.as_value() == held)
    # Those of a line that is refused may go round.
    bits = len(layout.size) + 3
    bench.implies(same, (field.unit * inside["later"])[:bits] == places.escapes[:bits])
    goes = fires & ~ResetSignal()
    read = place_read(
        bench,
        cuts,
        field,
        lanes,
        ring="ring",
        row="escape_row",
        turned="escapes",
        swap="swap",
        moved="escapes",
    )
    bench.require(
        cuts.lines["ring"] == block.line.payload.payload.as_value(),
        *goes_these_ways(cuts, "escapes", "swap", layout.raw),
    )
    bench.implies(goes, read[:bits] == places.escapes[:bits])
    bench.require(cuts.counted_lanes["escape"] == indexed.escape)
    # All escapes end where the line does; else it is refused.
    end = number(16, places.escapes + escapes * field.width, "escapes_end", m)
    coded = ~layout.raw & ~layout.zero
    bench.implies(
        goes & coded & ghosts.ends, block.o.payload.miscounted == (padded(end) != layout.size)
    )
    bench.implies(goes & ~(coded & ghosts.ends), ~block.o.payload.miscounted)
    bench.cover(
        goes & ghosts.ends & coded & (end == 8 * layout.size) & (escapes == lanes),
        goes & block.o.payload.miscounted,
    )
    return bench


def class_proof(shape_name, patch):
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes = shape.lanes
    bench = Bench()
    m = bench.m
    cut = cut_reader(
        bench, class_reader, patch, lambda: (ClassReader(config, form, staged=True), lanes)
    )
    block, cuts = cut.block, cut.cuts
    lines = bench.drive(block.i)
    m.d.comb += block.o.ready.eq(AnySeq(1))
    line, sector = block.i.payload, block.o.payload
    bench.assume(~line.layout.empty)
    ghosts = LineGhosts(bench, shape, config.sectors)
    fires = Signal()
    m.d.comb += fires.eq(block.o.valid & block.o.ready)
    kept = cuts.counts["present"]
    ghosts.goes_on(fires, ghosts.ends, kept=kept)
    bench.require(
        cut.inside["position"] == ghosts.position,
        cut.inside["before"] == ghosts.kept,
        ghosts.begins | lines.waiting,
        cuts.places["picked"] == ghosts.kept,
        cuts.starts["swap"] == ghosts.kept[: len_of(lanes)],
        block.o.valid == block.i.valid,
        block.i.ready == (fires & ghosts.ends),
    )
    bench.require(
        Cat(cuts.moved["spread"]) == Cat(cuts.rings["picked"]),
        cuts.lines["picked"] == line.classes,
        *goes_these_ways(cuts, "spread", "swap", 0),
    )
    lane = any_number(bench, range(lanes), "lane")
    place = number(16, ghosts.position * lanes + lane, "element", m)
    bench.require(
        at(list(sector.present), lane) == line.mask.bit_select(place, 1),
        cuts.counted_lanes["present"] == sector.present,
        at(list(sector.numbers), lane)
        == Mux(
            at(list(sector.present), lane) & ~line.layout.raw, at(cuts.moved["spread"], lane), 0
        ),
        sector.layout.as_value() == line.layout.as_value(),
        sector.begins == ghosts.begins,
        sector.ends == ghosts.ends,
        sector.hands_on == (ghosts.position == max(config.sectors - 2, 0)),
    )
    bench.cover(fires & ghosts.ends & at(list(sector.present), lane))
    return bench


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


def width_proof(shape_name, patch):
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes = shape.lanes
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        widths = cut_widths(bench, context, class_reader)
        cut = cut_reader(
            bench, class_reader, context, lambda: (WidthCounter(config, form, ahead=1), lanes)
        )
    block, cuts = cut.block, cut.cuts
    bench.drive(block.i)
    m.d.comb += [block.o.ready.eq(AnySeq(1)), block.total.ready.eq(AnySeq(1))]
    sector = block.i.payload
    ghosts = LineGhosts(bench, shape, config.sectors)
    bench.assume(sector.ends == ghosts.ends)
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    ghosts.goes_on(fires, sector.ends, bits=cuts.sum)
    lane = any_number(bench, range(lanes), "lane")
    own = at([number for number, _, _ in widths], lane)
    width = at([width for _, _, width in widths], lane)
    # By the table, which `test_xc_codes.py` proves.
    bench.assume(width == extra_bits(own, sector.layout.parameters.pattern))
    counted = at(list(sector.present), lane) & ~sector.layout.raw
    right = extra_bits(at(list(sector.numbers), lane), sector.layout.parameters.pattern)
    bench.require(
        cut.inside["before"] == ghosts.bits,
        at(cuts.widths, lane) == Mux(counted, right, 0),
        block.o.payload[f"sum_{lanes}_0"] == cuts.sum,
        at([block.o.payload[f"sum_1_{i}"] for i in range(lanes)], lane) == Mux(counted, right, 0),
        block.o.payload.sector.as_value() == sector.as_value(),
    )
    gives = block.total.valid & block.total.ready
    bench.implies(gives, fires, ghosts.ends, block.total.payload == ghosts.bits + cuts.sum)
    bench.implies(fires & ghosts.ends, gives)
    bench.cover(gives & (block.total.payload == shape.bits))
    return bench


def own_width(cuts, sector, present, pattern, lane):
    """A lane's number that is summed up, as a class's width by the table; and the right one."""
    numbers = at([number for number, _, _ in cuts], lane)
    width = at([width for _, _, width in cuts], lane)
    return width == extra_bits(numbers, pattern), Mux(
        at(list(present), lane), extra_bits(numbers, pattern), 0
    )


def counter_proof(shape_name, patch):
    """A sector's own counts: of which lanes, and of which widths."""
    config, form = shape_of(shape_name)
    lanes = LineShape.of(config, form).lanes
    bench = Bench()
    with patch.context() as context:
        widths = cut_widths(bench, context, placer)
        cuts = CutFields(bench, context, placer, lanes)
        straighten(context, placer)
        block = SectorCounter(config, form)
        bench.add(block)
    bench.drive(block.i)
    bench.m.d.comb += block.o.ready.eq(AnySeq(1))
    sector, out = block.i.payload, block.o.payload
    lane = any_number(bench, range(lanes), "lane")
    theorem, right = own_width(widths, sector, sector.present, sector.pattern, lane)
    bench.assume(theorem)
    number = at([sector.codes[i].number for i in range(lanes)], lane)
    index = at([sector.codes[i].index for i in range(lanes)], lane)
    escape = at(list(out.escape), lane)
    bench.require(
        escape == ((number == 3) & (index == 15)),
        cuts.counted_lanes["present"] == sector.present,
        cuts.counted_lanes["escape"] == out.escape,
        out["present_count"] == cuts.counts["present"],
        out["escape_count"] == cuts.counts["escape"],
        at([number for number, _, _ in widths], lane) == number,
        at(cuts.widths, lane) == right,
        at([out[f"sum_1_{i}"] for i in range(lanes)], lane) == right,
        out[f"sum_{lanes}_0"] == cuts.sum,
        out.coded.as_value() == sector.as_value(),
        block.o.valid == block.i.valid,
        block.i.ready == block.o.ready,
    )
    bench.cover(escape & block.o.valid, (right == 4) & ~escape & (lane == lanes - 1))
    return bench


def meter_proof(shape_name, patch):
    """A line's totals: the sums of its sectors' counts, and all of its mantissas' bits."""
    config, form = shape_of(shape_name)
    shape = LineShape.of(config, form)
    lanes = shape.lanes
    bench = Bench()
    m = bench.m
    sums = []

    def free(bits, most, name):
        signal = Signal(bits, name=name)
        m.d.comb += signal.eq(AnySeq(bits))
        bench.assume(signal <= most)
        return signal

    kept = free(lanes.bit_length(), lanes, "sector_kept")

    def total(values):
        sums.append((list(values), free((4 * lanes).bit_length(), 4 * lanes, f"sum_{len(sums)}")))
        return sums[-1][1]

    with patch.context() as context:
        widths = cut_widths(bench, context, meter)
        made = straighten(context, meter)
        context.setattr(meter, "count_ones", lambda present: kept)
        context.setattr(meter, "total", total)
        block = LineMeter(config, form)
        inside = bench.add(block)
    bench.drive(block.i)
    m.d.comb += block.o.ready.eq(AnySeq(1))
    (widths_in, bits), (escapes_in, escapes) = sums
    sector, out = block.i.payload, made[0].i.payload
    ghosts = LineGhosts(bench, shape, config.sectors)
    bench.assume(escapes <= lanes, sector.ends == ghosts.ends)
    fires = Signal()
    m.d.comb += fires.eq(block.i.valid & block.i.ready)
    ghosts.goes_on(fires, sector.ends, kept=kept, bits=bits, escapes=escapes)
    lane = any_number(bench, range(lanes), "lane")
    theorem, right = own_width(widths, sector, sector.present, sector.pattern, lane)
    bench.assume(theorem)
    number = at([sector.codes[i].number for i in range(lanes)], lane)
    index = at([sector.codes[i].index for i in range(lanes)], lane)
    before = data.View(LineTotals(config, form), inside["before"])
    bench.require(
        before.kept == ghosts.kept,
        before.bits == ghosts.bits,
        before.escapes == ghosts.escapes,
        at([number for number, _, _ in widths], lane) == number,
        at(widths_in, lane) == right,
        at(escapes_in, lane) == ((number == 3) & (index == 15)),
        made[0].i.valid == (block.i.valid & ghosts.ends),
        out.kept == ghosts.kept + kept,
        out.bits == ghosts.bits + bits,
        out.escapes == ghosts.escapes + escapes,
        out.last == sector.last,
        out.empty == sector.empty,
    )
    if form.trims:
        # A bit of the mantissas that the solver picks: whether any element has had it.
        bit = any_number(bench, range(form.mantissa_bits), "bit")
        bench.assume(bit < form.mantissa_bits)
        had = Signal()
        has = had | Cat(at(list(sector.elements[i]), bit) for i in range(lanes)).any()
        with m.If(fires):
            m.d.sync += had.eq(has & ~sector.ends)
        bench.require(at(list(before.together), bit) == had, at(list(out.together), bit) == has)
    bench.cover(made[0].i.valid & (out.kept == shape.elements), made[0].i.valid & (out.kept == 0))
    return bench


def total_proof(lanes):
    """Sums of blocks up to that of all, and the sum of all at once, are the same number."""
    bench = Bench()
    numbers = [any_number(bench, 3, f"width_{i}") for i in range(lanes)]
    *_, (whole,) = block_sums(bench.m, numbers, name="sum")
    bench.assume(*(width <= 4 for width in numbers))
    bench.require(whole == total(numbers))
    bench.cover(whole == 4 * lanes)
    return bench


PROOFS = {
    "counter": counter_proof,
    "meter": meter_proof,
    "placer": placer_proof,
    "classes": class_proof,
    "widths": width_proof,
    "indices": index_proof,
    "escapes": escape_proof,
}


@pytest.mark.parametrize("shape", names(SHAPES, quick=QUICK))
@pytest.mark.parametrize("proof", names(PROOFS, quick=["placer", "escapes"]))
def test_fields_are_behind_those_of_the_elements_before(proof, shape, tmp_path, monkeypatch):
    prove(PROOFS[proof](shape, monkeypatch), tmp_path, depth=1, cover_depth=10)


@pytest.mark.parametrize("lanes", widths(8, 16, 32, 64, 128, quick=[16]))
def test_sums_are_the_same_in_blocks_and_at_once(lanes, tmp_path):
    check(total_proof(lanes), tmp_path, depth=1, cover_depth=1)


FAULTS = {
    "escapes of the last line count": (
        LineMeter,
        "before.eq(Mux(sector.ends, 0, counted.as_value()))",
        "before.eq(counted.as_value())",
        "meter",
    ),
    "widths of zeros count": (
        SectorCounter,
        "width.eq(Mux(sector.present[i], needed, 0))",
        "width.eq(needed)",
        "counter",
    ),
    "a raw line goes on by what is kept": (
        FieldPlacer,
        "here + Mux(plan.raw, raw_step, count)",
        "here + count",
        "placer",
    ),
    "extras begin with the escapes": (
        FieldPlacer,
        "plan.extras_at << 3",
        "plan.escapes_at << 3",
        "placer",
    ),
    "a raw line's parts are moved": (
        FieldPlacer,
        "swap & ~stays.replicate(len(swap))",
        "swap",
        "placer",
    ),
    "all exponents are escapes": (
        FieldPlacer,
        'coded.present if counts == "present" else sector.escape',
        "coded.present",
        "placer",
    ),
    "the next line goes on behind": (
        ClassReader,
        "before.eq(Mux(out.ends, 0, before + count))",
        "before.eq(before + count)",
        "classes",
    ),
    "widths of raw lines count": (
        WidthCounter,
        "sector.present & ~sector.layout.raw.replicate(lanes)",
        "sector.present",
        "widths",
    ),
    "a total leaves the last sector out": (
        WidthCounter,
        "totals[0].i.payload.eq(before + sums[-1][0])",
        "totals[0].i.payload.eq(before)",
        "widths",
    ),
    "extras go on as rests do": (
        IndexReader,
        "later_bits.eq(end)",
        "later_bits.eq(bits_at + (count << 3))",
        "indices",
    ),
    "raw rests are moved": (
        IndexReader,
        "swap & ~layout.raw.replicate(len(swap))",
        "swap",
        "indices",
    ),
    "escapes begin inside a byte": (
        EscapeReader,
        "(self.total.payload + 7) >> 3",
        "self.total.payload >> 3",
        "escapes",
    ),
    "a line may end behind its escapes": (
        EscapeReader,
        "end_byte != layout.size",
        "end_byte > layout.size",
        "escapes",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(FAULTS))
def test_fields_that_are_elsewhere_are_found(fault, tmp_path, monkeypatch):
    component, right, wrong, proof = FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(PROOFS[proof]("bf16-S64", monkeypatch), tmp_path, depth=4, cover_depth=4)
