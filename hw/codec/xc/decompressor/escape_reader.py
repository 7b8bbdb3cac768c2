"""The escapes of a sector, and so its elements."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, ShapeLike, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.stream.line_collector import LineBody
from cdma.hw.codec.xc.classes import Code, centre_less, code_of, distance_of, is_escape
from cdma.hw.codec.xc.decompressor.head import LineLayout
from cdma.hw.codec.xc.decompressor.index_reader import IndexedSector
from cdma.hw.codec.xc.payloads import BF16, LineShape, is_beyond, misfilled
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fields import shifted_down, shifted_up
from cdma.hw.lib.lanes import ones_before, scatter, swaps
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.places import picked, turned_down


class _PickedEscapes(data.StructLayout):
    """A sector with the ring that has its escapes, and their ways to their lanes.

    Packed ones begin at bit `at` of the ring, and are then in a row.
    """

    def __init__(
        self,
        config: CodecConfig,
        code_bits: int | None,
        elements: ElementFormat,
        *,
        in_row: bool = False,
    ) -> None:
        shape = LineShape.of(config, elements)
        lanes, field = shape.lanes, shape.escapes
        turns = field.is_packed and not in_row
        row = data.ArrayLayout(unsigned(field.width), lanes)
        super().__init__(
            {
                "indexed": IndexedSector(config, elements),
                "ring": row if in_row else field.ring,
                "at": (field.parts - 1).bit_length() + 3 if turns else 0,
                "ways": data.ArrayLayout(unsigned(lanes // 2), (lanes - 1).bit_length()),
                "miscounted": 1,
                "misfilled": 1 if shape.pads_escapes or elements.trims else 0,
                **_ends(config, code_bits),
            }
        )


class DecodedSector(data.StructLayout):
    """A sector's data, and what is wrong with it.

    Members
    -------
    elements
        Bit patterns; zero in lanes that are not present.
    layout
        The line's.
    wrong
        Lanes whose element is zero though the line has it, or escaped though it has a code, or
        whose exponent is none of the element format's.
    miscounted
        The line does not end with its escapes, or has no room for them. Told with the last sector.
    end, nonzero
        Of lines without a header only, and told with the last sector: bytes up to the end of the
        line's fields, and for each byte that there is room for whether it is not zero.
    misfilled, truncated, last, begins, ends
        As in the stages before.
    """

    def __init__(
        self,
        config: CodecConfig,
        code_bits: int | None = None,
        elements: ElementFormat = BF16,
    ) -> None:
        lanes = LineShape.of(config, elements).lanes
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(elements.bits), lanes),
                "layout": LineLayout(config, elements),
                "wrong": lanes,
                "miscounted": 1,
                "misfilled": 1,
                "truncated": 1,
                "last": 1,
                "begins": 1,
                "ends": 1,
                **_ends(config, code_bits),
            }
        )


def _ends(config: CodecConfig, code_bits: int | None) -> dict[str, ShapeLike]:
    """Members that only lines without a header have."""
    if code_bits is None:
        return {}
    return {"end": range(2 * config.line_bytes), "nonzero": (code_bits + 1) // 8}


class EscapeReader(wiring.Component):
    """Puts escapes to their lanes, and elements together.

        line ----> pick, where the sectors before end --> scatter --+
        escape --> count what is before each ----------------^      v
        class, index --> d --> centre - d ---------------------> exponent --> element
        rest -----------------------------------------------------------------^

    Of a raw line, the ring has the other part of each sector. Packed escapes take a stage more, in
    which they are turned and shifted.

    Latency: `latency` = 1 cycle, or 2 of packed escapes; elements are combinational behind it.
    Throughput: a sector per cycle. A line leaves when the escapes of its last sector were picked.

    Resources: a `_PickedEscapes` of registers; a network of bytes that picks, a butterfly; for each
    lane both tables of codes and two subtractors.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat
    code_bits : int, optional
        For lines without a header, such as Buddy's entries: the room for a line's fields.

    Attributes
    ----------
    latency : int

    Members
    -------
    line : `In(stream.Signature(LineBody(config)))`
    total : `In(stream.Signature(...))`
        For each line, before its first sector: bits of its extras.
    i : `In(stream.Signature(IndexedSector(config, elements)))`
    o : `Out(stream.Signature(DecodedSector(config, code_bits, elements)))`
    """

    def __init__(
        self,
        config: CodecConfig,
        elements: ElementFormat = BF16,
        *,
        code_bits: int | None = None,
    ) -> None:
        self.config = config
        self.elements = elements
        self.code_bits = code_bits
        self.latency = 2 if LineShape.of(config, elements).escapes.is_packed else 1
        super().__init__(
            {
                "line": In(stream.Signature(LineBody(config))),
                "total": In(stream.Signature(range(LineShape.of(config, elements).bits + 1))),
                "i": In(stream.Signature(IndexedSector(config, elements))),
                "o": Out(stream.Signature(DecodedSector(config, code_bits, elements))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        shape = LineShape.of(config, elements)
        lanes, field = shape.lanes, shape.escapes
        lane_bits = (lanes - 1).bit_length()
        picked_escapes = _PickedEscapes(config, self.code_bits, elements)
        m.submodules.picked = register = PipelineRegister(picked_escapes)
        indexed = self.i.payload
        sector, layout = indexed.sector, indexed.sector.layout
        out = register.i.payload

        place_bits = len(layout.size) + field.place_bits
        later = Signal(place_bits)
        place = Signal(place_bits)
        start = Signal(place_bits)
        end = Signal(place_bits)
        end_byte = Signal.like(layout.size)
        raw_start = lanes * shape.rest.width // field.unit
        raw_step = 8 * config.sector_bytes // field.unit
        x_fire = Signal()
        ones, count = ones_before(m, indexed.escape, name="escape")
        m.d.comb += [
            register.i.valid.eq(
                self.i.valid & self.line.valid & (~sector.begins | self.total.valid)
            ),
            x_fire.eq(register.i.valid & register.i.ready),
            self.i.ready.eq(x_fire),
            self.total.ready.eq(x_fire & sector.begins),
            self.line.ready.eq(x_fire & sector.ends),
            start.eq(
                Mux(
                    layout.raw,
                    raw_start,
                    (layout.extras_at + ((self.total.payload + 7) >> 3)) << field.place_bits,
                )
            ),
            place.eq(Mux(sector.begins, start, later)),
            end.eq(place + (count * field.width if field.is_packed else count)),
            end_byte.eq((end + (8 // field.unit - 1)) >> field.place_bits),
            out.indexed.eq(indexed),
        ]
        if field.is_packed:
            m.d.comb += out.at.eq(place)
        if elements.trims:
            could_drop_more = self._untrim(m, out.indexed, x_fire)
            m.d.comb += out.misfilled.eq(sector.ends & could_drop_more)
        if self.code_bits is None:
            wrong_end: Value = end_byte != layout.size
        else:
            wrong_end = self._is_beyond(m, sector, indexed.escape, end, x_fire, self.code_bits)
            body = self.line.payload.payload
            m.d.comb += [
                out.end.eq(end),
                out.nonzero.eq(Cat(body[j].any() for j in range(len(out.nonzero)))),
            ]
        m.d.comb += out.miscounted.eq(sector.ends & ~layout.raw & ~layout.zero & wrong_end)
        with m.If(x_fire):
            m.d.sync += later.eq(Mux(layout.raw, place + raw_step, end))
        line = self.line.payload.payload
        places = range(8 * config.line_bytes // field.part_bits)
        payload: list[Value] = [line.as_value().word_select(j, field.part_bits) for j in places]
        part_at = place[3:] if field.is_packed else place
        ring = picked(m, payload, part_at, field.parts, name="ring")
        m.d.comb += [out.ring[i].eq(byte) for i, byte in enumerate(ring)]
        lane_at = None if field.is_packed else place[:lane_bits]
        for k, swap in enumerate(swaps(m, ones, lane_at, name="swap")):
            m.d.comb += out.ways[k].eq(swap & ~layout.raw.replicate(len(swap)))
        if shape.pads_escapes:
            # If the line ends with its escapes; all eight bits of its last byte count if not.
            (last,) = picked(m, [C(0, 8), *line], layout.size, 1, name="last")
            fill = Cat(C(0, 3 - field.place_bits), end[: field.place_bits])
            m.d.comb += out.misfilled.eq(sector.ends & misfilled(last, fill))
        source = register.o
        if field.is_packed:
            source = self._in_a_row(m, register.o)

        # Elements.
        found, decoded = source.payload, self.o.payload
        indexed = found.indexed
        sector, layout = indexed.sector, indexed.sector.layout
        escapes = scatter(
            m,
            [found.ring[i] for i in range(lanes)],
            [found.ways[k] for k in range(lane_bits)],
            from_first=field.is_packed,
            name="escapes",
        )
        raw_bits = Cat(*(indexed.rest[i] for i in range(lanes)), *escapes)
        parameters = layout.parameters
        for i in range(lanes):
            code = data.View(Code(), Cat(sector.numbers[i], indexed.indices[i]))
            distance = distance_of(m, code, parameters.pattern, name=f"distance_{i}")
            exponent = Signal(8, name=f"exponent_{i}")
            element = Signal(elements.bits, name=f"element_{i}")
            rest = indexed.rest[i]
            mantissa, sign = rest[:-1], rest[-1]
            near = centre_less(m, parameters.centre, distance, name=f"near_{i}")
            # An escape for what has a code is wrong.
            far = centre_less(m, parameters.centre, escapes[i], name=f"far_{i}")
            recoded = code_of(m, far, parameters.pattern, name=f"recoded_{i}")
            m.d.comb += [
                exponent.eq(Mux(indexed.escape[i], escapes[i], near)),
                element.eq(Cat(mantissa, exponent[: elements.exponent_bits], sign)),
                decoded.elements[i].eq(
                    Mux(
                        layout.raw,
                        raw_bits.word_select(i, elements.bits),
                        Mux(sector.present[i], element, 0),
                    )
                ),
                decoded.wrong[i].eq(
                    sector.present[i]
                    & ~layout.raw
                    & (
                        (element == 0)
                        | (indexed.escape[i] & ~is_escape(recoded))
                        | exponent[elements.exponent_bits :].any()
                    )
                ),
            ]
        m.d.comb += [
            self.o.valid.eq(source.valid),
            source.ready.eq(self.o.ready),
            decoded.layout.eq(layout),
            decoded.miscounted.eq(found.miscounted),
            decoded.misfilled.eq(
                (indexed.misfilled | found.misfilled if len(found.misfilled) else indexed.misfilled)
                & ~layout.raw
                & ~layout.zero
            ),
            decoded.truncated.eq(indexed.truncated),
            decoded.last.eq(indexed.last),
            decoded.begins.eq(sector.begins),
            decoded.ends.eq(sector.ends),
        ]
        if self.code_bits is not None:
            m.d.comb += [decoded.end.eq(found.end), decoded.nonzero.eq(found.nonzero)]
        return m

    def _untrim(self, m: Module, indexed: data.View, x_fire: Value) -> Value:
        """Scatter trimmed rests, and fill them up with the zeros that were dropped.

        Returns, with a line's last sector, that more could have been dropped.
        """
        shape = LineShape.of(self.config, self.elements)
        source = self.i.payload
        layout = source.sector.layout
        ways = [source.ways[k] for k in range((shape.lanes - 1).bit_length())]
        rests = scatter(m, list(source.rest), ways, from_first=True, name="rest")
        lowest, before = Signal(), Signal()
        m.d.comb += lowest.eq(
            Cat(rest[0] & source.sector.present[i] for i, rest in enumerate(rests)).any()
            | (before & ~source.sector.begins)
        )
        with m.If(x_fire):
            m.d.sync += before.eq(lowest)
        for i, rest in enumerate(rests):
            whole = shifted_up(m, rest, layout.dropped, shape.rest.width, name=f"whole_{i}")
            m.d.comb += indexed.rest[i].eq(whole)
        return ~lowest & (layout.dropped != self.elements.mantissa_bits)

    def _in_a_row(self, m: Module, picked_escapes: Any) -> Any:
        """Turn and shift packed escapes, a stage later, to a row of lanes."""
        config, elements = self.config, self.elements
        shape = LineShape.of(config, elements)
        row_bits = shape.escapes.width * shape.lanes
        layout = _PickedEscapes(config, self.code_bits, elements, in_row=True)
        m.submodules.in_row = register = PipelineRegister(layout)
        source, sink = picked_escapes.payload, register.i.payload
        ring = turned_down(m, list(source.ring), source.at[3:], name="escapes")
        needed = -(-(7 + row_bits) // 8)
        row = shifted_down(m, Cat(ring[:needed]), source.at[:3], row_bits, name="escape_row")
        m.d.comb += [
            register.i.valid.eq(picked_escapes.valid),
            picked_escapes.ready.eq(register.i.ready),
            *(sink[name].eq(source[name]) for name, _ in layout if name not in ("ring", "at")),
            sink.ring.as_value().eq(row),
        ]
        return register.o

    def _is_beyond(
        self,
        m: Module,
        sector: data.View,
        escape: Value,
        end: Value,
        x_fire: Value,
        code_bits: int,
    ) -> Value:
        """Tell with a line's last sector whether its fields have no room."""
        extra_bits, escaped = Signal(3), Signal()
        bits_before, escaped_before = Signal.like(extra_bits), Signal()
        m.d.comb += [
            extra_bits.eq(Mux(sector.begins, self.total.payload, bits_before)),
            escaped.eq(escape.any() | (escaped_before & ~sector.begins)),
        ]
        with m.If(x_fire):
            m.d.sync += [bits_before.eq(extra_bits), escaped_before.eq(escaped)]
        return is_beyond(end, extra_bits, escaped, code_bits)


def status_of(head: Value, truncated: Value, wrong: Value) -> Value:
    """Status of a line: the first of these errors, in the order in which a stream shows them."""
    return Mux(
        head != StreamStatus.OK,
        head,
        Mux(
            truncated,
            StreamStatus.PAYLOAD_TRUNCATED.value,
            Mux(wrong, StreamStatus.BAD_TOKEN.value, StreamStatus.OK.value),
        ),
    )
