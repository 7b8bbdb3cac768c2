"""Quantization by shifting: the numbers of `Quantize`, and fp32's odd values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdma.golden import CodecError
from cdma.golden.formats.lossy.power_of_two import (
    bound_of,
    k_of,
    quantized,
    restored,
    rounded_down,
    words_of_bf16,
)
from cdma.golden.formats.lossy.quantize import Quantize

every_k = st.integers(1, 254)
ODD_WORDS = [0, 1, 2**22, 2**23 - 1, 2**23, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000]


def words_near(k, generator, count):
    """Bit patterns of any values, of those whose q is small, and of those half way between two."""
    words = generator.integers(0, 2**32, count, np.uint64).astype(np.uint32)
    near = np.clip(k + generator.integers(-3, 24, count), 0, 255).astype(np.uint32)
    placed = words & np.uint32(0x807FFFFF) | near << np.uint32(23)
    halves = placed & ~np.uint32(2**20 - 1)
    odd = np.array(ODD_WORDS, np.uint32)
    return np.concatenate([words, placed, halves, odd, odd | np.uint32(1 << 31)])


def doubles(words):
    # Signaling NaNs are invalid wherever they go.
    with np.errstate(invalid="ignore"):
        return words.view("<f4").astype(np.float64)


@given(every_k, st.integers(0, 2**32 - 1))
def test_numbers_are_the_nearest_and_even_where_two_are(k, seed):
    words = words_near(k, np.random.default_rng(seed), 200)
    q, exact = quantized(words, k)
    values = doubles(words)
    with np.errstate(invalid="ignore", over="ignore"):
        nearest = np.rint(values / (2 * bound_of(k)))
        lost = np.isinf((nearest * (2 * bound_of(k))).astype(np.float32))
    kept = np.isfinite(values) & (np.abs(nearest) < 2**22) & ~lost
    np.testing.assert_array_equal(exact, ~kept)
    np.testing.assert_array_equal(q[kept], nearest[kept].astype(np.int32))


@given(every_k, st.integers(0, 2**32 - 1))
def test_restored_values_are_within_the_bound_and_have_the_same_numbers(k, seed):
    words = words_near(k, np.random.default_rng(seed), 200)
    q, exact = quantized(words, k)
    back = restored(q, k)
    with np.errstate(invalid="ignore"):
        error = np.abs(doubles(back) - doubles(words))
    assert (error[~exact] <= bound_of(k)).all()
    again, exact_again = quantized(back, k)
    np.testing.assert_array_equal(again, q)
    assert not exact_again.any()
    # In fp32, q·2b is what it is among the numbers.
    np.testing.assert_array_equal(doubles(back), q * (2 * bound_of(k)))


@given(every_k, st.integers(0, 2**32 - 1))
def test_streams_of_quantize_restore_these_values(k, seed):
    generator = np.random.default_rng(seed)
    words = generator.permutation(words_near(k, generator, 96))
    codec = Quantize(bound=bound_of(k))
    stream = codec.compress(words.view("<f4"))
    back = codec.decompress(stream, words.nbytes).view("<u4")
    q, exact = quantized(words, k)
    raw = np.zeros(-(-words.size // 32) * 32, np.bool_)
    raw[: words.size] = exact
    raw = np.repeat(raw.reshape(-1, 32).any(axis=1), 32)[: words.size]
    np.testing.assert_array_equal(back, np.where(raw, words, restored(q, k)))


def test_denormals_are_exact_numbers():
    words = np.arange(2**23, dtype=np.uint32)[:: 2**10 + 1]
    q, exact = quantized(words, 1)
    assert not exact.any()
    np.testing.assert_array_equal(q, words >= 2**22 + 1)


def test_zeros_lose_their_sign():
    q, exact = quantized(np.array([0, 1 << 31], np.uint32), 120)
    assert restored(q, 120).tolist() == [0, 0]
    assert not exact.any()


def test_bf16_is_fp32_with_zeros_behind():
    words = words_of_bf16(np.array([0x3F80, 0xBF40, 0x0001], np.uint16))
    assert words.view("<f4").tolist() == [1.0, -0.75, np.uint32(1 << 16).view(np.float32)]
    assert quantized(words, 126)[0].tolist() == [2, -2, 0]


def test_bound_and_k():
    for k in range(1, 255):
        assert bound_of(k) == 2.0 ** (k - 128)
        assert k_of(bound_of(k)) == k
        assert rounded_down(bound_of(k) * 1.99) == bound_of(k)


@pytest.mark.parametrize("k", [0, 255, -1, 1.5])
def test_k_that_there_is_not(k):
    with pytest.raises(CodecError, match="k must be a whole number from 1 to 254, not"):
        bound_of(k)


@pytest.mark.parametrize(
    ("bound", "nearest"),
    [(0.3, "0.25 or 0.5"), (3.0, "2.0 or 4.0"), (1.5 * 2.0**126, f"{2.0**126!r}")],
)
def test_bound_that_is_no_power_of_two(bound, nearest):
    with pytest.raises(CodecError) as caught:
        k_of(bound)
    assert str(caught.value).endswith(f" is no power of two; choose one next to it, {nearest}")


@pytest.mark.parametrize("bound", [0.0, -1.0, 2.0**-128, 2.0**127, np.nan, np.inf])
def test_bound_that_no_k_has(bound):
    with pytest.raises(CodecError, match="the bound must be a number from"):
        rounded_down(bound)
