"""The examples by which CSWAP+ explains its lossless codecs (§5.2.1), on the golden formats.

Each is given the bytes of the paper's sequence, and what follows so that a line is full.
"""

import lz4.block
import numpy as np

from cdma import golden
from cdma.golden.formats.windows.window import HEADER_BYTES, WINDOW_BYTES


def _stream(name: str, data: bytes) -> bytes:
    return golden.codec(name, element_bytes=1).compress(np.frombuffer(data, np.uint8)).tobytes()


def test_rle_turns_a0000000_into_a70():
    sequence = b"A" + bytes(7)
    stream = _stream("rle", sequence + b"x" * 120)
    literal, value, run = stream[:3]
    assert (literal, value) == (0, ord("A")), "one non-zero element, A"
    assert run & 0x80, "then zeros"
    assert (run & 0x7F) + 1 == 7, "seven of them"
    assert len(b"A70") / len(sequence) == 3 / 8


def test_csr_turns_a00b0c000_into_abc_and_035():
    sequence = b"A\0\0B\0C\0\0\0"
    stream = _stream("csr", sequence)
    count, values, indices = stream[:2], stream[2:5], stream[5:]
    assert int.from_bytes(count, "little") == 3
    assert values == b"ABC"
    assert np.frombuffer(indices, "<u4").tolist() == [0, 3, 5]


def test_lz4_has_abcde_bcde_as_abcde_and_a_match_5_back_4_long():
    """The format has it. The library's quick search looks for matches of five bytes and more, so
    it takes the thorough one to find this one."""
    end = bytes(54)
    data = b"abcde_bcde" + end
    block = lz4.block.compress(data, mode="high_compression", store_size=False)
    literals, match = block[0] >> 4, (block[0] & 15) + 4
    assert block[1 : 1 + literals] == b"abcde_"
    offset = int.from_bytes(block[1 + literals : 3 + literals], "little")
    assert (offset, match) == (5, 4)
    stream = np.frombuffer(len(block).to_bytes(HEADER_BYTES, "little") + block, np.uint8)
    codec = golden.codec("lz4", element_bytes=1)
    assert codec.decompress(stream, len(data)).tobytes() == data
    assert codec.compress(np.frombuffer(data, np.uint8)).size >= stream.size


def test_indices_take_3_percent_in_zvc_and_50_percent_in_csr():
    """The formats differ so on fp32 data, half of which is zeros."""
    rng = np.random.default_rng(0)
    data = rng.permutation(np.repeat(np.array([0, 1], np.float32), WINDOW_BYTES // 8))
    values = data.nbytes // 2
    zvc = golden.codec("zvc").compress(data).size - values
    csr = golden.codec("csr").compress(data).size - HEADER_BYTES - values
    assert zvc / data.nbytes == 1 / 32
    assert csr / data.nbytes == 0.5
