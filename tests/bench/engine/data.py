"""Data whose ZVC stream has a wanted size, to the word."""

from typing import Literal

import numpy as np

from cdma.golden import LINE_BYTES
from cdma.golden.formats.stream import ByteArray

ELEMENT_BYTES = 4
WORDS = LINE_BYTES // ELEMENT_BYTES
DENSE = WORDS / (WORDS + 1)
"""The ratio of data without a zero: a mask more than it was."""

Spread = Literal["even", "random"]


def with_ratio(nbytes: int, ratio: float, spread: Spread = "even", seed: int = 0) -> ByteArray:
    """fp32-sized elements that compress by `ratio`.

    Parameters
    ----------
    nbytes : int
        A multiple of an element; of a line, if even.
    ratio : float
        From `DENSE` to 32.
    spread : str
        "even": lines differ by one element at most. "random": zeros are anywhere, so that the
        sizes of lines differ as they do in activations.
    """
    rng = np.random.default_rng(seed)
    words, lines = nbytes // ELEMENT_BYTES, -(-nbytes // LINE_BYTES)
    filled = round(words / ratio) - lines
    assert 0 <= filled <= words
    array = rng.integers(1, 2**32, words, np.uint32)
    if spread == "random":
        array[rng.permutation(words)[filled:]] = 0
    else:
        bounds = np.arange(lines + 1, dtype=np.int64) * filled // lines
        ranks = rng.random((lines, WORDS)).argsort(axis=1)
        array[(ranks >= np.diff(bounds)[:, np.newaxis]).reshape(-1)] = 0
    return array.view(np.uint8)


def with_stream(stream_bytes: int, ratio: float, spread: Spread = "even") -> ByteArray:
    """As much data as gives a stream of that size, in whole lines: transfers of all ratios are
    then on the link for the same time."""
    return with_ratio(round(stream_bytes * ratio / LINE_BYTES) * LINE_BYTES, ratio, spread)
