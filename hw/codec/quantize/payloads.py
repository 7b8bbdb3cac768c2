"""Payloads between the stages, and the sizes that all of them share."""

from dataclasses import replace

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from cdma.golden.formats.lossy.fixed_width import LINE_NUMBERS, NUMBER_LIMIT
from cdma.hw.config import CodecConfig

ELEMENT_BITS = 32
NUMBER_BITS = NUMBER_LIMIT.bit_length()
"""Of a number q with its sign; |q| is less than the limit."""
SYMBOL_BITS = NUMBER_BITS + 1
"""Of the zigzag of a difference."""
WIDTH_BITS = 5
K_BITS = 8
MAP_BITS = LINE_NUMBERS
PLACE_BITS = 11
"""Of a place in a line's payload, in bits; a raw line's end is the highest."""


def own_config(config: CodecConfig) -> CodecConfig:
    """A configuration of the same widths, of an engine that has this codec alone."""
    return replace(config, element_bytes=1, codecs=("quantize", "raw"))


def lanes_of(config: CodecConfig) -> int:
    """fp32 values per sector."""
    return config.sector_bytes * 8 // ELEMENT_BITS


class NumberedSector(data.StructLayout):
    """The numbers of a sector.

    Members
    -------
    numbers
        Any, if the line is raw.
    raw
        One of the values must be kept as it is, and so the line.
    ends
        The line's last sector.
    last, empty
        As in `Sector`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "numbers": data.ArrayLayout(signed(NUMBER_BITS), lanes_of(config)),
                "raw": 1,
                "ends": 1,
                "last": 1,
                "empty": 1,
            }
        )


class QuantizedSector(data.StructLayout):
    """A sector's numbers, and its values as they are."""

    def __init__(self, config: CodecConfig) -> None:
        lanes = lanes_of(config)
        super().__init__(
            {
                "numbered": NumberedSector(config),
                "words": data.ArrayLayout(unsigned(ELEMENT_BITS), lanes),
            }
        )


class LineForm(data.StructLayout):
    """The form of a line: known once all of it was measured.

    Members
    -------
    header
    size
        Bytes of payload.
    last, empty
        As in `Sector`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "header": 8,
                "size": range(config.line_bytes + 1),
                "last": 1,
                "empty": 1,
            }
        )
