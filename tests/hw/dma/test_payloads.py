"""Numbers that no simulated transfer is long enough for."""

from cdma.golden import LINE_BYTES
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.dma.payloads import LINE_COUNT_BITS

LONGEST = (1 << LENGTH_BITS) - 1
"""Bytes of a transfer."""


def test_lines_of_the_longest_transfer_can_be_counted():
    assert -(-LONGEST // LINE_BYTES) < 1 << LINE_COUNT_BITS


def test_the_longest_stream_has_no_offset_beyond():
    """A mask of an element's bit each, for elements of a byte: an eighth more."""
    assert LONGEST + -(-LONGEST // LINE_BYTES) * LINE_BYTES // 8 < 1 << OFFSET_BITS
