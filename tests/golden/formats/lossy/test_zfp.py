"""ZFP at a fixed rate: sizes, the library's own decoder as the judge, what is refused, damage."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import zfpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cdma import golden
from cdma.golden import CodecError, StreamError, StreamStatus
from cdma.golden.formats.lossy.zfp import MAX_RATE, RATES
from cdma.plan.workload import load_capture
from tests.golden.formats.data import sparse_floats

SOME_RATES = (9, 10, 31, 32, 63, 64, 100, 128)


def noise(length, seed=0):
    return sparse_floats(np.random.default_rng(seed), length, 0.6)


def round_trip(array, rate):
    codec = golden.codec("zfp", rate=rate)
    stream = codec.compress(array)
    assert stream.dtype == np.uint8
    sizes = codec.line_sizes(array)
    assert sizes.dtype == np.int64
    assert (sizes.size, sizes.sum()) == (-(-array.nbytes // 128), stream.size)
    return stream, codec.decompress(stream, array.nbytes).view("<f4").reshape(array.shape)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 31, 32, 33, 1000, 1001])
def test_size_is_the_formula_at_every_rate(length):
    """CSWAP+, equation 7, up to the last block and the last word of 8 bytes."""
    for rate in RATES:
        stream, _ = round_trip(noise(length), rate)
        assert stream.size == -(-rate * -(-length // 4) // 64) * 8
    stream, _ = round_trip(noise(1024), 32)
    assert stream.size == 4096 * 32 / MAX_RATE


def test_every_line_has_the_same_size_but_the_last():
    sizes = golden.codec("zfp", rate=33).line_sizes(noise(100))
    # 25 blocks, and fill, are 104 bytes.
    assert sizes.tolist() == [33, 33, 33, 5]


@pytest.mark.parametrize("rate", SOME_RATES)
@pytest.mark.parametrize("length", [1, 5, 4096, 4099])
def test_values_are_those_of_the_library_with_its_header(rate, length):
    array = noise(length)
    _, restored = round_trip(array, rate)
    with_header = zfpy.compress_numpy(array, rate=rate / 4)
    np.testing.assert_array_equal(restored, zfpy.decompress_numpy(with_header))


def test_errors_fall_with_the_rate():
    array = load_capture("digits-cnn").activations[0].array
    errors = [np.abs(round_trip(array, rate)[1] - array).max() for rate in (16, 32, 64, 96, 128)]
    assert all(worse > 4 * better for worse, better in pairwise(errors))


def test_highest_rate_is_as_good_as_fp32_to_the_largest_value_of_a_block():
    array = noise(4000)
    _, restored = round_trip(array, 128)
    error = np.abs(restored.astype(float) - array).reshape(-1, 4).max(axis=1)
    assert (error <= 2.0**-23 * np.abs(array).reshape(-1, 4).max(axis=1)).all()


def test_lowest_rate_leaves_nothing():
    assert not round_trip(np.ones(100, np.float32), 9)[1].any()


@pytest.mark.parametrize("rate", SOME_RATES)
def test_blocks_of_zeros_stay_zero(rate):
    array = noise(400)
    array.reshape(-1, 4)[::3] = 0
    array[-4:] = -0.0
    _, restored = round_trip(array, rate)
    zero = (array.reshape(-1, 4) == 0).all(axis=1)
    assert not restored.reshape(-1, 4)[zero].view(np.uint32).any()


@given(
    hnp.arrays(np.float32, st.integers(0, 40), elements=st.floats(-(2.0**125), 2.0**125, width=32)),
    st.sampled_from(SOME_RATES),
)
def test_finite_values_stay_finite_and_streams_have_their_size(array, rate):
    stream, restored = round_trip(array, rate)
    assert np.isfinite(restored).all()
    assert stream.size == -(-rate * -(-array.size // 4) // 64) * 8


def test_just_below_the_limit_stays_finite():
    largest = np.nextafter(np.float32(2.0**126), np.float32(0))
    for signs in np.ndindex(3, 3, 3, 3):
        for rate in SOME_RATES:
            array = (np.array(signs, np.float32) - 1) * largest
            assert np.isfinite(round_trip(array, rate)[1]).all()


def test_values_too_small_for_zfp_become_zero():
    array = np.array([1e-45, -1e-38, 2.0**-99, -0.0, 2.0**-98, 0, 0, 0], np.float32)
    _, restored = round_trip(array, 128)
    assert restored[:4].tobytes() == bytes(16)
    assert restored[4] == np.float32(2.0**-98)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**126, -3e38])
def test_values_that_zfp_cannot_keep(value):
    array = noise(10)
    array[7] = value
    with pytest.raises(CodecError, match=r"finite values below 2\^126, and value 7 is .*; choose"):
        golden.codec("zfp", rate=32).compress(array)


@pytest.mark.parametrize("rate", [8, 0, -32, 129, 8.999, 32.5, np.nan, "32", None])
def test_rates_that_are_none(rate, monkeypatch):
    # Below 9, it writes outside its memory.
    monkeypatch.setattr(zfpy, "compress_numpy", lambda *_: pytest.fail("zfpy was called"))
    with pytest.raises(CodecError, match=r"whole number of bits per 4 values from 9 to 128, not "):
        golden.codec("zfp", rate=rate)


def test_rate_may_be_any_type_of_number():
    for rate in (32, 32.0, np.int64(32), np.float32(32)):
        codec = golden.codec("zfp", rate=rate)
        assert type(codec.rate) is int
        assert codec.rate == 32


@pytest.mark.parametrize("dtype", ["<f8", "<f2", "<i4", "u1", "?", "c8", "O"])
def test_other_types(dtype):
    codec = golden.codec("zfp", rate=32)
    for take in (codec.compress, codec.line_sizes):
        with pytest.raises(CodecError, match=r"zfp is for float32, not .*; convert the array"):
            take(np.zeros(3, dtype))


def test_order_and_byte_order_do_not_matter():
    array = noise(300).reshape(20, 15)
    stream, _ = round_trip(array, 40)
    assert round_trip(np.asfortranarray(array), 40)[0].tobytes() == stream.tobytes()
    assert round_trip(array.astype(">f4"), 40)[0].tobytes() == stream.tobytes()
    assert round_trip(np.repeat(array, 2, axis=1)[:, ::2], 40)[0].tobytes() == stream.tobytes()


def test_input_is_left_as_it_is():
    array = np.array([1e-45, 1, 2, 3, 4], np.float32)
    before = array.tobytes()
    array.flags.writeable = False
    round_trip(array, 64)
    assert array.tobytes() == before


# Damage. ---------------------------------------------------------------------------------------


def error_of(stream, nbytes, rate):
    with pytest.raises(StreamError) as caught:
        golden.codec("zfp", rate=rate).decompress(stream, nbytes)
    return caught.value.status, caught.value.offset, caught.value.valid_bytes


@pytest.mark.parametrize("rate", [9, 33, 64, 128])
def test_truncation_at_every_byte(rate):
    array = noise(50)
    stream, _ = round_trip(array, rate)
    for length in range(stream.size):
        whole = min(8 * length // rate, 13)
        assert error_of(stream[:length], 200, rate) == (
            StreamStatus.PAYLOAD_TRUNCATED,
            whole * rate // 8,
            min(16 * whole, 200),
        )


def test_trailing_bytes():
    for array in (noise(50), noise(0)):
        stream, _ = round_trip(array, 32)
        assert error_of(np.append(stream, np.uint8(0)), array.nbytes, 32) == (
            StreamStatus.TRAILING_BYTES,
            stream.size,
            array.nbytes,
        )


def test_every_bit_behind_the_last_block():
    stream, _ = round_trip(noise(5), 9)
    for bit in range(18, 64):
        damaged = stream.copy()
        damaged[bit // 8] |= 1 << bit % 8
        assert error_of(damaged, 20, 9) == (StreamStatus.NONZERO_FILL, bit // 8, 20)


@pytest.mark.parametrize("nbytes", [1, 2, 3, 127])
def test_length_of_no_whole_values(nbytes):
    assert error_of(np.zeros(8, np.uint8), nbytes, 32) == (StreamStatus.LENGTH_MISMATCH, 0, 0)


@given(st.binary(min_size=64, max_size=64), st.sampled_from([9, 16, 32, 64, 100, 128]))
def test_any_bits_decode_to_values(content, rate):
    blocks = 512 // rate
    bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
    bits[blocks * rate :] = 0
    stream = np.packbits(bits, bitorder="little")[: -(-blocks * rate // 64) * 8]
    codec = golden.codec("zfp", rate=rate)
    assert codec.decompress(stream, 16 * blocks).size == 16 * blocks


def test_announced_length_takes_no_memory():
    stream, _ = round_trip(noise(3000), 32)
    tracemalloc.start()
    try:
        assert error_of(stream, 1 << 60, 32)[0] == StreamStatus.PAYLOAD_TRUNCATED
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 << 20
