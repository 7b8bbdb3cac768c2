"""The decompressor's first look at a line: its head, and where everything stands."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.stream.line_collector import HeadBytes
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.compressor.meter import DENSE_LINE, RAW_LINE, SPARSE_LINE, ZERO_LINE
from cdma.hw.codec.xc.payloads import BF16, LineShape, bytes_of, trimming
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones, total
from cdma.hw.lib.pipeline import PipelineRegister, registered


def payload_bytes(
    header: Value, ones: Value, elements: ElementFormat, rest_bytes: Value | None = None
) -> tuple[Value, Value, Value, Value]:
    """A line's length, from its header and the number of ones in its mask.

    Trimmed rests take as many bits as the header's second byte leaves. That is a product, which
    `rest_bytes` is if it is known.

    Returns
    -------
    kept, rest_at, extras_at, size : Value
        Elements in the line, bytes before their rests and before their extras, bytes of payload.
        Not limited: the size of a line that no compressor writes may be more than any line's.
    """
    kept = kept_elements(header, ones, elements)
    mask_bytes = Mux(header[6:8] == SPARSE_LINE, elements.mask_bytes, 0)
    rest_at = ((kept + 3) >> 2) + mask_bytes
    if rest_bytes is None:
        rest_bytes = rests(header, kept, elements)
    extras_at = rest_at + rest_bytes
    return kept, rest_at, extras_at, extras_at + header[:6]


def kept_elements(header: Value, ones: Value, elements: ElementFormat) -> Value:
    """Elements in a line that has any, by the number of ones in its mask."""
    return Mux(header[6:8] == SPARSE_LINE, ones, elements.line_elements)


def rests(header: Value, kept: Value, elements: ElementFormat) -> Value:
    """Bytes of a line's rests."""
    if not elements.trims:
        return bytes_of(kept, elements.mantissa_bits + 1)
    return (kept * rest_width(header, elements) + 7) >> 3


def rest_width(header: Value, elements: ElementFormat) -> Value:
    """Bits of each rest in a line whose header's second byte is sound."""
    return (elements.mantissa_bits + 1 - header[8:])[: (elements.mantissa_bits + 1).bit_length()]


def payload_elements(
    head: Sequence[Value], config: CodecConfig, elements: ElementFormat = BF16
) -> Value:
    """A line's length for the unpacker, from its header and, of a sparse line, its mask.

    A line that no compressor writes is so long that what is wrong with it is in it, and no longer
    than any line.

    Parameters
    ----------
    head
        Bytes, each with the number of its ones in the bits above.
    config, elements
    """
    header_bytes = elements.header_bytes
    header = Cat(byte[:8] for byte in head[:header_bytes])
    sparse = header[6:8] == SPARSE_LINE
    ones = total([byte[8:] for byte in head[header_bytes:]])
    *_, size = payload_bytes(header, ones, elements)
    longest = config.line_bytes - header_bytes
    wrong = (size > longest) | (header[8:] > elements.mantissa_bits)
    coded = Mux(wrong, Mux(sparse, elements.mask_bytes, 0), size)
    plain = Mux(header[6:8] == RAW_LINE, config.line_bytes, 0)
    return Mux((header[6:8] == DENSE_LINE) | sparse, coded, plain)


def front_bits(config: CodecConfig, elements: ElementFormat = BF16) -> int:
    """Bits of a line's payload that its head needs: room for a mask and the line's classes."""
    return CLASS_BITS * LineShape.of(config, elements).class_lanes


def head_bytes(config: CodecConfig, elements: ElementFormat = BF16) -> HeadBytes:
    """The layout of a line's head, as `LineCollector` gives it."""
    front, header = front_bits(config, elements), 8 * elements.header_bytes
    return HeadBytes(config, front, Parameters().size, header)


class LineLayout(data.StructLayout):
    """Places of the fields of a line.

    Members
    -------
    header
    status
        What header and mask show to be wrong.
    misfilled
        The classes are not padded with zeros. Counts only in a line that is there as a whole.
    raw, zero
        Whether it is kept as it is; whether it has no elements.
    rest_at, extras_at, size
        In bytes of payload. The escapes end with it.
    dropped, rest_width
        As in `LinePlan`.
    rest_fill
        Bits of the rests' last byte, 0 for all eight. No bits where rests are whole bytes.
    parameters, empty
        As in `HeadBytes`.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        place = range(2 * config.line_bytes)
        pads_rest = LineShape.of(config, elements).pads_rest
        super().__init__(
            {
                "header": 8 * elements.header_bytes,
                **trimming(elements),
                "status": StreamStatus,
                "misfilled": 1,
                "raw": 1,
                "zero": 1,
                "rest_at": place,
                "extras_at": place,
                "rest_fill": 3 if pads_rest else 0,
                "size": place,
                "parameters": Parameters(),
                "empty": 1,
            }
        )


class LineHead(data.StructLayout):
    """A line's layout, its mask, and its classes from the first one on."""

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        shape = LineShape.of(config, elements)
        super().__init__(
            {
                "layout": LineLayout(config, elements),
                "mask": shape.elements,
                "classes": CLASS_BITS * shape.elements,
            }
        )


class HeadReader(wiring.Component):
    """Reads heads: counts a mask, lays the line out, and looks at what can be wrong with that.

        header --+-------------------> kind, bytes behind --+-> layout, status
        front  --+-> mask -> count --> elements ------------+
                 +-> classes, behind the mask if there is one -> padding zero?

    Latency: `latency` = 1 cycle, or 2 if `staged`; one more where mantissas are trimmed.
    Throughput: a line per cycle.

    Resources: a `LineHead` of registers, or two; a population count of a mask.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat
    staged : bool
        Count the mask a cycle before the line is laid out, for a higher clock.

    Attributes
    ----------
    latency : int

    Members
    -------
    i : `In(stream.Signature(head_bytes(config, elements)))`
    o : `Out(stream.Signature(LineHead(config, elements)))`
    """

    def __init__(
        self, config: CodecConfig, elements: ElementFormat = BF16, *, staged: bool = False
    ) -> None:
        self.config = config
        self.elements = elements
        self.staged = staged
        self.latency = 1 + staged + elements.trims
        super().__init__(
            {
                "i": In(stream.Signature(head_bytes(config, elements))),
                "o": Out(stream.Signature(LineHead(config, elements))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        shape = LineShape.of(config, elements)
        # Behind its fields' names in the alphabet, as in `SectorCounter`.
        m.submodules.stored = heads = PipelineRegister(LineHead(config, elements))
        wiring.connect(m, heads.o, wiring.flipped(self.o))
        mask_bits = 8 * shape.mask_bytes
        counted_head: dict[str, ShapeLike] = {
            "line": head_bytes(config, elements),
            "ones": range(shape.elements + 1),
        }
        found = stream.Signature(data.StructLayout(counted_head)).create()
        mask = self.i.payload.front[:mask_bits]
        m.d.comb += [
            found.valid.eq(self.i.valid),
            self.i.ready.eq(found.ready),
            found.payload.line.eq(self.i.payload),
            found.payload.ones.eq(total([count_ones(b) for b in _words(mask)])),
        ]
        counted = registered(m, found, int(self.staged), name="counted")
        if elements.trims:
            counted = self._multiplied(m, counted, counted_head)
        line, ones = counted.payload.line, counted.payload.ones
        out = heads.i.payload
        layout = out.layout
        m.d.comb += [heads.i.valid.eq(counted.valid), counted.ready.eq(heads.i.ready)]

        header = line.header
        kind = header[6:8]
        dense, sparse, raw, no_elements = Signal(), Signal(), Signal(), Signal()
        kept = Signal(range(shape.elements + 1))
        rest_at = Signal.like(layout.rest_at)
        extras_at = Signal.like(layout.extras_at)
        size = Signal(range(4 * config.line_bytes))
        m.d.comb += [
            dense.eq(kind == DENSE_LINE),
            sparse.eq(kind == SPARSE_LINE),
            raw.eq(kind == RAW_LINE),
            no_elements.eq((kind == ZERO_LINE) | line.empty),
        ]
        rest_bytes = counted.payload.rest_bytes if elements.trims else None
        lengths = payload_bytes(header, ones, elements, rest_bytes)
        m.d.comb += [
            own.eq(value)
            for own, value in zip((kept, rest_at, extras_at, size), lengths, strict=True)
        ]

        # Behind the classes, zeros up to a byte.
        classes = Signal(CLASS_BITS * shape.elements)
        m.d.comb += classes.eq(
            Mux(sparse, line.front[mask_bits:], line.front[: CLASS_BITS * shape.elements])
        )
        last_byte = classes.word_select(kept[2:-1], 8)
        padding = Signal()
        m.d.comb += padding.eq(
            (kept[:2] != 0)
            & (
                last_byte
                & Cat(
                    C(0, CLASS_BITS),
                    *((kept[:2] <= k).replicate(CLASS_BITS) for k in (1, 2)),
                    C(-1, CLASS_BITS),
                )
            ).any()
        )

        bad = Signal()
        cut = Signal()
        ends_early = Signal()
        status = Signal(StreamStatus)
        m.d.comb += [
            bad.eq(
                Mux(
                    dense | sparse,
                    (size > config.line_bytes - elements.header_bytes)
                    | (header[8:] > elements.mantissa_bits)
                    | (sparse & ((ones == 0) | (ones == shape.elements))),
                    (header[:6] != 0) | header[8:].any(),
                )
            ),
            # Header and mask must be there to say more.
            ends_early.eq(
                (line.truncation == Truncation.PAYLOAD) & (line.count < shape.mask_bytes)
            ),
            cut.eq((line.truncation == Truncation.MASK) | (sparse & ends_early)),
        ]
        with m.If(line.empty):
            m.d.comb += status.eq(StreamStatus.OK)
        with m.Elif(cut):
            m.d.comb += status.eq(StreamStatus.MASK_TRUNCATED)
        with m.Elif(bad):
            m.d.comb += status.eq(StreamStatus.BAD_TOKEN)
        m.d.comb += [
            layout.header.eq(header),
            layout.status.eq(status),
            layout.misfilled.eq((dense | sparse) & padding),
            layout.raw.eq(raw),
            layout.zero.eq(no_elements),
            layout.rest_at.eq(rest_at),
            layout.extras_at.eq(extras_at),
            layout.rest_fill.eq(
                kept * (rest_width(header, elements) if elements.trims else shape.rest.width)
            ),
            layout.size.eq(Mux(dense | sparse, size, Mux(raw, config.line_bytes, 0))),
            layout.parameters.eq(line.parameters),
            layout.empty.eq(line.empty),
            out.mask.eq(
                Mux(
                    no_elements,
                    0,
                    Mux(sparse, line.front[:mask_bits], C(-1, mask_bits)),
                )
            ),
            out.classes.eq(classes),
        ]
        if elements.trims:
            m.d.comb += [
                layout.dropped.eq(Mux(raw, 0, header[8:])),
                layout.rest_width.eq(
                    Mux(raw, elements.mantissa_bits + 1, rest_width(header, elements))
                ),
            ]
        return m

    def _multiplied(self, m: Module, counted: Any, counted_head: Mapping[str, ShapeLike]) -> Any:
        """A stage more, with the product of a trimmed line's elements and bits."""
        kept = Signal(counted.payload.ones.shape(), name="kept_of_line")
        header = counted.payload.line.header
        layout = data.StructLayout({**counted_head, "rest_bytes": range(self.config.line_bytes)})
        m.submodules.multiplied = multiplied = PipelineRegister(layout)
        m.d.comb += [
            kept.eq(kept_elements(header, counted.payload.ones, self.elements)),
            multiplied.i.valid.eq(counted.valid),
            counted.ready.eq(multiplied.i.ready),
            multiplied.i.payload.line.eq(counted.payload.line),
            multiplied.i.payload.ones.eq(counted.payload.ones),
            multiplied.i.payload.rest_bytes.eq(rests(header, kept, self.elements)),
        ]
        return multiplied.o


def _words(mask: Value) -> list[Value]:
    return [mask.word_select(j, 8) for j in range(len(mask) // 8)]
