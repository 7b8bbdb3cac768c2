"""XC decoding against the slow model: whole and damaged streams give the same first error."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdma.golden import StreamStatus, crc32
from cdma.golden.formats.xc.decoder import decode, decode_many
from cdma.golden.formats.xc.elements import ELEMENT_FORMATS, element_format
from cdma.golden.formats.xc.xc import Xc
from tests.golden.formats.slow_xc import SlowXc
from tests.golden.formats.xc_data import (
    FORMAT_NAMES,
    damaged_streams,
    random_coding,
    random_lines,
    xc,
)
from tests.lib.shares import configs

every_format = pytest.mark.parametrize("elements", ELEMENT_FORMATS, ids=FORMAT_NAMES)
BF16 = xc(element_format("bf16"), 127, 0)
FP32 = xc(element_format("fp32"), 127, 0)
E4M3 = xc(element_format("e4m3"), 8, 0)


def assert_same(stream, nbytes, codec, crc=None):
    decoded = decode(np.frombuffer(stream, np.uint8), nbytes, codec.coding, crc)
    found = (decoded.status, decoded.offset, decoded.valid_bytes, decoded.data.tobytes())
    model = SlowXc(codec.elements.name, codec.centre, codec.pattern)
    assert found == model.decode(stream, nbytes, crc)
    return decoded


@every_format
def test_truncation_at_every_byte(elements):
    generator = np.random.default_rng(3)
    codec = random_coding(generator, elements)
    data = random_lines(generator, elements, 5)
    stream = codec.compress(data).tobytes()
    for length in range(len(stream)):
        decoded = assert_same(stream[:length], data.size, codec)
        assert decoded.status in (StreamStatus.MASK_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED)
        assert decoded.data.tobytes() == data[: decoded.valid_bytes].tobytes()


@pytest.mark.parametrize(
    "elements",
    configs(dict(zip(FORMAT_NAMES, ELEMENT_FORMATS, strict=True)), quick=["bf16"]),
)
def test_no_flipped_bit_passes_the_crc(elements):
    generator = np.random.default_rng(6)
    codec = random_coding(generator, elements)
    data = random_lines(generator, elements, 3)[:-1]
    stream = codec.compress(data)
    for bit in range(stream.size * 8):
        damaged = stream.copy()
        damaged[bit // 8] ^= 1 << bit % 8
        decoded = assert_same(damaged.tobytes(), data.size, codec, crc32(data))
        assert decoded.status != StreamStatus.OK


@every_format
def test_damaged_streams(elements):
    generator = np.random.default_rng(elements.mantissa_bits)
    for _ in range(4):
        codec = random_coding(generator, elements)
        streams, bounds, nbytes = damaged_streams(
            generator, codec, random_lines(generator, elements, 150)
        )
        many = decode_many(streams, bounds, nbytes, codec.coding)
        model = SlowXc(elements.name, codec.centre, codec.pattern)
        for index in range(nbytes.size):
            stream = streams[bounds[index] : bounds[index + 1]].tobytes()
            part = many.data[many.data_offsets[index] : many.data_offsets[index + 1]].tobytes()
            found = (many.status[index], many.offset[index], many.valid_bytes[index], part)
            assert found == model.decode(stream, int(nbytes[index])), stream.hex()


@given(
    elements=st.sampled_from(ELEMENT_FORMATS),
    seed=st.integers(0, 2**32 - 1),
    cut=st.integers(0, 300),
    where=st.floats(0, 1, exclude_max=True),
    damage=st.sampled_from(["none", "flip", "cut", "extend", "zero", "garbage", "length"]),
)
def test_any_damage_in_streams_of_many_lines(elements, seed, cut, where, damage):
    generator = np.random.default_rng(seed)
    codec = random_coding(generator, elements)
    lines = random_lines(generator, elements, 4)
    data = lines[: lines.size - cut]
    stream = bytearray(codec.compress(data).tobytes())
    at, nbytes = int(where * len(stream)), data.size
    if damage == "flip" and stream:
        stream[at] ^= 1 << seed % 8
    elif damage == "cut":
        del stream[at:]
    elif damage == "extend":
        stream += bytes([seed % 256]) * (1 + at % 20)
    elif damage == "zero":
        stream[at : at + 5] = bytes(len(stream[at : at + 5]))
    elif damage == "garbage":
        stream[at:] = generator.bytes(len(stream) - at)
    elif damage == "length":
        nbytes = at
    decoded = assert_same(bytes(stream), nbytes, codec, crc32(data[:nbytes]))
    if decoded.status == StreamStatus.OK:
        assert decoded.data.tobytes() == data[:nbytes].tobytes()


def words(codec, *values):
    return np.array(values, f"<u{codec.element_bytes}")


ONE_LINE = {
    "zeros with a count": (BF16, "01"),
    "zeros of fp32 with dropped bits": (FP32, "00 01"),
    "raw with a count": (BF16, "C1" + "55" * 128),
    "raw of fp32 with dropped bits": (FP32, "C0 01" + "55" * 128),
    "raw that need not be": (BF16, "C0" + "80 3F" * 64),
    "raw zeros": (BF16, "C0" + "00" * 128),
    "sparse without elements": (BF16, "80" + "00" * 8),
    "sparse with all elements": (BF16, "80" + "FF" * 8 + "00" * 80),
    "more than 128 bytes": (BF16, "7F" + "FF" * 144),
    "more dropped bits than there are": (FP32, "80 18 01 00 00 00 00 00"),
    "fewer dropped bits than could be": (FP32, "80 16 01 00 00 00 00 00"),
    "classes' fill": (BF16, "80 01" + "00" * 7 + "04 00"),
    "rest's fill": (FP32, "80 17 01 00 00 00 00 02"),
    "extras' fill": (BF16, "81 01" + "00" * 7 + "02 00 04"),
    "escapes' fill": (E4M3, None),
    "extras without a count": (BF16, "80 01" + "00" * 7 + "02 00"),
    "count without extras": (BF16, "81 01" + "00" * 7 + "00 00 00"),
    "count of one escape less": (BF16, "81 01" + "00" * 7 + "03 00 0F"),
    "count of one escape more": (BF16, "83 01" + "00" * 7 + "03 00 0F 00 00"),
    "escape that has a code": (BF16, "82 01" + "00" * 7 + "03 00 0F 7F"),
    "zero element": (BF16, "82 01" + "00" * 7 + "03 00 0F 00"),
    "code of no exponent": (E4M3, "81 01" + "00" * 15 + "02 00 03"),
}


@pytest.mark.parametrize("name", ONE_LINE)
def test_line_that_no_compressor_writes(name):
    codec, told = ONE_LINE[name]
    if told is None:
        codec = xc(element_format("e4m3"), 100, 0)
        stream = bytearray(codec.compress(words(codec, 0x39)).tobytes())
        stream[-1] |= 0x10
    elif name == "code of no exponent":
        codec = xc(element_format("e4m3"), 15, 0)
        stream = bytearray(codec.compress(words(codec, 0x79)).tobytes())
        # d = −1 of centre 15 would be exponent 16.
        stream[17] = 1
    else:
        stream = bytearray.fromhex(told)
    decoded = assert_same(bytes(stream), 128, codec)
    assert (decoded.status, decoded.offset, decoded.valid_bytes) == (StreamStatus.BAD_TOKEN, 0, 0)


def test_first_of_two_errors_counts():
    zeros = bytes(3)
    decoded = assert_same(zeros + b"\x01\xc1", 5 * 128, BF16)
    assert (decoded.status, decoded.offset, decoded.valid_bytes) == (StreamStatus.BAD_TOKEN, 3, 384)


def test_fill_behind_the_true_length():
    stream = BF16.compress(words(BF16, 0x3F80, 0x3F80, 0x3F80)).tobytes()
    for nbytes, status in [(6, 0), (5, 5), (4, 5), (1, 5), (0, 3), (128, 0)]:
        assert assert_same(stream, nbytes, BF16).status == status


def test_no_streams():
    many = decode_many(np.empty(0, np.uint8), [0], np.empty(0, np.int64), BF16.coding)
    assert many.status.size == many.data.size == 0
    assert many.data_offsets.tolist() == [0]


def test_announced_length_takes_no_memory():
    stream = Xc(2).compress(np.ones(64, np.uint16))
    tracemalloc.start()
    try:
        decoded = decode(stream, 1 << 60, Xc(2).coding)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded.status == StreamStatus.MASK_TRUNCATED
    assert (decoded.offset, decoded.valid_bytes) == (stream.size, 128)
    assert peak_bytes < 1 << 20
