"""Lines of every kind that XC has, and streams of them that were damaged."""

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.xc.elements import ELEMENT_FORMATS, ElementFormat
from cdma.golden.formats.xc.xc import Xc

FORMAT_NAMES = [elements.name for elements in ELEMENT_FORMATS]


def xc(elements: ElementFormat, centre: int, pattern: int) -> Xc:
    return Xc(
        elements.element_bytes,
        exponent_bits=elements.exponent_bits,
        centre=centre,
        pattern=pattern,
    )


def random_lines(
    generator: np.random.Generator, elements: ElementFormat, count: int
) -> npt.NDArray[np.uint8]:
    """uint8 (count · 128,): each line has its own density, spread of exponents and trailing zeros.

    Exponents fall off from near the middle of their range; some lines are of random bits. So there
    are lines of every kind, with and without escapes, and raw ones for either reason.
    """
    shape = (count, elements.line_elements)
    top = 2**elements.exponent_bits - 1
    spread = generator.choice([0.0, 0.5, 1.5, 4.0, 12.0], (count, 1))
    fall = generator.exponential(1.0, shape) * spread
    rise = generator.exponential(0.4, shape) * spread
    exponents = np.clip(top // 2 + rise - fall, 0, top).astype(np.uint64)
    mantissas = generator.integers(0, 2**elements.mantissa_bits, shape, np.uint64)
    cut = generator.choice([0, 0, elements.mantissa_bits // 2, elements.mantissa_bits], (count, 1))
    mantissas = mantissas >> cut.astype(np.uint64) << cut.astype(np.uint64)
    signs = generator.integers(0, 2, shape, np.uint64)
    words = signs << np.uint64(elements.bits - 1)
    words |= exponents << np.uint64(elements.mantissa_bits) | mantissas
    noise = generator.integers(0, 2**elements.bits, shape, np.uint64)
    words = np.where(generator.random((count, 1)) < 0.1, noise, words)
    density = generator.choice([0.0, 0.03, 0.4, 0.97, 1.0, 1.0], (count, 1))
    words[generator.random(shape) >= density] = 0
    return words.astype(f"<u{elements.element_bytes}").view(np.uint8).reshape(-1)


def random_coding(generator: np.random.Generator, elements: ElementFormat) -> Xc:
    """A codec with any pattern, and a centre that mostly fits `random_lines`."""
    near = 2 ** (elements.exponent_bits - 1) - int(generator.integers(0, 5))
    centre = near if generator.random() < 0.8 else int(generator.integers(0, 256))
    return xc(elements, centre, int(generator.integers(0, 4)))


def damaged_streams(
    generator: np.random.Generator, codec: Xc, data: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A stream for each line of `data`, nearly all of them damaged; one behind the other.

    Returns
    -------
    streams : uint8 array (bytes,)
    offsets : int64 array (lines + 1,)
        Stream i is `streams[offsets[i] : offsets[i + 1]]`.
    nbytes : int64 array (lines,)
        The true lengths that are told: 128, or another.
    """
    whole = codec.compress(data)
    sizes = codec.line_sizes(data)
    starts = np.cumsum(sizes) - sizes
    lines = np.arange(sizes.size)
    kinds = generator.integers(0, 6, sizes.size)
    # One bit flipped, or two, of which one may be in the header.
    for chosen, most in (
        (kinds == 0, sizes),
        (kinds == 1, sizes),
        (kinds == 1, np.minimum(2, sizes)),
    ):
        at = starts + generator.integers(0, most)
        bits = np.uint8(1) << generator.integers(0, 8, sizes.size).astype(np.uint8)
        whole[at[chosen]] ^= bits[chosen]
    # Some bytes are other bytes.
    at = starts + generator.integers(0, sizes)
    for step in range(4):
        inside = (kinds == 2) & (at + step < starts + sizes)
        whole[at[inside] + step] = generator.integers(0, 256, int(inside.sum()))
    # Bytes are missing, or too many.
    left = np.where(kinds == 3, generator.integers(0, sizes), sizes)
    extra = np.where(kinds == 4, generator.integers(1, 4, sizes.size), 0)
    streams = np.concatenate(
        [
            np.concatenate([whole[starts[i] : starts[i] + left[i]], np.zeros(extra[i], np.uint8)])
            for i in lines.tolist()
        ]
    )
    offsets = np.concatenate([[0], np.cumsum(left + extra)])
    nbytes = np.where(kinds == 5, generator.integers(0, 257, sizes.size), 128)
    return streams, offsets, nbytes
