"""ZFP at a fixed rate (Lindstrom; CSWAP+, §5.2.2): fp32 in P bits per 4 values, with errors.

The numbers, in one dimension whatever the array's shape, are cut into blocks of 4, and ZFP codes
each in exactly P bits: the largest exponent of the block, and then as many bit planes of the
transformed values as there is room for. Blocks follow one another without gaps, least significant
bit first, and the last word of 8 bytes is filled with zeros:

    size = ceil(P × ceil(values / 4) / 64) × 8

so the stream of n bytes is n·P/MAX long with MAX = 128, equation 7 of the paper. It is the payload
of the library's own stream, without its header of 16 bytes: rate, type and length are told to the
decoder, as they are for any codec.

No bound holds for the errors: they follow the largest value of a block. At 9 bits only exponents
fit, and all values come back as zero; at 128 bits the errors are about 2^-24 of the largest value.
A zero beside other values of its block need not come back as zero; blocks of zeros do.
"""

import numpy as np

from cdma.builds.extras import extra
from cdma.golden.formats.interface import (
    Array,
    CodecError,
    IntArray,
    UnfitValueError,
    as_bytes,
    as_floats,
    check_lossy_element_bytes,
    check_whole_floats,
    whole,
)
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamError, StreamStatus

MAX_RATE = 128
"""MAX of equation 7: the bits of 4 values as they are."""
RATES = range(9, MAX_RATE + 1)
"""A block's first bit and its exponent take 9 bits. With less, zfpy writes outside its memory."""
BLOCK_VALUES = 4
_WORD_BYTES = 8
_LARGEST = 2.0**126
"""Below it, whatever becomes of a value in a block is finite."""
_SMALLEST = 2.0**-98
"""Below it, the factor that makes integers of a block's values is none that fp32 has."""


class Zfp:
    """ZFP of fp32, `rate` bits per block of 4 values; see `golden.Codec`.

    Values must be finite and below 2^126; those below 2^-98 count as zero. `line_sizes` are `rate`
    bytes for every line; the last has what is left of the stream.

    Parameters
    ----------
    element_bytes : int
        4.
    rate : int
        P, 9 to 128 bits.

    Raises
    ------
    CodecError
        Another element size or rate.
    """

    name = "zfp"
    lossless = False

    def __init__(self, element_bytes: int = 4, *, rate: float) -> None:
        self.element_bytes = check_lossy_element_bytes(self.name, element_bytes)
        # Before zfpy sees it, which does not say no to what breaks it.
        if rate not in RATES:
            raise CodecError(
                f"the rate must be a whole number of bits per 4 values from {RATES[0]} to "
                f"{RATES[-1]}, not {rate!r}; choose one of these"
            )
        self.rate = int(rate)

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of a float32 array of any shape.

        Raises
        ------
        CodecError
            The array is of another type, or has NaN, infinities or values of 2^126 and more.
        """
        values = as_floats(self.name, array)
        if not values.size:
            return np.empty(0, np.uint8)
        sizes = np.abs(values)
        if not sizes.max() < _LARGEST:
            place = int(np.flatnonzero(~(sizes < _LARGEST))[0])
            raise UnfitValueError(
                "zfp is for finite values below 2^126",
                place,
                values[place],
                "choose the codec quantize, or a lossless one",
            )
        values = np.where(sizes < _SMALLEST, np.float32(0), values)
        with extra("formats"):
            import zfpy
        payload = zfpy.compress_numpy(values, rate=self.rate / BLOCK_VALUES, write_header=False)
        return np.frombuffer(payload, np.uint8)

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The values' `nbytes` bytes, uint8 (nbytes,), not quite those that were compressed.

        Raises
        ------
        StreamError
            LENGTH_MISMATCH: `nbytes` is no multiple of 4; offset: 0.
            PAYLOAD_TRUNCATED: the stream ends too early; offset: the byte in which the first block
            starts that is not all there. The valid bytes are those of the blocks before.
            NONZERO_FILL: a bit behind the last block is not zero; offset: its byte.
            TRAILING_BYTES: bytes follow the last word; offset: the first of them.
            Whatever else is damaged makes other values.
        """
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        source = as_bytes(stream)
        check_whole_floats(nbytes)
        bits = self._bits(nbytes)
        size = self._size(bits)
        if source.size < size:
            whole = min(8 * source.size, bits) // self.rate
            valid_bytes = min(whole * BLOCK_VALUES * 4, nbytes)
            raise StreamError(
                StreamStatus.PAYLOAD_TRUNCATED,
                min(whole * self.rate // 8, source.size),
                valid_bytes,
            )
        tail_pad = int.from_bytes(source[bits // 8 : size].tobytes(), "little") >> bits % 8
        if tail_pad:
            first_bit = bits + (tail_pad & -tail_pad).bit_length() - 1
            raise StreamError(StreamStatus.NONZERO_FILL, first_bit // 8, nbytes)
        if not nbytes:
            return np.empty(0, np.uint8), 0
        with extra("formats"):
            import zfpy
        values = zfpy._decompress(
            source[:size].tobytes(), zfpy.type_float, (nbytes // 4,), rate=self.rate / BLOCK_VALUES
        )
        return as_bytes(values.astype("<f4", copy=False)), size

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""
        nbytes = as_floats(self.name, array).nbytes
        sizes = np.full(-(-nbytes // LINE_BYTES), self.rate, np.int64)
        # A line is 8 blocks, so its P bytes are whole; only the last has less, or fill.
        sizes[-1:] += self._size(self._bits(nbytes)) - sizes.sum()
        return sizes

    def _bits(self, nbytes: int) -> int:
        return -(-nbytes // (BLOCK_VALUES * 4)) * self.rate

    @staticmethod
    def _size(bits: int) -> int:
        return -(-bits // (8 * _WORD_BYTES)) * _WORD_BYTES
