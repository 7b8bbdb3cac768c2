"""A lossy codec that gives zeros back as zeros."""

import numpy as np

from cdma.golden.formats.interface import Array, Codec
from cdma.golden.formats.stream import ByteArray


class ZerosKept:
    """A codec behind a map of one bit per element, which says what is zero.

    ZFP does not keep zeros, and a ReLU's backward pass asks of its output nothing else than whether
    it is zero.

    Parameters
    ----------
    codec : Codec
        Of float32.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def compress(self, array: Array) -> ByteArray:
        """The map, bit i of byte k for element 8k + i, and the codec's stream: uint8 (bytes,)."""
        zeros = np.packbits(array == 0, bitorder="little")
        return np.concatenate([zeros, self._codec.compress(array)])

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The values' `nbytes` bytes, uint8 (nbytes,)."""
        count = nbytes // 4
        zeros = np.unpackbits(stream[: -(-count // 8)], count=count, bitorder="little")
        values = self._codec.decompress(stream[-(-count // 8) :], nbytes).view(np.float32)
        return np.where(zeros, np.float32(0), values).view(np.uint8)
