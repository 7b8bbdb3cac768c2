"""Rounding to bf16, against the nearer one of the two neighbors in exact arithmetic."""

import numpy as np

from cdma.golden.formats.bf16 import rounded_to_bf16

SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 1.00390625, 1.01171875, 1e-45, 3.4028235e38]


def floats_of(words):
    return (words.astype(np.uint32) << 16).view(np.float32)


def nearest(value):
    """The bf16 nearest to an fp32 number, ties to the even one, by its two neighbors."""
    below = int(np.float32(value).view(np.uint32)) >> 16
    above = below + 1
    exact = abs(float(value))
    ends = [abs(float(floats_of(np.array([word]))[0])) for word in (below, above)]
    if np.isinf(ends[1]):
        # As if the exponent went on, the next number after the largest is 2^128.
        ends[1] = 2.0**128
    gaps = [exact - ends[0], ends[1] - exact]
    if gaps[0] == gaps[1]:
        return below if below % 2 == 0 else above
    return below if gaps[0] < gaps[1] else above


def test_numbers_become_the_nearest_bf16():
    rng = np.random.default_rng(1)
    words = rng.integers(0, 1 << 32, 20_000, dtype=np.uint32)
    ties = (rng.integers(0, 1 << 16, 2_000, dtype=np.uint32) << 16) | 0x8000
    values = np.concatenate([words, ties]).view(np.float32)
    values = np.concatenate([values[np.isfinite(values)], np.float32(SPECIAL[:2] + SPECIAL[4:])])
    expected = [nearest(value) for value in values]
    np.testing.assert_array_equal(rounded_to_bf16(values), np.array(expected, np.uint16))


def test_infinities_and_nans_stay_what_they_are():
    infinite = rounded_to_bf16(np.float32([np.inf, -np.inf]))
    np.testing.assert_array_equal(infinite, [0x7F80, 0xFF80])
    # Signaling and quiet NaNs, those whose set bits are all in the lower half among them.
    words = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000], np.uint32)
    assert np.isnan(floats_of(rounded_to_bf16(words.view(np.float32)))).all()


def test_bf16_numbers_stay_as_they_are():
    words = np.arange(1 << 16, dtype=np.uint16)
    numbers = floats_of(words)
    kept = ~np.isnan(numbers)
    np.testing.assert_array_equal(rounded_to_bf16(numbers[kept]), words[kept])


def test_shape_is_kept_and_nothing_is_something():
    assert rounded_to_bf16(np.ones((3, 4), np.float32)).shape == (3, 4)
    assert rounded_to_bf16(np.empty((0, 5), np.float32)).shape == (0, 5)
