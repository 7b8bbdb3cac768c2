"""The sample that parameters and codecs are chosen from."""

import numpy as np
import pytest

from cdma.golden.formats.sample import SAMPLE_LINES, sample
from cdma.golden.formats.stream import LINE_BYTES


def numbered(lines, rest=0):
    """Lines that say which they are, and some bytes behind them."""
    numbers = np.repeat(np.arange(lines, dtype="<u2"), LINE_BYTES // 2)
    return np.concatenate([numbers.view(np.uint8), np.full(rest, 255, np.uint8)])


@pytest.mark.parametrize("parts", [2, 7])
def test_each_part_gives_one_of_its_lines(parts):
    taken = sample(numbered(parts * SAMPLE_LINES, rest=LINE_BYTES - 1)).view("<u2")
    lines = taken.reshape(-1, LINE_BYTES // 2)
    assert (lines == lines[:, :1]).all()
    np.testing.assert_array_equal(lines[:, 0] // parts, np.arange(SAMPLE_LINES))


def test_what_is_no_longer_than_a_sample_is_all_taken():
    for data in (numbered(0), numbered(3, rest=5), numbered(SAMPLE_LINES, rest=5)):
        np.testing.assert_array_equal(sample(data), data)
