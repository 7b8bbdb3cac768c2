"""The framing that LZ4 and DEFLATE share: one block per 4 KiB window.

A block is a header of 2 bytes, little-endian, and a payload. Bits 14…0 of the header are the
payload's length; bit 15 says that the payload is the window's data as it is, because the
compressor made it no shorter. So a payload is never empty and never longer than its window, and
no stream is longer than 4098/4096 of its data.
"""

from collections.abc import Callable

import numpy as np

from cdma.golden.formats.interface import Array, IntArray, as_bytes, check_element_bytes, whole
from cdma.golden.formats.stream import ByteArray, StreamError, StreamStatus
from cdma.golden.formats.windows.window import HEADER_BYTES, WINDOW_BYTES, share_over_lines

_STORED = 0x8000


class BadBlock(Exception):
    """Raised by a block decoder for a payload that its compressor did not write."""


class BlockCodec:
    """A general-purpose compressor on 4 KiB windows; see `golden.Codec`.

    The element size makes no difference to the stream. `line_sizes` does compress, as there is no
    other way, and shares a window's block evenly over the window's lines: only their sums over
    windows mean anything.
    """

    lossless = True

    def __init__(
        self,
        name: str,
        element_bytes: int,
        encode_block: Callable[[memoryview], bytes],
        decode_block: Callable[[memoryview, int], bytes],
    ) -> None:
        """Take the window's coder and decoder.

        `encode_block` takes a window's bytes; `decode_block` a payload and a window's length.

        `decode_block` raises `BadBlock`, or gives back no more than the length plus one byte.
        """
        self.name = name
        self.element_bytes = check_element_bytes(element_bytes)
        self._encode_block = encode_block
        self._decode_block = decode_block

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of an array of any shape and any plain dtype."""
        stream = bytearray()
        for window in _windows(as_bytes(array)):
            payload = self._encode_block(window)
            if len(payload) < len(window):
                stream += len(payload).to_bytes(HEADER_BYTES, "little") + payload
            else:
                stream += (len(window) | _STORED).to_bytes(HEADER_BYTES, "little") + window
        return np.frombuffer(stream, np.uint8)

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes that were compressed.

        Raises
        ------
        StreamError
            PAYLOAD_TRUNCATED: the stream ends before or inside a block; offset: the block.
            BAD_TOKEN: a header or payload that the compressor does not write; offset: the block.
            LENGTH_MISMATCH: a block that holds more or less than its window; offset: the block.
            TRAILING_BYTES: bytes follow the last block; offset: the first of them.
        """
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        source = as_bytes(stream).data
        data = bytearray()
        position = 0
        while len(data) < nbytes:
            length = min(WINDOW_BYTES, nbytes - len(data))
            payload_start = position + HEADER_BYTES
            header = int.from_bytes(source[position:payload_start], "little")
            end = payload_start + (header & ~_STORED)
            if payload_start > len(source) or end > len(source):
                raise StreamError(StreamStatus.PAYLOAD_TRUNCATED, position, len(data))
            window = self._window(source[payload_start:end], bool(header & _STORED), length)
            if isinstance(window, StreamStatus):
                raise StreamError(window, position, len(data))
            data += window
            position = end
        return np.frombuffer(data, np.uint8), position

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,): each window's size, shared evenly."""
        data = as_bytes(array)
        sizes = [
            HEADER_BYTES + min(len(self._encode_block(window)), len(window))
            for window in _windows(data)
        ]
        return share_over_lines(np.array(sizes, np.int64), data.size)

    def _window(
        self, payload: memoryview, stored: bool, length: int
    ) -> bytes | memoryview | StreamStatus:
        if stored:
            return payload if len(payload) == length else StreamStatus.LENGTH_MISMATCH
        if not 0 < len(payload) < length:
            return StreamStatus.BAD_TOKEN
        try:
            window = self._decode_block(payload, length)
        except BadBlock:
            return StreamStatus.BAD_TOKEN
        return window if len(window) == length else StreamStatus.LENGTH_MISMATCH


def _windows(data: ByteArray) -> list[memoryview]:
    return [data[start : start + WINDOW_BYTES].data for start in range(0, data.size, WINDOW_BYTES)]
