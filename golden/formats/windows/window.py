"""4 KiB windows: what the baseline codecs compress on its own (cDMA, §VII-A)."""

import numpy as np

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import LINE_BYTES

WINDOW_BYTES = 4096
"""Bytes of data that are compressed without regard to what comes before or after."""
WINDOW_LINES = WINDOW_BYTES // LINE_BYTES
HEADER_BYTES = 2
"""A window's header, where a format has one: an unsigned 16-bit number, little-endian."""


def share_over_lines(window_sizes: IntArray, nbytes: int) -> IntArray:
    """The sizes of compressed windows, shared evenly over their lines.

    Parameters
    ----------
    window_sizes : int64 array (windows,)
        Bytes of stream per window.
    nbytes : int
        Bytes of data; the last window may be shorter than the others.

    Returns
    -------
    int64 array (lines,)
        Bytes of stream per line. Each window's lines add up to the window; what does not divide
        goes to its first lines.
    """
    lines = -(-nbytes // LINE_BYTES)
    window = np.arange(lines) // WINDOW_LINES
    place = np.arange(lines) % WINDOW_LINES
    lines_in = np.minimum(WINDOW_LINES, lines - window * WINDOW_LINES)
    sizes = window_sizes[window]
    return sizes // lines_in + (place < sizes % lines_in)
