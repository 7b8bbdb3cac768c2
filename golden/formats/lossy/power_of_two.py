"""The quantizer for bounds that are powers of two, in integers: what the lossy lane computes.

With 2b = 2^(k − 127), k = 1…254, the number q = rint(x / 2b) of an fp32 value x is its mantissa
shifted right and rounded to the nearest, to even where two are; and q·2b is exact for |q| < 2^22.
There is no multiplier. k is the exponent field of 2b as fp32.

`Quantize` with such a bound gives the same numbers, and the same streams. bf16 values are fp32
values with 16 zero bits behind.
"""

import math

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import CodecError
from cdma.golden.formats.lossy.fixed_width import NUMBER_LIMIT, Numbers

SMALLEST_K, LARGEST_K = 1, 254
_K_OF_HALF = 127
"""k of b = 1/2."""
_MANTISSA_BITS = 23
_MAX_SHIFT = _MANTISSA_BITS + 2
"""Shifted by so many bits, every mantissa is less than a half."""

Words = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]


def bound_of(k: int) -> float:
    """The bound b = 2^(k − 128).

    Raises
    ------
    CodecError
        k is not from 1 to 254.
    """
    if k not in range(SMALLEST_K, LARGEST_K + 1):
        raise CodecError(
            f"k must be a whole number from {SMALLEST_K} to {LARGEST_K}, not {k!r}; choose k so "
            "that the bound is 2^(k − 128)"
        )
    return math.ldexp(1.0, int(k) - 1 - _K_OF_HALF)


def k_of(bound: float) -> int:
    """k of a bound that is a power of two.

    Raises
    ------
    CodecError
        The bound is no power of two, or k would not be from 1 to 254.
    """
    lower = rounded_down(bound)
    if lower != bound:
        above = f" or {2 * lower!r}" if 2 * lower <= bound_of(LARGEST_K) else ""
        raise CodecError(
            f"the bound {bound!r} is no power of two; choose one next to it, {lower!r}{above}"
        )
    return math.frexp(bound)[1] + _K_OF_HALF


def rounded_down(bound: float) -> float:
    """The largest power of two that is no more than the bound.

    Raises
    ------
    CodecError
        It is none that k = 1…254 has, or the bound is no number.
    """
    least, most = bound_of(SMALLEST_K), 2 * bound_of(LARGEST_K)
    if not least <= bound < most:
        raise CodecError(
            f"the bound must be a number from {least:.1e} to {most / 2:.1e}, not {bound!r}; choose "
            "the largest error that a value may have"
        )
    return math.ldexp(1.0, math.frexp(bound)[1] - 1)


def words_of_bf16(words: npt.NDArray[np.uint16]) -> Words:
    """The fp32 bit patterns of bf16 bit patterns, uint32 of the same shape."""
    return words.astype(np.uint32) << np.uint32(16)


def quantized(words: Words, k: int) -> tuple[Numbers, Bools]:
    """The numbers of fp32 values, and which have none.

    Parameters
    ----------
    words : uint32 array
        The values' bit patterns.
    k : int
        1…254.

    Returns
    -------
    q : int32 array
        Of the same shape; 0 where there is none.
    exact : bool array
        Values that must be kept as they are, which makes their line raw: NaN, infinity, |q| ≥ 2^22,
        and those whose q·2b would be infinite.
    """
    bound_of(k)
    fields = (words >> np.uint32(_MANTISSA_BITS) & np.uint32(255)).astype(np.int64)
    mantissas = (words & np.uint32(2**_MANTISSA_BITS - 1)).astype(np.int64)
    mantissas[fields != 0] |= 1 << _MANTISSA_BITS
    # The field of denormals is 0, and their exponent that of field 1.
    exponents = np.maximum(fields, 1)
    shifts = k + _MANTISSA_BITS - exponents
    beyond = shifts <= 0
    shifts = np.clip(shifts, 1, _MAX_SHIFT)
    whole = mantissas >> shifts
    rest = mantissas & ((1 << shifts) - 1)
    half = 1 << (shifts - 1)
    up = (rest > half) | ((rest == half) & (whole & 1 != 0))
    q = whole + up
    # Rounding may carry beyond the largest exponent.
    infinite = np.frexp(q)[1] + k - _K_OF_HALF > 128
    exact = (fields == 255) | beyond | (q >= NUMBER_LIMIT) | infinite
    q = np.where(words >> np.uint32(31) != 0, -q, q)
    return np.where(exact, 0, q).astype(np.int32), exact


def restored(q: Numbers, k: int) -> Words:
    """The bit patterns of the fp32 values q·2b, uint32 of the same shape; zeros are 0.0."""
    return np.ldexp(q.astype(np.float64), k - _K_OF_HALF).astype("<f4").view("<u4")
