"""The transform of BPC: an entry's 32 words to a base and 33 planes of 31 bits, and back.

The words are signed, w0…w31. Delta i is w_{i+1} − w_i, a signed number of 33 bits. Plane p (DBP_p)
has bit p of every delta: its bit i is of delta i. Arrays have an entry per column, and planes are
in the order in which they are sent: row 0 is plane 32, the signs, and row 32 is plane 0.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.stream import LINE_BYTES

WORDS = LINE_BYTES // 4
DELTAS = WORDS - 1
PLANES = 33
"""Bits of a delta."""

Words = npt.NDArray[np.uint32]


def to_planes(words: npt.NDArray[Any]) -> Words:
    """The planes, uint32 (33, n), of entries as bit patterns of words, uint32 (32, n)."""
    planes = np.empty((PLANES, words.shape[1]), np.uint32)
    deltas = np.zeros((WORDS, words.shape[1]), np.uint32)
    np.subtract(words[1:], words[:-1], out=deltas[:-1])
    _transpose_bits(deltas)
    planes[1:] = deltas[::-1]
    planes[0] = signs_of(words)
    return planes


def from_planes(base: npt.NDArray[np.uint32], planes: Words) -> Words:
    """The words, uint32 (32, n), of bases (n,) and planes (33, n).

    The words follow from planes 31 to 0; whether plane 32 fits them is for `signs_of` to tell.
    """
    words = np.empty((WORDS, base.size), np.uint32)
    rows = planes[:0:-1].copy()
    _transpose_bits(rows)
    words[0] = base
    words[1:] = rows[:-1]
    return np.cumsum(words, axis=0, dtype=np.uint32)


def signs_of(words: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Plane 32, uint32 (n,): where a word is less than the one before it, both signed."""
    signed = words.view(np.int32)
    signs = np.zeros(words.shape[1], np.uint32)
    for index in range(DELTAS):
        falls = signed[index + 1] < signed[index]
        signs |= falls.astype(np.uint32) << np.uint32(index)
    return signs


def _transpose_bits(rows: Words) -> None:
    """Transpose each column's 32 × 32 bits in place: bit i of row p becomes bit p of row i."""
    count = rows.shape[1]
    for distance, low in (
        (16, 0x0000FFFF),
        (8, 0x00FF00FF),
        (4, 0x0F0F0F0F),
        (2, 0x33333333),
        (1, 0x55555555),
    ):
        # Of each two rows at this distance, the upper bits of one change places with the lower
        # bits of the other.
        pairs = rows.reshape(16 // distance, 2, distance, count)
        first, second = pairs[:, 0], pairs[:, 1]
        swap = first >> np.uint32(distance)
        swap ^= second
        swap &= np.uint32(low)
        second ^= swap
        swap <<= np.uint32(distance)
        first ^= swap
