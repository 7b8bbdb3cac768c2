"""The C reference of XC does what numpy does: each line, and each damaged stream."""

from collections import Counter

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.xc.decoder import decode_many
from cdma.golden.formats.xc.elements import ELEMENT_FORMATS
from tests.golden.formats.xc_data import (
    FORMAT_NAMES,
    damaged_streams,
    random_coding,
    random_lines,
)
from tests.golden.reference.c_library import CXc, assert_answer, build
from tests.lib.shares import widths

LINES = 20_000
MANY_LINES = 1_000_000
BATCH_LINES = 5_000

every_format = pytest.mark.parametrize("elements", ELEMENT_FORMATS, ids=FORMAT_NAMES)
how_many = pytest.mark.parametrize("count", widths(LINES, MANY_LINES, quick=[LINES]))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build("xc", tmp_path_factory.mktemp("xc"))


def batches(elements, count):
    """Codecs with any parameters, and lines for each."""
    generator = np.random.default_rng(elements.mantissa_bits + count)
    for _ in range(count // BATCH_LINES):
        codec = random_coding(generator, elements)
        yield generator, codec, random_lines(generator, elements, BATCH_LINES)


@every_format
@how_many
def test_random_lines(library, elements, count):
    for generator, codec, lines in batches(elements, count):
        data = lines[: lines.size - int(generator.integers(0, 128))]
        in_c = CXc(library, elements.name, codec.centre, codec.pattern)
        stream = codec.compress(data)
        assert in_c.encode(data).tobytes() == stream.tobytes()
        assert codec.line_sizes(data).sum() == stream.size
        assert in_c.decode(stream, data.size) == (0, 0, data.size, data.tobytes())
        assert codec.decompress(stream, data.size).tobytes() == data.tobytes()


@every_format
@how_many
def test_damaged_streams(library, elements, count):
    """Status for status, offset for offset; and what is accepted is what compression gives."""
    statuses = Counter()
    for generator, codec, data in batches(elements, count):
        in_c = CXc(library, elements.name, codec.centre, codec.pattern)
        streams, bounds, nbytes = damaged_streams(generator, codec, data)
        found = decode_many(streams, bounds, nbytes, codec.coding)
        for index in range(nbytes.size):
            stream = streams[bounds[index] : bounds[index + 1]]
            assert_answer(in_c, stream, int(nbytes[index]), found, index)
        statuses.update(found.status.tolist())
    assert set(statuses) == {
        StreamStatus.OK,
        StreamStatus.MASK_TRUNCATED,
        StreamStatus.PAYLOAD_TRUNCATED,
        StreamStatus.TRAILING_BYTES,
        StreamStatus.NONZERO_FILL,
        StreamStatus.BAD_TOKEN,
    }


@pytest.mark.parametrize(("centre", "pattern"), [(-1, 0), (256, 0), (0, -1), (0, 4)], ids=str)
def test_parameters_that_there_are_not(library, centre, pattern):
    with pytest.raises(ValueError, match="no such coding"):
        CXc(library, "bf16", centre, pattern)
