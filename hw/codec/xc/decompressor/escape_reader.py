"""The escapes of a sector, and so its elements."""

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.hw.codec.stream.line_collector import LineBody
from cdma.hw.codec.xc.classes import Code, centre_less, code_of, distance_of, is_escape
from cdma.hw.codec.xc.decompressor.head import LineLayout
from cdma.hw.codec.xc.decompressor.index_reader import IndexedSector
from cdma.hw.codec.xc.payloads import ELEMENTS, LineShape, is_beyond
from cdma.hw.config import CodecConfig
from cdma.hw.lib.lanes import ones_before, scatter, swaps
from cdma.hw.lib.pipeline import PipelineRegister
from cdma.hw.lib.places import picked


class _PickedEscapes(data.StructLayout):
    """A sector with the ring of bytes that has its escapes, and their ways to their lanes."""

    def __init__(self, config: CodecConfig, code_bits: int | None) -> None:
        lanes = LineShape.of(config).lanes
        super().__init__(
            {
                "indexed": IndexedSector(config),
                "ring": data.ArrayLayout(unsigned(8), lanes),
                "ways": data.ArrayLayout(unsigned(lanes // 2), (lanes - 1).bit_length()),
                "miscounted": 1,
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
        Lanes whose element is zero though the line has it, or escaped though it has a code.
    miscounted
        The line does not end with its escapes, or has no room for them. Told with the last sector.
    end, nonzero
        Of lines without a header only, and told with the last sector: bytes up to the end of the
        line's fields, and for each byte that there is room for whether it is not zero.
    misfilled, truncated, last, begins, ends
        As in the stages before.
    """

    def __init__(self, config: CodecConfig, code_bits: int | None = None) -> None:
        lanes = LineShape.of(config).lanes
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(ELEMENTS.bits), lanes),
                "layout": LineLayout(config),
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

    Of a raw line, the ring has the other half of each sector.

    Latency: 1 cycle; elements are combinational behind it. Throughput: a sector per cycle. A line
    leaves when the escapes of its last sector were picked.

    Resources: a `_PickedEscapes` of registers; a network of bytes that picks, a butterfly; for each
    lane both tables of codes and two subtractors.

    Parameters
    ----------
    config : CodecConfig
    code_bits : int, optional
        For lines without a header, such as Buddy's entries: the room for a line's fields.

    Members
    -------
    line : `In(stream.Signature(LineBody(config)))`
    total : `In(stream.Signature(...))`
        For each line, before its first sector: bits of its extras.
    i : `In(stream.Signature(IndexedSector(config)))`
    o : `Out(stream.Signature(DecodedSector(config, code_bits)))`
    """

    def __init__(self, config: CodecConfig, *, code_bits: int | None = None) -> None:
        self.config = config
        self.code_bits = code_bits
        super().__init__(
            {
                "line": In(stream.Signature(LineBody(config))),
                "total": In(stream.Signature(range(LineShape.of(config).bits + 1))),
                "i": In(stream.Signature(IndexedSector(config))),
                "o": Out(stream.Signature(DecodedSector(config, code_bits))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes = LineShape.of(config).lanes
        lane_bits = (lanes - 1).bit_length()
        m.submodules.picked = register = PipelineRegister(_PickedEscapes(config, self.code_bits))
        indexed = self.i.payload
        sector, layout = indexed.sector, indexed.sector.layout
        out = register.i.payload

        later = Signal.like(layout.size)
        place = Signal.like(layout.size)
        start = Signal.like(layout.size)
        end = Signal.like(layout.size)
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
            start.eq(Mux(layout.raw, lanes, layout.extras_at + ((self.total.payload + 7) >> 3))),
            place.eq(Mux(sector.begins, start, later)),
            end.eq(place + count),
            out.indexed.eq(indexed),
        ]
        if self.code_bits is None:
            wrong_end: Value = end != layout.size
        else:
            wrong_end = self._is_beyond(m, sector, indexed.escape, end, x_fire, self.code_bits)
            body = self.line.payload.payload
            m.d.comb += [
                out.end.eq(end),
                out.nonzero.eq(Cat(body[j].any() for j in range(len(out.nonzero)))),
            ]
        m.d.comb += out.miscounted.eq(sector.ends & ~layout.raw & ~layout.zero & wrong_end)
        with m.If(x_fire):
            m.d.sync += later.eq(Mux(layout.raw, place + 2 * lanes, end))
        payload: list[Value] = [self.line.payload.payload[j] for j in range(config.line_bytes)]
        ring = picked(m, payload, place, lanes, name="ring")
        m.d.comb += [out.ring[i].eq(byte) for i, byte in enumerate(ring)]
        for k, swap in enumerate(swaps(m, ones, place[:lane_bits], name="swap")):
            m.d.comb += out.ways[k].eq(swap & ~layout.raw.replicate(len(swap)))

        # Elements.
        found, decoded = register.o.payload, self.o.payload
        indexed = found.indexed
        sector, layout = indexed.sector, indexed.sector.layout
        escapes = scatter(
            m,
            [found.ring[i] for i in range(lanes)],
            [found.ways[k] for k in range(lane_bits)],
            name="escapes",
        )
        raw_bytes = Cat(*(indexed.rest[i] for i in range(lanes)), *escapes)
        parameters = layout.parameters
        for i in range(lanes):
            code = data.View(Code(), Cat(sector.numbers[i], indexed.indices[i]))
            distance = distance_of(m, code, parameters.pattern, name=f"distance_{i}")
            exponent = Signal(8, name=f"exponent_{i}")
            element = Signal(ELEMENTS.bits, name=f"element_{i}")
            mantissa_bits = ELEMENTS.mantissa_bits
            rest = indexed.rest[i]
            near = centre_less(m, parameters.centre, distance, name=f"near_{i}")
            # An escape for what has a code is wrong.
            far = centre_less(m, parameters.centre, escapes[i], name=f"far_{i}")
            recoded = code_of(m, far, parameters.pattern, name=f"recoded_{i}")
            m.d.comb += [
                exponent.eq(Mux(indexed.escape[i], escapes[i], near)),
                element.eq(Cat(rest[:mantissa_bits], exponent, rest[mantissa_bits])),
                decoded.elements[i].eq(
                    Mux(
                        layout.raw,
                        raw_bytes.word_select(i, ELEMENTS.bits),
                        Mux(sector.present[i], element, 0),
                    )
                ),
                decoded.wrong[i].eq(
                    sector.present[i]
                    & ~layout.raw
                    & ((element == 0) | (indexed.escape[i] & ~is_escape(recoded)))
                ),
            ]
        m.d.comb += [
            self.o.valid.eq(register.o.valid),
            register.o.ready.eq(self.o.ready),
            decoded.layout.eq(layout),
            decoded.miscounted.eq(found.miscounted),
            decoded.misfilled.eq(indexed.misfilled & ~layout.raw & ~layout.zero),
            decoded.truncated.eq(indexed.truncated),
            decoded.last.eq(indexed.last),
            decoded.begins.eq(sector.begins),
            decoded.ends.eq(sector.ends),
        ]
        if self.code_bits is not None:
            m.d.comb += [decoded.end.eq(found.end), decoded.nonzero.eq(found.nonzero)]
        return m

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
