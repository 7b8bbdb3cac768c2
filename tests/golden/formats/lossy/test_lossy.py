"""The lossy codecs by name, with their parameters, and in .cz files."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cdma import golden
from cdma.golden import CodecError, StreamError, container, crc32
from cdma.golden.container import ContainerError
from tests.golden.formats.data import sparse_floats
from tests.golden.test_container import forged

LOSSY = [("zfp", {"rate": 32}), ("quantize", {"bound": 1e-3})]
every_lossy = pytest.mark.parametrize(("name", "parameters"), LOSSY)


@every_lossy
def test_codec_tells_what_it_is(name, parameters):
    codec = golden.codec(name, **parameters)
    assert (codec.name, codec.element_bytes, codec.lossless) == (name, 4, False)
    assert golden.codec_parameters(name) == tuple(parameters)
    assert {key: getattr(codec, key) for key in parameters} == parameters


@pytest.mark.parametrize(
    "name", ["zvc", "rle", "csr", "lz4", "deflate", "deflate-fast", "bpc", "raw"]
)
def test_lossless_codecs_have_no_parameters(name):
    assert golden.codec_parameters(name) == ()
    with pytest.raises(CodecError, match=f"the codec {name} has no rate; it takes no parameters"):
        golden.codec(name, rate=32)


@every_lossy
def test_missing_parameter(name, parameters):
    (parameter,) = parameters
    with pytest.raises(CodecError, match=f"the codec {name} needs a {parameter}; give one"):
        golden.codec(name)


@every_lossy
def test_parameter_of_another_codec(name, parameters):
    (parameter,) = parameters
    with pytest.raises(CodecError, match=f"{name} has no level; it takes only {parameter}"):
        golden.codec(name, **parameters, level=6)


@every_lossy
@pytest.mark.parametrize("size", [1, 2])
def test_other_element_sizes(name, parameters, size):
    with pytest.raises(CodecError, match=f"elements of 4 bytes, fp32, not of {size}; convert"):
        golden.codec(name, size, **parameters)
    with pytest.raises(CodecError, match="no codec has elements of 3 bytes"):
        golden.codec(name, 3, **parameters)


def test_unknown_name_lists_all():
    with pytest.raises(CodecError, match=r"unknown codec 'sz'; choose from zvc, .*, quantize"):
        golden.codec_parameters("sz")


# Files. ----------------------------------------------------------------------------------------


def packed(name, parameters):
    array = sparse_floats(np.random.default_rng(9), 34, 0.5).reshape(2, 17)
    return container.pack(array, golden.codec(name, **parameters))


@given(
    hnp.arrays(
        st.sampled_from(["<f4", ">f4"]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
        elements=st.floats(-1000, 1000, width=32),
    ),
    st.sampled_from(LOSSY),
    st.booleans(),
)
def test_what_the_codec_makes_is_kept_whole(array, which, fortran):
    name, parameters = which
    array = np.asfortranarray(array) if fortran else array
    codec = golden.codec(name, **parameters)
    content = container.pack(array, codec)
    header, stream = container.read(content)
    assert (header.codec, header.parameters) == which
    restored = container.unpack(content)
    assert (restored.dtype.str, restored.shape) == ("<f4", array.shape)
    assert header.crc32 == crc32(restored.ravel(order=header.order))
    flat = array.ravel(order=header.order)
    assert stream.tobytes() == codec.compress(flat).tobytes()
    assert restored.tobytes(order=header.order) == codec.decompress(stream, flat.nbytes).tobytes()
    if name == "quantize":
        assert (np.abs(restored.astype(float) - array) <= 1e-3).all()


@every_lossy
def test_truncation_at_every_byte(name, parameters):
    content = packed(name, parameters)
    for length in range(len(content)):
        with pytest.raises(ContainerError, match=r"is empty|is truncated"):
            container.unpack(content[:length])


@every_lossy
def test_every_flipped_bit_is_found(name, parameters):
    content = packed(name, parameters)
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((ContainerError, StreamError)):
            container.unpack(bytes(damaged))


@every_lossy
@pytest.mark.parametrize(
    ("offset", "replacement"),
    [
        (10, b"\x02"),
        # No parameter, and its place as another extent, which would be of no elements.
        (14, b"\x03\x00"),
        (56, struct.pack("<d", 0)),
        (56, struct.pack("<d", np.nan)),
        (-3, b"<i4"),
        (-3, b">f4"),
    ],
)
def test_headers_that_somebody_made(name, parameters, offset, replacement):
    content = packed(name, parameters)
    if offset < 0:
        offset += int.from_bytes(content[8:10], "little") - 4
    with pytest.raises(ContainerError, match="contradicts itself"):
        container.unpack(forged(content, offset, replacement))


@every_lossy
def test_other_types_are_refused(name, parameters):
    with pytest.raises(CodecError, match=f"{name} is for float32, not int32"):
        container.pack(np.zeros(3, np.int32), golden.codec(name, **parameters))
