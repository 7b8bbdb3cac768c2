"""The kinds of errors in a stream, and the checksum that detects damage.

Every decoder in `golden`, and every decompressor in `hw`, reports the *first* error in stream
order with a kind and a byte offset. The numbers of `StreamStatus` are an interface: the RTL's
status ports and the completion records carry them.
"""

import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

LINE_BYTES = 128
"""Bytes that are compressed together: one cache line (cDMA, §V-B)."""

ByteArray = npt.NDArray[np.uint8]


class StreamStatus(IntEnum):
    """Status of the decoding (or framing) of a stream."""

    OK = 0
    MASK_TRUNCATED = 1
    """The stream ends inside a line's mask. Offset: the mask's first byte."""
    PAYLOAD_TRUNCATED = 2
    """The stream ends before or inside an element that the mask announces. Offset: the first byte
    of that element."""
    TRAILING_BYTES = 3
    """Bytes follow the last line. Offset: the first of them."""
    ZERO_ELEMENT = 4
    """An element that the mask announces as non-zero is zero: streams are canonical. Offset: its
    first byte."""
    NONZERO_FILL = 5
    """An element carries a non-zero byte beyond the transfer's true length. Offset: the first byte
    of that element."""
    LENGTH_MISMATCH = 6
    """A packet, block or header disagrees with the length that was announced. Offset: the first
    byte that is missing, in excess or in doubt."""
    DESTINATION_TOO_SMALL = 7
    """The destination's capacity is less than the decompressed size. Offset: 0."""
    CRC_MISMATCH = 8
    """The decompressed bytes do not have the expected CRC-32. Offset: the end of the stream."""
    BAD_TOKEN = 9
    """A token that the format does not have (RLE, CSR, LZ4, DEFLATE, BPC). Offset: its first byte,
    or the first byte of the block that holds it."""


class StreamError(ValueError):
    """A stream that cannot be decoded.

    Attributes
    ----------
    status : StreamStatus
        The kind of the first error.
    offset : int
        The error's offset in bytes from the start of the stream; see `StreamStatus`.
    valid_bytes : int
        Bytes of output before the error, all of them right as far as structure can tell.
    """

    def __init__(self, status: StreamStatus, offset: int, valid_bytes: int = 0) -> None:
        self.status = StreamStatus(status)
        self.offset = int(offset)
        self.valid_bytes = int(valid_bytes)
        kind = self.status.name.lower().replace("_", " ")
        super().__init__(f"{kind} at byte {self.offset} of the stream")


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Outcome of decoding one stream.

    Attributes
    ----------
    status : StreamStatus
        OK, or the kind of the first error in stream order.
    offset : int
        The first error's offset in bytes from the start of the stream; 0 when OK.
    valid_bytes : int
        Bytes of output before the first error; all of them when OK.
    data : uint8 array (valid_bytes,)
        Those bytes.
    """

    status: StreamStatus
    offset: int
    valid_bytes: int
    data: ByteArray


@dataclass(frozen=True, kw_only=True)
class DecodedMany:
    """Outcome of decoding n streams; see `Decoded`.

    Attributes
    ----------
    status : uint8 array (n,)
        Numbers of `StreamStatus`.
    offset, valid_bytes : int64 arrays (n,)
        As in `Decoded`.
    data : uint8 array (sum of valid_bytes,)
        The valid bytes of all streams, one after the other.
    data_offsets : int64 array (n + 1,)
        Stream i's valid bytes are `data[data_offsets[i] : data_offsets[i + 1]]`.
    """

    status: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.int64]
    valid_bytes: npt.NDArray[np.int64]
    data: ByteArray
    data_offsets: npt.NDArray[np.int64]


def crc32(data: npt.ArrayLike) -> int:
    """CRC-32 (IEEE 802.3, as zlib's) of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(data).view(np.uint8).data)
