"""Puts the fields of coded sectors at their places in the line."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.xc.classes import is_escape, width_of
from cdma.hw.codec.xc.payloads import BF16, CodedSector, LineField, LinePlan, LineShape
from cdma.hw.codec.xc.trees import block_sums
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fields import merge_level, shifted_down, shifted_up
from cdma.hw.lib.lanes import gather, ones_before, swaps
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.places import turned_up

JOINING_STAGES = 1
"""In which trimmed rests are joined."""


def _counts(lanes: int, what: str) -> dict[str, int]:
    """Fields for what `ones_before` counts, the last one all of them."""
    fields = {f"{what}_before_{i}": max((i & -i).bit_length(), 1) for i in range(lanes)}
    return {**fields, f"{what}_count": lanes.bit_length()}


class CountedSector(data.StructLayout):
    """A coded sector, with what was counted in it.

    Members
    -------
    coded
        Without what is only needed to count.
    escape
        Lanes whose exponents are escaped.
    present_before_*, escape_before_*
        As `ones_before` counts them.
    sum_1_*, sum_2_* …
        Sums of 1, 2 … neighboring widths; the last one is that of all.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        lanes = LineShape.of(config, elements).lanes
        sums: dict[str, int] = {}
        span = 1
        while span <= lanes:
            sums |= {f"sum_{span}_{b}": (4 * span).bit_length() for b in range(lanes // span)}
            span *= 2
        super().__init__(
            {
                "coded": CodedSector(config, elements),
                "escape": lanes,
                **_counts(lanes, "present"),
                **_counts(lanes, "escape"),
                **sums,
            }
        )


class SectorCounter(wiring.Component):
    """Counts, for each lane of a sector, what stands before it in the sector.

    Latency: 1 cycle. Throughput: a sector per cycle.

    Resources: a `CountedSector` of registers; two prefix sums of one bit and a tree of sums of
    widths.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Members
    -------
    i : `In(stream.Signature(CodedSector(config, elements)))`
    o : `Out(stream.Signature(CountedSector(config, elements)))`
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        super().__init__(
            {
                "i": In(stream.Signature(CodedSector(config, elements))),
                "o": Out(stream.Signature(CountedSector(config, elements))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = LineShape.of(self.config, self.elements).lanes
        # Of two names of a wire Yosys keeps the first: a field's then, not a slice of all of them,
        # in which fields that depend on others look like a loop to linters and simulators.
        m.submodules.tally = counted = PipelineRegister(CountedSector(self.config, self.elements))
        wiring.connect(m, counted.o, wiring.flipped(self.o))
        sector, out = self.i.payload, counted.i.payload
        escape = Signal(lanes)
        m.d.comb += [
            counted.i.valid.eq(self.i.valid),
            self.i.ready.eq(counted.i.ready),
            escape.eq(Cat(is_escape(sector.codes[i]) for i in range(lanes))),
            out.coded.eq(sector),
            out.escape.eq(escape),
        ]
        for what, flags in (("present", sector.present), ("escape", escape)):
            before, count = ones_before(m, flags, name=what)
            m.d.comb += [out[f"{what}_before_{i}"].eq(before[i]) for i in range(lanes)]
            m.d.comb += out[f"{what}_count"].eq(count)
        widths = []
        for i in range(lanes):
            width = Signal(3, name=f"present_width_{i}")
            needed = width_of(m, sector.codes[i].number, sector.pattern, name=f"width_{i}")
            m.d.comb += width.eq(Mux(sector.present[i], needed, 0))
            widths.append(width)
        for level in block_sums(m, widths, name="sum"):
            span = lanes // len(level)
            m.d.comb += [out[f"sum_{span}_{b}"].eq(total) for b, total in enumerate(level)]
        return m


class PlacedSector(data.StructLayout):
    """A sector's part of each field, turned to where it lands in the line.

    Members
    -------
    present
        The sector's part of the mask.
    classes, rest, extras, escapes
        Rings: of `CLASS_BITS` bits, of bytes, and as of `LineField`.
    classes_at, rest_at, extras_at, escapes_at
        Where they land, in lanes of those. What lands there is joined to what is there.
    begins, ends
        First and last sector of the line.
    plan
        The line's.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        shape = LineShape.of(config, elements)
        lanes, rest, escapes = shape.lanes, shape.rest, shape.escapes
        place = range(2 * config.line_bytes)
        super().__init__(
            {
                "present": lanes,
                "classes": data.ArrayLayout(unsigned(CLASS_BITS), lanes),
                "rest": rest.ring,
                "extras": data.ArrayLayout(unsigned(8), lanes),
                "escapes": escapes.ring,
                "classes_at": place,
                "rest_at": range(2 * 8 * config.line_bytes // rest.part_bits),
                "extras_at": place,
                "escapes_at": range(2 * 8 * config.line_bytes // escapes.part_bits),
                "begins": 1,
                "ends": 1,
                "plan": LinePlan(config, elements),
            }
        )


class _GatheredSector(data.StructLayout):
    """A `PlacedSector` whose extras are still in pieces, which end at the given bits.

    Packed fields are not where they land either: rows of bits, and the bit of a byte to begin at.
    """

    def __init__(self, config: CodecConfig, pieces: int, elements: ElementFormat) -> None:
        shape = LineShape.of(config, elements)
        lanes = shape.lanes
        piece = 4 * lanes // pieces
        packed: dict[str, int] = {}
        for name, field in (("rest", shape.rest), ("escapes", shape.escapes)):
            if field.is_packed:
                packed |= {f"{name}_row": field.width * lanes, f"{name}_shift": 3}
        super().__init__(
            {
                "placed": PlacedSector(config, elements),
                "pieces": data.ArrayLayout(unsigned(piece), pieces),
                **{
                    f"length_{level}_{b}": (piece << level).bit_length()
                    for level in range((pieces - 1).bit_length())
                    for b in range(pieces >> level)
                },
                "shift": 3,
                **packed,
            }
        )


class FieldPlacer(wiring.Component):
    """Moves what a sector has for each field to where the field goes on in the line.

        classes, rest --> gather --+------------------------> placed
        escapes --------> gather --+
        indices --> merge, 2 levels --> merge, the others --> shift by bits, turn by bytes

    Two stages: networks and half of the merge tree; the rest of the tree, and the extras' shift, as
    well as that of packed fields. Trimmed rests are joined in a stage between. A raw line goes
    through the networks of rest and escapes, as the two parts of its sectors.

    Latency: 2 cycles, or 3 where mantissas are trimmed. Throughput: a sector per cycle. Waits for a
    line's plan before its first sector.

    Resources: two `PlacedSector`s of registers; butterflies of 2 bits per lane and of the fields'
    numbers, a merge tree, and a shifter of a ring of bytes for it and for each packed field.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat

    Members
    -------
    plan : `In(stream.Signature(LinePlan(config, elements)))`
        For each line; taken with its last sector.
    i : `In(stream.Signature(CountedSector(config, elements)))`
    o : `Out(stream.Signature(PlacedSector(config, elements)))`
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        self.config = config
        self.elements = elements
        super().__init__(
            {
                "plan": In(stream.Signature(LinePlan(config, elements))),
                "i": In(stream.Signature(CountedSector(config, elements))),
                "o": Out(stream.Signature(PlacedSector(config, elements))),
            }
        )

    # Classes of four lanes with two elements before them, in a sparse line: they land at 32 + 2.
    #
    #     present  1  0  1  1        classes  c  .  d  e
    #     turned   e  .  c  d        from lane 2 on, round the end

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        shape = LineShape.of(config, elements)
        lanes = shape.lanes
        lane_bits = (lanes - 1).bit_length()
        pieces = max(lanes // 8, 1)
        trims = elements.trims
        layout = _GatheredSector(config, pieces, elements)
        m.submodules.gathered = gathered = PipelineRegister(layout)
        m.submodules.placed = placed = PipelineRegister(PlacedSector(config, elements))
        wiring.connect(m, placed.o, wiring.flipped(self.o))
        sector, plan = self.i.payload, self.plan.payload
        coded = sector.coded
        out = gathered.i.payload

        x_fire = Signal()
        begins = Signal(init=1)
        m.d.comb += [
            gathered.i.valid.eq(self.i.valid & self.plan.valid),
            x_fire.eq(gathered.i.valid & gathered.i.ready),
            self.i.ready.eq(x_fire),
            self.plan.ready.eq(x_fire & coded.ends),
            out.placed.begins.eq(begins),
            out.placed.ends.eq(coded.ends),
            out.placed.plan.eq(plan),
        ]

        # Where each field goes on: from the plan, then as far as the sectors before filled it.
        def place(
            name: str, start: Value, count: Value, bits: int, raw: tuple[int, int] = (0, 0)
        ) -> Signal:
            later = Signal(bits, name=f"later_{name}_at")
            here = Signal(bits, name=f"{name}_at")
            raw_start, raw_step = raw
            m.d.comb += here.eq(Mux(begins, Mux(plan.raw, raw_start, start), later))
            with m.If(x_fire):
                m.d.sync += later.eq(here + Mux(plan.raw, raw_step, count))
            return here

        def field_place(name: str, field: LineField, count: Value, raw_start: int) -> Signal:
            """A field's place, of which the raw line's part begins at so many bits of a sector."""
            width = plan.rest_width if trims and name == "rest" else field.width
            return place(
                name,
                plan[f"{name}_at"] << field.place_bits,
                count * width if field.is_packed else count,
                place_bits + field.place_bits,
                (raw_start // field.unit, 8 * config.sector_bytes // field.unit),
            )

        place_bits = len(plan.rest_at)
        rest_field, escape_field = shape.rest, shape.escapes
        kept, escapes = sector["present_count"], sector["escape_count"]
        mask_lanes = shape.mask_bytes * 8 // CLASS_BITS
        masked = Mux(plan.sparse, mask_lanes, 0)
        classes_at = place("classes", masked, kept, place_bits)
        rest_at = field_place("rest", rest_field, kept, 0)
        escapes_at = field_place("escapes", escape_field, escapes, lanes * rest_field.width)
        length = sector[f"sum_{lanes}_0"]
        extras_at = place("extras", plan.extras_at << 3, length, place_bits + 3)
        with m.If(x_fire):
            m.d.sync += begins.eq(coded.ends)

        # The networks. A raw sector's parts stay in their lanes.
        raw_bits = coded.elements.as_value()
        stays = plan.raw

        def moved(
            name: str, values: list[Value], counts: str, at: Value | None, raw: Value | None
        ) -> list[Value]:
            """The lanes from one on, or from the first one on if they are packed."""
            before = [sector[f"{counts}_before_{i}"] for i in range(lanes)]
            start = None if at is None else at[:lane_bits]
            levels = []
            for k, swap in enumerate(swaps(m, before, start, name=f"{name}_swap")):
                level = Signal(len(swap), name=f"{name}_level_{k}")
                m.d.comb += level.eq(swap & ~stays.replicate(len(swap)))
                levels.append(level)
            inputs: list[Value] = []
            flags = coded.present if counts == "present" else sector.escape
            for i, value in enumerate(values):
                lane = Signal(len(value), name=f"{name}_lane_{i}")
                own = Mux(flags[i], value, 0)
                kept_raw = 0 if raw is None else raw.word_select(i, len(value))
                m.d.comb += lane.eq(Mux(stays, kept_raw, own))
                inputs.append(lane)
            return gather(m, inputs, levels, from_first=at is None, name=name)

        exponent_at = elements.mantissa_bits
        words = [coded.elements[i] for i in range(lanes)]
        rests: list[Value] = [Cat(e[:exponent_at], e[-1]) for e in words]
        if trims:
            rests = [
                shifted_down(m, rest, plan.dropped, rest_field.width, name=f"trimmed_{i}")
                for i, rest in enumerate(rests)
            ]
        exponents: list[Value] = [e[exponent_at:-1] for e in words]
        numbers: list[Value] = [coded.codes[i].number for i in range(lanes)]
        ring = moved("classes", numbers, "present", classes_at, None)
        m.d.comb += [out.placed.classes[i].eq(lane) for i, lane in enumerate(ring)]
        m.d.comb += out.placed.classes_at.eq(classes_at)
        raw_rests = raw_bits[: lanes * rest_field.width]
        raw_exponents = raw_bits[lanes * rest_field.width :]
        packed: list[tuple[str, LineField]] = []
        for name, field, values, counts, at, raw in (
            ("rest", rest_field, rests, "present", rest_at, raw_rests),
            ("escapes", escape_field, exponents, "escape", escapes_at, raw_exponents),
        ):
            ring = moved(name, values, counts, None if field.is_packed else at, raw)
            if field.is_packed:
                packed.append((name, field))
                m.d.comb += [
                    out[f"{name}_row"].eq(Cat(*ring)),
                    out[f"{name}_shift"].eq(at[:3]),
                    out.placed[f"{name}_at"].eq(at >> 3),
                ]
            else:
                m.d.comb += [out.placed[name][i].eq(lane) for i, lane in enumerate(ring)]
                m.d.comb += out.placed[f"{name}_at"].eq(at)
        m.d.comb += [
            out.placed.present.eq(coded.present & plan.sparse.replicate(lanes)),
            out.placed.extras_at.eq(extras_at >> 3),
            out.shift.eq(extras_at[:3]),
        ]

        # The merge tree: three levels here, the others in the next stage.
        parts: list[Value] = [coded.codes[i].index & ~plan.raw.replicate(4) for i in range(lanes)]
        span = 1
        while len(parts) > pieces:
            sums = [sector[f"sum_{span}_{b}"] for b in range(len(parts))]
            parts = merge_level(m, parts, sums, name=f"merge_{span}")
            span *= 2
        m.d.comb += [out.pieces[b].eq(part) for b, part in enumerate(parts)]
        for level in range((pieces - 1).bit_length()):
            for b in range(pieces >> level):
                m.d.comb += out[f"length_{level}_{b}"].eq(sector[f"sum_{span << level}_{b}"])

        # The last stage.
        source = self._joined(m, gathered.o, layout) if trims else gathered.o
        inner, final = source.payload, placed.i.payload
        merged: list[Value] = [inner.pieces[b] for b in range(pieces)]
        level = 0
        while len(merged) > 1:
            lengths = [inner[f"length_{level}_{b}"] for b in range(len(merged))]
            merged = merge_level(m, merged, lengths, name=f"merge_{span << level}")
            level += 1
        field = shifted_up(m, merged[0], inner.shift, 8 * lanes, name="shifted")
        ring = turned_up(
            m,
            [field.word_select(i, 8) for i in range(lanes)],
            inner.placed.extras_at[:lane_bits],
            name="extras",
        )
        m.d.comb += [
            placed.i.valid.eq(source.valid),
            source.ready.eq(placed.i.ready),
            final.eq(inner.placed),
            *(final.extras[i].eq(lane) for i, lane in enumerate(ring)),
        ]
        for name, field in packed:
            shift = inner[f"{name}_shift"]
            row = shifted_up(m, inner[f"{name}_row"], shift, 8 * field.parts, name=f"{name}_row")
            turned = turned_up(
                m,
                [row.word_select(i, 8) for i in range(field.parts)],
                inner.placed[f"{name}_at"][: (field.parts - 1).bit_length()],
                name=name,
            )
            m.d.comb += [final[name][i].eq(lane) for i, lane in enumerate(turned)]
        return m

    def _joined(self, m: Module, gathered: Any, layout: _GatheredSector) -> Any:
        """A stage more: trimmed rests, all of one width, without the gaps between them."""
        shape = LineShape.of(self.config, self.elements)
        m.submodules.joined = joined = PipelineRegister(layout)
        source, sink = gathered.payload, joined.i.payload
        width = source.placed.plan.rest_width
        row: list[Value] = [
            source.rest_row.word_select(i, shape.rest.width) for i in range(shape.lanes)
        ]
        for level in range((shape.lanes - 1).bit_length()):
            row = merge_level(m, row, [width << level] * len(row), name=f"rests_{1 << level}")
        m.d.comb += [
            joined.i.valid.eq(gathered.valid),
            gathered.ready.eq(joined.i.ready),
            sink.eq(source),
            sink.rest_row.eq(row[0]),
        ]
        return joined.o
