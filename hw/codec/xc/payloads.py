"""Payloads between the stages of the line coder, and the sizes that all of them share."""

from dataclasses import dataclass, replace

from amaranth.hdl import Value, unsigned
from amaranth.lib import data

from cdma.golden.formats.xc.elements import element_format
from cdma.golden.formats.xc.patterns import CLASS_BITS
from cdma.hw.codec.xc.classes import INDEX_BITS, PATTERN_BITS, Code
from cdma.hw.config import CodecConfig

ELEMENTS = element_format("bf16")
"""The element format; its rest and its exponent are a byte each, so that both move in bytes."""

MOST_BEHIND = 63
"""The most bytes of extras and escapes that a header can announce."""

HEADER_BYTES = 1


def own_config(config: CodecConfig) -> CodecConfig:
    """A configuration of the same widths, of an engine that has this codec alone."""
    return replace(config, element_bytes=1, codecs=("xc", "raw"))


@dataclass(frozen=True)
class LineShape:
    """Numbers of elements and bytes, as a configuration's sectors and lines have them.

    Attributes
    ----------
    lanes : int
        Elements per sector.
    elements : int
        Elements per line.
    mask_bytes : int
        Of a sparse line.
    class_lanes : int
        Classes for which a line has room, behind its mask.
    bits : int
        Of all extras of a line, at most.
    """

    lanes: int
    elements: int

    @classmethod
    def of(cls, config: CodecConfig) -> "LineShape":
        size = ELEMENTS.element_bytes
        return cls(config.sector_bytes // size, config.line_bytes // size)

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

    def __init__(self, config: CodecConfig) -> None:
        lanes = LineShape.of(config).lanes
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(ELEMENTS.bits), lanes),
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
        The line's header byte.
    raw, sparse
        Whether the line is kept as it is; whether it has a mask. At most one of them.
    rest_at, extras_at, escapes_at
        Places of the fields in the payload, in bytes. Worthless if raw.
    size
        Bytes of payload.
    last, empty
        As in `LineBeat`.
    """

    def __init__(self, config: CodecConfig) -> None:
        place = range(2 * config.line_bytes)
        super().__init__(
            {
                "header": 8 * HEADER_BYTES,
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
