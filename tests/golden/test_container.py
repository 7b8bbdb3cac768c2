"""The .cz file: what it restores, and what it finds out."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdma import golden
from cdma.golden import StreamError, container
from cdma.golden.container import ContainerError
from tests.golden.formats.data import ELEMENT_SIZES, sparse_bytes, typed_arrays

DAMAGE = (ContainerError, StreamError)


def packed(name="zvc", element_bytes=4):
    array = sparse_bytes(9, 4 * 3 * 25, 0.5, 4).view("<f4").reshape(3, 25)
    return container.pack(array, golden.codec(name, element_bytes))


def forged(content, offset, replacement):
    """A file whose header says something else and has the right checksum."""
    header_bytes = int.from_bytes(content[8:10], "little")
    header = bytearray(content[: header_bytes - 4])
    header[offset : offset + len(replacement)] = replacement
    return bytes(header) + struct.pack("<I", zlib.crc32(header)) + content[header_bytes:]


@given(
    typed_arrays(),
    st.sampled_from(golden.codec_names(lossy=False)),
    st.sampled_from(ELEMENT_SIZES),
    st.booleans(),
)
def test_everything_is_restored(array, name, element_bytes, fortran):
    array = np.asfortranarray(array) if fortran else array
    restored = container.unpack(container.pack(array, golden.codec(name, element_bytes)))
    assert restored.dtype.str == array.dtype.str
    assert restored.shape == array.shape
    assert restored.tobytes() == array.tobytes()
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        assert restored.flags.f_contiguous


def test_array_with_gaps_is_kept_in_c_order():
    array = np.arange(60, dtype=np.int32).reshape(6, 10)[::2, ::3]
    restored = container.unpack(container.pack(array, golden.codec("zvc")))
    np.testing.assert_array_equal(restored, array)
    assert restored.flags.c_contiguous


@pytest.mark.parametrize("name", golden.codec_names(lossy=False))
def test_truncation_at_every_byte(name):
    content = packed(name)
    for length in range(len(content)):
        with pytest.raises(ContainerError, match=r"is empty|is truncated"):
            container.unpack(content[:length])


@pytest.mark.parametrize(
    "name",
    [
        # Its decoder is the slowest.
        pytest.param(name, marks=pytest.mark.verify if name == "bpc" else ())
        for name in golden.codec_names(lossy=False)
    ],
)
def test_every_flipped_bit_is_found(name):
    content = packed(name)
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DAMAGE):
            container.unpack(bytes(damaged))


def test_flipped_bits_of_the_stream_are_found_without_decoding():
    content = packed()
    header, _ = container.read(content)
    for position in range(header.header_bytes, len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        with pytest.raises(StreamError, match="crc mismatch"):
            container.read(bytes(damaged))


def test_check_of_a_file_tells_its_length():
    content = packed()
    source = io.BytesIO(content)
    assert container.check_file(source, container.read_header(source)) == len(content)


def test_trailing_bytes():
    with pytest.raises(ContainerError, match="has trailing bytes"):
        container.unpack(packed() + b"x")


@pytest.mark.parametrize(
    ("offset", "replacement", "message"),
    [
        (7, b"\x02", "has version 2 of the format, and this cdma reads 1"),
        (10, b"\x03", "contradicts itself"),
        (11, b"A", "contradicts itself"),
        (15, b"\x01", "damaged header"),
        (16, b"\x2d\x01", "contradicts itself"),
        (24, b"\xff", "is truncated"),
        (40, b"\x04", "contradicts itself"),
        (40, b"\xff" * 16, "contradicts itself"),
        (40, bytes(8) + b"\xff" * 8, "contradicts itself"),
        (56, b"zzz", "is of the unknown codec 'zzz'"),
        (59, b"|O4", "contradicts itself"),
        (59, b"<c4", "contradicts itself"),
    ],
)
def test_headers_that_somebody_made(offset, replacement, message):
    with pytest.raises(ContainerError, match=message):
        container.unpack(forged(packed(), offset, replacement))


def test_huge_array_is_announced():
    content = forged(packed(), 16, struct.pack("<Q", 4 << 50))
    content = forged(content, 40, struct.pack("<QQ", 1 << 30, 1 << 20))
    with pytest.raises(StreamError, match="mask truncated"):
        container.unpack(content)


def test_wrong_crc_of_the_array():
    with pytest.raises(StreamError, match="crc mismatch"):
        container.unpack(forged(packed(), 32, b"\0\0\0\0"))


def test_other_files():
    with pytest.raises(ContainerError, match=r"is not a \.cz file"):
        container.unpack(b"\x93NUMPY")


@pytest.mark.parametrize("dtype", [complex, object, "S4", "M8[s]", [("a", "<f4")], "f2,f2"])
def test_types_that_no_file_holds(dtype):
    with pytest.raises(TypeError, match=r"no \.cz file holds"):
        container.pack(np.zeros(3, dtype), golden.codec("zvc"))


def test_too_many_dimensions():
    with pytest.raises(TypeError, match=r"no \.cz file holds 33 dimensions"):
        container.pack(np.zeros((1,) * 33, np.uint8), golden.codec("zvc"))


def test_xc_file_has_its_parameters():
    array = sparse_bytes(9, 600, 0.9, 2).view("<u2")
    codec = golden.codec("xc", 2, exponent_bits=5, centre=19, pattern=2)
    content = container.pack(array, codec)
    header, stream = container.read(content)
    assert header.parameters == {"exponent_bits": 5, "centre": 19, "pattern": 2}
    assert stream.tobytes() == codec.compress(array).tobytes()
    assert container.unpack(content).tobytes() == array.tobytes()


@pytest.mark.parametrize(("place", "value"), [(0, 4.0), (1, 300.0), (1, 1.5), (2, 4.0), (2, -1.0)])
def test_xc_file_with_parameters_that_there_are_not(place, value):
    content = container.pack(np.ones(70, "<u2"), golden.codec("xc", 2))
    with pytest.raises(ContainerError, match="has a header that contradicts itself"):
        container.read(forged(content, 48 + 8 * place, struct.pack("<d", value)))


@pytest.mark.parametrize(("place", "value"), [(0, 5.0), (1, 90.0), (2, 2.0)])
def test_xc_file_with_other_parameters(place, value):
    array = np.random.default_rng(2).standard_normal(300).astype("<f4").view("<u2")
    content = container.pack(array, golden.codec("xc", 2))
    with pytest.raises(StreamError):
        container.unpack(forged(content, 48 + 8 * place, struct.pack("<d", value)))


def test_file_of_another_codec_than_its_header_says():
    array = np.random.default_rng(2).standard_normal(300).astype("<f4")
    content = container.pack(array, golden.codec("bpc"))
    with pytest.raises(StreamError):
        container.unpack(forged(content, content.index(b"bpc"), b"zvc"))
