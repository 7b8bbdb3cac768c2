"""Fields of bits, many lines at once: numbers one behind the other, least significant bit first.

Neighbors are merged pair by pair, in lanes that double: 8 numbers of a byte each become one lane of
64 bits. Decoding splits the same tree from the top. So a line costs a few dozen operations on whole
words, and not some for each bit.
"""

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import ByteArray

Words = npt.NDArray[np.uint64]
Lanes = npt.NDArray[np.unsignedinteger]

WORD_BYTES = 8


def byte_view(data: ByteArray) -> Words:
    """The little-endian word of 64 bits that starts at each byte, uint64 (bytes − 7,)."""
    view: Words = np.ndarray(data.size - WORD_BYTES + 1, "<u8", data.data, strides=(1,))
    return view


def gather(view: Words, places: IntArray, columns: int) -> Words:
    """Words that follow one another from byte `places` (n,) on, uint64 (n, columns)."""
    words: Words = np.empty((places.size, columns), "<u8")
    for column in range(columns):
        words[:, column] = view[places + WORD_BYTES * column]
    return words


def scatter(view: Words, places: IntArray, words: Words) -> None:
    """Write words (n, m) one behind the other from byte `places` (n,) on.

    What comes behind a row's end is overwritten by the rows that follow, if these start in
    ascending places.
    """
    for column in reversed(range(words.shape[1])):
        view[places + WORD_BYTES * column] = words[:, column]


class WidthTree:
    """The widths of numbers (n, m), and of what pairs, fours and eights of them are merged to.

    Attributes
    ----------
    totals : uint64 array (n, m / 8)
        Bits of each eight.
    """

    def __init__(self, widths: ByteArray) -> None:
        self._lows: list[Lanes] = []
        lanes: Lanes = widths
        for width in (16, 32, 64):
            lanes = lanes.view(f"<u{width // 8}")
            low = lanes & _ones(width // 2, lanes.dtype)
            self._lows.append(low)
            lanes = low + (lanes >> lanes.dtype.type(width // 2))
        self.totals: Words = lanes

    def merge(self, numbers: ByteArray) -> Words:
        """Numbers (n, m), none wider than told, as lanes of eight, uint64 (n, m / 8)."""
        lanes: Lanes = numbers
        for low in self._lows:
            lanes = lanes.view(low.dtype)
            half = low.dtype.type(4 * low.dtype.itemsize)
            lanes = (lanes & _ones(int(half), low.dtype)) | ((lanes >> half) << low)
        return lanes

    def split(self, lanes: Words) -> ByteArray:
        """The inverse of `merge`; bits of the lanes beyond `totals` must be zero."""
        parts: Lanes = lanes
        for low in reversed(self._lows):
            parts = parts.view(low.dtype)
            half = low.dtype.type(4 * low.dtype.itemsize)
            one = low.dtype.type(1)
            parts = (parts & ((one << low) - one)) | ((parts >> low) << half)
        return parts.view(np.uint8)


def scatter_bits(view: Words, places: IntArray, lanes: Words, widths: Words) -> None:
    """Write lanes (n, m) of these widths without gaps from byte `places` (n,) on.

    No lane is wider than 57 bits. What comes behind a row's end is overwritten with zeros.
    """
    eight = np.uint64(8)
    places = places.copy()
    # Bits of the byte at `places` that are known, and how many of them.
    held = np.zeros(places.size, np.uint64)
    count = np.zeros(places.size, np.uint64)
    for column in range(lanes.shape[1]):
        held |= lanes[:, column] << count
        count += widths[:, column]
        view[places] = held
        whole = count // eight
        places += whole.view(np.int64)
        count %= eight
        held >>= whole * eight


def pack_even(numbers: Lanes, width: int) -> Words:
    """Numbers (n, m) of `width` bits each, without gaps: uint64 (n, words)."""
    if width == 8 * numbers.dtype.itemsize:
        return numbers.view("<u8")
    bits = width
    while numbers.dtype.itemsize < WORD_BYTES:
        half = 8 * numbers.dtype.itemsize
        numbers = numbers.view(f"<u{half // 4}")
        kind = numbers.dtype.type
        numbers = (numbers & _ones(half, numbers.dtype)) | ((numbers >> kind(half)) << kind(bits))
        bits *= 2
    if bits == 64:
        return numbers
    count, columns = numbers.shape
    words: Words = np.zeros((count, -(-columns * bits // 64)), "<u8")
    for column in range(columns):
        place = column * bits
        words[:, place // 64] |= numbers[:, column] << np.uint64(place % 64)
        if place % 64 + bits > 64:
            words[:, place // 64 + 1] |= numbers[:, column] >> np.uint64(64 - place % 64)
    return words


def unpack_even(view: Words, places: IntArray, width: int, count: int, number_bytes: int) -> Lanes:
    """The inverse of `pack_even`: numbers from byte `places` (n,) on, unsigned (n, count)."""
    together = WORD_BYTES // number_bytes
    bits = width * together
    if bits == 64:
        return gather(view, places, count // together).view(f"<u{number_bytes}")
    at = np.arange(count // together) * bits
    lanes: Lanes = view[places[:, None] + (at >> 3)]
    lanes >>= (at & 7).astype(np.uint64)
    lanes &= _ones(bits, lanes.dtype)
    while lanes.dtype.itemsize > number_bytes:
        kind = lanes.dtype.type
        half = 4 * lanes.dtype.itemsize
        bits //= 2
        lanes = (lanes & _ones(bits, lanes.dtype)) | ((lanes >> kind(bits)) << kind(half))
        lanes = lanes.view(f"<u{half // 8}")
    return lanes


def _ones(width: int, dtype: np.dtype[np.unsignedinteger]) -> np.unsignedinteger:
    """The number whose lowest `width` bits are ones."""
    return dtype.type((1 << width) - 1)
