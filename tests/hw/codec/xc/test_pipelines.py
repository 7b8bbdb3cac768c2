"""XC's pipelines, Verilated, against the golden model: bits, statuses, places, rates."""

import zlib
from dataclasses import dataclass

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.xc.decoder import decode
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.xc.compressor.pipeline import XcCompressor
from cdma.hw.codec.xc.decompressor.pipeline import XcDecompressor
from cdma.sim.machine import Packets, Pipeline
from tests.hw.codec.line_blocks import (
    BAD_TOKEN,
    CompressorBlock,
    DecompressorBlock,
    damaged,
    pipeline,
)
from tests.hw.codec.xc.lines import FORMATS, LINE, codings, golden, lines_of, xc_config
from tests.sim.machine.pipeline.injection import found_in, injected
from tests.sim.machine.pipeline.zvc_cases import assert_same_packets, checksums

# The builds take a minute for each width; the line codecs in Python have tests of their own.
pytestmark = pytest.mark.verify

LINES = 100_000
"""Lines and streams at once; ten times as many in all."""
SECTORS = (32, 64, 128)
SHAPES = [(form, sector_bytes) for form in FORMATS for sector_bytes in SECTORS]
STALLS = [
    0.0,
    0.3,
    {"input": 0.7},
    {"output": 0.7},
    {"input": 0.2, "output": 0.8, "status": 0.9},
]


@dataclass(frozen=True)
class Block:
    """A pipeline, and the codings that its transfers have in turn: a power of two of them."""

    elements: ElementFormat
    pipeline: Pipeline

    @property
    def codings(self):
        return eight_codings(self.elements)

    def golden(self, number):
        return golden(*self.codings[number % len(self.codings)], elements=self.elements)


def eight_codings(elements):
    return [*codings(elements), (max(0, codings(elements)[0][0] - 7), 1)]


def block(kind, codec, shape):
    elements, sector_bytes = shape
    config = xc_config(sector_bytes, elements)
    parameters = [centre | pattern << 8 for centre, pattern in eight_codings(elements)]
    return pipeline(kind, codec(config, elements), config, parameters)


def names(shapes):
    return [f"{form.name}-{sector_bytes}" for form, sector_bytes in shapes]


@pytest.fixture(scope="module", params=SHAPES, ids=names(SHAPES))
def compressor(request):
    with block(CompressorBlock, XcCompressor, request.param) as built:
        yield Block(request.param[0], built)


@pytest.fixture(scope="module", params=SHAPES, ids=names(SHAPES))
def decompressor(request):
    with block(DecompressorBlock, XcDecompressor, request.param) as built:
        yield Block(request.param[0], built)


def transfers(rng, lines, each, block):
    """`Packets` of `lines` lines in all, in multiples of as many transfers as there are codings.

    Some end inside a line.
    """
    turns = len(block.codings)
    count = max(1, lines // each // turns) * turns
    cuts = np.sort(rng.integers(0, lines + 1, count - 1))
    sizes = np.diff([0, *cuts, lines]) * LINE
    data = lines_of(block.elements, rng, lines).reshape(-1)
    starts = np.cumsum(sizes) - sizes
    partial = (sizes > 0) & (rng.random(count) < 0.3)
    kept = sizes - np.where(partial, rng.integers(0, LINE, count), 0)
    return Packets.of(data[start : start + size] for start, size in zip(starts, kept, strict=True))


def compressed(packets, block):
    """The golden streams of packets, whose codings take turns."""
    count = len(packets.sizes)
    codecs = [block.golden(number) for number in range(len(block.codings))]
    return Packets.of(codecs[i % len(codecs)].compress(packets.packet(i)) for i in range(count))


def check_compressor(compressor, rng, lines, each, **arguments):
    packets = transfers(rng, lines, each, compressor)
    batch = compressor.pipeline.run(packets, **arguments)
    want = compressed(packets, compressor)
    assert_same_packets(batch.packets, want)
    records = batch.records
    np.testing.assert_array_equal(records["status"], StreamStatus.OK)
    np.testing.assert_array_equal(records["out_size"], want.sizes)
    np.testing.assert_array_equal(records["crc32"], checksums(packets))


def test_compresses_bit_for_bit(compressor):
    check_compressor(compressor, np.random.default_rng(1), LINES, 40)


@pytest.mark.parametrize("stalls", STALLS, ids=str)
def test_compresses_under_stalls(compressor, stalls):
    check_compressor(compressor, np.random.default_rng(2), 2000, 4, stalls=stalls, seed=3)


def test_compresses_a_sector_per_cycle(compressor):
    rng = np.random.default_rng(4)
    data = lines_of(compressor.elements, rng, 4000)
    # Only raw lines are longer than their data.
    lengths = compressor.golden(0).line_sizes(data)
    data = data[lengths <= LINE]
    packets = [data.reshape(-1), *[np.zeros(LINE, np.uint8)] * (len(compressor.codings) - 1)]
    record = compressor.pipeline.run(packets).records[0]
    cycles = record["input_last_cycle"] - record["input_first_cycle"] + 1
    assert cycles == data.size // compressor.pipeline.sector_bytes


def check_decompressor(decompressor, rng, lines, each, **arguments):
    packets = transfers(rng, lines, each, decompressor)
    streams = compressed(packets, decompressor)
    crcs = checksums(packets)
    batch = decompressor.pipeline.run(streams, packets.sizes, crc32=crcs, **arguments)
    assert_same_packets(batch.packets, packets)
    records = batch.records
    np.testing.assert_array_equal(records["status"], StreamStatus.OK)
    np.testing.assert_array_equal(records["offset"], streams.sizes)
    np.testing.assert_array_equal(records["crc32"], crcs)


def test_decompresses_bit_for_bit(decompressor):
    check_decompressor(decompressor, np.random.default_rng(5), LINES, 40)


@pytest.mark.parametrize("stalls", STALLS, ids=str)
def test_decompresses_under_stalls(decompressor, stalls):
    check_decompressor(decompressor, np.random.default_rng(6), 2000, 4, stalls=stalls, seed=7)


def test_decompresses_a_sector_per_cycle(decompressor):
    rng = np.random.default_rng(8)
    data = lines_of(decompressor.elements, rng, 4000)
    data = data[decompressor.golden(0).line_sizes(data) <= LINE]
    packets = Packets.of([data, *[np.zeros(LINE, np.uint8)] * (len(decompressor.codings) - 1)])
    streams = compressed(packets, decompressor)
    record = decompressor.pipeline.run(streams, packets.sizes).records[0]
    cycles = record["output_last_cycle"] - record["output_first_cycle"] + 1
    assert cycles == data.size // decompressor.pipeline.sector_bytes


def check_damaged(decompressor, rng, streams_count, **arguments):
    packets = transfers(rng, 2 * streams_count, 2, decompressor)
    streams, lengths = damaged(rng, packets, compressed(packets, decompressor))
    crcs = checksums(packets)
    batch = decompressor.pipeline.run(streams, lengths, crc32=crcs, **arguments)
    found = np.zeros(16, int)
    for i, (stream, length) in enumerate(zip(streams, lengths.tolist(), strict=True)):
        coding = decompressor.golden(i).coding
        want = decode(stream, length, coding, int(crcs[i]))
        status = BAD_TOKEN if want.status == StreamStatus.BAD_TOKEN else want.status
        record = batch.records[i]
        where = f"stream {i}, {coding.centre} {coding.pattern}, {length}: {stream.tobytes().hex()}"
        assert record["status"] == status, where
        offset = stream.size if status == StreamStatus.OK else want.offset
        assert record["offset"] == offset, where
        got = batch.packet(i)
        # Of a last line that is longer than the data, the blocks give what is right.
        if status != StreamStatus.NONZERO_FILL:
            assert got.size == want.valid_bytes, where
        np.testing.assert_array_equal(got[: want.valid_bytes], want.data, where)
        assert record["crc32"] == zlib.crc32(got), where
        found[status] += 1
    return found


def test_malformed_streams_are_answered_as_golden_answers_them(decompressor):
    found = check_damaged(decompressor, np.random.default_rng(9), 4000)
    statuses = ("OK", "MASK_TRUNCATED", "PAYLOAD_TRUNCATED", "TRAILING_BYTES", "NONZERO_FILL")
    for status in (*(StreamStatus[name] for name in statuses), BAD_TOKEN):
        assert found[status] > 20, status


def test_malformed_streams_under_stalls(decompressor):
    check_damaged(decompressor, np.random.default_rng(10), 1500, stalls=0.4, seed=11)


@pytest.mark.parametrize("part", range(3))
def test_no_injected_error_is_silent(decompressor, part):
    """A million in all widths, of up to three bits or in bursts: the structure or the checksum
    tells of each that changes a byte."""
    rng = np.random.default_rng([15, part])
    packets = transfers(rng, 3 * LINES, 3, decompressor)
    streams = compressed(packets, decompressor)
    batch = decompressor.pipeline.run(
        injected(rng, streams), packets.sizes, crc32=checksums(packets)
    )
    found = found_in(batch, packets, streams)
    assert found.injected > 0.7 * LINES
    assert found.silent == 0
    assert found.by_checksum > 0.3 * found.injected


@pytest.mark.parametrize("part", range(10))
def test_compresses_a_million_lines(compressor, part):
    check_compressor(compressor, np.random.default_rng([12, part]), LINES, 200)


@pytest.mark.parametrize("part", range(10))
def test_decompresses_a_million_lines(decompressor, part):
    check_decompressor(decompressor, np.random.default_rng([13, part]), LINES, 200)


@pytest.mark.parametrize("part", range(10))
def test_a_million_malformed_streams(decompressor, part):
    check_damaged(decompressor, np.random.default_rng([14, part]), LINES)
