"""LZ4 and DEFLATE in their framing."""

import zlib

import lz4.block
import numpy as np
import pytest

from cdma import golden
from cdma.golden import StreamError, StreamStatus

BLOCK_CODECS = ("lz4", "deflate", "deflate-fast")
every_block_codec = pytest.mark.parametrize("name", BLOCK_CODECS)


def raw_deflate(data):
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


PAYLOAD_OF = {
    "lz4": lambda data: lz4.block.compress(data, store_size=False),
    "deflate": raw_deflate,
    "deflate-fast": raw_deflate,
}


def framed(payload, flag=0):
    return (len(payload) | flag).to_bytes(2, "little") + payload


def decompress(name, stream, nbytes):
    return golden.codec(name).decompress(np.frombuffer(stream, np.uint8), nbytes).tobytes()


@every_block_codec
def test_window_that_does_not_shrink_is_stored(name):
    data = np.random.default_rng(0).integers(0, 256, 4096 + 7).astype(np.uint8)
    stream = golden.codec(name).compress(data).tobytes()
    expected = b"\x00\x90" + data[:4096].tobytes() + b"\x07\x80" + data[4096:].tobytes()
    assert stream == expected


@every_block_codec
def test_elements_are_of_4_bytes_unless_told(name):
    assert type(golden.codec(name, 2))().element_bytes == 4


@every_block_codec
def test_windows_stand_alone(name):
    data = np.tile(np.arange(256, dtype=np.uint8), 64)
    codec = golden.codec(name)
    stream = codec.compress(data).tobytes()
    alone = codec.compress(data[:4096]).tobytes()
    assert stream == alone * 4


@every_block_codec
def test_any_payload_that_decodes_is_taken(name):
    """Streams of other versions of a compressor, or of another level."""
    data = b"to be or not to be, that is the question, to be or not to be" * 3
    assert decompress(name, framed(PAYLOAD_OF[name](data)), len(data)) == data


@every_block_codec
def test_line_sizes_share_a_window(name):
    data = np.zeros(4096 + 300, np.uint8)
    codec = golden.codec(name)
    sizes = codec.line_sizes(data)
    assert sizes[:32].sum() == codec.compress(data[:4096]).size
    assert sizes[32:].sum() == codec.compress(data[4096:]).size
    assert sizes[:32].max() - sizes[:32].min() <= 1


@every_block_codec
@pytest.mark.parametrize(
    ("held", "status"),
    [(199, StreamStatus.LENGTH_MISMATCH), (201, StreamStatus.LENGTH_MISMATCH)],
)
def test_block_of_another_length(name, held, status):
    good = framed(PAYLOAD_OF[name](bytes(4096)))
    with pytest.raises(StreamError) as caught:
        decompress(name, good + framed(PAYLOAD_OF[name](bytes(held))), 4096 + 200)
    # LZ4 does not tell a block that holds more from a damaged one.
    expected = StreamStatus.BAD_TOKEN if name == "lz4" and held > 200 else status
    assert caught.value.status == expected
    assert (caught.value.offset, caught.value.valid_bytes) == (len(good), 4096)


@every_block_codec
def test_bomb_stops_at_its_window(name):
    bomb = PAYLOAD_OF[name](bytes(16_000_000))[:4000]
    with pytest.raises(StreamError) as caught:
        decompress(name, framed(bomb), 4096)
    assert (caught.value.offset, caught.value.valid_bytes) == (0, 0)


@every_block_codec
@pytest.mark.parametrize(
    ("stream", "nbytes", "status"),
    [
        (b"", 10, StreamStatus.PAYLOAD_TRUNCATED),
        (b"\x01", 10, StreamStatus.PAYLOAD_TRUNCATED),
        (b"\x03\x80ab", 3, StreamStatus.PAYLOAD_TRUNCATED),
        (b"\x02\x80ab", 3, StreamStatus.LENGTH_MISMATCH),
        (b"\x04\x80abcd", 3, StreamStatus.LENGTH_MISMATCH),
        (b"\x00\x00", 3, StreamStatus.BAD_TOKEN),
        (b"\x03\x00abc", 3, StreamStatus.BAD_TOKEN),
        (b"\x02\x00\xff\xff", 3, StreamStatus.BAD_TOKEN),
    ],
)
def test_damage(name, stream, nbytes, status):
    with pytest.raises(StreamError) as caught:
        decompress(name, stream, nbytes)
    assert caught.value.status == status
    assert (caught.value.offset, caught.value.valid_bytes) == (0, 0)


@pytest.mark.parametrize("name", ["deflate", "deflate-fast"])
def test_deflate_that_does_not_end_or_ends_early(name):
    data = bytes(range(100)) * 2
    payload = raw_deflate(data)
    for damaged in (payload[:-1], payload + b"x"):
        with pytest.raises(StreamError) as caught:
            decompress(name, framed(damaged), len(data))
        assert caught.value.status == StreamStatus.BAD_TOKEN
