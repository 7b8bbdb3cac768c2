"""CSR, compressed sparse rows (CSWAP+, §5.2.1): A00B0C000 becomes ABC and 035.

A row is a window of 4 KiB, the last one zero-filled to a whole 128 B line. Per row, little-endian:

    count      2 bytes              number of non-zero elements, K
    values     K elements of E bytes
    indices    K numbers of 4 bytes the elements' places in the row, from 0, ascending

The index is of 4 bytes as in the paper, so at 50 % zeros fp32 gains nothing: half of the data is
values, and indices take the other half.
"""

import numpy as np

from cdma.golden.formats.interface import (
    Array,
    IntArray,
    as_bytes,
    check_element_bytes,
    element_dtype,
    whole,
    zero_filled,
)
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamError, StreamStatus
from cdma.golden.formats.windows.window import HEADER_BYTES, WINDOW_BYTES, WINDOW_LINES

INDEX_BYTES = 4
_INDEX = np.dtype("<u4")


class Csr:
    """Values and 4-byte indices of the non-zero elements; see `golden.Codec`.

    `line_sizes` are exact; a row's count belongs to its first line.
    """

    name = "csr"
    lossless = True

    def __init__(self, element_bytes: int = 4) -> None:
        self.element_bytes = check_element_bytes(element_bytes)

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of an array of any shape and any plain dtype."""
        data = zero_filled(as_bytes(array), LINE_BYTES)
        pieces = []
        for start in range(0, data.size, WINDOW_BYTES):
            row = data[start : start + WINDOW_BYTES].view(element_dtype(self.element_bytes))
            indices = np.flatnonzero(row)
            pieces.append(indices.size.to_bytes(HEADER_BYTES, "little"))
            pieces.append(row[indices].tobytes())
            pieces.append(indices.astype(_INDEX).tobytes())
        return np.frombuffer(bytearray().join(pieces), np.uint8)

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes that were compressed.

        Raises
        ------
        StreamError
            PAYLOAD_TRUNCATED: the stream ends before or inside a row; offset: the row.
            BAD_TOKEN: a count or indices that no row has; offset: the row, or the index.
            ZERO_ELEMENT, NONZERO_FILL: as in ZVC; offset: the value.
            TRAILING_BYTES: bytes follow the last row; offset: the first of them.
            Within a row, counts are looked at before indices and indices before values.
        """
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        source = as_bytes(stream)
        rows = []
        position = 0
        # Row by row, as `nbytes` may be anything and the rows that are there are few.
        for start in range(0, nbytes, WINDOW_BYTES):
            row, position = self._decode_row(source, position, start, nbytes)
            rows.append(row.view(np.uint8))
        return np.concatenate([np.empty(0, np.uint8), *rows])[:nbytes], position

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""
        data = zero_filled(as_bytes(array), LINE_BYTES)
        lines = data.view(element_dtype(self.element_bytes)).reshape(
            -1, LINE_BYTES // self.element_bytes
        )
        sizes = np.count_nonzero(lines, axis=1) * (self.element_bytes + INDEX_BYTES)
        sizes[::WINDOW_LINES] += HEADER_BYTES
        return sizes.astype(np.int64, copy=False)

    def _decode_row(
        self, source: ByteArray, position: int, start: int, nbytes: int
    ) -> tuple[Array, int]:
        """The elements of the row at `position` of the stream, and where the next row is."""
        values_at = position + HEADER_BYTES
        count = int.from_bytes(source[position:values_at].tobytes(), "little")
        indices_at = values_at + count * self.element_bytes
        end = indices_at + count * INDEX_BYTES
        if values_at > source.size:
            raise StreamError(StreamStatus.PAYLOAD_TRUNCATED, position, start)
        filled_bytes = -(-(nbytes - start) // LINE_BYTES) * LINE_BYTES
        row_elements = min(WINDOW_BYTES, filled_bytes) // self.element_bytes
        if count > row_elements:
            raise StreamError(StreamStatus.BAD_TOKEN, position, start)
        if end > source.size:
            raise StreamError(StreamStatus.PAYLOAD_TRUNCATED, position, start)
        indices = np.frombuffer(source[indices_at:end].tobytes(), _INDEX).astype(np.int64)
        wrong = np.flatnonzero((np.diff(indices, prepend=-1) <= 0) | (indices >= row_elements))
        if wrong.size:
            offset = indices_at + int(wrong[0]) * INDEX_BYTES
            raise StreamError(StreamStatus.BAD_TOKEN, offset, start)
        values = np.frombuffer(
            source[values_at:indices_at].tobytes(), element_dtype(self.element_bytes)
        )
        positions = start + indices * self.element_bytes
        inside = np.clip(nbytes - positions, 0, self.element_bytes)
        tail_pad = (values.astype(np.uint64) >> (8 * inside.astype(np.uint64))) != 0
        bad = np.flatnonzero((values == 0) | tail_pad)
        if bad.size:
            first = int(bad[0])
            raise StreamError(
                StreamStatus.NONZERO_FILL if values[first] else StreamStatus.ZERO_ELEMENT,
                values_at + first * self.element_bytes,
                min(int(positions[first]), nbytes),
            )
        row = np.zeros(row_elements, values.dtype)
        row[indices] = values
        return row, end
