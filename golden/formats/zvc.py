"""ZVC, zero-value compression (cDMA, §V-A, Figs 8 and 10).

A line is 128 B, that is 128/E elements of E = 4, 2 or 1 bytes. A compressed line is a mask of one
bit per element, least significant bit first, 1 where the element is non-zero (16/E bytes), and then
the non-zero elements in order. Nothing is padded: the next line's mask follows at once.

    fp32 line, elements 2 and 5 set:  24 00 00 00 | e2 e2 e2 e2 | e5 e5 e5 e5

Streams are canonical: there is exactly one for each input, and a decoder accepts no other. The
true length is not in the stream; the last line is zero-filled.
"""

import numpy as np

from cdma.golden.formats.interface import (
    Array,
    IntArray,
    as_bytes,
    check_element_bytes,
    decoded_prefix,
    element_dtype,
    whole,
    zero_filled,
)
from cdma.golden.formats.stream import (
    LINE_BYTES,
    ByteArray,
    Decoded,
    DecodedMany,
)
from cdma.golden.formats.zvc_decoder import decode, decode_many

__all__ = ["Decoded", "DecodedMany", "Zvc", "decode", "decode_many"]

_CHUNK_LINES = 4096
"""Lines that are worked on at once: 512 KiB of data, so that a chunk's arrays stay in the cache."""


class Zvc:
    """Zero-value compression of elements of 4, 2 or 1 bytes; see `golden.Codec`.

    `line_sizes` are exact: their sum is the stream's length.
    """

    name = "zvc"
    lossless = True

    def __init__(self, element_bytes: int = 4) -> None:
        self.element_bytes = check_element_bytes(element_bytes)
        self.line_elements = LINE_BYTES // self.element_bytes
        self.mask_bytes = self.line_elements // 8

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of an array of any shape and any plain dtype."""
        dtype = element_dtype(self.element_bytes)
        lines = zero_filled(as_bytes(array), LINE_BYTES).view(dtype)
        lines = lines.reshape(-1, self.line_elements)
        # A row is a mask and its whole line: the mask is always kept, the zeros are not.
        mask_elements = self.mask_bytes // self.element_bytes
        chunk = min(_CHUNK_LINES, len(lines))
        rows = np.empty((chunk, mask_elements + self.line_elements), dtype)
        keep = np.ones(rows.shape, np.bool_)
        pieces = []
        for start in range(0, len(lines), _CHUNK_LINES):
            part = lines[start : start + _CHUNK_LINES]
            nonzero = part != 0
            count = len(part)
            rows[:count, mask_elements:] = part
            rows[:count, :mask_elements] = (
                np.packbits(nonzero, axis=None, bitorder="little").view(dtype).reshape(count, -1)
            )
            keep[:count, mask_elements:] = nonzero
            # Indices first: several times faster than indexing with the mask itself.
            pieces.append(rows[:count].reshape(-1)[np.flatnonzero(keep[:count])])
        stream = np.concatenate(pieces) if pieces else np.empty(0, dtype)
        return stream.view(np.uint8)

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes that were compressed; `StreamError` when the stream is damaged."""
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        decoded = decode(stream, nbytes, self.element_bytes)
        return decoded_prefix(decoded, as_bytes(stream).size)

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""
        elements = zero_filled(as_bytes(array), LINE_BYTES).view(element_dtype(self.element_bytes))
        sizes = np.empty(elements.size // self.line_elements, np.int64)
        # A mask as one or two 64-bit words, or half of one.
        word = np.dtype("<u4" if self.mask_bytes == 4 else "<u8")
        step = _CHUNK_LINES * self.line_elements
        nonzero = np.empty(min(step, elements.size), np.bool_)
        for index, start in enumerate(range(0, elements.size, step)):
            part = elements[start : start + step]
            flags = np.not_equal(part, 0, out=nonzero[: part.size])
            counts = np.bitwise_count(np.packbits(flags, bitorder="little").view(word))
            if self.mask_bytes == 16:
                counts = counts[0::2] + counts[1::2]
            np.multiply(
                counts,
                self.element_bytes,
                out=sizes[index * _CHUNK_LINES :][: counts.size],
                dtype=np.int64,
            )
        sizes += self.mask_bytes
        return sizes
