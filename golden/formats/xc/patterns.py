"""XC's patterns: which distances from the centre are in which class.

The distance of an exponent from the transfer's `centre` is d = centre − exponent, as a signed
number of 8 bits: −128…127, modulo 256. A pattern puts distances into classes 0 to 3, each with some
extra bits that tell which of its distances is meant. They are taken from one order, the likely ones
first: close to the centre on both sides, then downwards, where the small values are. Index 15 of
class 3 is the escape, for all distances that no class has.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import CodecError, IntArray
from cdma.golden.formats.xc.elements import ElementFormat

CLASS_BITS = 2
ESCAPE_CLASS = 3
ESCAPE_INDEX = 15

EXTRA_BITS = ((0, 0, 2, 4), (0, 0, 2, 4), (1, 1, 2, 4), (2, 2, 3, 4))
"""By pattern and class."""
PATTERNS = range(len(EXTRA_BITS))
CENTRES = range(256)

_FIRST = ((0, -1, 1, 2, 3, -2), (0, 1, -1, 2, 3, -2), (0, -1, 1, -2, 2, 3), (0, -1, 1, -2, 2, 3))
_THEN = (4, -3, 5, -4, 6, -5, 7, *range(8, 26))


@cache
def classes(pattern: int) -> tuple[tuple[int, ...], ...]:
    """The distances of classes 0 to 3, each in the order of their indices.

    Class 3 has 15, as its index 15 is the escape.
    """
    order = (*_FIRST[pattern], *_THEN)
    cut = []
    for bits in EXTRA_BITS[pattern]:
        cut.append(order[: 2**bits])
        order = order[2**bits :]
    cut[ESCAPE_CLASS] = cut[ESCAPE_CLASS][:ESCAPE_INDEX]
    return tuple(cut)


def check_parameters(centre: int, pattern: int) -> tuple[int, int]:
    """The parameters, if there are such; `CodecError` otherwise."""
    for name, value, known in (("centre", centre, CENTRES), ("pattern", pattern, PATTERNS)):
        if value not in known:
            raise CodecError(
                f"the {name} of xc must be a whole number from 0 to {known[-1]}, not {value!r}"
            )
    return int(centre), int(pattern)


@cache
def code_table(pattern: int) -> npt.NDArray[np.uint8]:
    """Class and index of each distance, uint8 (256,): class + 4 · index, by d modulo 256."""
    table = np.full(256, ESCAPE_CLASS + 4 * ESCAPE_INDEX, np.uint8)
    for number, distances in enumerate(classes(pattern)):
        for index, distance in enumerate(distances):
            table[distance % 256] = number + 4 * index
    table.flags.writeable = False
    return table


@cache
def distance_table(pattern: int) -> npt.NDArray[np.uint8]:
    """The inverse of `code_table`: d modulo 256, uint8 (64,), by class + 4 · index.

    Zero where there is no such index, and for the escape.
    """
    table = np.zeros(64, np.uint8)
    for number, distances in enumerate(classes(pattern)):
        for index, distance in enumerate(distances):
            table[number + 4 * index] = distance % 256
    table.flags.writeable = False
    return table


def code_bits(pattern: int, element_format: ElementFormat) -> IntArray:
    """Bits of each distance's class, extra bits and escape, int64 (256,), by d modulo 256."""
    codes = code_table(pattern)
    extra = np.array(EXTRA_BITS[pattern])[codes & 3]
    escaped = codes == ESCAPE_CLASS + 4 * ESCAPE_INDEX
    bits: IntArray = CLASS_BITS + extra + element_format.exponent_bits * escaped
    return bits


@cache
def bits_of_exponents(element_format: ElementFormat) -> IntArray:
    """Bits as of `code_bits` by pattern, centre and exponent, int64 (4, 2^E, 2^E)."""
    exponents = np.arange(2**element_format.exponent_bits)
    distances = (exponents[:, None] - exponents) % 256
    bits = np.array([code_bits(pattern, element_format)[distances] for pattern in PATTERNS])
    bits.flags.writeable = False
    return bits


def best_parameters(histogram: npt.ArrayLike, element_format: ElementFormat) -> tuple[int, int]:
    """The centre and the pattern with which elements of these exponents take the fewest bits.

    Only the bits of codes and escapes are counted: not what fields are padded with, nor that long
    lines are kept raw. Of equals, the lowest pattern counts, and of those the lowest centre. So
    without any element it is centre 0, pattern 0.

    Parameters
    ----------
    histogram : int array (2^E,)
        How many elements that are not zero have each exponent.
    element_format : ElementFormat

    Returns
    -------
    centre : int
        0…2^E − 1.
    pattern : int
        0…3.
    """
    counts = np.asarray(histogram, np.int64)
    exponents = 2**element_format.exponent_bits
    if counts.shape != (exponents,):
        raise ValueError(f"{element_format.name} has {exponents} exponents, not {counts.size}")
    costs = bits_of_exponents(element_format) @ counts
    pattern, centre = np.unravel_index(np.argmin(costs), costs.shape)
    return int(centre), int(pattern)
