"""Parameters of pages: the best for what each page holds."""

import numpy as np
import pytest

from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.golden.formats.xc.elements import element_format
from cdma.golden.formats.xc.patterns import best_parameters
from cdma.golden.formats.xc.xc import Xc
from cdma.plan.buddy.page_parameters import of_entries, page_parameters

PAGE = 8192


def bf16(count, scale, seed=0):
    generator = np.random.default_rng(seed)
    return rounded_to_bf16((scale * generator.standard_normal(count)).astype(np.float32))


def test_pages_have_the_best_parameters_of_their_own_elements():
    pages = [bf16(PAGE // 2, scale, seed) for seed, scale in enumerate((1e-9, 1.0, 0.02, 300.0))]
    pages[2][::3] = 0
    found = page_parameters(np.concatenate(pages), PAGE)
    expected = []
    for page in pages:
        fitted = Xc(2).fitted(page)
        expected.append(fitted.centre | fitted.pattern << 8)
    assert found.tolist() == expected
    assert len(set(expected)) == len(pages)


def test_more_pages_than_are_worked_on_at_once():
    pages = np.repeat(bf16(16, 1.0), PAGE // 32)
    many = np.concatenate([np.tile(pages, 1024), bf16(PAGE // 2, 1e-9)])
    found = page_parameters(many, PAGE)
    assert found.size == 1025
    assert (found[:1024] == page_parameters(pages, PAGE)).all()
    assert found[-1] == page_parameters(bf16(PAGE // 2, 1e-9), PAGE)


def test_page_of_zeros_has_none_and_the_last_page_is_filled_with_zeros():
    array = np.zeros(PAGE // 2 + 64, np.uint16)
    assert page_parameters(array, PAGE).tolist() == [0, 0]
    array[-1] = 0x3F80
    first, second = page_parameters(array, PAGE)
    # Distances 0 and −1 take as many bits, and of equals the lowest centre counts.
    assert (first, second) == (0, 126)


@pytest.mark.parametrize(("exponent", "centre"), [(0, 255), (1, 1), (2, 1), (255, 254)])
def test_centres_are_never_0(exponent, centre):
    """With it a page would have no XC, so the next best is taken; distances wrap around."""
    words = np.full(PAGE // 2, exponent << 7 | 1, np.uint16)
    assert page_parameters(words, PAGE).tolist() == [centre]
    histogram = np.zeros(256, int)
    histogram[exponent] = 1
    assert best_parameters(histogram, element_format("bf16")) == (max(exponent - 1, 0), 0)


def test_entries_have_their_pages_parameters():
    assert of_entries(np.array([5, 9]), 70, PAGE).tolist() == [5] * 64 + [9] * 6
