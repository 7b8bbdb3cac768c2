"""What a record recommends: which lines and elements are seen, and what their parameters cost."""

import numpy as np
import pytest

from cdma.golden.formats.xc.elements import ELEMENT_FORMATS, element_format
from cdma.golden.formats.xc.recorded import (
    LEVELS,
    MOST,
    ExponentCounter,
    line_samples,
    parameters_of,
    recorded_parameters,
    sampled_lines,
)
from cdma.golden.formats.xc.xc import Xc

BF16 = element_format("bf16")
LINE = 64


def bf16(values):
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2")


def normal(count, scale=1.0, seed=1):
    return bf16(np.random.default_rng(seed).normal(size=count) * scale)


def test_nothing_is_recommended_for_zeros():
    for count in (0, 1, LINE, 1000):
        assert recorded_parameters(np.zeros(count, "<u2"), BF16) is None


@pytest.mark.parametrize("value", [1.0, -(2.0**-20), 2.0**100, np.inf])
def test_one_element_is_enough(value):
    """Where it is not among zeros, which may be sampled instead."""
    words = bf16([value] * LINE)
    assert recorded_parameters(words, BF16) == (int(words[0]) >> 7 & 255, 0)


def test_an_element_among_zeros_is_seen_or_nothing_is_recommended():
    found = []
    for place in range(LINE):
        words = np.zeros(LINE, "<u2")
        words[place] = 0x3F80 | place
        found.append(recorded_parameters(words, BF16))
    assert set(found) == {None, (127, 0)}


def test_a_lines_sample_is_one_of_its_elements():
    words = normal(100 * LINE).reshape(-1, LINE)
    samples = line_samples(words, BF16)
    assert (words == samples[:, None]).any(axis=1).all()
    assert not line_samples(np.zeros_like(words), BF16).any()


def test_lines_of_few_elements_have_few_samples():
    """So elements among zeros count no more than others: one in ten, and four are looked at."""
    rng = np.random.default_rng(4)
    words = rng.integers(1, 1 << 16, (4000, LINE)).astype("<u2")
    samples = line_samples(np.where(rng.random(words.shape) < 0.1, words, 0), BF16)
    assert np.count_nonzero(samples) / 4000 == pytest.approx(1 - 0.9**4, abs=0.05)


def test_all_elements_of_lines_come_to_be_samples():
    """None of a block's 16 places is preferred; later blocks replace earlier ones by half."""
    words = np.random.default_rng(3).integers(1, 1 << 16, (40_000, LINE), np.uint16)
    places = np.argmax(words == line_samples(words, BF16)[:, None], axis=1)
    by_place = np.bincount(places, minlength=LINE) / len(words)
    expected = np.repeat([1 / 8, 1 / 8, 1 / 4, 1 / 2], 16) / 16
    np.testing.assert_allclose(by_place, expected, rtol=0.3)


def test_lines_are_at_uneven_distances_that_double():
    numbers, halves = map(np.array, zip(*sampled_lines(300_000), strict=True))
    assert numbers[0] == 0
    assert np.flatnonzero(halves)[:3].tolist() == [MOST, MOST + 128, MOST + 256]
    level = np.minimum(np.cumsum(halves), LEVELS)[:-1]
    assert level[-1] == LEVELS
    distances = np.diff(numbers)
    assert (distances >= 2 << level).all()
    assert (distances < 4 << level).all()
    for one in range(LEVELS):
        assert len(set(distances[level == one])) > min(2 << one, 64) // 2


def test_lines_are_not_sampled_in_step_with_rows():
    """Rows of two lines: both come to be sampled."""
    odd = np.mean([line % 2 for line, _ in sampled_lines(3000)])
    assert 0.4 < odd < 0.6


def test_window_follows_the_majority():
    """Early samples that are far away count for nothing in the end."""
    samples = np.concatenate([bf16([2.0**-90] * 9), normal(200)])
    centre, _ = parameters_of(samples, BF16)
    assert centre in (125, 126, 127)


@pytest.mark.parametrize(
    ("before", "after", "centre"),
    [
        ([120] * 8, [121] * 4, 120),
        ([120] * 8, [121] * 5, 121),
        # Beyond the window: it moves once there were more outside than the most frequent has.
        ([120] * 8 + [200] * 6, [200], 120),
        ([120] * 8 + [200] * 6, [200] * 2, 200),
    ],
)
def test_what_was_counted_before_the_halving_weighs_half(before, after, centre):
    counter = ExponentCounter()
    for exponent in before:
        counter.count(exponent)
    counter.halve()
    for exponent in after:
        counter.count(exponent)
    assert counter.best(BF16)[0] == centre


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**-10, 1.0, 2.0**60])
@pytest.mark.parametrize("kind", ["normal", "laplace", "relu"])
def test_parameters_cost_little_on_data_of_a_kind(kind, scale):
    rng = np.random.default_rng(7)
    values = rng.laplace(size=1 << 17) if kind == "laplace" else rng.normal(size=1 << 17)
    words = bf16((np.maximum(values, 0) if kind == "relu" else values) * scale)
    centre, pattern = recorded_parameters(words[: 1 << 16], BF16)
    later = words[1 << 16 :]
    best = Xc(2).fitted(later).line_sizes(later).sum()
    assert Xc(2, centre=centre, pattern=pattern).line_sizes(later).sum() <= 1.007 * best


@pytest.mark.parametrize("elements", ELEMENT_FORMATS, ids=lambda elements: elements.name)
def test_lines_of_one_exponent_have_that_for_a_centre(elements):
    exponent = 2 ** (elements.exponent_bits - 1)
    word = exponent << elements.mantissa_bits | 1
    words = np.full(4 * elements.line_elements, word, f"<u{elements.element_bytes}")
    assert recorded_parameters(words, elements) == (exponent, 0)
