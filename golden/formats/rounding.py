"""fp32 numbers rounded to narrower element formats, of which numpy has fp16 alone.

Arrays of the others have their bit patterns, in unsigned integers.
"""

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.golden.formats.interface import Array, CodecError
from cdma.golden.formats.xc.elements import element_format


def rounded_to(name: str, values: npt.NDArray[np.float32]) -> Array:
    """Round fp32 numbers to the nearest of an element format, ties to even.

    Formats of a byte have a small range, for which training scales tensors: here by the power of
    two that brings the largest magnitude to 2^(bias − 1) … 2^bias, where all patterns are numbers.

    Parameters
    ----------
    name : str
        The element format's, as `cdma.golden.formats.xc.elements.element_format` knows it.
    values : float32 array

    Returns
    -------
    array
        Of the same shape: float32 of fp32, float16 of fp16, bit patterns in uint16 of bf16, and in
        uint8 of formats of a byte.

    Raises
    ------
    CodecError
        There is no such format; or it is one of a byte, and there are numbers that are not finite.
    """
    elements = element_format(name)
    if name == "fp32":
        return values
    if name == "bf16":
        return rounded_to_bf16(values)
    if name == "fp16":
        with np.errstate(over="ignore"):
            return values.astype("<f2")
    magnitudes = np.abs(values.astype(np.float64))
    largest = magnitudes.max(initial=0.0)
    if not np.isfinite(largest):
        raise CodecError(
            f"{name} is for finite numbers, which are scaled together; choose another "
            "format, or leave infinities and NaNs out"
        )
    bias = 2 ** (elements.exponent_bits - 1) - 1
    scaled = np.ldexp(magnitudes, bias - int(np.frexp(largest)[1]) if largest else 0)
    # Zeros have the exponent of denormals.
    exponents = np.where(scaled > 0, np.maximum(np.frexp(scaled)[1] - 1 + bias, 1), 1)
    whole = np.rint(np.ldexp(scaled, elements.mantissa_bits + bias - exponents))
    # A mantissa without its hidden bit counts on from the exponent below.
    words = ((exponents - 1) << elements.mantissa_bits) + whole.astype(np.int64)
    words |= np.signbit(values).astype(np.int64) << (elements.bits - 1)
    return words.astype(np.uint8)
