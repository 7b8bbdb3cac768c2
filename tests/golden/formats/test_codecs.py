"""Promises of all lossless codecs; those of the lossy ones are in `lossy/`."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdma import golden
from cdma.golden import CodecError, StreamError, StreamStatus, crc32
from tests.golden.formats.damage import damaged, decoded_or_refused
from tests.golden.formats.data import (
    ELEMENT_SIZES,
    ODD_FLOATS,
    byte_arrays,
    sparse_bytes,
    typed_arrays,
)

NAMES = ("zvc", "rle", "csr", "lz4", "deflate", "deflate-fast", "bpc", "xc", "raw")
EVERY_CODEC = [(name, size) for name in NAMES for size in ELEMENT_SIZES]
every_codec = pytest.mark.parametrize(("name", "element_bytes"), EVERY_CODEC)
any_codec = st.sampled_from(EVERY_CODEC)


def contents(array):
    return np.ascontiguousarray(array).tobytes()


def test_names():
    assert golden.codec_names(lossy=False) == NAMES
    assert golden.codec_names() == (*NAMES, "zfp", "quantize")


def test_unknown_name():
    with pytest.raises(CodecError, match="unknown codec 'zip'; choose from zvc, rle, csr, lz4"):
        golden.codec("zip")


@pytest.mark.parametrize("name", NAMES)
def test_unknown_element_size(name):
    with pytest.raises(CodecError, match="elements of 3 bytes; choose from 4, 2, 1"):
        golden.codec(name, 3)


@every_codec
def test_codec_tells_what_it_is(name, element_bytes):
    codec = golden.codec(name, element_bytes)
    assert (codec.name, codec.element_bytes, codec.lossless) == (name, element_bytes, True)


@given(any_codec, byte_arrays())
def test_round_trip_and_line_sizes(which, data):
    codec = golden.codec(*which)
    stream = codec.compress(data)
    assert stream.dtype == np.uint8
    assert codec.decompress(stream, data.size).tobytes() == data.tobytes()
    sizes = codec.line_sizes(data)
    assert sizes.dtype == np.int64
    assert sizes.size == -(-data.size // 128)
    assert sizes.sum() == stream.size


@given(any_codec, typed_arrays())
def test_round_trip_of_every_type_and_shape(which, array):
    codec = golden.codec(*which)
    stream = codec.compress(array)
    assert codec.decompress(stream, array.nbytes).tobytes() == contents(array)
    assert codec.line_sizes(array).sum() == stream.size


@every_codec
@pytest.mark.parametrize(
    "array",
    [
        np.empty(0, np.float32),
        np.zeros(1, np.uint8),
        np.ones(1, np.uint8),
        np.zeros(5000, np.float32),
        np.arange(1, 5001, dtype=np.float32),
        np.resize(ODD_FLOATS, 2000),
        np.asfortranarray(np.arange(12, dtype=np.int16).reshape(3, 4)),
        np.arange(5000, dtype=np.int64)[::3],
        sparse_bytes(0, 600_001, 0.3, 4),
    ],
    ids=["empty", "zero", "one", "zeros", "dense", "odd", "fortran", "strided", "long"],
)
def test_round_trip_of_extremes(name, element_bytes, array):
    codec = golden.codec(name, element_bytes)
    stream = codec.compress(array)
    assert codec.decompress(stream, array.nbytes).tobytes() == contents(array)
    assert codec.line_sizes(array).sum() == stream.size


@pytest.mark.parametrize(
    ("name", "element_bytes"),
    [
        # Its decoder is the slowest.
        pytest.param(name, size, marks=pytest.mark.verify if name == "bpc" else ())
        for name, size in EVERY_CODEC
    ],
)
def test_truncation_at_every_byte(name, element_bytes):
    data = sparse_bytes(5, 4096 + 300, 0.1, element_bytes)
    codec = golden.codec(name, element_bytes)
    stream = codec.compress(data)
    for length in range(stream.size):
        with pytest.raises(StreamError) as caught:
            codec.decompress(stream[:length], data.size)
        assert caught.value.status in (
            StreamStatus.MASK_TRUNCATED,
            StreamStatus.PAYLOAD_TRUNCATED,
        )
        assert caught.value.offset <= length
        assert caught.value.valid_bytes < data.size


@every_codec
def test_trailing_bytes(name, element_bytes):
    codec = golden.codec(name, element_bytes)
    for data in (sparse_bytes(5, 5000, 0.3, element_bytes), np.empty(0, np.uint8)):
        stream = codec.compress(data)
        with pytest.raises(StreamError) as caught:
            codec.decompress(np.append(stream, np.uint8(0)), data.size)
        assert caught.value.status == StreamStatus.TRAILING_BYTES
        assert (caught.value.offset, caught.value.valid_bytes) == (stream.size, data.size)


@given(any_codec, byte_arrays(max_bytes=5000), st.data())
def test_damage_raises_or_shows_in_the_crc(which, data, draw):
    codec = golden.codec(*which)
    stream, nbytes = damaged(draw.draw, codec.compress(data), data.size, garbage_bytes=1000)
    restored = decoded_or_refused(codec, stream, nbytes)
    if restored is None or restored.size != data.size:
        return
    if restored.tobytes() != data.tobytes():
        assert crc32(restored) != crc32(data)


@pytest.mark.parametrize("name", ["zvc", "rle", "csr", "bpc", "xc"])
@given(byte_arrays(max_bytes=5000), st.data())
def test_streams_are_canonical(name, data, draw):
    """A stream that decodes at all is the very stream that compression makes."""
    codec = golden.codec(name, draw.draw(st.sampled_from(ELEMENT_SIZES)))
    stream = codec.compress(data).copy()
    if stream.size:
        bit = draw.draw(st.integers(0, stream.size * 8 - 1))
        stream[bit // 8] ^= 1 << bit % 8
    try:
        restored = codec.decompress(stream, data.size)
    except StreamError:
        return
    assert codec.compress(restored).tobytes() == stream.tobytes()


@every_codec
def test_announced_length_takes_no_memory(name, element_bytes):
    codec = golden.codec(name, element_bytes)
    stream = codec.compress(np.ones(3000, np.uint8))
    tracemalloc.start()
    try:
        with pytest.raises(StreamError):
            codec.decompress(stream, 1 << 60)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 << 20
