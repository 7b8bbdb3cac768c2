"""Rounding to element formats, against the nearest of all numbers that these have."""

import numpy as np
import pytest

from cdma.golden import CodecError
from cdma.golden.formats.rounding import rounded_to
from cdma.golden.formats.xc.elements import element_format

BYTES = [element_format(name) for name in ("e4m3", "e5m2")]


def numbers_of(elements):
    """The finite numbers of patterns without a sign, up to the exponent that means others."""
    bias = 2 ** (elements.exponent_bits - 1) - 1
    words = np.arange((2**elements.exponent_bits - 1) << elements.mantissa_bits)
    exponents = words >> elements.mantissa_bits
    mantissas = words & (1 << elements.mantissa_bits) - 1
    hidden = (exponents > 0) << elements.mantissa_bits
    return np.ldexp(hidden + mantissas, np.maximum(exponents, 1) - bias - elements.mantissa_bits)


@pytest.mark.parametrize("elements", BYTES, ids=lambda form: form.name)
def test_a_scaled_array_becomes_the_nearest_numbers(elements):
    values = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    bias = 2 ** (elements.exponent_bits - 1) - 1
    scaled = np.abs(values.astype(np.float64)) * 2.0 ** (bias - np.frexp(np.abs(values).max())[1])
    assert 2.0 ** (bias - 1) <= scaled.max() < 2.0**bias
    numbers = numbers_of(elements)
    words = rounded_to(elements.name, values)
    assert words.dtype == np.uint8
    np.testing.assert_array_equal(words >> 7, values < 0)
    found = np.abs(numbers[words & 127] - scaled)
    nearest = np.abs(numbers[None] - scaled[:, None]).min(axis=1)
    np.testing.assert_array_equal(found, nearest)


@pytest.mark.parametrize("elements", BYTES, ids=lambda form: form.name)
def test_numbers_of_the_format_stay_and_ties_go_to_even(elements):
    numbers = numbers_of(elements).astype(np.float32)
    bias = 2 ** (elements.exponent_bits - 1) - 1
    # Up to the largest that an array is scaled to.
    numbers = numbers[numbers < 2.0**bias]
    np.testing.assert_array_equal(rounded_to(elements.name, numbers), np.arange(numbers.size))
    np.testing.assert_array_equal(rounded_to(elements.name, 4 * numbers), np.arange(numbers.size))
    between = (numbers[1:-1].astype(np.float64) + numbers[2:]) / 2
    words = rounded_to(elements.name, np.append(between, numbers[-1]).astype(np.float32))[:-1]
    below = np.arange(1, numbers.size - 1)
    np.testing.assert_array_equal(words, below + below % 2)


def test_other_formats_are_those_of_numpy_and_of_bf16():
    values = np.float32([1.0, -1.00390625, 1e30, np.nan])
    assert rounded_to("fp32", values) is values
    half = rounded_to("fp16", values)
    assert half.dtype == np.float16
    assert np.isinf(half[2])
    assert np.isnan(half[3])
    assert rounded_to("bf16", values).dtype == np.uint16


@pytest.mark.parametrize("elements", BYTES, ids=lambda form: form.name)
def test_zeros_keep_their_sign_and_nothing_is_nothing(elements):
    np.testing.assert_array_equal(rounded_to(elements.name, np.float32([0.0, -0.0])), [0, 128])
    assert rounded_to(elements.name, np.empty((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_refused_by_formats_of_a_byte(value):
    with pytest.raises(CodecError, match=r"e4m3 is for finite numbers, .*; choose another"):
        rounded_to("e4m3", np.float32([1.0, value]))
