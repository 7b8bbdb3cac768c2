"""The registry of components: what it tells of the two ways of a codec."""

import pytest

from cdma.hw.components import COMPONENTS

WAYS = {
    name: name.replace("compressor", "decompressor")
    for name in COMPONENTS
    if name.endswith("-compressor")
}


@pytest.mark.parametrize(("out", "back"), WAYS.items(), ids=WAYS)
def test_both_ways_of_a_codec_are_of_a_family_and_mapped_alike(out, back):
    first, second = COMPONENTS[out], COMPONENTS[back]
    assert first.family == second.family
    assert first.is_gated == second.is_gated
