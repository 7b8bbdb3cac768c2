"""XOR with the previous element of the line, in numpy: as long as the data, zero-filled.

A line's first element is combined with the transfer's parameter `seed`.
"""

import numpy as np

from cdma.golden.formats.interface import (
    as_bytes,
    check_element_bytes,
    element_dtype,
    whole,
    zero_filled,
)
from cdma.golden.formats.stream import LINE_BYTES, StreamError, StreamStatus


class XorModel:
    """The golden format of the test's codec; see `golden.Codec`."""

    name = "xor"
    lossless = True

    def __init__(self, element_bytes=4, seed=0):
        self.element_bytes = check_element_bytes(element_bytes)
        self.seed = int(seed)

    def _lines(self, data):
        dtype = element_dtype(self.element_bytes)
        filled = zero_filled(as_bytes(data), LINE_BYTES).view(dtype)
        return filled.reshape(-1, LINE_BYTES // self.element_bytes)

    def compress(self, array):
        lines = self._lines(array).copy()
        lines[:, 1:] ^= lines[:, :-1].copy()
        lines[:, 0] ^= self.seed & (1 << 8 * self.element_bytes) - 1
        return lines.reshape(-1).view(np.uint8)

    def decompress(self, stream, nbytes):
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream, nbytes):
        data = as_bytes(stream)
        size = -(-nbytes // LINE_BYTES) * LINE_BYTES
        if data.size < size:
            raise StreamError(StreamStatus.PAYLOAD_TRUNCATED, data.size)
        lines = np.bitwise_xor.accumulate(self._lines(data[:size]), axis=1)
        lines ^= self.seed & (1 << 8 * self.element_bytes) - 1
        return lines.reshape(-1).view(np.uint8)[:nbytes], size

    def parity(self, array):
        """The result that the engine's record has: the XOR of all bytes."""
        return int(np.bitwise_xor.reduce(as_bytes(array), initial=0))

    def line_sizes(self, array):
        return np.full(-(-as_bytes(array).size // LINE_BYTES), LINE_BYTES, np.int64)
