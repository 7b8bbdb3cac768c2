"""Places in which the compressor puts an element's fields in a line of XC.

A field of an element begins behind those of all elements before it in the line. Each stage counts
that sector by sector; here it is compared with ghosts that count in the plainest way, of any line.
The networks that move bits are cut out: what is proven is where they are told to move them, and
`test_xc_fields.py` has what they then do. Pipeline registers are left out (`Straight`).
"""

import pytest
from amaranth.hdl import C, Cat, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.hw.codec.xc.compressor import meter, placer
from cdma.hw.codec.xc.compressor.meter import LineMeter, LineTotals
from cdma.hw.codec.xc.compressor.placer import FieldPlacer, SectorCounter
from cdma.hw.codec.xc.payloads import LineShape
from cdma.hw.codec.xc.trees import block_sums
from cdma.hw.lib.count import total
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.xc_lines import SHAPES, any_number, shape_of, straighten
from tests.formal.codec.xc_places import (
    CutFields,
    LineGhosts,
    Places,
    are_one_tree,
    cut_widths,
    goes_these_ways,
    len_of,
    number,
    own_width,
)
from tests.formal.smtbmc import check, prove
from tests.lib.shares import names, widths

QUICK = ("bf16-S32",)


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

    # Indices are joined by the sums of widths, and trimmed rests as so many bits of each lane.
    merges = [level for name, level in cuts.joined.items() if name.startswith("merge")]
    spans = [lanes // len(level.fields) for level in merges]
    bench.require(
        *are_one_tree(
            merges,
            Cat(Mux(plan.raw, 0, coded.codes[i].index) for i in range(lanes)),
            [[sector[f"sum_{span}_{b}"] for b in range(lanes // span)] for span in spans],
        ),
        cuts.shifts["shifted"] == merges[-1].pieces[0],
    )
    if form.trims:
        merges = [level for name, level in cuts.joined.items() if name.startswith("rests")]
        spans = [lanes // len(level.fields) for level in merges]
        bench.require(
            *are_one_tree(
                merges,
                Cat(cuts.moved["rest"]),
                [[rest_width * span] * (lanes // span) for span in spans],
            ),
            cuts.shifts["rest_row"] == merges[-1].pieces[0],
        )
    bench.cover(
        goes & ghosts.ends & ~plan.raw & (places.extras == last_bit),
        goes & ghosts.ends & plan.raw,
    )
    return bench


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
}


@pytest.mark.parametrize("shape", names(SHAPES, quick=QUICK))
@pytest.mark.parametrize("proof", names(PROOFS, quick=["placer"]))
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
    "indices are joined as the first ones": (
        FieldPlacer,
        'sums = [sector[f"sum_{span}_{b}"]',
        'sums = [sector[f"sum_{span}_0"]',
        "placer",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(FAULTS))
def test_fields_that_are_elsewhere_are_found(fault, tmp_path, monkeypatch):
    component, right, wrong, proof = FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(PROOFS[proof]("bf16-S64", monkeypatch), tmp_path, depth=4)


@pytest.mark.verify
def test_trimmed_rests_that_are_joined_elsewhere_are_found(tmp_path, monkeypatch):
    right, wrong = "[width << level] * len(row)", "[width << level + 1] * len(row)"
    break_elaborate(monkeypatch, FieldPlacer, right, wrong)
    find_fault(placer_proof("fp32-S64", monkeypatch), tmp_path, depth=3)
