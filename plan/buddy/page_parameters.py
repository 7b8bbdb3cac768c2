"""Centre and pattern of the third code for pages of compressed memory, from what they held."""

from functools import cache

import numpy as np

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.golden.buddy.xc_entry import CENTRE_BITS, ELEMENTS
from cdma.golden.formats.interface import Array, IntArray, as_bytes, zero_filled
from cdma.golden.formats.xc.patterns import bits_of_exponents

_PAGES_AT_ONCE = 1024
_EXPONENTS = 1 << ELEMENTS.exponent_bits


def page_parameters(array: Array, page_bytes: int) -> IntArray:
    """The ten bits of each page that suit an array's elements best, int64 (pages,).

    An element is two bytes, a bf16, whatever the array's type. The best parameters are those with
    which the codes of the page's elements that are not zero take the fewest bits; of equals, the
    lowest pattern counts, and of those the lowest centre. A page of zeros has none, that is 0.
    """
    words = zero_filled(as_bytes(array), page_bytes).view("<u2").reshape(-1, page_bytes // 2)
    found = [
        _best(words[first : first + _PAGES_AT_ONCE])
        for first in range(0, len(words), _PAGES_AT_ONCE)
    ]
    return np.concatenate(found)


def of_entries(parameters: IntArray, entries: int, page_bytes: int) -> IntArray:
    """The parameters of each entry's page, int64 (entries,)."""
    return np.repeat(parameters, page_bytes // ENTRY_BYTES)[:entries]


def _best(words: Array) -> IntArray:
    """As `page_parameters`, of pages of words, uint16 (pages, elements)."""
    exponents = words >> ELEMENTS.mantissa_bits & (_EXPONENTS - 1)
    pages = np.arange(len(words))[:, None] * _EXPONENTS
    counts = np.bincount(
        (pages + exponents)[words != 0], minlength=len(words) * _EXPONENTS
    ).reshape(-1, _EXPONENTS)
    # Whole numbers below 2^53, so that floats, which are faster, are exact.
    costs = counts.astype(np.float64) @ _costs().T
    best = costs.argmin(axis=1)
    pattern, centre = np.divmod(best, _EXPONENTS - 1)
    chosen: IntArray = centre + 1 | pattern << CENTRE_BITS
    chosen[~counts.any(axis=1)] = 0
    return chosen


@cache
def _costs() -> Array:
    """Bits of each exponent's code, by pattern and centre from 1 on, float64 (4 · 255, 256)."""
    bits = bits_of_exponents(ELEMENTS)[:, 1:]
    return bits.reshape(-1, _EXPONENTS).astype(np.float64)
