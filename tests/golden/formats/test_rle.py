"""RLE, token by token."""

import numpy as np
import pytest

from cdma.golden import StreamError, StreamStatus
from cdma.golden.formats.rle import Rle


def test_toy_of_the_paper():
    """CSWAP+, §5.2.1: A0000000 becomes A70."""
    stream = Rle(1).compress(np.array([0xA] + [0] * 127, np.uint8))
    # The same with the line's zeros behind it, and a control byte before A.
    assert stream.tobytes() == bytes([0x00, 0x0A, 0x80 | 126])
    eight = np.tile(np.array([0xA] + [0] * 7, np.uint8), 16)
    assert Rle(1).compress(eight).tobytes() == bytes([0x00, 0x0A, 0x80 | 6]) * 16


@pytest.mark.parametrize("element_bytes", [4, 2, 1])
def test_tokens(element_bytes):
    elements = np.zeros(128 // element_bytes, f"<u{element_bytes}")
    elements[[0, 1, 5]] = [0x81, 0x82, 0x83]
    one, two, three = (int(value).to_bytes(element_bytes, "little") for value in (0x81, 0x82, 0x83))
    rest = elements.size - 6
    expected = b"\x01" + one + two + b"\x82" + b"\x00" + three + bytes([0x80 | rest - 1])
    assert Rle(element_bytes).compress(elements).tobytes() == expected


def test_runs_end_at_128_elements_and_at_windows():
    zeros = np.zeros(4096 + 256, np.uint8)
    assert Rle(1).compress(zeros).tobytes() == b"\xff" * 34
    ones = np.ones(4096 * 2, np.uint8)
    assert Rle(1).compress(ones).tobytes() == (b"\x7f" + b"\x01" * 128) * 64
    # 1,024 elements of 4 bytes are a window, here cut between runs of 1,000 and 24.
    mixed = np.zeros(2048, np.uint32)
    mixed[1000:1048] = 1
    tokens = [0xFF] * 7 + [0x80 | 103], [23] * 2, [0xFF] * 7 + [0x80 | 103]
    element = b"\x01\0\0\0" * 24
    expected = bytes(tokens[0]) + b"\x17" + element + b"\x17" + element + bytes(tokens[2])
    assert Rle(4).compress(mixed).tobytes() == expected


def test_line_sizes_put_control_bytes_where_runs_start():
    data = np.zeros(3 * 128, np.uint8)
    data[126:131] = 1
    # Zeros, and the run with two of its elements; the other three, and zeros in tokens of 128.
    assert Rle(1).line_sizes(data).tolist() == [1 + 1 + 2, 3 + 1, 1]


@pytest.mark.parametrize(
    ("stream", "nbytes", "status", "offset", "valid"),
    [
        ("", 128, "PAYLOAD_TRUNCATED", 0, 0),
        ("87", 128, "PAYLOAD_TRUNCATED", 1, 8),
        ("87 02 aa bb", 128, "PAYLOAD_TRUNCATED", 4, 10),
        ("87 02 aa bb cc", 128, "PAYLOAD_TRUNCATED", 5, 11),
        ("00 aa ff", 128, "BAD_TOKEN", 2, 1),
        ("80 00 aa 80 81 aa", 128, "BAD_TOKEN", 4, 3),
        ("00 aa 00 bb fd", 128, "BAD_TOKEN", 2, 1),
        ("00 00 fe", 128, "ZERO_ELEMENT", 1, 0),
        ("01 aa 00 fd", 128, "ZERO_ELEMENT", 2, 1),
        ("02 aa bb cc fc", 2, "NONZERO_FILL", 3, 2),
        ("00 aa fe 80", 128, "TRAILING_BYTES", 3, 128),
        # What is wrong first counts, and a token comes before its elements.
        ("00 00 ff", 128, "ZERO_ELEMENT", 1, 0),
        ("00 aa 00 00", 128, "BAD_TOKEN", 2, 1),
    ],
)
def test_damage(stream, nbytes, status, offset, valid):
    with pytest.raises(StreamError) as caught:
        Rle(1).decompress(np.frombuffer(bytes.fromhex(stream), np.uint8), nbytes)
    assert caught.value.status == StreamStatus[status]
    assert (caught.value.offset, caught.value.valid_bytes) == (offset, valid)


def test_run_that_leaves_its_window():
    # 4,000 zeros in 31 full tokens and one of 32, then a run of 100 where 96 are left.
    stream = bytes([0xFF] * 31 + [0x80 | 31, 99]) + b"\x01" * 100
    with pytest.raises(StreamError) as caught:
        Rle(1).decompress(np.frombuffer(stream, np.uint8), 8192)
    assert caught.value.status == StreamStatus.BAD_TOKEN
    assert (caught.value.offset, caught.value.valid_bytes) == (32, 4000)
