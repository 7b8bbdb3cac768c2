"""ZVC as the paper and the format's page tell it."""

import numpy as np
import pytest

from cdma.golden import LINE_BYTES, CodecError, StreamError, StreamStatus
from cdma.golden.formats.zvc import Zvc
from tests.golden.formats.data import ELEMENT_SIZES, ODD_FLOATS, sparse_bytes


def test_mask_is_lsb_first_and_elements_follow_in_order():
    line = np.zeros(32, "<u4")
    line[2], line[5], line[31] = 0x11223344, 0x55667788, 0x99AABBCC
    stream = Zvc(4).compress(line)
    assert stream.tobytes().hex(" ", 4) == "24000080 44332211 88776655 ccbbaa99"


@pytest.mark.parametrize(("element_bytes", "mask_bytes"), [(4, 4), (2, 8), (1, 16)])
def test_line_costs_its_mask_and_its_nonzero_elements(element_bytes, mask_bytes):
    codec = Zvc(element_bytes)
    elements = LINE_BYTES // element_bytes
    for count in range(elements + 1):
        line = np.zeros(elements, f"<u{element_bytes}")
        line[np.random.default_rng(count).permutation(elements)[:count]] = 1
        expected = mask_bytes + count * element_bytes
        assert codec.compress(line).size == expected
        assert codec.line_sizes(line).tolist() == [expected]


def test_next_mask_follows_without_padding():
    data = np.zeros(LINE_BYTES * 3, np.uint8)
    data[LINE_BYTES * 1 + 7] = 0xAB
    stream = Zvc(1).compress(data)
    assert stream.tobytes() == bytes(16) + b"\x80" + bytes(15) + b"\xab" + bytes(16)


def test_ratios_of_the_paper():
    """cDMA, §V-A: 32x for zeros, and a mask that costs dense data 3.1 %."""
    zeros = np.zeros(32 * 100, np.float32)
    assert zeros.nbytes / Zvc().compress(zeros).size == 32
    dense = np.ones(32 * 100, np.float32)
    assert Zvc().compress(dense).size / dense.nbytes == pytest.approx(1.031, abs=0.0003)
    # Of 60 % zeros, the paper says 2.5x, forgetting the mask.
    dense.reshape(-1, 10)[:, :6] = 0
    assert dense.nbytes / Zvc().compress(dense).size == pytest.approx(1 / (0.4 + 1 / 32))


def test_zero_is_the_bit_pattern_and_not_the_value():
    stream = Zvc(4).compress(ODD_FLOATS)
    # All but the positive zero are data.
    assert stream[:4].tobytes() == (2**ODD_FLOATS.size - 2).to_bytes(4, "little")
    assert stream[4:].tobytes() == ODD_FLOATS[1:].tobytes()


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
@pytest.mark.parametrize("nbytes", [0, 1, 2, 3, 4, 127, 128, 129, 1000, 4096 * 128 + 5])
def test_lengths_that_are_no_multiple_of_anything(element_bytes, nbytes):
    codec = Zvc(element_bytes)
    data = sparse_bytes(nbytes, nbytes, 0.5, element_bytes)
    stream = codec.compress(data)
    filled = np.concatenate([data, np.zeros(-nbytes % LINE_BYTES, np.uint8)])
    np.testing.assert_array_equal(codec.compress(filled), stream)
    np.testing.assert_array_equal(codec.decompress(stream, nbytes), data)
    assert codec.line_sizes(data).size == -(-nbytes // LINE_BYTES)
    assert codec.line_sizes(data).sum() == stream.size


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
def test_line_sizes_tell_where_lines_start(element_bytes):
    codec = Zvc(element_bytes)
    data = sparse_bytes(1, 4096 * 128 * 2 + 77, 0.4, element_bytes)
    ends = np.cumsum(codec.line_sizes(data))
    for line in (0, 1, 4095, 4096, 8191, 8192):
        part = codec.compress(data[: (line + 1) * LINE_BYTES])
        assert part.size == ends[line]


def test_decompress_raises_what_the_decoder_found():
    with pytest.raises(StreamError, match="payload truncated at byte 4 of the stream") as caught:
        Zvc(4).decompress(np.array([2, 0, 0, 0, 9], np.uint8), 128)
    assert caught.value.status == StreamStatus.PAYLOAD_TRUNCATED
    assert caught.value.valid_bytes == 4


@pytest.mark.parametrize("element_bytes", [0, 3, 8, -1])
def test_unknown_element_size(element_bytes):
    with pytest.raises(CodecError, match=rf"{element_bytes} bytes; choose from 4, 2, 1"):
        Zvc(element_bytes)


def test_objects_have_no_bytes_to_compress():
    with pytest.raises(TypeError, match="object"):
        Zvc().compress(np.array([None]))
