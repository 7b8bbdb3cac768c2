"""The lossy lane's pipelines, Verilated, against the golden model: a million lines, and damage."""

import zlib

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.stream import StreamError
from cdma.hw.codec.quantize.compressor.pipeline import QuantizeCompressor
from cdma.hw.codec.quantize.decompressor.pipeline import QuantizeDecompressor
from cdma.sim.machine import Packets
from tests.hw.codec.line_blocks import (
    BAD_TOKEN,
    CompressorBlock,
    DecompressorBlock,
    damaged,
    pipeline,
)
from tests.hw.codec.quantize.lines import LINE, fp32_lines, golden, quantize_config
from tests.sim.machine.pipeline.zvc_cases import assert_same_packets, checksums

# The builds take a minute for each width; the line codecs in Python have tests of their own.
pytestmark = pytest.mark.verify

BOUNDS = [127, 100, 120, 128, 140, 1, 233, 254]
"""The transfers' k: a power of two of them."""

LINES = 34_000
"""Lines at once; a million in all widths, each compressed and decompressed."""
ROUNDS = 10
SECTORS = (32, 64, 128)
STALLS = [0.0, 0.3, {"input": 0.7}, {"output": 0.7}]


@pytest.fixture(scope="module", params=SECTORS)
def compressor(request):
    config = quantize_config(request.param)
    with pipeline(CompressorBlock, QuantizeCompressor(config), config, BOUNDS) as block:
        yield block


@pytest.fixture(scope="module", params=SECTORS)
def decompressor(request):
    config = quantize_config(request.param)
    with pipeline(DecompressorBlock, QuantizeDecompressor(config), config, BOUNDS) as block:
        yield block


def transfers(rng, lines, each):
    """`Packets` of about `lines` lines, a multiple of as many as there are bounds, whose kinds of
    data are about its own bound; some end inside a line."""
    count = max(1, lines // each // len(BOUNDS)) * len(BOUNDS)
    cuts = np.sort(rng.integers(0, lines + 1, count - 1))
    sizes = np.diff([0, *cuts, lines])
    by_bound = {
        k: fp32_lines(rng, int(sizes[i :: len(BOUNDS)].sum()), k) for i, k in enumerate(BOUNDS)
    }
    used = dict.fromkeys(BOUNDS, 0)
    packets = []
    for i, size in enumerate(sizes.tolist()):
        k = BOUNDS[i % len(BOUNDS)]
        data = by_bound[k][used[k] : used[k] + size].reshape(-1)
        used[k] += size
        missing = 4 * rng.integers(0, LINE // 4) if size and rng.random() < 0.3 else 0
        packets.append(data[: data.size - missing])
    return Packets.of(packets)


def codec_of(i):
    return golden(BOUNDS[i % len(BOUNDS)])


def compressed(packets):
    count = len(packets.sizes)
    return Packets.of(codec_of(i).compress(packets.packet(i).view("<f4")) for i in range(count))


def restored(streams, sizes):
    pairs = enumerate(sizes.tolist())
    return Packets.of(codec_of(i).decompress(streams.packet(i), size) for i, size in pairs)


def check_compressor(compressor, rng, lines, each, **arguments):
    packets = transfers(rng, lines, each)
    batch = compressor.run(packets, **arguments)
    want = compressed(packets)
    assert_same_packets(batch.packets, want)
    np.testing.assert_array_equal(batch.records["status"], StreamStatus.OK)
    np.testing.assert_array_equal(batch.records["out_size"], want.sizes)
    np.testing.assert_array_equal(batch.records["crc32"], checksums(packets))


def check_decompressor(decompressor, rng, lines, each, **arguments):
    packets = transfers(rng, lines, each)
    streams = compressed(packets)
    want = restored(streams, packets.sizes)
    batch = decompressor.run(streams, packets.sizes, crc32=checksums(want), **arguments)
    assert_same_packets(batch.packets, want)
    np.testing.assert_array_equal(batch.records["status"], StreamStatus.OK)
    np.testing.assert_array_equal(batch.records["offset"], streams.sizes)


@pytest.mark.parametrize("part", range(ROUNDS))
def test_a_million_lines_are_compressed_bit_for_bit(compressor, part):
    check_compressor(compressor, np.random.default_rng([1, part]), LINES, 200)


@pytest.mark.parametrize("part", range(ROUNDS))
def test_a_million_lines_are_restored_bit_for_bit(decompressor, part):
    check_decompressor(decompressor, np.random.default_rng([2, part]), LINES, 200)


@pytest.mark.parametrize("stalls", STALLS, ids=str)
def test_short_transfers_and_stalls(compressor, decompressor, stalls):
    if compressor.sector_bytes == decompressor.sector_bytes:
        check_compressor(compressor, np.random.default_rng(3), 2000, 4, stalls=stalls, seed=4)
        check_decompressor(decompressor, np.random.default_rng(5), 2000, 4, stalls=stalls, seed=6)


def check_damaged(decompressor, rng, count, **arguments):
    packets = transfers(rng, 2 * count, 2)
    streams, lengths = damaged(rng, packets, compressed(packets), value_bytes=4)
    batch = decompressor.run(Packets.of(streams), lengths, **arguments)
    found = np.zeros(16, int)
    for i, (stream, length) in enumerate(zip(streams, lengths.tolist(), strict=True)):
        where = f"stream {i}, k {BOUNDS[i % len(BOUNDS)]}, {length}: {stream.tobytes().hex()}"
        try:
            data = codec_of(i).decompress(stream, length)
            status, offset, valid = StreamStatus.OK, stream.size, length
        except StreamError as error:
            status, offset, valid = error.status, error.offset, error.valid_bytes
            data = None
        told = BAD_TOKEN if status == StreamStatus.BAD_TOKEN else status
        record, got = batch.records[i], batch.packet(i)
        assert (record["status"], record["offset"]) == (told, offset), where
        if status != StreamStatus.NONZERO_FILL:
            assert got.size == valid, where
        if data is not None:
            np.testing.assert_array_equal(got, data, where)
        assert record["crc32"] == zlib.crc32(got), where
        found[told] += 1
    return found


@pytest.mark.parametrize("part", range(2))
def test_a_hundred_thousand_damaged_streams_are_answered_as_golden_answers(decompressor, part):
    found = check_damaged(decompressor, np.random.default_rng([7, part]), 17_000)
    statuses = ("OK", "PAYLOAD_TRUNCATED", "TRAILING_BYTES", "NONZERO_FILL")
    for status in (*(StreamStatus[name] for name in statuses), BAD_TOKEN):
        assert found[status] > 100, status


def test_damaged_streams_under_stalls(decompressor):
    check_damaged(decompressor, np.random.default_rng(8), 1500, stalls=0.4, seed=9)
