"""The registry's entry: sizes as the golden format has them."""

import numpy as np
import pytest

from cdma.hw.codec import registry
from cdma.hw.codec.interface import CodecParameterError
from cdma.hw.codec.xc.codec import codec_name
from tests.hw.codec.xc.lines import FORMATS, golden, in_format, xc_config


@pytest.fixture(params=FORMATS, ids=[form.name for form in FORMATS])
def entry(request):
    return registry.line_codec(codec_name(request.param))


@pytest.mark.parametrize("nbytes", [0, 128, 1024])
def test_worst_size_is_that_of_noise(entry, nbytes):
    noise = np.random.default_rng(1).integers(1, 256, nbytes, np.uint8)
    config = xc_config(elements=entry.elements)
    # No centre is good for it.
    codec = golden(200, 0, entry.elements)
    assert codec.compress(noise).size == entry.worst_stream_bytes(nbytes, config)
    assert codec.line_sizes(noise).max(initial=0) <= entry.worst_line_bytes(config)


@pytest.mark.parametrize("density", [0.0, 0.3, 0.9, 1.0])
def test_expected_size_is_about_that_of_normal_data(entry, density):
    rng = np.random.default_rng(2)
    values = np.where(rng.random(1 << 16) < density, rng.normal(size=1 << 16), 0)
    data = in_format(entry.elements, values)
    config = xc_config(elements=entry.elements)
    found = golden(0, 0, entry.elements).fitted(data).compress(data).size
    expected = entry.mean_stream_bytes(data.nbytes, density, config)
    assert found == pytest.approx(expected, rel=0.05)
    sizes, chances = entry.payload_chances(density, config)
    line = entry.head_bytes(config) + np.dot(sizes, chances)
    assert line * data.nbytes / 128 == pytest.approx(expected)
    assert entry.density(expected, data.nbytes, config) == pytest.approx(density, abs=0.12)


def test_parameters_are_packed_as_the_compressor_has_them(entry):
    assert entry.packed_parameters({"centre": 127, "pattern": 2}) == 127 | 2 << 8


@pytest.mark.parametrize("size", [1, 2, 4])
def test_elements_of_another_size_are_refused(entry, size):
    own = entry.elements.element_bytes
    assert entry.takes(size) == (size == own)
    if size != own:
        name = entry.elements.name
        with pytest.raises(CodecParameterError, match=f"elements of {own} bytes, which are {name}"):
            entry.granule_bytes(size)
