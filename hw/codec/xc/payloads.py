"""Payloads between the stages of the line coder, and the sizes that all of them share."""

from dataclasses import dataclass, replace

from amaranth.hdl import C, Cat, ShapeLike, Value, unsigned
from amaranth.lib import data

from cdma.golden.formats.xc.elements import ElementFormat, element_format
from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.xc.classes import INDEX_BITS, PATTERN_BITS, Code
from cdma.hw.codec.xc.codec import codec_name
from cdma.hw.config import CodecConfig

BF16 = element_format("bf16")

MOST_BEHIND = 63
"""The most bytes of extras and escapes that a header can announce."""


def own_config(config: CodecConfig, elements: ElementFormat = BF16) -> CodecConfig:
    """A configuration of the same widths, of an engine that has this codec alone."""
    return replace(config, element_bytes=1, codecs=(codec_name(elements), "raw"))


@dataclass(frozen=True)
class LineField:
    """One of a line's fields: numbers of a width without gaps, from a byte on.

    Where whole numbers fill a byte, a sector's numbers are a ring of lanes, turned so that each is
    in the lane of its place in the field. Others are packed: they stand in a row of bits, which is
    then shifted, and turned as a ring of bytes.

    Attributes
    ----------
    width : int
        Bits of a number.
    lanes : int
        Numbers of a sector, at most.
    is_packed : bool
    parts, part_bits : int
        Lanes of the ring, a power of two, and bits of each.
    unit : int
        Bits that a place counts.
    place_bits : int
        Bits of a place, beyond those of its byte.
    """

    width: int
    lanes: int

    @property
    def is_packed(self) -> bool:
        return 8 % self.width != 0

    @property
    def parts(self) -> int:
        if not self.is_packed:
            return self.lanes
        # From any bit of a byte on.
        needed = -(-(7 + self.lanes * self.width) // 8)
        return 1 << (needed - 1).bit_length()

    @property
    def part_bits(self) -> int:
        return 8 if self.is_packed else self.width

    @property
    def unit(self) -> int:
        return 1 if self.is_packed else self.width

    @property
    def place_bits(self) -> int:
        return (8 // self.unit).bit_length() - 1

    @property
    def ring(self) -> data.ArrayLayout:
        """The layout of a sector's ring."""
        return data.ArrayLayout(unsigned(self.part_bits), self.parts)


def misfilled(last: Value, bits: Value) -> Value:
    """True if a field's last byte is not zero above so many bits of it; of 0 all eight count."""
    return (bits != 0) & (last & Cat(*(k >= bits for k in range(7)), C(1))).any()


def bytes_of(count: Value, width: int) -> Value:
    """Bytes that so many numbers of a width are padded to."""
    return count if width == 8 else (count * width + 7) >> 3


@dataclass(frozen=True)
class LineShape:
    """Numbers of elements and bytes, as a configuration's sectors and lines have them.

    Attributes
    ----------
    format : ElementFormat
    lanes : int
        Elements per sector.
    elements : int
        Elements per line.
    rest, escapes : LineField
        Mantissa and sign of the elements; exponents that have no code.
    pads_rest, pads_escapes : bool
        Those fields may end inside a byte.
    mask_bytes : int
        Of a sparse line.
    class_lanes : int
        Classes for which a line has room, behind its mask.
    bits : int
        Of all extras of a line, at most.
    """

    format: ElementFormat
    lanes: int
    elements: int

    @classmethod
    def of(cls, config: CodecConfig, elements: ElementFormat = BF16) -> "LineShape":
        size = elements.element_bytes
        return cls(elements, config.sector_bytes // size, config.line_bytes // size)

    @property
    def rest(self) -> LineField:
        return LineField(self.format.mantissa_bits + 1, self.lanes)

    @property
    def escapes(self) -> LineField:
        return LineField(self.format.exponent_bits, self.lanes)

    @property
    def pads_rest(self) -> bool:
        return self.format.trims or self.rest.width % 8 != 0

    @property
    def pads_escapes(self) -> bool:
        return self.escapes.width % 8 != 0

    @property
    def mask_bytes(self) -> int:
        return self.elements // 8

    @property
    def class_lanes(self) -> int:
        return self.elements + 8 // CLASS_BITS * self.mask_bytes

    @property
    def bits(self) -> int:
        return INDEX_BITS * self.elements


def is_beyond(end_bytes: Value, extra_bits: Value, has_escapes: Value, code_bits: int) -> Value:
    """True if a line's fields take more bits than there is room for.

    Parameters
    ----------
    end_bytes
        Bytes up to the end of extras and escapes.
    extra_bits
        Bits of the extras, or the lowest three of them.
    has_escapes
        The last field is the escapes, which are whole bytes.
    code_bits : int
        The room: all bits of so many bytes but the highest.
    """
    code_bytes = (code_bits + 1) // 8
    assert code_bits == 8 * code_bytes - 1, "the room must lack one bit of whole bytes"
    fills_last_byte = has_escapes | (extra_bits[:3] == 0)
    return (end_bytes > code_bytes) | ((end_bytes == code_bytes) & fills_last_byte)


def trimming(elements: ElementFormat) -> dict[str, ShapeLike]:
    """Members that tell how many bits of mantissas are left out; no bits if none ever are."""
    most = elements.mantissa_bits if elements.trims else 0
    return {"dropped": range(most + 1), "rest_width": range(most + 2) if most else 0}


class CodedSector(data.StructLayout):
    """A sector with its elements' codes.

    Members
    -------
    elements
        Bit patterns; zero in a sector that is `empty`.
    present
        Those that are not zero.
    codes
        Zero in lanes that are not present.
    pattern
        The transfer's.
    ends
        The line's last sector.
    last, empty
        As in `Sector`.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        lanes = LineShape.of(config, elements).lanes
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(elements.bits), lanes),
                "present": lanes,
                "codes": data.ArrayLayout(Code(), lanes),
                "pattern": PATTERN_BITS,
                "ends": 1,
                "last": 1,
                "empty": 1,
            }
        )


class LinePlan(data.StructLayout):
    """Places of everything in a line: known once all of the line was counted.

    Members
    -------
    header
        The line's header.
    dropped, rest_width
        Bits of every mantissa that the rests leave out, and those that are left of a rest. No bits
        unless the element format trims.
    raw, sparse
        Whether the line is kept as it is; whether it has a mask. At most one of them.
    rest_at, extras_at, escapes_at
        Places of the fields in the payload, in bytes. Worthless if raw.
    size
        Bytes of payload.
    last, empty
        As in `LineBeat`.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        place = range(2 * config.line_bytes)
        super().__init__(
            {
                "header": 8 * elements.header_bytes,
                **trimming(elements),
                "raw": 1,
                "sparse": 1,
                "rest_at": place,
                "extras_at": place,
                "escapes_at": place,
                "size": range(config.line_bytes + 1),
                "last": 1,
                "empty": 1,
            }
        )
