"""bf16 as numpy has it: bit patterns in uint16, the upper half of an fp32 number's.

numpy has no type for bf16. Arrays of it are uint16 here, in `.npy` files as everywhere.
"""

import numpy as np
import numpy.typing as npt

_QUIET = np.uint32(0x400000)
"""A mantissa's highest bit. Set in every NaN, so that rounding makes no infinity of one."""


def rounded_to_bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round fp32 numbers to the nearest bf16, ties to even; NaNs stay NaNs.

    Parameters
    ----------
    values : float32 array

    Returns
    -------
    uint16 array
        Bit patterns, of the same shape.
    """
    words = np.ascontiguousarray(values, "<f4").view("<u4")
    words = np.where(np.isnan(values), words | _QUIET, words).astype(np.uint64)
    odd = words >> np.uint64(16) & np.uint64(1)
    rounded = np.where(np.isnan(values), words, words + np.uint64(0x7FFF) + odd)
    return (rounded >> np.uint64(16)).astype("<u2")
