"""The fast decoder against the slow one, on streams damaged in every way."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdma.golden import StreamStatus, crc32
from cdma.golden.formats import zvc
from tests.golden.formats import slow_zvc
from tests.golden.formats.data import ELEMENT_SIZES, sparse_bytes


def assert_same(stream, nbytes, element_bytes, crc=None):
    decoded = zvc.decode(np.frombuffer(stream, np.uint8), nbytes, element_bytes, crc)
    found = (decoded.status, decoded.offset, decoded.valid_bytes, decoded.data.tobytes())
    assert found == slow_zvc.decode(stream, nbytes, element_bytes, crc)
    return decoded


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
def test_truncation_at_every_byte(element_bytes):
    data = sparse_bytes(3, 700, 0.5, element_bytes)
    stream = zvc.Zvc(element_bytes).compress(data).tobytes()
    statuses = set()
    for length in range(len(stream)):
        decoded = assert_same(stream[:length], data.size, element_bytes)
        assert decoded.data.tobytes() == data[: decoded.valid_bytes].tobytes()
        statuses.add(decoded.status)
    expected = {StreamStatus.MASK_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED}
    assert statuses == expected


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
def test_no_flipped_bit_passes_the_crc(element_bytes):
    data = sparse_bytes(4, 300, 0.4, element_bytes)
    stream = zvc.Zvc(element_bytes).compress(data)
    crc = crc32(data)
    for bit in range(stream.size * 8):
        damaged = stream.copy()
        damaged[bit // 8] ^= 1 << bit % 8
        decoded = assert_same(damaged.tobytes(), data.size, element_bytes, crc)
        assert decoded.status != StreamStatus.OK


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
def test_zero_element_at_every_place(element_bytes):
    elements = 2 * 128 // element_bytes
    data = np.full(elements, 7, f"<u{element_bytes}")
    stream = zvc.Zvc(element_bytes).compress(data)
    mask_bytes = 16 // element_bytes
    for index in range(elements):
        line = index * element_bytes // 128
        at = (line + 1) * mask_bytes + index * element_bytes
        damaged = stream.copy()
        damaged[at : at + element_bytes] = 0
        decoded = assert_same(damaged.tobytes(), data.nbytes, element_bytes)
        assert (decoded.status, decoded.offset, decoded.valid_bytes) == (
            StreamStatus.ZERO_ELEMENT,
            at,
            index * element_bytes,
        )


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
@pytest.mark.parametrize("lines", [1, 2])
def test_nonzero_fill_for_every_true_length(element_bytes, lines):
    data = np.full(lines * 128, 0xFF, np.uint8)
    stream = zvc.Zvc(element_bytes).compress(data).tobytes()
    for nbytes in range((lines - 1) * 128 + 1, lines * 128):
        decoded = assert_same(stream, nbytes, element_bytes)
        assert decoded.status == StreamStatus.NONZERO_FILL
        assert decoded.valid_bytes == nbytes // element_bytes * element_bytes


@given(
    seed=st.integers(0, 2**32 - 1),
    nbytes=st.integers(0, 600),
    other=st.integers(-130, 130),
    density=st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]),
    element_bytes=st.sampled_from(ELEMENT_SIZES),
    damage=st.sampled_from(["none", "flip", "cut", "extend", "zero", "garbage"]),
    where=st.floats(0, 1, exclude_max=True),
)
@example(0, 0, 0, 1.0, 4, "extend", 0.5)
@example(0, 0, 1, 1.0, 4, "none", 0.5)
def test_any_damage(seed, nbytes, other, density, element_bytes, damage, where):
    data = sparse_bytes(seed, nbytes, density, element_bytes)
    stream = bytearray(zvc.Zvc(element_bytes).compress(data).tobytes())
    at = int(where * len(stream))
    if damage == "flip" and stream:
        stream[at] ^= 1 << seed % 8
    elif damage == "cut":
        del stream[at:]
    elif damage == "extend":
        stream += bytes([seed % 256]) * (1 + at % 20)
    elif damage == "zero":
        stream[at : at + 5] = bytes(len(stream[at : at + 5]))
    elif damage == "garbage":
        stream[at:] = np.random.default_rng(seed).bytes(len(stream) - at)
    length = max(0, nbytes + (other if where < 0.3 else 0))
    decoded = assert_same(bytes(stream), length, element_bytes, crc32(data))
    if decoded.status == StreamStatus.OK:
        assert decoded.data.tobytes() == data.tobytes()


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
def test_many_streams_at_once_and_one_by_one(element_bytes):
    generator = np.random.default_rng(element_bytes)
    streams, lengths, crcs = [], [], []
    for seed in range(1500):
        data = sparse_bytes(seed, int(generator.integers(0, 400)), 0.5, element_bytes)
        stream = zvc.Zvc(element_bytes).compress(data)
        cut = int(generator.integers(0, stream.size + 1)) if seed % 2 else stream.size
        damaged = stream[:cut].copy()
        if seed % 3 and cut:
            damaged[generator.integers(cut)] ^= 1 << int(generator.integers(8))
        streams.append(damaged)
        lengths.append(data.size)
        crcs.append(crc32(data))
    bounds = np.cumsum([0, *(stream.size for stream in streams)])
    many = zvc.decode_many(np.concatenate(streams), bounds, lengths, element_bytes, crcs)
    assert len(set(many.status.tolist())) >= 4
    for index, stream in enumerate(streams):
        alone = slow_zvc.decode(stream.tobytes(), lengths[index], element_bytes, crcs[index])
        data = many.data[many.data_offsets[index] : many.data_offsets[index + 1]]
        found = (many.status[index], many.offset[index], many.valid_bytes[index], data.tobytes())
        assert found == alone


def test_streams_of_more_than_one_group(monkeypatch):
    monkeypatch.setattr("cdma.golden.formats.zvc_decoder._GROUP_BYTES", 100)
    codec = zvc.Zvc(4)
    arrays = [sparse_bytes(seed, nbytes, 0.5, 4) for seed, nbytes in enumerate([0, 9, 900, 3, 0])]
    streams = [codec.compress(array) for array in arrays]
    bounds = np.cumsum([0, *(stream.size for stream in streams)])
    lengths = [array.size for array in arrays]
    many = zvc.decode_many(np.concatenate(streams), bounds, lengths, 4)
    assert many.status.tolist() == [StreamStatus.OK] * 5
    assert many.data.tobytes() == np.concatenate(arrays).tobytes()


def test_no_streams():
    many = zvc.decode_many(np.empty(0, np.uint8), [0], np.empty(0, np.int64), 4)
    assert many.status.size == many.data.size == 0
    assert many.data_offsets.tolist() == [0]


def test_announced_length_takes_no_memory():
    stream = zvc.Zvc(4).compress(np.ones(64, np.float32))
    tracemalloc.start()
    try:
        decoded = zvc.decode(stream, 1 << 60, 4)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded.status == StreamStatus.MASK_TRUNCATED
    assert (decoded.offset, decoded.valid_bytes) == (stream.size, 256)
    assert peak_bytes < 1 << 20


@pytest.mark.parametrize(
    ("bounds", "lengths", "message"),
    [
        ([0, 4], [128, 128], "2 lengths need 3 offsets"),
        ([0, 4, 2], [128, 128], "ascend"),
        ([0, 9], [128], "inside the streams"),
        ([-1, 4], [128], "inside the streams"),
        ([0, 4], [-1], "negative"),
    ],
)
def test_arguments_that_do_not_fit(bounds, lengths, message):
    with pytest.raises(ValueError, match=message):
        zvc.decode_many(np.zeros(8, np.uint8), bounds, lengths, 4)
