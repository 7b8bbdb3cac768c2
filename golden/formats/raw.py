"""Plain copies: the stream is the data."""

import numpy as np

from cdma.golden.formats.interface import Array, IntArray, as_bytes, check_element_bytes, whole
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamError, StreamStatus


class Raw:
    """The data as it is; see `golden.Codec`. The last line is as long as its data."""

    name = "raw"
    lossless = True

    def __init__(self, element_bytes: int = 4) -> None:
        self.element_bytes = check_element_bytes(element_bytes)

    def compress(self, array: Array) -> ByteArray:
        """The bytes, uint8 (bytes,), of an array of any shape and any plain dtype."""
        return as_bytes(array).copy()

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes again; `StreamError` when there are more of them, or fewer."""
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        data = as_bytes(stream)
        if data.size < nbytes:
            # As the engine tells it: the element that is not whole is not there.
            whole = data.size // self.element_bytes * self.element_bytes
            raise StreamError(StreamStatus.PAYLOAD_TRUNCATED, whole, whole)
        return data[:nbytes].copy(), nbytes

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,)."""
        nbytes = as_bytes(array).size
        sizes = np.full(-(-nbytes // LINE_BYTES), LINE_BYTES, np.int64)
        if nbytes % LINE_BYTES:
            sizes[-1] = nbytes % LINE_BYTES
        return sizes
