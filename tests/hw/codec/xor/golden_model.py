"""XOR with the previous element of the line, in numpy: as long as the data, zero-filled."""

import numpy as np

from cdma.golden.formats.interface import as_bytes, check_element_bytes, element_dtype, zero_filled
from cdma.golden.formats.stream import LINE_BYTES, StreamError, StreamStatus


class XorModel:
    """The golden format of the test's codec; see `golden.Codec`."""

    name = "xor"
    lossless = True

    def __init__(self, element_bytes=4):
        self.element_bytes = check_element_bytes(element_bytes)

    def _lines(self, data):
        dtype = element_dtype(self.element_bytes)
        filled = zero_filled(as_bytes(data), LINE_BYTES).view(dtype)
        return filled.reshape(-1, LINE_BYTES // self.element_bytes)

    def compress(self, array):
        lines = self._lines(array).copy()
        lines[:, 1:] ^= lines[:, :-1].copy()
        return lines.reshape(-1).view(np.uint8)

    def decompress(self, stream, nbytes):
        data = as_bytes(stream)
        size = -(-nbytes // LINE_BYTES) * LINE_BYTES
        if data.size < size:
            raise StreamError(StreamStatus.PAYLOAD_TRUNCATED, data.size)
        if data.size > size:
            raise StreamError(StreamStatus.TRAILING_BYTES, size, nbytes)
        lines = np.bitwise_xor.accumulate(self._lines(data), axis=1)
        return lines.reshape(-1).view(np.uint8)[:nbytes]

    def line_sizes(self, array):
        return np.full(-(-as_bytes(array).size // LINE_BYTES), LINE_BYTES, np.int64)
