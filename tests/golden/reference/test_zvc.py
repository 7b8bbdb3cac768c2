"""The C reference of ZVC does what numpy does: each line, each damaged stream, each kept stream."""

from collections import Counter

import numpy as np
import pytest

from cdma.golden import StreamStatus, codec
from cdma.golden.formats.zvc import decode_many
from tests.golden.formats.data import ELEMENT_SIZES, sparse_bytes
from tests.golden.reference.c_library import CZvc, assert_answer, build
from tests.golden.test_corpus import STREAMS, stream_of
from tests.lib.shares import widths

FEW_STREAMS = 2_000
MANY_STREAMS = 400_000
BATCH = 1_000
DENSITIES = (0.0, 0.02, 0.3, 0.5, 0.9, 1.0)

every_size = pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
how_many = pytest.mark.parametrize("count", widths(FEW_STREAMS, MANY_STREAMS, quick=[FEW_STREAMS]))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build("zvc", tmp_path_factory.mktemp("zvc"))


def batches(element_bytes, count):
    """A generator of numbers, and data of up to four lines of every density and length."""
    generator = np.random.default_rng(element_bytes + count)
    for _ in range(count // BATCH):
        yield (
            generator,
            [
                sparse_bytes(
                    int(generator.integers(1 << 32)),
                    int(generator.integers(0, 513)),
                    float(generator.choice(DENSITIES)),
                    element_bytes,
                )
                for _ in range(BATCH)
            ],
        )


@every_size
@how_many
def test_random_data(library, element_bytes, count):
    in_c, in_numpy = CZvc(library, element_bytes), codec("zvc", element_bytes)
    for _, datas in batches(element_bytes, count):
        for data in datas:
            stream = in_numpy.compress(data)
            assert in_c.encode(data).tobytes() == stream.tobytes()
            assert in_c.decode(stream, data.size) == (0, 0, data.size, data.tobytes())


def damaged(generator, stream, nbytes):
    """A stream with a bit turned over, cut, longer, with an element of zeros, or of a length."""
    stream = stream.copy()
    kind = generator.integers(5)
    if kind == 0 and stream.size:
        stream[generator.integers(stream.size)] ^= 1 << generator.integers(8)
    elif kind == 1:
        stream = stream[: generator.integers(stream.size + 1)]
    elif kind == 2:
        stream = np.append(stream, generator.integers(0, 256, 3, np.uint8))
    elif kind == 3 and stream.size:
        at = generator.integers(stream.size)
        stream[at : at + 4] = 0
    else:
        nbytes = int(generator.integers(0, 600))
    return stream, nbytes


@every_size
@how_many
def test_damaged_streams(library, element_bytes, count):
    """Status for status, offset for offset; and what is accepted is what compression gives."""
    in_c, in_numpy = CZvc(library, element_bytes), codec("zvc", element_bytes)
    statuses = Counter()
    for generator, datas in batches(element_bytes, count):
        cases = [damaged(generator, in_numpy.compress(data), data.size) for data in datas]
        bounds = np.cumsum([0, *(stream.size for stream, _ in cases)])
        flat = np.concatenate([stream for stream, _ in cases])
        found = decode_many(flat, bounds, [nbytes for _, nbytes in cases], element_bytes)
        for index, (stream, nbytes) in enumerate(cases):
            assert_answer(in_c, stream, nbytes, found, index)
        statuses.update(found.status.tolist())
    assert set(statuses) == {
        StreamStatus.OK,
        StreamStatus.MASK_TRUNCATED,
        StreamStatus.PAYLOAD_TRUNCATED,
        StreamStatus.TRAILING_BYTES,
        StreamStatus.ZERO_ELEMENT,
        StreamStatus.NONZERO_FILL,
    }


def test_kept_streams(library):
    cases = [case for case in STREAMS if case["codec"] == "zvc"]
    assert len(cases) > 10
    for case in cases:
        if case["status"] == StreamStatus.CRC_MISMATCH:
            continue
        found = CZvc(library, case["element_bytes"]).decode(stream_of(case), case["nbytes"])
        assert found[:3] == (case["status"], case["offset"], case["valid_bytes"]), case["about"]


@pytest.mark.parametrize("element_bytes", [0, 3, 8])
def test_sizes_of_elements_that_there_are_not(library, element_bytes):
    assert library.zvc_bound(element_bytes, 128) == 0
