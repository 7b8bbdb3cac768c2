"""Places from which the reader takes an element's fields in a line of XC.

They are those in which `test_xc_written_places.py` has them, found in the same way: ghosts count
what is before a sector, networks are cut out, and pipeline registers are left out (`Straight`).
"""

from types import SimpleNamespace

import pytest
from amaranth.hdl import C, Cat, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnySeq

from cdma.hw.codec.xc.decompressor import class_reader, escape_reader, index_reader
from cdma.hw.codec.xc.decompressor.class_reader import ClassReader, WidthCounter
from cdma.hw.codec.xc.decompressor.escape_reader import EscapeReader
from cdma.hw.codec.xc.decompressor.index_reader import IndexReader
from cdma.hw.codec.xc.payloads import LineShape
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
from tests.formal.codec.xc_places import (
    CutFields,
    LineGhosts,
    Places,
    are_one_tree,
    cut_widths,
    goes_these_ways,
    len_of,
    number,
)
from tests.formal.smtbmc import prove
from tests.lib.shares import names

QUICK = ("bf16-S32",)


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


def low_bits(count):
    """So many ones."""
    return (1 << count) - 1


def byte_at(body, place):
    """A byte of a line; behind the line, zero."""
    return Mux(place < len(body) // 8, body.word_select(place, 8), 0)


def is_filled(body, end):
    """A bit is set behind a field in the byte in which it ends, so before the next field."""
    return (end[:3] != 0) & ((byte_at(body, end[3:]) >> end[:3]) != 0)


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

    # The extras are split by the sums of widths, and trimmed rests into as many bits for each lane.
    out = block.o.payload
    splits = [level for name, level in cuts.parted.items() if name.startswith("split")]
    lengths = [
        [summed[f"sum_{lanes // len(level.sums)}_{b}"] for b in range(len(level.sums))]
        for level in splits
    ]
    bench.require(*are_one_tree(splits, cuts.shifted["field"], lengths))
    lane = any_number(bench, range(lanes), "lane")
    width = at([summed[f"sum_1_{i}"] for i in range(lanes)], lane)
    index = number(4, at(splits[-1].pieces, lane) & low_bits(width), "own_index", m)
    own_class = at([sector.numbers[i] for i in range(lanes)], lane)
    bench.require(
        at([out.indices[i] for i in range(lanes)], lane) == index,
        at(list(out.escape), lane) == ((own_class == 3) & (index == 15)),
        out.sector.as_value() == sector.as_value(),
    )
    if form.trims:
        splits = [level for name, level in cuts.parted.items() if name.startswith("rests")]
        lengths = [[lanes // len(level.sums) * rest_width] * len(level.sums) for level in splits]
        bench.require(*are_one_tree(splits, cuts.shifted["rest_row"], lengths))
        rest = at(splits[-1].pieces, lane) & low_bits(rest_width)
        bench.require(at([out.rest[i] for i in range(lanes)], lane) == rest)

    # Behind the rests and the extras of a whole line there are zeros, or it is refused.
    coded = ~layout.raw & ~layout.zero
    rest_bits = number(16, (ghosts.kept + kept) * rest_width, "rest_bits", m)
    rest_end = number(16, 8 * layout.rest_at + rest_bits, "rest_end", m)
    extras_end = number(16, places.extras + length, "extras_end", m)
    # As the line's head has them, which `test_xc_codes.py` proves.
    ends = ghosts.ends & coded
    bench.assume(~ends | (layout.extras_at == layout.rest_at + padded(rest_bits)))
    if len(layout.rest_fill):
        bench.assume(~ends | (layout.rest_fill == rest_bits[:3]))
        (last_of_rests,) = cuts.rings["rest_last"]
        bench.require(cuts.lines["rest_last"] == Cat(C(0, 8), body))
        bench.assume(
            last_of_rests == at([C(0, 8), *block.line.payload.payload], cuts.places["rest_last"])
        )
    # What is picked and then turned has the line's bytes from the place on.
    ahead = number(8, (extras_end >> 3) - (places.extras >> 3), "ahead", m)
    bench.assume(at(cuts.rings["extras_ring"], ahead) == byte_at(body, extras_end >> 3))
    pads_rest, pads_extras = is_filled(body, rest_end), is_filled(body, extras_end)
    bench.implies(goes & ends, out.misfilled == (pads_rest | pads_extras))
    bench.implies(goes & coded & ~ghosts.ends, ~out.misfilled)
    bench.require(
        out.truncated == block.line.payload.truncated, out.last == block.line.payload.last
    )
    bench.cover(
        goes & ghosts.ends & ~layout.raw & (places.extras == last_bit),
        goes & ghosts.ends & layout.raw,
        goes & ends & pads_extras & ~pads_rest,
    )
    if len(layout.rest_fill):
        bench.cover(goes & ends & pads_rest & ~pads_extras)
    return bench


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

    # Of a line that ends there, bits behind them are zero, or it is refused.
    out, whole = block.o.payload, coded & ghosts.ends & (padded(end) == layout.size)
    body = block.line.payload.payload.as_value()
    pads = is_filled(body, end)
    if shape.pads_escapes:
        (last,) = cuts.rings["last"]
        bench.require(cuts.lines["last"] == Cat(C(0, 8), body))
        bench.assume(last == at([C(0, 8), *block.line.payload.payload], cuts.places["last"]))
        bench.cover(goes & whole & pads)
    more = C(0)
    if form.trims:
        # Trimmed rests get to their lanes, and their zeros back. No more could have been left out.
        rests, present = cuts.moved["rest"], list(sector.present)
        lane = any_number(bench, range(lanes), "lane")
        bench.require(
            Cat(rests) == indexed.rest.as_value(),
            *(own == way for own, way in zip(cuts.levels["rest"], indexed.ways, strict=True)),
            at([cut.made[0].i.payload.indexed.rest[i] for i in range(lanes)], lane)
            == (at(rests, lane) << layout.dropped)[: shape.rest.width],
        )
        had, has = Signal(), Signal()
        m.d.comb += has.eq(had | Cat(a[0] & b for a, b in zip(rests, present, strict=True)).any())
        with m.If(fires):
            m.d.sync += had.eq(has & ~ghosts.ends)
        bench.require(Mux(ghosts.begins, ~had, inside.register("before") == had))
        more = ~has & (layout.dropped != form.mantissa_bits)
        bench.cover(goes & whole & more, goes & whole & ~more & (layout.dropped == 5))
    bench.implies(goes & whole, out.misfilled == (indexed.misfilled | pads | more))
    bench.implies(goes & coded & ~ghosts.ends, out.misfilled == indexed.misfilled)
    bench.require(
        ~(layout.raw | layout.zero) | ~out.misfilled,
        out.truncated == indexed.truncated,
        out.last == indexed.last,
    )
    bench.cover(
        goes & ghosts.ends & coded & (end == 8 * layout.size) & (escapes == lanes),
        goes & block.o.payload.miscounted,
    )
    return bench


PROOFS = {
    "classes": class_proof,
    "widths": width_proof,
    "indices": index_proof,
    "escapes": escape_proof,
}


@pytest.mark.parametrize("shape", names(SHAPES, quick=QUICK))
@pytest.mark.parametrize("proof", names(PROOFS, quick=["escapes"]))
def test_fields_are_behind_those_of_the_elements_before(proof, shape, tmp_path, monkeypatch):
    prove(PROOFS[proof](shape, monkeypatch), tmp_path, depth=1, cover_depth=10)


FAULTS = {
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
    find_fault(PROOFS[proof]("bf16-S64", monkeypatch), tmp_path, depth=4)


REFUSALS = {
    "rests with anything in their last bit": (
        IndexReader,
        "misfilled(last, layout.rest_fill)",
        "misfilled(last, layout.rest_fill + 1)",
        "indices",
        "fp16-S64",
    ),
    "rests that end elsewhere": (
        IndexReader,
        "[C(0, 8), *payload], layout.extras_at",
        "[C(0, 8), *payload], layout.rest_at",
        "indices",
        "fp16-S64",
    ),
    "extras that begin with a byte": (
        IndexReader,
        "span.eq(whole.at[:3] + ",
        "span.eq(",
        "indices",
        "bf16-S64",
    ),
    "escapes behind which there is anything": (
        EscapeReader,
        "[C(0, 8), *line], layout.size",
        "[C(0, 8), *line], layout.extras_at",
        "escapes",
        "fp16-S64",
    ),
    "a line whose rests are followed by anything": (
        EscapeReader,
        "(indexed.misfilled | found.misfilled if",
        "(found.misfilled if",
        "escapes",
        "fp16-S64",
    ),
    "zeros that the line before has": (
        EscapeReader,
        "(before & ~source.sector.begins)",
        "before",
        "escapes",
        # Where a line is one sector, the next one is soon.
        "fp32-S128",
    ),
    "rests that get too few zeros": (
        EscapeReader,
        "rest, layout.dropped, shape.rest.width",
        "rest, layout.dropped[:3], shape.rest.width",
        "escapes",
        "fp32-S64",
    ),
    "rests that are parted elsewhere": (
        IndexReader,
        "[width * span]",
        "[width + span]",
        "indices",
        "fp32-S64",
    ),
    "indices that are parted as the first ones": (
        IndexReader,
        'last[f"sum_{span_here}_{b}"]',
        'last[f"sum_{span_here}_0"]',
        "indices",
        "bf16-S64",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(REFUSALS))
def test_bits_behind_and_between_fields_are_found(fault, tmp_path, monkeypatch):
    component, right, wrong, proof, shape = REFUSALS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(PROOFS[proof](shape, monkeypatch), tmp_path, depth=3)
