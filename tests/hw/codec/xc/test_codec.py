"""The registry's entry: sizes as the golden format has them."""

import numpy as np
import pytest

from cdma.hw.codec import registry
from tests.hw.codec.xc.lines import golden, xc_config

ENTRY = registry.line_codec("xc")


@pytest.mark.parametrize("nbytes", [0, 128, 1024])
def test_worst_size_is_that_of_noise(nbytes):
    noise = np.random.default_rng(1).integers(1, 256, nbytes, np.uint8)
    codec = golden(127, 0)
    assert codec.compress(noise).size == ENTRY.worst_stream_bytes(nbytes, xc_config())
    assert codec.line_sizes(noise).max(initial=0) <= ENTRY.worst_line_bytes(xc_config())


@pytest.mark.parametrize("density", [0.0, 0.3, 0.9, 1.0])
def test_expected_size_is_about_that_of_normal_data(density):
    rng = np.random.default_rng(2)
    values = np.where(rng.random(1 << 16) < density, rng.normal(size=1 << 16), 0)
    elements = (values.astype("<f4").view("<u4") >> 16).astype("<u2")
    found = golden(127, 0).fitted(elements).compress(elements).size
    expected = ENTRY.mean_stream_bytes(elements.nbytes, density, xc_config())
    assert found == pytest.approx(expected, rel=0.05)
    sizes, chances = ENTRY.payload_chances(density, xc_config())
    line = ENTRY.head_bytes(xc_config()) + np.dot(sizes, chances)
    assert line * elements.nbytes / 128 == pytest.approx(expected)
    assert ENTRY.density(expected, elements.nbytes, xc_config()) == pytest.approx(density, abs=0.1)


def test_parameters_are_packed_as_the_compressor_has_them():
    assert ENTRY.packed_parameters({"centre": 127, "pattern": 2}) == 127 | 2 << 8
