"""Ratios that were measured elsewhere: a codec that is subtly off would miss them."""

import numpy as np
import pytest

from cdma import golden


def iid(zero_fraction, seed=0, elements=1 << 18):
    generator = np.random.default_rng(seed)
    array = generator.standard_normal(elements, np.float32)
    array[generator.random(elements) < zero_fraction] = 0
    return array


def ratio(name, array, element_bytes=4):
    return array.nbytes / golden.codec(name, element_bytes).compress(array).size


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zvc", 2.43),
        # In 4 KiB windows; with the 2 B headers they lose 0.1 %.
        ("deflate", 2.15),
        ("deflate-fast", 2.09),
        ("lz4", 1.73),
        # Per zero run and the run behind it, 4.24 elements: two control bytes and 1.61 elements.
        ("rle", 2.01),
        # Two words for each of 38 %.
        ("csr", 1.32),
    ],
)
def test_fp32_of_62_percent_zeros(name, expected):
    assert ratio(name, iid(0.62)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("zero_fraction", [0, 0.1, 0.5, 0.9, 0.99, 1])
def test_zvc_is_the_formula(zero_fraction):
    """1 / (d + 1/(8E)) for density d."""
    array = iid(zero_fraction)
    density = np.count_nonzero(array) / array.size
    assert ratio("zvc", array) == pytest.approx(1 / (density + 1 / 32))


def test_layout_moves_rle_and_deflate_but_not_zvc():
    """cDMA, §VII-A: whole channels of zeros are runs in NCHW, and scattered in NHWC."""
    generator = np.random.default_rng(1)
    nchw = np.abs(generator.standard_normal((4, 32, 16, 16), np.float32))
    nchw *= generator.random((4, 32, 1, 1)) < 0.4
    nhwc = nchw.transpose(0, 2, 3, 1)
    assert ratio("zvc", nhwc) == ratio("zvc", nchw)
    assert ratio("rle", nhwc) < 0.9 * ratio("rle", nchw)
    assert ratio("deflate", nhwc) < 0.98 * ratio("deflate", nchw)
