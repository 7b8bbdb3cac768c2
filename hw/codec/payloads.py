"""Lines as they travel into, out of and between codecs, compressed and uncompressed."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from cdma.golden import StreamStatus
from cdma.hw.config import CodecConfig


class Sector(data.StructLayout):
    """A sector of uncompressed data, as compressors take it.

    Members
    -------
    elements
        The data; lane 0 is the first in memory.
    last
        The last sector of the transfer. It is also the last of its line.
    empty
        No sector at all: an empty transfer, or one whose end was found too late to be marked on
        data. Comes alone at the start of a line and with `last`.
    codec
        Index among the configuration's codecs of the one that compresses the line; the same on all
        of its sectors.
    parameters
        The transfer's, for the codec (`LineCodec.parameters`), from bit 0; likewise.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), config.lanes),
                "last": 1,
                "empty": 1,
                "codec": range(len(config.codecs)),
                "parameters": config.parameter_bits,
            }
        )


class Truncation(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """The part of a line that is missing because the stream ended inside it."""

    NONE = 0
    MASK = 1
    PAYLOAD = 2


class LineBeat(data.StructLayout):
    """A compressed line in flight, a sector's width of payload at a time.

    A line takes max(1, ceil(payload elements / lanes)) beats; the first one also carries the
    head, so that a line of the worst case needs no beat more than an uncompressed one.

    Members
    -------
    mask
        The line's head, from bit 0; of a counted codec, bit i tells that element i is in the
        payload. Valid on the first beat, zero on the others.
    elements
        Payload, packed from lane 0; zero from lane `count` on.
    count
        Payload elements in this beat.
    sol, eol
        First and last beat of the line.
    last
        Last beat of the transfer.
    empty
        The beat holds no line at all, not even a mask: it is the end of a transfer, alone. Only
        with `last`.
    truncation
        The stream ended inside this line: inside its mask, or after `count` of this beat's
        elements. Only with `last`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "mask": config.head_bits,
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), config.lanes),
                "count": range(config.lanes + 1),
                "sol": 1,
                "eol": 1,
                "last": 1,
                "empty": 1,
                "truncation": Truncation,
            }
        )


class ExpandedSector(data.StructLayout):
    """A sector of decompressed data, with what is needed to check it.

    Members
    -------
    elements
        The data; zero in lanes that are not `present`.
    present
        The sector's segment of the mask: lanes that the stream announced as non-zero.
    missing
        Lanes that are present in the mask but not in the stream.
    sol
        First sector of a line.
    mask_missing
        The stream ended inside the line's mask: there is no data here. Only with `last`.
    last
        Last sector of the transfer.
    empty
        No sector at all: an empty transfer. Only with `last`.
    status
        The error that the codec has found in the line, as a `golden.StreamStatus`: there is no data
        here, and `last` is set. No bits unless a codec of the configuration locates errors itself
        (`LineCodec.locates_errors`); OK with the other codecs.
    offset
        Bytes of the line's stream before the error; all of them if there is none. The same on all
        sectors of a line. No bits where `status` has none; 0 with the other codecs.
    """

    def __init__(self, config: CodecConfig) -> None:
        located = config.locates_errors
        super().__init__(
            {
                "elements": data.ArrayLayout(unsigned(8 * config.element_bytes), config.lanes),
                "present": config.lanes,
                "missing": config.lanes,
                "sol": 1,
                "mask_missing": 1,
                "last": 1,
                "empty": 1,
                "status": StreamStatus if located else 0,
                "offset": range(config.worst_line_bytes + 1) if located else 0,
            }
        )
