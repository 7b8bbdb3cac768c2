"""A sample of an array's lines, from which parameters and codecs are chosen."""

import numpy as np

from cdma.golden.formats.stream import LINE_BYTES, ByteArray

SAMPLE_LINES = 512
"""Lines of a sample: 64 KiB, which all codecs are done with in milliseconds."""

_SEED = 1


def sample(data: ByteArray) -> ByteArray:
    """At most `SAMPLE_LINES` whole lines, one from anywhere in each of as many equal parts.

    The places are random, so that lines that repeat, as channels do, are not met in step; and the
    same for all arrays of a size.

    Parameters
    ----------
    data : array
        uint8, (bytes,).

    Returns
    -------
    lines : array
        uint8, (bytes,); all of `data`, with a part of a line at its end, too, if it has no more
        whole lines than a sample.
    """
    whole = data.size // LINE_BYTES
    if whole <= SAMPLE_LINES:
        return data
    lines = data[: whole * LINE_BYTES].reshape(whole, LINE_BYTES)
    bounds = np.linspace(0, whole, SAMPLE_LINES + 1)
    places = np.random.default_rng(_SEED).uniform(bounds[:-1], bounds[1:]).astype(np.int64)
    return lines[places].reshape(-1)
