"""The parameters that a compressor's record recommends for the next transfer of such data.

A compressor sees each line once, and has no time for all of it. It samples an element of some
lines, counts the exponents of these in a window of 32, and compares the costs of twelve pairs of
centre and pattern around the most frequent one.

*A line's element* (`line_samples`). A line is four blocks of 32 B. The low bytes of a block's
elements, as one string of bits, are folded by exclusive or to one bit more than a number of an
element has. That names one of the block's elements, at random and yet always the same one. Of the
four, the line's is the first that is not zero, unless a later one that is not zero either has the
fold's top bit set. Where all four are zeros, the line counts for nothing: taking others instead
would give more weight to elements among zeros, which are others than those among their like.

*The lines* (`sampled_lines`). The first one, and then about every second or third: far enough apart
for one counter, with two lines per cycle, and not in step with data that repeat. Whenever `MOST`
lines were sampled, all counts are halved and the distances doubled, so that counts stay small, and
the whole transfer has the same weight, however long it is. After seven times the distances stay,
and the weight of what is behind wanes.

*The window* (`ExponentCounter`). The first sample fixes it; it is fixed anew, and counted from
nothing, when more samples were outside than the most frequent exponent has.
"""

from collections.abc import Iterator

import numpy as np

from cdma.golden.formats.interface import Array, as_bytes, element_dtype, zero_filled
from cdma.golden.formats.stream import LINE_BYTES, ByteArray
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.lines import CHUNK_LINES, Lanes
from cdma.golden.formats.xc.patterns import CLASS_BITS, PATTERNS, code_bits

BLOCK_BYTES = 32
WINDOW = 32
"""Exponents that are counted."""
MARGIN = 8
"""Exponents that the window has at least on either side of the sample that fixes it."""
WINDOW_STEP = 16
"""What the window's start is a multiple of."""

COUNT_BITS = 8
MOST = (1 << COUNT_BITS) - 1
"""Lines that are sampled before all counts are halved; so no count overflows."""
LEVELS = 7
"""How many times distances are doubled."""

JITTER_BITS = LEVELS + 2
JITTER_TAPS = (8, 4)
"""Of the shift register that makes distances uneven, x^9 + x^5 + 1; it begins with 1."""

CANDIDATES = tuple((offset, pattern) for offset in (0, -1, 1) for pattern in PATTERNS)
"""Centres, less the most frequent exponent, and patterns. Of equals, the first one is taken."""


def recorded_parameters(array: Array, elements: ElementFormat) -> tuple[int, int] | None:
    """The centre and the pattern that the record of a transfer of this array recommends.

    None if there is nothing to go by: the sampled elements are zeros, as they may be where only a
    few others are not.
    """
    return parameters_of(line_samples(array, elements), elements)


def parameters_of(samples: Lanes, elements: ElementFormat) -> tuple[int, int] | None:
    """`recorded_parameters` of a transfer whose lines have these samples."""
    counter = ExponentCounter()
    exponents = samples >> elements.mantissa_bits & ((1 << elements.exponent_bits) - 1)
    for line, halves in sampled_lines(samples.size):
        if halves:
            counter.halve()
        if samples[line]:
            counter.count(int(exponents[line]))
    return counter.best(elements)


def line_samples(array: Array, elements: ElementFormat) -> Lanes:
    """The element of each line that may be sampled; 0 if all that are named are zeros."""
    words = zero_filled(as_bytes(array), LINE_BYTES).view(element_dtype(elements.element_bytes))
    lines = words.reshape(-1, elements.line_elements)
    chunks = [_samples(lines[at : at + CHUNK_LINES]) for at in range(0, len(lines), CHUNK_LINES)]
    return np.concatenate([np.empty(0, words.dtype), *chunks])


def sampled_lines(lines: int) -> Iterator[tuple[int, bool]]:
    """The numbers of the lines that are sampled, each with whether counts are halved before."""
    line = level = sampled = 0
    jitter = 1
    while line < lines:
        halves = sampled == MOST
        if halves:
            level, sampled = min(level + 1, LEVELS), MOST >> 1
        yield line, halves
        sampled += 1
        line += (2 << level) | (jitter & ((2 << level) - 1))
        fed_back = (jitter >> JITTER_TAPS[0] ^ jitter >> JITTER_TAPS[1]) & 1
        jitter = (jitter << 1 | fed_back) & ((1 << JITTER_BITS) - 1)


class ExponentCounter:
    """Counts exponents in a window, and knows the most frequent one."""

    def __init__(self) -> None:
        self._start = 0
        self._counts = [0] * WINDOW
        self._peak = 0
        self._outside = 0

    def halve(self) -> None:
        """Halve all counts, rounded down."""
        self._counts = [count >> 1 for count in self._counts]
        self._outside >>= 1

    def count(self, exponent: int) -> None:
        """Count the exponent of an element that is not zero."""
        place = (exponent - self._start) % 256
        most = self._counts[self._peak]
        if most and place < WINDOW:
            # The peak stays where it is until another one has more.
            if self._counts[place] == most:
                self._peak = place
            self._counts[place] += 1
        elif self._outside == most:
            self._start = (exponent - MARGIN) // WINDOW_STEP * WINDOW_STEP % 256
            self._peak = (exponent - self._start) % 256
            self._counts = [0] * WINDOW
            self._counts[self._peak] = 1
            self._outside = 0
        else:
            self._outside += 1

    def best(self, elements: ElementFormat) -> tuple[int, int] | None:
        """The centre and the pattern that what was counted takes the fewest bits with."""
        if not self._counts[self._peak]:
            return None
        costs = []
        for offset, pattern in CANDIDATES:
            distances = self._peak + offset - np.arange(WINDOW)
            bits = code_bits(pattern, elements)[distances % 256] - CLASS_BITS
            costs.append(int(bits @ np.array(self._counts)))
        offset, pattern = CANDIDATES[costs.index(min(costs))]
        return (self._start + self._peak + offset) % 256, pattern


def _samples(lines: Lanes) -> Lanes:
    """`line_samples` of some lines of elements, unsigned (n, elements)."""
    blocks = lines.reshape(len(lines), LINE_BYTES // BLOCK_BYTES, -1)
    number_bits = (blocks.shape[2] - 1).bit_length()
    folds = _folds((blocks & lines.dtype.type(0xFF)).astype(np.uint8), number_bits + 1)
    named = np.take_along_axis(blocks, folds[..., None] % blocks.shape[2], axis=2)[..., 0]
    found = np.zeros(len(lines), lines.dtype)
    for block in range(named.shape[1]):
        one = named[:, block]
        later = folds[:, block] >> number_bits == 1
        found = np.where((one != 0) & (later | (found == 0)), one, found)
    return found


def _folds(low_bytes: ByteArray, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The bits of each block's bytes (n, blocks, bytes), by exclusive or, in so many bits."""
    bits = np.unpackbits(low_bytes, axis=2, bitorder="little")
    folds = np.zeros(bits.shape[:2], np.int64)
    for place in range(width):
        folds |= (bits[:, :, place::width].sum(axis=2, dtype=np.int64) & 1) << place
    return folds
