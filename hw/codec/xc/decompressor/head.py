"""The decompressor's first look at a line: its head, and where everything stands."""

from collections.abc import Sequence

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden import StreamStatus
from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.stream.line_collector import HeadBytes
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.compressor.meter import DENSE_LINE, RAW_LINE, SPARSE_LINE, ZERO_LINE
from cdma.hw.codec.xc.payloads import HEADER_BYTES, LineShape
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones, total
from cdma.hw.lib.pipeline import PipelineRegister, registered


def payload_bytes(config: CodecConfig, header: Value, ones: Value) -> tuple[Value, Value, Value]:
    """A line's length, from its header and the number of ones in its mask.

    Returns
    -------
    kept, rest_at, size : Value
        Elements in the line, bytes before their rests, bytes of payload. Not limited: the size of a
        line that no compressor writes may be more than any line's.
    """
    shape = LineShape.of(config)
    sparse = header[6:8] == SPARSE_LINE
    kept = Mux(sparse, ones, shape.elements)
    rest_at = ((kept + 3) >> 2) + Mux(sparse, shape.mask_bytes, 0)
    return kept, rest_at, rest_at + kept + header[:6]


def payload_elements(head: Sequence[Value], config: CodecConfig) -> Value:
    """A line's length for the unpacker, from its header and, of a sparse line, its mask.

    A line that no compressor writes is so long that what is wrong with it is in it, and no longer
    than any line.

    Parameters
    ----------
    head
        Bytes, each with the number of its ones in the bits above.
    """
    header = head[0][:8]
    sparse = header[6:8] == SPARSE_LINE
    _, _, size = payload_bytes(config, header, total([byte[8:] for byte in head[1:]]))
    longest = config.line_bytes - HEADER_BYTES
    coded = Mux(size > longest, Mux(sparse, LineShape.of(config).mask_bytes, 0), size)
    plain = Mux(header[6:8] == RAW_LINE, config.line_bytes, 0)
    return Mux((header[6:8] == DENSE_LINE) | sparse, coded, plain)


def front_bits(config: CodecConfig) -> int:
    """Bits of a line's first beat that its head needs: room for a mask and the line's classes."""
    return CLASS_BITS * LineShape.of(config).class_lanes


def head_bytes(config: CodecConfig) -> HeadBytes:
    """The layout of a line's head, as `LineCollector` gives it."""
    return HeadBytes(config, front_bits(config), Parameters().size)


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
    parameters, empty
        As in `HeadBytes`.
    """

    def __init__(self, config: CodecConfig) -> None:
        place = range(2 * config.line_bytes)
        super().__init__(
            {
                "header": 8 * HEADER_BYTES,
                "status": StreamStatus,
                "misfilled": 1,
                "raw": 1,
                "zero": 1,
                "rest_at": place,
                "extras_at": place,
                "size": place,
                "parameters": Parameters(),
                "empty": 1,
            }
        )


class LineHead(data.StructLayout):
    """A line's layout, its mask, and its classes from the first one on."""

    def __init__(self, config: CodecConfig) -> None:
        shape = LineShape.of(config)
        super().__init__(
            {
                "layout": LineLayout(config),
                "mask": shape.elements,
                "classes": CLASS_BITS * shape.elements,
            }
        )


class HeadReader(wiring.Component):
    """Reads heads: counts a mask, lays the line out, and looks at what can be wrong with that.

        header --+-------------------> kind, bytes behind --+-> layout, status
        front  --+-> mask -> count --> elements ------------+
                 +-> classes, behind the mask if there is one -> padding zero?

    Latency: 1 cycle, or 2 if `staged`. Throughput: a line per cycle.

    Resources: a `LineHead` of registers, or two; a population count of a mask.

    Parameters
    ----------
    config : CodecConfig
    staged : bool
        Count the mask a cycle before the line is laid out, for a higher clock.

    Members
    -------
    i : `In(stream.Signature(head_bytes(config)))`
    o : `Out(stream.Signature(LineHead(config)))`
    """

    def __init__(self, config: CodecConfig, *, staged: bool = False) -> None:
        self.config = config
        self.staged = staged
        super().__init__(
            {
                "i": In(stream.Signature(head_bytes(config))),
                "o": Out(stream.Signature(LineHead(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        shape = LineShape.of(config)
        # Behind its fields' names in the alphabet, as in `SectorCounter`.
        m.submodules.stored = heads = PipelineRegister(LineHead(config))
        wiring.connect(m, heads.o, wiring.flipped(self.o))
        mask_bits = 8 * shape.mask_bytes
        counted_head = {"line": head_bytes(config), "ones": range(shape.elements + 1)}
        found = stream.Signature(data.StructLayout(counted_head)).create()
        mask = self.i.payload.front[:mask_bits]
        m.d.comb += [
            found.valid.eq(self.i.valid),
            self.i.ready.eq(found.ready),
            found.payload.line.eq(self.i.payload),
            found.payload.ones.eq(total([count_ones(b) for b in _words(mask)])),
        ]
        counted = registered(m, found, int(self.staged), name="counted")
        line, ones = counted.payload.line, counted.payload.ones
        out = heads.i.payload
        layout = out.layout
        m.d.comb += [heads.i.valid.eq(counted.valid), counted.ready.eq(heads.i.ready)]

        header = line.header
        kind = header[6:8]
        dense, sparse, raw, no_elements = Signal(), Signal(), Signal(), Signal()
        kept = Signal(range(shape.elements + 1))
        rest_at = Signal.like(layout.rest_at)
        size = Signal(range(4 * config.line_bytes))
        m.d.comb += [
            dense.eq(kind == DENSE_LINE),
            sparse.eq(kind == SPARSE_LINE),
            raw.eq(kind == RAW_LINE),
            no_elements.eq((kind == ZERO_LINE) | line.empty),
        ]
        lengths = payload_bytes(config, header, ones)
        m.d.comb += [
            own.eq(value) for own, value in zip((kept, rest_at, size), lengths, strict=True)
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
                    (size > config.line_bytes - HEADER_BYTES)
                    | (sparse & ((ones == 0) | (ones == shape.elements))),
                    header[:6] != 0,
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
            layout.extras_at.eq(rest_at + kept),
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
        return m


def _words(mask: Value) -> list[Value]:
    return [mask.word_select(j, 8) for j in range(len(mask) // 8)]
