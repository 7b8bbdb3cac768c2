"""The layout of a check's result: fields of located errors are there for codecs that find them."""

import pytest
from amaranth.hdl import Shape

from cdma.golden import StreamStatus
from cdma.hw.codec.stream.checker import CheckResult
from cdma.hw.config import CodecConfig

OFFSET_BITS = 9


def located_bits(config):
    """Widths of the fields that tell what a codec has found."""
    result = CheckResult(8, OFFSET_BITS, config)
    return tuple(Shape.cast(result[name].shape).width for name in ("status", "located_offset"))


@pytest.mark.parametrize("config", [None, CodecConfig()])
def test_result_has_no_bits_of_located_errors_if_no_codec_locates_them(config):
    assert located_bits(config) == (0, 0)


def test_result_has_status_and_offset_of_an_error_that_a_codec_locates():
    config = CodecConfig(element_bytes=1, codecs=("xc", "raw"))
    assert located_bits(config) == (Shape.cast(StreamStatus).width, OFFSET_BITS)
