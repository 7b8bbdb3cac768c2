"""Writing and reading .cz files piece by piece, in memory that does not grow with them.

A format's stream is that of its array's pieces, one behind the other, if these are multiples of
`PIECE_UNIT_BYTES`; so a file is the same, to the bit, whatever it is made in.
"""

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np

from cdma.golden.container.header import ContainerError, Header, encode_header
from cdma.golden.formats.interface import (
    MOST_STREAM_BYTES,
    PIECE_UNIT_BYTES,
    Codec,
    UnfitValueError,
)
from cdma.golden.formats.stream import ByteArray, StreamError, StreamStatus

PIECE_BYTES = 128 * PIECE_UNIT_BYTES
"""Data that is compressed or decompressed at once."""

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Layout:
    """An array's type, shape and memory order."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def memory_order(shape: tuple[int, ...], fortran: bool) -> Literal["C", "F"]:
    """The memory order as numpy tells it: what is in both orders is in C order."""
    both = 0 in shape or sum(extent > 1 for extent in shape) < 2
    return "F" if fortran and not both else "C"


def write_file(
    destination: IO[bytes],
    layout: Layout,
    pieces: Iterable[bytes | bytearray | memoryview],
    with_codec: Codec,
) -> int:
    """Write a .cz file, and return its length.

    Parameters
    ----------
    destination : binary file
        At its beginning; it can be sought in, as the header is written last.
    layout : Layout
    pieces : iterable of bytes
        The array's bytes in memory order, `PIECE_BYTES` in each but the last.
    with_codec : Codec

    Raises
    ------
    CodecError
        The codec takes no such array.
    """
    described = (with_codec, layout.dtype, layout.shape, layout.order)
    begun = encode_header(*described, sizes=(0, 0), checksums=(0, 0))
    destination.write(begun)
    data_bytes = stream_bytes = data_crc = stream_crc = 0
    for piece in pieces:
        stream = _compressed(piece, data_bytes, layout.dtype, with_codec)
        lossless = with_codec.lossless
        data = piece if lossless else with_codec.decompress(stream, len(piece)).data
        data_crc, stream_crc = zlib.crc32(data, data_crc), zlib.crc32(stream.data, stream_crc)
        data_bytes += len(piece)
        stream_bytes += stream.size
        destination.write(stream.data)
    if not data_bytes:
        # Whatever cannot be compressed is refused, also where there is nothing of it.
        with_codec.compress(np.empty(0, layout.dtype))
    destination.seek(0)
    sizes, checksums = (data_bytes, stream_bytes), (data_crc, stream_crc)
    destination.write(encode_header(*described, sizes=sizes, checksums=checksums))
    return len(begun) + stream_bytes


def _compressed(
    piece: bytes | bytearray | memoryview, offset: int, dtype: np.dtype[Any], with_codec: Codec
) -> ByteArray:
    try:
        return with_codec.compress(np.frombuffer(piece, dtype))
    except UnfitValueError as error:
        raise error.moved(offset // dtype.itemsize) from error


def data_pieces(source: IO[bytes], header: Header) -> Iterator[ByteArray]:
    """Decompress the stream behind a header, `PIECE_BYTES` of data at a time.

    All that has been yielded is worth nothing if an error follows.

    Raises
    ------
    ContainerError
        The stream is longer or shorter than the header says; so it is told whatever else is wrong.
    StreamError
        The stream cannot be decoded, or a checksum is wrong.
    """
    codec = header.make_codec()
    stream = _Stream(source, header)
    done = crc = 0
    while done < header.nbytes:
        count = min(PIECE_BYTES, header.nbytes - done)
        try:
            data = stream.decoded(codec, count)
        except StreamError as error:
            stream.check_length()
            raise StreamError(
                error.status, stream.position + error.offset, done + error.valid_bytes
            ) from error
        done += data.size
        crc = zlib.crc32(data.data, crc)
        yield data
    stream.check_length()
    if stream.position < header.stream_bytes:
        raise StreamError(StreamStatus.TRAILING_BYTES, stream.position, done)
    if crc != header.crc32:
        raise StreamError(StreamStatus.CRC_MISMATCH, header.stream_bytes, done)
    stream.check_crc()


def check_file(source: IO[bytes], header: Header) -> int:
    """Compare the stream behind a header with its length and its CRC-32, without decoding it.

    Returns the file's length; raises as `data_pieces` does.
    """
    stream = _Stream(source, header)
    stream.check_length()
    stream.check_crc()
    return header.header_bytes + header.stream_bytes


class _Stream:
    """The stream of a file, of which a part is held.

    Attributes
    ----------
    position : int
        Bytes of the stream that were decoded.
    """

    def __init__(self, source: IO[bytes], header: Header) -> None:
        self._source = source
        self._header = header
        self._held = b""
        self._read_bytes = 0
        self._crc = 0
        self._window_bytes = PIECE_BYTES + PIECE_BYTES // 8
        self.position = 0

    def decoded(self, codec: Codec, count: int) -> ByteArray:
        """The next `count` bytes of data."""
        most = max(MOST_STREAM_BYTES * PIECE_BYTES, self._window_bytes)
        while True:
            self._fill(self._window_bytes)
            try:
                data, used = codec.decompress_prefix(np.frombuffer(self._held, np.uint8), count)
            except StreamError:
                # Perhaps only as what is held ends there.
                if self._read_bytes >= self._header.stream_bytes or self._window_bytes >= most:
                    raise
                self._window_bytes = min(2 * self._window_bytes, most)
                continue
            self._held = self._held[used:]
            self.position += used
            return data

    def check_length(self) -> None:
        """Read to the end of the source; `ContainerError` if the stream has not its length."""
        expected = self._header.stream_bytes
        while self._take(_READ_BYTES):
            pass
        held = self._read_bytes
        while more := self._source.read(_READ_BYTES):
            held += len(more)
        if held != expected:
            kind = "is truncated" if held < expected else "has trailing bytes"
            raise ContainerError(f"{kind}: {held} bytes of stream instead of {expected}")

    def check_crc(self) -> None:
        """Raise `StreamError` if the stream, once it has been read, has not its CRC-32."""
        if self._crc != self._header.stream_crc32:
            raise StreamError(StreamStatus.CRC_MISMATCH, self._header.stream_bytes)

    def _fill(self, nbytes: int) -> None:
        while len(self._held) < nbytes and (more := self._take(nbytes - len(self._held))):
            self._held += more
        if self._read_bytes < self._header.stream_bytes and len(self._held) < nbytes:
            # The source has ended.
            self.check_length()

    def _take(self, nbytes: int) -> bytes:
        more = self._source.read(min(nbytes, self._header.stream_bytes - self._read_bytes))
        self._read_bytes += len(more)
        self._crc = zlib.crc32(more, self._crc)
        return more
