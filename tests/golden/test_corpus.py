"""Streams and files that were kept: whatever a release changes, it must decode them as ever.

Cases are added to `corpus/`, never changed: a decoder that disagrees with one breaks data that
somebody has, or has another idea of an error than hardware that somebody built.
"""

import json
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cdma import golden
from cdma.golden import StreamError, StreamStatus, container
from cdma.golden.formats import zvc

CORPUS = Path(__file__).parent / "corpus"
STREAMS = json.loads((CORPUS / "streams.json").read_text("utf-8"))
FILES = json.loads((CORPUS / "files.json").read_text("utf-8"))


def case_name(case):
    return f"{case['codec']}-{case['element_bytes']}-{case['about']}".replace(" ", "_")


OURS = ("bpc", "xc", "zvc")


def stream_of(case):
    return np.frombuffer(bytes.fromhex(case["stream"]), np.uint8)


@pytest.mark.parametrize("case", [c for c in STREAMS if c["codec"] == "zvc"], ids=case_name)
def test_zvc_stream(case):
    decoded = zvc.decode(
        stream_of(case), case["nbytes"], case["element_bytes"], case["expected_crc32"]
    )
    assert decoded.status == case["status"]
    assert (decoded.offset, decoded.valid_bytes) == (case["offset"], case["valid_bytes"])
    assert zlib.crc32(decoded.data) == case["data_crc32"]


@pytest.mark.parametrize("case", [c for c in STREAMS if c["codec"] != "zvc"], ids=case_name)
def test_baseline_stream(case):
    codec = golden.codec(case["codec"], case["element_bytes"], **case.get("parameters", {}))
    if case["status"] == StreamStatus.OK:
        data = codec.decompress(stream_of(case), case["nbytes"])
        assert (data.size, zlib.crc32(data)) == (case["nbytes"], case["data_crc32"])
    else:
        with pytest.raises(StreamError) as caught:
            codec.decompress(stream_of(case), case["nbytes"])
        error = caught.value
        assert (error.status, error.offset) == (case["status"], case["offset"])
        assert error.valid_bytes == case["valid_bytes"]


@pytest.mark.parametrize(
    "case",
    [c for c in STREAMS if c["codec"] in OURS and c["status"] == StreamStatus.OK],
    ids=case_name,
)
def test_stream_is_still_written(case):
    """A lossless format of ours has one stream for each data."""
    codec = golden.codec(case["codec"], case["element_bytes"], **case.get("parameters", {}))
    stream = stream_of(case)
    np.testing.assert_array_equal(codec.compress(codec.decompress(stream, case["nbytes"])), stream)


@pytest.mark.parametrize("case", FILES, ids=lambda case: case["codec"])
def test_file(case):
    array = container.unpack(bytes.fromhex(case["file"]))
    assert array.dtype.str == case["dtype"]
    assert array.flags.f_contiguous == (case["order"] == "F")
    np.testing.assert_array_equal(array, np.array(case["values"]))


def test_corpus_has_every_status_that_a_stream_alone_can_have():
    counts = Counter(StreamStatus(case["status"]) for case in STREAMS)
    # That one takes a destination.
    assert set(StreamStatus) - set(counts) == {StreamStatus.DESTINATION_TOO_SMALL}
