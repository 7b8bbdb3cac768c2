"""Quantization with an error bound: the bound, the format bit for bit, and damage."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pysz import sz, szAlgorithm, szConfig, szErrorBoundMode

from cdma import golden
from cdma.golden import CodecError, StreamError, StreamStatus
from cdma.plan.workload import load_capture
from tests.golden.formats.damage import damaged, decoded_or_refused
from tests.golden.formats.data import ODD_FLOATS, sparse_floats
from tests.golden.formats.lossy import slow_quantize

BOUNDS = st.one_of(
    st.sampled_from([1e-3, 0.01, 0.125, 0.5, 1.0, 3.0, 1e-6]),
    st.floats(-127, 126).map(lambda exponent: 2.0**exponent),
)


@st.composite
def floats(draw):
    """float32 (n,): any bit patterns, numbers of one size, or multiples of a hundredth."""
    length = draw(st.integers(0, 100))
    kind = draw(st.sampled_from(["any", "like", "decimal"]))
    if kind == "any":
        return draw(hnp.arrays(np.uint32, length)).view(np.float32)
    if kind == "decimal":
        hundredths = draw(hnp.arrays(np.int16, length))
        return (hundredths / 100).astype(np.float32)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return sparse_floats(generator, length, draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])))


def round_trip(array, bound):
    codec = golden.codec("quantize", bound=bound)
    stream = codec.compress(array)
    assert stream.dtype == np.uint8
    sizes = codec.line_sizes(array)
    assert sizes.dtype == np.int64
    assert (sizes.size, sizes.sum()) == (-(-array.nbytes // 128), stream.size)
    return stream, codec.decompress(stream, array.nbytes).view("<f4").reshape(array.shape)


def assert_within(restored, array, bound):
    finite = np.isfinite(array)
    with np.errstate(invalid="ignore"):
        error = np.abs(restored.astype(np.float64) - array.astype(np.float64))[finite]
    assert (error <= bound).all()
    np.testing.assert_array_equal(restored[array == 0], 0)
    assert restored[~finite].tobytes() == array[~finite].tobytes()


@given(floats(), BOUNDS)
def test_bound_zeros_and_what_is_not_finite(array, bound):
    _, restored = round_trip(array, bound)
    assert_within(restored, array, bound)


@given(floats(), BOUNDS)
def test_stream_is_that_of_the_slow_model(array, bound):
    stream, _ = round_trip(array, bound)
    slow = slow_quantize.compress(array.astype(float).tolist(), array.tobytes(), bound)
    assert stream.tobytes() == slow


@given(floats(), BOUNDS)
def test_what_comes_out_compresses_to_the_same_stream(array, bound):
    stream, restored = round_trip(array, bound)
    again, restored_again = round_trip(restored, bound)
    assert again.tobytes() == stream.tobytes()
    assert restored_again.tobytes() == restored.tobytes()


@pytest.mark.parametrize(
    ("array", "stream_bytes"),
    [
        (np.empty(0, np.float32), 0),
        (np.zeros(1, np.float32), 1),
        # A header and a map: what follows is no bits wide.
        (np.ones(1, np.float32), 5),
        (np.zeros(5000, np.float32), 157),
        # 32 numbers of 8 bits; a map and one number.
        (np.random.default_rng(0).integers(128, 256, 33).astype(np.float32), 33 + 6),
        (np.resize(ODD_FLOATS, 2000), 63 * 129),
        (np.full(40, np.nan, np.float32), 2 * 129),
    ],
    ids=["empty", "zero", "one", "zeros", "dense", "odd", "nan"],
)
def test_extremes(array, stream_bytes):
    stream, restored = round_trip(array, 0.5)
    assert stream.size == stream_bytes
    assert_within(restored, array, 0.5)


def test_long_array_and_every_length_near_a_line():
    array = sparse_floats(np.random.default_rng(1), 100_001, 0.4)
    _, restored = round_trip(array, 1e-3)
    assert_within(restored, array, 1e-3)
    for length in range(28, 37):
        _, restored = round_trip(array[:length], 1e-3)
        assert_within(restored, array[:length], 1e-3)


def test_minus_zero_and_values_below_the_bound_become_zero():
    _, restored = round_trip(np.array([-0.0, 1e-45, -0.009, 0.009], np.float32), 0.01)
    assert restored.tobytes() == bytes(16)


def test_order_and_byte_order_do_not_matter():
    array = sparse_floats(np.random.default_rng(2), 300, 0.5).reshape(20, 15)
    stream, _ = round_trip(array, 0.01)
    assert round_trip(np.asfortranarray(array), 0.01)[0].tobytes() == stream.tobytes()
    assert round_trip(array.astype(">f4"), 0.01)[0].tobytes() == stream.tobytes()
    assert round_trip(np.repeat(array, 2, axis=1)[:, ::2], 0.01)[0].tobytes() == stream.tobytes()


def test_half_way_takes_the_number_that_rounding_leaves_within_the_bound():
    """0.25 is as far from 0.24 as from 0.26, but fp32 has no 0.24: the nearest is below it."""
    stream, restored = round_trip(np.full(32, 0.25, np.float32), 0.01)
    assert restored[0] == np.float32(0.26)
    assert stream.size < 32


def test_value_that_rounding_takes_from_both_sides_keeps_its_line():
    value = np.float32(1.1)
    assert abs(np.float64(np.float32(1.2)) - value) > 0.1 < abs(value - np.float64(1.0))
    stream, restored = round_trip(np.full(32, value), 0.1)
    assert stream.size == 129
    assert (restored == value).all()


def test_relu_goes_as_it_is_signs_go_zigzag_and_slopes_by_differences():
    generator = np.random.default_rng(3)
    noise = generator.integers(1, 200, 32).astype(np.float32)
    relu = np.where(generator.random(32) < 0.6, 0, noise)
    signed = np.where(generator.random(32) < 0.5, -noise, noise)
    slope = np.arange(-8, 24)
    headers = [round_trip(line.astype(np.float32), 0.5)[0][0] for line in (relu, signed, slope)]
    assert [(header >> 6, header >> 5 & 1) for header in headers] == [(0, 1), (1, 0), (2, 0)]


@pytest.mark.parametrize("dtype", ["<f8", "<f2", "<i4", "u1", "?", "c8", "O"])
def test_other_types(dtype):
    codec = golden.codec("quantize", bound=0.1)
    for take in (codec.compress, codec.line_sizes):
        with pytest.raises(CodecError, match=r"quantize is for float32, not .*; convert the"):
            take(np.zeros(3, dtype))


@pytest.mark.parametrize("bound", [0, -1, np.nan, np.inf, 1e-39, 1e38, "0.1", None, 1j])
def test_bounds_that_are_none(bound):
    with pytest.raises(CodecError, match=r"bound must be a number from 5\.9e-39 to 8\.5e\+37, not"):
        golden.codec("quantize", bound=bound)


def test_largest_and_least_bound():
    array = np.resize(ODD_FLOATS, 32)[:5]
    for bound in (2.0**-127, 2.0**126):
        _, restored = round_trip(array, bound)
        assert_within(restored, array, bound)


# Damage. ---------------------------------------------------------------------------------------


def error_of(stream, nbytes, bound=0.5):
    with pytest.raises(StreamError) as caught:
        golden.codec("quantize", bound=bound).decompress(
            np.frombuffer(bytes(stream), np.uint8), nbytes
        )
    return caught.value.status, caught.value.offset, caught.value.valid_bytes


def test_truncation_at_every_byte():
    array = sparse_floats(np.random.default_rng(4), 150, 0.5)
    array[40] = np.inf
    stream, _ = round_trip(array, 0.01)
    starts = np.append(0, np.cumsum(golden.codec("quantize", bound=0.01).line_sizes(array)))
    for length in range(stream.size):
        line = int(np.searchsorted(starts, length, side="right")) - 1
        assert error_of(stream[:length], 600, 0.01) == (
            StreamStatus.PAYLOAD_TRUNCATED,
            starts[line],
            128 * line,
        )


def test_trailing_bytes():
    assert error_of(b"\0\0", 128) == (StreamStatus.TRAILING_BYTES, 1, 128)
    assert error_of(b"\0", 0) == (StreamStatus.TRAILING_BYTES, 0, 0)


@pytest.mark.parametrize("nbytes", [1, 2, 3, 127])
def test_length_of_no_whole_values(nbytes):
    assert error_of(b"\0", nbytes) == (StreamStatus.LENGTH_MISMATCH, 0, 0)


@pytest.mark.parametrize(
    "line",
    [
        bytes([0xC1]) + bytes(128),
        bytes([0x19]) + bytes(100),
        bytes([0xE0]) + bytes(128),
        # A line of zeros in another form.
        bytes([0x40]),
        bytes([0x01]) + bytes(4),
        bytes([0x20]) + bytes(4),
        # A one, as two bits with no map.
        bytes([0x02, 0x01]) + bytes(7),
        # A bit behind the only number, which is 4.
        bytes([0x22, 1, 0, 0, 0, 0x07]),
        # A raw line of ones.
        bytes([0xC0]) + np.ones(32, "<f4").tobytes(),
        # Differences whose sums are more than q may be.
        bytes([0x98]) + b"\xfe\xff\xff" * 32,
    ],
)
def test_line_that_no_compressor_writes(line):
    assert error_of(b"\0" + line, 256) == (StreamStatus.BAD_TOKEN, 1, 128)


def test_value_behind_the_length():
    stream, _ = round_trip(np.array([0, 0, 0, 5], np.float32), 0.5)
    assert error_of(stream, 12) == (StreamStatus.NONZERO_FILL, 0, 0)


def test_first_error_in_the_stream_counts():
    stream, _ = round_trip(np.tile([0, 0, 0, 5], 24).astype(np.float32), 0.5)
    damaged = bytearray(stream.tobytes() + b"\x40\xff")
    assert error_of(damaged, 129 * 4)[:2] == (StreamStatus.BAD_TOKEN, stream.size)
    damaged[len(stream) // 3] = 0xFF
    assert error_of(damaged, 129 * 4)[:2] == (StreamStatus.BAD_TOKEN, len(stream) // 3)


@given(floats(), BOUNDS, st.data())
def test_damage_raises_or_makes_another_stream_that_is_sound(array, bound, data):
    codec = golden.codec("quantize", bound=bound)
    stream, nbytes = damaged(data.draw, codec.compress(array), array.nbytes, garbage_bytes=200)
    restored = decoded_or_refused(codec, stream, nbytes)
    if restored is not None:
        assert codec.compress(restored.view("<f4")).tobytes() == stream.tobytes()


def test_announced_length_takes_no_memory():
    stream, _ = round_trip(np.ones(3000, np.float32), 0.5)
    tracemalloc.start()
    try:
        assert error_of(stream, 1 << 60)[0] == StreamStatus.PAYLOAD_TRUNCATED
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 << 20


# Against SZ3, with its predictor off, as it keeps zeros and is the best of its modes on ReLU data.


@pytest.fixture(scope="module")
def digits():
    arrays = [item.array for item in load_capture("digits-cnn").activations]
    return [np.ascontiguousarray(array, np.float32).reshape(-1) for array in arrays]


@pytest.mark.parametrize(
    ("bound", "ours", "of_sz"), [(1e-2, 8.88, 0.93), (1e-3, 6.31, 0.96), (1e-4, 4.91, 0.98)]
)
def test_ratio_beside_sz3(digits, bound, ours, of_sz):
    """On a trained network's activations: a few percent below Huffman codes and Zstandard."""
    codec = golden.codec("quantize", bound=bound)
    nbytes = stream_bytes = sz_bytes = 0
    for array in digits:
        config = szConfig(array.shape)
        config.absErrorBound = bound
        config.errorBoundMode = szErrorBoundMode.ABS
        config.cmprAlgo = szAlgorithm.NOPRED
        stream, _ = sz.compress(array, config)
        nbytes += array.nbytes
        sz_bytes += len(stream)
        stream_bytes += int(codec.line_sizes(array).sum())
    assert nbytes / stream_bytes == pytest.approx(ours, rel=0.01)
    assert sz_bytes / stream_bytes == pytest.approx(of_sz, rel=0.03)


def test_errors_and_zeros_beside_sz3(digits):
    bound = 1e-2
    array = digits[0]
    config = szConfig(array.shape)
    config.absErrorBound = bound
    config.errorBoundMode = szErrorBoundMode.ABS
    config.cmprAlgo = szAlgorithm.NOPRED
    stream, _ = sz.compress(array, config)
    theirs, _ = sz.decompress(stream, np.float32, array.shape)
    _, restored = round_trip(array, bound)
    assert_within(restored, array, bound)
    # SZ3 quantizes the same way: from the same numbers, where the two are not half way.
    same = np.abs(theirs - restored) <= 1e-6
    assert same.mean() > 0.999
    assert (theirs[array == 0] == 0).all()
