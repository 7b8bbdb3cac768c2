"""XC's codes of elements, both ways, and the heads of its lines: what is written is read back.

Of every element format at every width that ships. The logic has no state: pipeline registers are
left out (`Straight`), or hold anything, and the first cycle is all there is.
"""

import pytest
from amaranth.hdl import C, Cat, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import data

from cdma.golden import StreamStatus
from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.xc import classes
from cdma.hw.codec.xc.classes import Code, Parameters
from cdma.hw.codec.xc.compressor import class_coder, meter
from cdma.hw.codec.xc.compressor.class_coder import ClassCoder
from cdma.hw.codec.xc.compressor.meter import LineMeter, LineTotals
from cdma.hw.codec.xc.decompressor import escape_reader, head
from cdma.hw.codec.xc.decompressor.escape_reader import EscapeReader
from cdma.hw.codec.xc.decompressor.head import HeadReader, payload_elements
from cdma.hw.codec.xc.payloads import LineShape
from tests.formal.bench import Bench
from tests.formal.broken import break_elaborate, break_function, find_fault
from tests.formal.codec.lane_theorems import at
from tests.formal.codec.test_lanes import any_counts
from tests.formal.codec.xc_lines import (
    DENSE,
    FORMATS,
    LINE_BYTES,
    MOST_BEHIND,
    RAW,
    SHAPES,
    SPARSE,
    ZERO,
    Fields,
    any_number,
    extra_bits,
    layout_of,
    padded,
    shape_of,
    straighten,
    table_code,
)
from tests.formal.smtbmc import check
from tests.lib.shares import names

CODED = [name for name in SHAPES if name.endswith("S32") or name.startswith("bf16")]
"""All element formats at one width, and one of them at all: lanes are copies of one another."""


class CutTables:
    """Stand-ins for the tables of codes in a module: whatever `code_proof` says of one lane's.

    Attributes
    ----------
    coded : list
        Distance, pattern and code of each `code_of`, in the order of the lanes.
    meant : list
        Code, pattern and distance of each `distance_of`.
    """

    def __init__(self, patch, module):
        self.coded = []
        self.meant = []

        def code_of(m, distance, pattern, *, name):
            code = Signal(Code(), name=name)
            m.d.comb += code.as_value().eq(AnySeq(len(code.as_value())))
            self.coded.append((distance, pattern, code))
            return code

        def distance_of(m, code, pattern, *, name):
            distance = Signal(8, name=name)
            m.d.comb += distance.eq(AnySeq(8))
            self.meant.append((code, pattern, distance))
            return distance

        patch.setattr(module, "code_of", code_of)
        if hasattr(module, "distance_of"):
            patch.setattr(module, "distance_of", distance_of)

    def assume_theorem(self, bench, lane):
        """A lane's codes and distances are those of the table."""
        for cuts, is_coded in ((self.coded, True), (self.meant, False)):
            if not cuts:
                continue
            first, pattern, second = (
                at([Value.cast(cut[k]) for cut in cuts], lane) for k in range(3)
            )
            distance, bits = (first, second) if is_coded else (second, first)
            name = "coded" if is_coded else "meant"
            code = data.View(Code(), bits[: Code().size])
            right = table_code(bench.m, distance, pattern, name=name)
            same = (code.number == right.number) & (code.index == right.index)
            is_meant = ((code.index >> extra_bits(code.number, pattern)) == 0) & ~(
                (code.number == 3) & (code.index == 15)
            )
            bench.assume(same if is_coded else ~is_meant | same)


def code_proof():
    """Any distance has the code of the table, and any code the distance that has it."""
    bench = Bench()
    m = bench.m
    distance, pattern = any_number(bench, 8, "distance"), any_number(bench, 2, "pattern")
    code = classes.code_of(m, distance, pattern, name="code")
    right = table_code(m, distance, pattern, name="right")
    back = classes.distance_of(m, code, pattern, name="back")
    bench.require(
        code.number == right.number,
        code.index == right.index,
        classes.is_escape(code) == right.is_escape,
        right.is_escape | (back == distance),
    )
    given = any_number(bench, Code(), "given")
    width = classes.width_of(m, given.number, pattern, name="width")
    bench.require(width == extra_bits(given.number, pattern))
    meant = classes.distance_of(m, given, pattern, name="meant")
    again = table_code(m, meant, pattern, name="again")
    has_room = (given.index >> width) == 0
    bench.implies(
        has_room & ~classes.is_escape(given),
        again.number == given.number,
        again.index == given.index,
    )
    bench.cover(right.is_escape, has_room & (meant == 25), has_room & (meant == 251))
    return bench


def coder_proof(shape, patch):
    """A lane that the solver picks, of any sector: what the coder gives of its element."""
    config, form = shape_of(shape)
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        straighten(context, class_coder)
        tables = CutTables(context, class_coder)
        coder = ClassCoder(config, form)
        bench.add(coder)
    bench.drive(coder.i)
    sector, out = coder.i.payload, coder.o.payload
    lanes = LineShape.of(config, form).lanes
    lane = any_number(bench, range(lanes), "lane")
    bits = sector.elements.as_value()
    word = Signal(form.bits)
    parameters = data.View(Parameters(), sector.parameters[: Parameters().size])
    m.d.comb += word.eq(at([bits.word_select(i, form.bits) for i in range(lanes)], lane))
    distance = Signal(8)
    m.d.comb += distance.eq(parameters.centre - Fields.of(word, form).exponent)
    right = table_code(m, distance, parameters.pattern, name="right")
    tables.assume_theorem(bench, lane)
    present = Signal()
    m.d.comb += present.eq((word != 0) & ~sector.empty)
    element = at([out.elements[i] for i in range(lanes)], lane)
    number = at([out.codes[i].number for i in range(lanes)], lane)
    index = at([out.codes[i].index for i in range(lanes)], lane)
    bench.require(
        at(list(out.present), lane) == present,
        element == Mux(present, word, 0),
        number == Mux(present, right.number, 0),
        index == Mux(present, right.index, 0),
        out.pattern == parameters.pattern,
        out.last == sector.last,
        out.empty == sector.empty,
        coder.o.valid == coder.i.valid,
        coder.i.ready == coder.o.ready,
    )
    bench.m.d.comb += coder.o.ready.eq(AnySeq(1))
    bench.cover(present & right.is_escape & (lane == lanes - 1))
    return bench


def element_proof(shape, patch):
    """A lane that the solver picks, from whatever the reader's registers hold, to its element.

    The other way, an element about which nothing is wrong has just this code.
    """
    config, form = shape_of(shape)
    lanes = LineShape.of(config, form).lanes
    bench = Bench()
    m = bench.m
    escapes = [Signal(form.exponent_bits, name=f"escape_{i}") for i in range(lanes)]
    for escape in escapes:
        m.d.comb += escape.eq(AnySeq(len(escape)))
    real = escape_reader.scatter

    def spread(m, elements, levels, *, name, **options):
        return escapes if name == "escapes" else real(m, elements, levels, name=name, **options)

    with patch.context() as context:
        made = straighten(context, escape_reader, free=[escape_reader._PickedEscapes])
        context.setattr(escape_reader, "scatter", spread)
        # What leads to the registers is of no matter.
        context.setattr(escape_reader, "ones_before", lambda m, present, *, name: ([], C(0, 1)))
        context.setattr(escape_reader, "swaps", lambda *_, name: [])
        context.setattr(
            escape_reader,
            "picked",
            lambda m, line, place, lanes, *, name: [C(0, len(line[0]))] * lanes,
        )
        tables = CutTables(context, escape_reader)
        reader = EscapeReader(config, form)
        bench.add(reader)
    found = made[-1].o.payload
    indexed, layout = found.indexed, found.indexed.sector.layout
    decoded = reader.o.payload
    lane = any_number(bench, range(lanes), "lane")
    each = range(lanes)
    number = at([indexed.sector.numbers[i] for i in each], lane)
    index = at([indexed.indices[i] for i in each], lane)
    rest = at([indexed.rest[i] for i in each], lane)
    escape = at(escapes, lane)
    is_escaped = at(list(indexed.escape), lane)
    present = at(list(indexed.sector.present), lane)
    element = at([decoded.elements[i] for i in each], lane)
    wrong = at(list(decoded.wrong), lane)
    parameters = layout.parameters
    tables.assume_theorem(bench, lane)
    # As `IndexReader` has them.
    bench.assume(
        (index >> extra_bits(number, parameters.pattern)) == 0,
        is_escaped == ((number == 3) & (index == 15)),
    )

    word = any_number(bench, form.bits, "word")
    parts = Fields.of(word, form)
    distance = Signal(8)
    m.d.comb += distance.eq(parameters.centre - parts.exponent)
    code = table_code(m, distance, parameters.pattern, name="code")
    is_code = Signal()
    m.d.comb += is_code.eq(
        (word != 0)
        & (number == code.number)
        & (index == code.index)
        & (rest == Cat(parts.mantissa, parts.sign))
        & (~code.is_escape | (escape == parts.exponent))
    )
    coded = present & ~layout.raw
    bench.implies(coded & is_code, element == word, ~wrong)
    bench.implies(coded & (element == word) & ~wrong, is_code)
    bench.implies(~layout.raw & ~present, element == 0, ~wrong)
    # A raw sector is the rests' bits, and behind them the escapes'.
    raw_bits = Cat(*(indexed.rest[i] for i in each), *escapes)
    raw_word = at([raw_bits.word_select(i, form.bits) for i in each], lane)
    bench.implies(layout.raw, element == raw_word, ~wrong)
    bench.cover(coded & is_code & code.is_escape, coded & is_code & ~code.is_escape, coded & wrong)
    return bench


def plan_proof(form, patch):
    """Any counts of a line give the places of its fields, and its header."""
    config, _ = shape_of(f"{form.name}-S32")
    bench = Bench()
    m = bench.m
    with patch.context() as context:
        made = straighten(context, meter, free=[LineTotals])
        line_meter = LineMeter(config, form)
        bench.add(line_meter)
    totals, plan = made[0].o.payload, line_meter.o.payload
    kept, escapes = totals.kept, totals.escapes
    # An index has at most four bits, and an escape's has all of them.
    bench.assume(kept <= form.line_elements, totals.bits <= 4 * kept, 4 * escapes <= totals.bits)
    dropped = Signal(8)
    if form.trims:
        together = totals.together
        m.d.comb += dropped.eq(form.mantissa_bits)
        for k in reversed(range(form.mantissa_bits)):
            with m.If(together[k]):
                m.d.comb += dropped.eq(k)
    behind, extra_bytes = Signal(16), Signal(16)
    m.d.comb += [
        extra_bytes.eq(padded(totals.bits)),
        behind.eq(extra_bytes + padded(form.exponent_bits * escapes)),
    ]
    layout = layout_of(m, form, kept, dropped, behind, name="right")
    fits = Signal()
    zero = kept == 0
    m.d.comb += fits.eq((behind <= MOST_BEHIND) & (layout.size + form.header_bytes <= LINE_BYTES))
    kind = Mux(zero, ZERO, Mux(~fits, RAW, Mux(kept == form.line_elements, DENSE, SPARSE)))
    coded = ~zero & fits
    bench.require(
        plan.header[6:8] == kind,
        plan.header[:6] == Mux(coded, behind, 0),
        plan.raw == (kind == RAW),
        plan.sparse == (kind == SPARSE),
        plan.size == Mux(zero, 0, Mux(fits, layout.size, LINE_BYTES)),
        plan.last == totals.last,
        plan.empty == totals.empty,
    )
    bench.implies(
        coded,
        plan.rest_at == layout.rest_at,
        plan.extras_at == layout.extras_at,
        plan.escapes_at == layout.extras_at + extra_bytes,
    )
    if form.trims:
        bench.require(
            plan.dropped == Mux(coded, dropped, 0), plan.header[8:] == Mux(coded, dropped, 0)
        )
        width = form.mantissa_bits + 1
        bench.implies(~zero, plan.rest_width == Mux(fits, width - dropped, width))
    bench.cover(
        zero,
        *(~zero & (kind == one) for one in (DENSE, SPARSE, RAW)),
        coded & (layout.size + form.header_bytes == LINE_BYTES),
        ~zero & (layout.size + form.header_bytes == LINE_BYTES + 1) & (behind <= MOST_BEHIND),
        coded & (behind >= 40),
    )
    return bench


class AnyHead:
    """A reader of any head, and of its mask any number of ones.

    Attributes
    ----------
    reader : HeadReader
    ones : Signal
        In its mask, if that is what is there.
    """

    def __init__(self, bench, form, patch):
        config, _ = shape_of(f"{form.name}-S32")
        self.ones = any_number(bench, range(form.line_elements + 1), "ones")
        bench.assume(self.ones <= form.line_elements)
        with patch.context() as context:
            straighten(context, head)
            context.setattr(head, "total", lambda values: self.ones)
            self.reader = HeadReader(config, form, staged=True)
            bench.add(self.reader)
            self.unpacked = payload_elements(
                [self.reader.i.payload.header.word_select(k, 8) for k in range(form.header_bytes)]
                + [Cat(self.reader.i.payload.front[:8])],
                config,
                form,
            )
        bench.drive(self.reader.i)
        bench.m.d.comb += self.reader.o.ready.eq(1)


def head_proof(form, patch):
    """Any head: it is refused, or its fields are where those of such a line are."""
    bench = Bench()
    m = bench.m
    any_head = AnyHead(bench, form, patch)
    line, out = any_head.reader.i.payload, any_head.reader.o.payload
    layout, header, ones = out.layout, line.header, any_head.ones
    elements, header_bytes = form.line_elements, form.header_bytes
    kind, behind = header[6:8], header[:6]
    coded = (kind == DENSE) | (kind == SPARSE)
    kept, dropped = Signal(16), Signal(8)
    m.d.comb += [
        kept.eq(Mux(kind == DENSE, elements, ones)),
        dropped.eq(header[8:] if form.trims else 0),
    ]
    right = layout_of(m, form, kept, dropped, behind, name="right")
    # A mask of all ones is no mask's, and takes room all the same.
    mask_bytes = elements // 8
    is_mask = (ones != 0) & (ones != elements)
    sound = Mux(
        coded,
        (dropped <= form.mantissa_bits)
        & (right.size + header_bytes <= LINE_BYTES)
        & ((kind == DENSE) | is_mask),
        (header[:6] == 0) & (header[8:] == 0),
    )
    is_cut = (line.truncation == Truncation.MASK) | (
        (line.truncation == Truncation.PAYLOAD) & (line.count < mask_bytes) & (kind == SPARSE)
    )
    status = Mux(
        line.empty,
        StreamStatus.OK.value,
        Mux(
            is_cut,
            StreamStatus.MASK_TRUNCATED.value,
            Mux(sound, StreamStatus.OK.value, StreamStatus.BAD_TOKEN.value),
        ),
    )
    bench.require(
        layout.status == status,
        layout.raw == (kind == RAW),
        layout.zero == (line.empty | (kind == ZERO)),
        layout.header == header,
        layout.parameters.as_value() == line.parameters,
        layout.empty == line.empty,
    )
    bench.implies(kind == ZERO, layout.size == 0)
    bench.implies(kind == RAW, layout.size == LINE_BYTES)
    bench.implies(
        coded & sound,
        layout.size == right.size,
        any_head.unpacked == right.size,
        layout.rest_at == right.rest_at,
        layout.extras_at == right.extras_at,
    )
    # What the unpacker takes is no more than a line, and what is wrong is in it.
    bench.require(any_head.unpacked <= LINE_BYTES)
    bench.implies(coded & ~sound & (kind == SPARSE), any_head.unpacked >= mask_bytes)
    bench.implies(kind == ZERO, any_head.unpacked == 0)
    bench.implies(kind == RAW, any_head.unpacked == LINE_BYTES)
    if form.trims:
        width = form.mantissa_bits + 1
        bench.implies(kind == RAW, layout.dropped == 0, layout.rest_width == width)
        bench.implies(
            coded & sound, layout.dropped == dropped, layout.rest_width == width - dropped
        )
    if len(layout.rest_fill):
        bench.implies(coded & sound, layout.rest_fill == right.rest_bits[:3])

    # The mask and the classes, bit by bit.
    bit = any_number(bench, range(2 * elements), "bit")
    mask_bit = line.front.bit_select(bit, 1)
    bench.implies(
        bit < elements,
        out.mask.bit_select(bit, 1) == Mux(layout.zero, 0, Mux(kind == SPARSE, mask_bit, 1)),
    )
    place = Signal(16)
    m.d.comb += place.eq(bit + 8 * right.classes_at)
    there = line.front.bit_select(place, 1)
    bench.implies(coded & sound, out.classes.bit_select(bit, 1) == there)
    # Any bit behind the classes, up to the byte's end, that is not zero.
    is_padding = (bit >= 2 * kept) & (bit < 8 * padded(2 * kept))
    bench.implies(coded & sound & is_padding & there, layout.misfilled)
    bench.implies(~coded | ((kept & 3) == 0), ~layout.misfilled)
    last, last_at = Signal(8), Signal(16)
    m.d.comb += [last_at.eq(right.rest_at - 1), last.eq(line.front.word_select(last_at, 8))]
    bench.implies(
        coded & sound & ((last >> (2 * kept[:2])[:3]) == 0) & (kept[:2] != 0),
        ~layout.misfilled,
    )
    bench.cover(
        coded & sound & (right.size + header_bytes == LINE_BYTES),
        coded & ~sound & is_mask & (right.size + header_bytes == LINE_BYTES + 1),
        coded & sound & layout.misfilled,
    )
    return bench


def ones_proof(form):
    """The ones of a mask are counted: as many as its lanes' counts grow to."""
    bench = Bench()
    m = bench.m
    mask_bits = form.line_elements
    mask = Signal(mask_bits)
    counts = any_counts(bench, mask_bits, mask, "counts")
    words = head._words(mask)
    by_byte = [head.count_ones(word) for word in words]
    for k, count in enumerate(by_byte):
        bench.require(count == (counts.below[8 * k + 8] - counts.below[8 * k])[:8])
    # With any such counts of bytes, the sum of them.
    free = [any_number(bench, 4, f"count_{k}") for k in range(len(words))]
    so_far = Signal(range(mask_bits + 1), name="so_far_0")
    for k, count in enumerate(free):
        bench.assume(count <= 8)
        behind = Signal(range(mask_bits + 1), name=f"so_far_{k + 1}")
        m.d.comb += behind.eq(so_far + count)
        so_far = behind
    bench.require(head.total(free) == so_far)
    bench.cover(counts.all == mask_bits, so_far == mask_bits // 2)
    return bench


def test_every_distance_has_a_code_and_comes_back(tmp_path):
    check(code_proof(), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("shape", names(CODED, quick=["bf16-S32"]))
def test_coder_gives_each_element_its_code(shape, tmp_path, monkeypatch):
    check(coder_proof(shape, monkeypatch), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("shape", names(CODED, quick=["bf16-S32"]))
def test_reader_makes_of_each_code_its_element(shape, tmp_path, monkeypatch):
    check(element_proof(shape, monkeypatch), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("form", names(FORMATS, quick=["bf16"]))
def test_plan_is_the_layout_of_what_was_counted(form, tmp_path, monkeypatch):
    check(plan_proof(FORMATS[form], monkeypatch), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("form", names(FORMATS, quick=["bf16"]))
def test_head_has_the_layout_of_its_line_or_is_refused(form, tmp_path, monkeypatch):
    check(head_proof(FORMATS[form], monkeypatch), tmp_path, depth=1, cover_depth=1)


@pytest.mark.parametrize("form", names(FORMATS, quick=["bf16"]))
def test_ones_of_a_mask_are_counted(form, tmp_path):
    check(ones_proof(FORMATS[form]), tmp_path, depth=1, cover_depth=1)


@pytest.mark.verify
def test_codes_that_are_looked_up_wrongly_are_found(tmp_path, monkeypatch):
    right, wrong = "-32 <= signed < 32", "-4 <= signed < 32"
    break_function(monkeypatch, classes, "code_of", right, wrong)
    find_fault(code_proof(), tmp_path, depth=1)


FAULTS = {
    "the exponent less the centre": (
        ClassCoder,
        "centre_less(m, parameters.centre, exponent,",
        "centre_less(m, exponent, parameters.centre,",
        lambda patch: coder_proof("bf16-S32", patch),
    ),
    "codes of zeros": (
        ClassCoder,
        "Mux(present, code.as_value(), Code().const(None).as_bits())",
        "code.as_value()",
        lambda patch: coder_proof("bf16-S32", patch),
    ),
    "an escape of what has a code": (
        EscapeReader,
        "indexed.escape[i] & ~is_escape(recoded)",
        "indexed.escape[i] & is_escape(recoded)",
        lambda patch: element_proof("bf16-S32", patch),
    ),
    "an exponent that is too wide": (
        EscapeReader,
        "| exponent[elements.exponent_bits :].any()",
        "",
        lambda patch: element_proof("fp16-S32", patch),
    ),
    "an element of zeros": (
        EscapeReader,
        "(element == 0)\n",
        "C(0)\n",
        lambda patch: element_proof("bf16-S32", patch),
    ),
    "zeros that the rests do not share": (
        LineMeter,
        '"1" + "0" * k',
        '"-" + "0" * k',
        lambda patch: plan_proof(FORMATS["fp32"], patch),
    ),
    "a mask of all ones": (
        HeadReader,
        "(ones == 0) | (ones == shape.elements)",
        "ones == 0",
        lambda patch: head_proof(FORMATS["bf16"], patch),
    ),
    "padding that is not looked at": (
        HeadReader,
        "for k in (1, 2)",
        "for k in (0, 2)",
        lambda patch: head_proof(FORMATS["bf16"], patch),
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("fault", list(FAULTS))
def test_codes_and_heads_that_are_wrong_are_found(fault, tmp_path, monkeypatch):
    component, right, wrong, proof = FAULTS[fault]
    break_elaborate(monkeypatch, component, right, wrong)
    find_fault(proof(monkeypatch), tmp_path, depth=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("size > longest", "size > longest + 1"),
        ("((totals.kept + 3) >> 2)", "((totals.kept + 2) >> 2)"),
    ],
)
def test_plan_of_another_layout_is_found(right, wrong, tmp_path, monkeypatch):
    break_function(monkeypatch, meter, "fields_of", right, wrong)
    find_fault(plan_proof(FORMATS["bf16"], monkeypatch), tmp_path, depth=1)
