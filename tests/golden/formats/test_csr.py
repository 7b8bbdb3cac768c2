"""CSR, row by row."""

import numpy as np
import pytest

from cdma.golden import StreamError, StreamStatus
from cdma.golden.formats.csr import Csr


def test_toy_of_the_paper():
    """CSWAP+, §5.2.1: A00B0C000 becomes ABC and 035."""
    data = np.array([0xA, 0, 0, 0xB, 0, 0xC, 0, 0, 0], np.uint8)
    stream = Csr(1).compress(data)
    assert stream[2:5].tobytes() == bytes([0xA, 0xB, 0xC])
    assert stream[5:].view("<u4").tolist() == [0, 3, 5]
    assert stream[:2].view("<u2") == [3]


def test_half_zeros_gain_nothing():
    """CSWAP+, §5.2.1: an overhead of 50 % at 50 % sparsity."""
    data = np.zeros(1024, np.float32)
    data[::2] = 1
    assert Csr(4).compress(data).size == data.nbytes + 2


def test_rows_are_windows_of_4_kib():
    data = np.zeros(8192 + 4, np.uint8)
    data[[4095, 4096, 8192]] = 1, 2, 3
    expected = "0100 01 ff0f0000  0100 02 00000000  0100 03 00000000"
    assert Csr(1).compress(data).tobytes() == bytes.fromhex(expected)


def test_line_sizes_put_the_count_in_the_first_line():
    data = np.zeros(1024 + 40, np.float32)
    data[[3, 40, 41, 1030]] = 1
    expected = [2 + 8, 16] + [0] * 30 + [2 + 8, 0]
    assert Csr(4).line_sizes(data).tolist() == expected


@pytest.mark.parametrize(
    ("stream", "nbytes", "status", "offset", "valid"),
    [
        ("", 4, "PAYLOAD_TRUNCATED", 0, 0),
        ("01", 4, "PAYLOAD_TRUNCATED", 0, 0),
        ("0100 aa 000000", 4, "PAYLOAD_TRUNCATED", 0, 0),
        ("8100", 128, "BAD_TOKEN", 0, 0),
        ("0100 aa 80000000", 128, "BAD_TOKEN", 3, 0),
        ("0200 aabb 03000000 03000000", 128, "BAD_TOKEN", 8, 0),
        ("0200 aabb 03000000 02000000", 128, "BAD_TOKEN", 8, 0),
        ("0200 aa00 03000000 05000000", 128, "ZERO_ELEMENT", 3, 5),
        ("0200 aabb 03000000 05000000", 5, "NONZERO_FILL", 3, 5),
        ("0000 00", 4, "TRAILING_BYTES", 2, 4),
        ("0000", 4097, "PAYLOAD_TRUNCATED", 2, 4096),
    ],
)
def test_damage(stream, nbytes, status, offset, valid):
    with pytest.raises(StreamError) as caught:
        Csr(1).decompress(np.frombuffer(bytes.fromhex(stream), np.uint8), nbytes)
    assert caught.value.status == StreamStatus[status]
    assert (caught.value.offset, caught.value.valid_bytes) == (offset, valid)
