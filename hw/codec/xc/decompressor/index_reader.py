"""The rests and the indices of a sector's elements, out of the line."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.patterns import ESCAPE_CLASS, ESCAPE_INDEX
from cdma.hw.codec.stream.line_collector import LineBody
from cdma.hw.codec.xc.classes import INDEX_BITS
from cdma.hw.codec.xc.decompressor.class_reader import ClassedSector, SummedSector
from cdma.hw.codec.xc.payloads import BF16, LineShape, misfilled
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fields import shifted_down, split_level
from cdma.hw.lib.lanes import ones_before, scatter, swaps
from cdma.hw.lib.pipeline import PipelineRegister, registered
from cdma.hw.lib.places import picked, turned_down


class _Parts(data.StructLayout):
    """A sector whose extras are pieces; `width_*` are sums that still tell where they part.

    Members
    -------
    sector
    rest
        Each lane's rest; of a raw line, the first part of the sector. Still in a row, if there are
        `ways`, and trimmed ones without gaps, as the extras are.
    ways
        Of packed rests to their lanes, with the extras in one piece, or of trimmed ones.
    pieces
        The extras, in so many pieces.
    misfilled
        The rests or the extras are not padded with zeros.
    truncated, last
        As in `LineBody`.
    """

    def __init__(self, config: CodecConfig, pieces: int, elements: ElementFormat) -> None:
        shape = LineShape.of(config, elements)
        lanes = shape.lanes
        lane_bits = (lanes - 1).bit_length()
        ways = {"ways": data.ArrayLayout(unsigned(lanes // 2), lane_bits)}
        piece = INDEX_BITS * lanes // pieces
        widths: dict[str, int] = {}
        span = lanes // pieces // 2
        while span:
            # Where a piece parts; the sums of the upper parts are never needed.
            widths |= {
                f"sum_{span}_{b}": (INDEX_BITS * span).bit_length()
                for b in range(0, lanes // span, 1 if span == 1 else 2)
            }
            span //= 2
        super().__init__(
            {
                "sector": ClassedSector(config, elements),
                "rest": data.ArrayLayout(unsigned(shape.rest.width), lanes),
                **(ways if shape.rest.is_packed and (pieces == 1 or elements.trims) else {}),
                "pieces": data.ArrayLayout(unsigned(piece), pieces),
                **widths,
                "misfilled": 1,
                "truncated": 1,
                "last": 1,
            }
        )


class _PickedBytes(data.StructLayout):
    """A sector with the rings of bytes that have its rests and its extras.

    Members
    -------
    summed
        The sector.
    rests, ways
        The ring that has the rests, and their ways to their lanes.
    rests_at
        Where in the ring packed ones begin, in bits. No bits with others.
    extras, at
        The ring that has the extras, and where in it they begin, in bits.
    misfilled
        The rests are not padded with zeros.
    truncated, last
        As in `LineBody`.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat) -> None:
        shape = LineShape.of(config, elements)
        lanes, rest = shape.lanes, shape.rest
        lane_bits = (lanes - 1).bit_length()
        super().__init__(
            {
                "summed": SummedSector(config, elements),
                "rests": rest.ring,
                "ways": data.ArrayLayout(unsigned(lanes // 2), lane_bits),
                "rests_at": (rest.parts - 1).bit_length() + 3 if rest.is_packed else 0,
                "extras": data.ArrayLayout(unsigned(8), lanes),
                "at": lane_bits + 3,
                "misfilled": 1 if shape.pads_rest else 0,
                "truncated": 1,
                "last": 1,
            }
        )


class IndexedSector(data.StructLayout):
    """A sector of which everything but the escapes is known.

    Members
    -------
    sector
    rest, ways
        As in the stages before. Trimmed rests are in a row of lanes, but not yet at their own.
    indices
        Zero above their widths.
    escape
        Lanes whose exponents are escaped.
    misfilled, truncated, last
        As in the stages before.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        shape = LineShape.of(config, elements)
        lanes = shape.lanes
        super().__init__(
            {
                "sector": ClassedSector(config, elements),
                "rest": data.ArrayLayout(unsigned(shape.rest.width), lanes),
                "ways": data.ArrayLayout(
                    unsigned(lanes // 2 if elements.trims else 0), (lanes - 1).bit_length()
                ),
                "indices": data.ArrayLayout(unsigned(INDEX_BITS), lanes),
                "escape": lanes,
                "misfilled": 1,
                "truncated": 1,
                "last": 1,
            }
        )


class IndexReader(wiring.Component):
    """Finds the rests and splits the extras of sectors.

        line --> pick 16 bytes at the rests --> scatter ------------------------------> rest
             --> pick, turn, shift: the sector's extras --> split, 2 levels --> split --> indices

    Packed rests are turned and shifted as extras are, and scattered while these are split. Trimmed
    ones are split as well, and not scattered here.

    Three stages: pick; split; split. Or four: pick; turn; split; split. The line goes on with the
    sector that says so (`ClassedSector.hands_on`), or of four with its last.

    Latency: `stages` cycles. Throughput: a sector per cycle.

    Resources: two `_Parts` and an `IndexedSector` of registers, or a `_PickedBytes` more; two
    networks of bytes that pick, a butterfly, and a split tree.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat
    staged : bool
        Pick bytes a cycle before they go to their lanes, for a higher clock.

    Attributes
    ----------
    stages : int
        3, or 4 if `staged`.

    Members
    -------
    line : `In(stream.Signature(LineBody(config)))`
    i : `In(stream.Signature(SummedSector(config, elements)))`
    o : `Out(stream.Signature(IndexedSector(config, elements)))`
    passed : `Out(stream.Signature(LineBody(config)))`
        Each line.
    """

    def __init__(
        self, config: CodecConfig, elements: ElementFormat = BF16, *, staged: bool = False
    ) -> None:
        self.config = config
        self.elements = elements
        self.staged = staged
        self.stages = 4 if staged else 3
        super().__init__(
            {
                "line": In(stream.Signature(LineBody(config))),
                "i": In(stream.Signature(SummedSector(config, elements))),
                "o": Out(stream.Signature(IndexedSector(config, elements))),
                "passed": Out(stream.Signature(LineBody(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        shape = LineShape.of(config, elements)
        lanes, rest_field = shape.lanes, shape.rest
        lane_bits = (lanes - 1).bit_length()
        quarter = min(4, lanes // 2)
        m.submodules.picked = first = PipelineRegister(_Parts(config, 1, elements))
        m.submodules.split = second = PipelineRegister(_Parts(config, quarter, elements))
        m.submodules.indexed = third = PipelineRegister(IndexedSector(config, elements))
        wiring.connect(m, third.o, wiring.flipped(self.o))

        summed = self.i.payload
        sector = summed.sector
        layout = sector.layout
        line = self.line.payload
        picked_bytes = stream.Signature(_PickedBytes(config, elements)).create()
        found = picked_bytes.payload
        # A stage more, and the last sector comes early enough.
        hands_on = sector.ends if self.staged else sector.hands_on
        x_valid = Signal()
        x_fire = Signal()
        m.d.comb += [
            x_valid.eq(self.i.valid & self.line.valid),
            picked_bytes.valid.eq(x_valid & (~hands_on | self.passed.ready)),
            self.passed.valid.eq(x_valid & hands_on & picked_bytes.ready),
            self.passed.payload.eq(line),
            x_fire.eq(picked_bytes.valid & picked_bytes.ready),
            self.i.ready.eq(x_fire),
            self.line.ready.eq(x_fire & sector.ends),
        ]

        # Where the sector's rests and extras begin.
        later_rest = Signal(len(layout.rest_at) + rest_field.place_bits)
        later_bits = Signal(len(layout.extras_at) + 3)
        rest_at = Signal.like(later_rest)
        bits_at = Signal.like(later_bits)
        end = Signal.like(later_bits)
        ones, count = ones_before(m, sector.present, name="present")
        rest_bits = layout.rest_width if elements.trims else rest_field.width
        step = count * rest_bits if rest_field.is_packed else count
        raw_step = 8 * config.sector_bytes // rest_field.unit
        m.d.comb += [
            rest_at.eq(
                Mux(
                    sector.begins,
                    Mux(layout.raw, 0, layout.rest_at << rest_field.place_bits),
                    later_rest,
                )
            ),
            bits_at.eq(Mux(sector.begins, layout.extras_at << 3, later_bits)),
            end.eq(bits_at + summed[f"sum_{lanes}_0"]),
        ]
        with m.If(x_fire):
            m.d.sync += [
                later_rest.eq(rest_at + Mux(layout.raw, raw_step, step)),
                later_bits.eq(end),
            ]

        payload: list[Value] = [line.payload[j] for j in range(config.line_bytes)]
        places = range(8 * config.line_bytes // rest_field.part_bits)
        parts = [line.payload.as_value().word_select(j, rest_field.part_bits) for j in places]
        part_at = rest_at[3:] if rest_field.is_packed else rest_at
        rests = picked(m, parts, part_at, rest_field.parts, name="rest_ring")
        extras = picked(m, payload, bits_at[3:], lanes, name="extras_ring")
        m.d.comb += [
            found.summed.eq(summed),
            *(found.rests[i].eq(byte) for i, byte in enumerate(rests)),
            *(found.extras[i].eq(byte) for i, byte in enumerate(extras)),
            found.at.eq(bits_at),
            found.truncated.eq(line.truncated),
            found.last.eq(line.last),
        ]
        start = None if rest_field.is_packed else rest_at[:lane_bits]
        for k, swap in enumerate(swaps(m, ones, start, name="rest_swap")):
            m.d.comb += found.ways[k].eq(swap & ~layout.raw.replicate(len(swap)))
        if shape.pads_rest:
            # The rests end with the byte before the extras.
            (last,) = picked(m, [C(0, 8), *payload], layout.extras_at, 1, name="rest_last")
            m.d.comb += found.misfilled.eq(sector.ends & misfilled(last, layout.rest_fill))
        if rest_field.is_packed:
            m.d.comb += found.rests_at.eq(rest_at)

        source = registered(m, picked_bytes, int(self.staged), name="picked_bytes")
        whole, out = source.payload, first.i.payload
        m.d.comb += [first.i.valid.eq(source.valid), source.ready.eq(first.i.ready)]
        if rest_field.is_packed:
            ring = turned_down(m, list(whole.rests), whole.rests_at[3:], name="rests")
            row_bits = rest_field.width * lanes
            needed = -(-(7 + row_bits) // 8)
            shift = whole.rests_at[:3]
            row = shifted_down(m, Cat(ring[:needed]), shift, row_bits, name="rest_row")
            m.d.comb += [out.rest.as_value().eq(row), out.ways.eq(whole.ways)]
        else:
            ways = [whole.ways[k] for k in range(lane_bits)]
            spread = scatter(m, list(whole.rests), ways, name="rest")
            m.d.comb += [out.rest[i].eq(rest) for i, rest in enumerate(spread)]
        ring = [whole.extras[i] for i in range(lanes)]
        ring = turned_down(m, ring, whole.at[3:], name="extras")
        # The sector's extras begin in the first byte, and end in one of the others.
        needed = INDEX_BITS * lanes // 8 + 1
        field = shifted_down(m, Cat(ring[:needed]), whole.at[:3], INDEX_BITS * lanes, name="field")
        span = Signal(range(INDEX_BITS * lanes + 8))
        tail = Signal(8)
        extras_misfilled = whole.summed.sector.ends & misfilled(tail, span[:3])
        m.d.comb += [
            span.eq(whole.at[:3] + whole.summed[f"sum_{lanes}_0"]),
            tail.eq(Cat(ring[:needed]).word_select(span[3:], 8)),
            out.misfilled.eq(
                extras_misfilled | whole.misfilled if shape.pads_rest else extras_misfilled
            ),
            out.sector.eq(whole.summed.sector),
            out.pieces[0].eq(field),
            out.truncated.eq(whole.truncated),
            out.last.eq(whole.last),
        ]
        _pass_sums(m, whole.summed, out)

        # Split: from one piece to four, and from these to one for each lane.
        inner, split = first.o.payload, second.i.payload
        m.d.comb += [
            second.i.valid.eq(first.o.valid),
            first.o.ready.eq(second.i.ready),
            *_same(inner, split),
        ]
        if elements.trims:
            m.d.comb += split.ways.eq(inner.ways)
            self._split_rests(m, inner, split, range(lane_bits // 2))
        elif rest_field.is_packed:
            ways = [inner.ways[k] for k in range(lane_bits)]
            spread = scatter(m, list(inner.rest), ways, from_first=True, name="rest")
            m.d.comb += [split.rest[i].eq(rest) for i, rest in enumerate(spread)]
        pieces: list[Value] = [inner.pieces[0]]
        while len(pieces) < quarter:
            span_here = lanes // len(pieces) // 2
            sums = [
                inner[f"sum_{span_here}_{b}"] if b % 2 == 0 else C(0)
                for b in range(2 * len(pieces))
            ]
            pieces = split_level(m, pieces, sums, name=f"split_{span_here}")
        m.d.comb += [split.pieces[b].eq(piece) for b, piece in enumerate(pieces)]
        _pass_sums(m, inner, split)

        last, final = second.o.payload, third.i.payload
        m.d.comb += [
            third.i.valid.eq(second.o.valid),
            second.o.ready.eq(third.i.ready),
            *_same(last, final),
        ]
        if elements.trims:
            m.d.comb += final.ways.eq(last.ways)
            self._split_rests(m, last, final, range(lane_bits // 2, lane_bits))
        pieces = [last.pieces[b] for b in range(quarter)]
        while len(pieces) < lanes:
            span_here = lanes // len(pieces) // 2
            sums = [
                last[f"sum_{span_here}_{b}"] if b % 2 == 0 else C(0) for b in range(2 * len(pieces))
            ]
            pieces = split_level(m, pieces, sums, name=f"split_{span_here}")
        for i, piece in enumerate(pieces):
            width = last[f"sum_1_{i}"]
            index = Signal(INDEX_BITS, name=f"index_{i}")
            m.d.comb += [
                index.eq(piece & Cat(k < width for k in range(INDEX_BITS))),
                final.indices[i].eq(index),
                final.escape[i].eq(
                    (last.sector.numbers[i] == ESCAPE_CLASS) & (index == ESCAPE_INDEX)
                ),
            ]
        return m

    def _split_rests(self, m: Module, source: data.View, sink: data.View, levels: range) -> None:
        """Split a row of trimmed rests, which are of one width, some levels of the tree further."""
        shape = LineShape.of(self.config, self.elements)
        width = source.sector.layout.rest_width
        pieces: list[Value] = [
            source.rest.as_value().word_select(b, shape.lanes * shape.rest.width >> levels.start)
            for b in range(1 << levels.start)
        ]
        for level in levels:
            span = shape.lanes >> level + 1
            amounts = [width * span] * (2 * len(pieces))
            pieces = split_level(m, pieces, amounts, name=f"rests_{span}")
        m.d.comb += sink.rest.as_value().eq(Cat(*pieces))
        if len(pieces) == shape.lanes:
            for i, piece in enumerate(pieces):
                kept = Cat(k < width for k in range(shape.rest.width))
                m.d.comb += sink.rest[i].eq(piece & kept)


def _pass_sums(m: Module, source: Value, sink: Value) -> None:
    """Hand on the sums that a stage needs."""
    for name, _ in sink.shape():
        if name.startswith("sum_"):
            m.d.comb += sink[name].eq(source[name])


def _same(source: Value, sink: Value) -> list:
    """Hand on what does not change from stage to stage, or is changed behind this."""
    names = ("sector", "rest", "misfilled", "truncated", "last")
    return [sink[name].eq(source[name]) for name in names]
