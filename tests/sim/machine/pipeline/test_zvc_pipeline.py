"""The ZVC blocks' RTL against the golden model, bit for bit, in every shipped shape."""

from dataclasses import dataclass

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.zvc import Zvc
from cdma.sim.machine import CHANNELS, Batch, Packets, Pipeline
from tests.sim.machine.pipeline.zvc_cases import (
    CONFIGS,
    assert_same_packets,
    checksums,
    compress,
    odd,
    random_faults,
    sparse,
)

LINE = 128
# 101 densities in 9 shapes: 1,018,080 lines.
LINES_PER_DENSITY = 1120

STALLS = [
    *({channel: 0.7} for channel in CHANNELS),
    dict.fromkeys(CHANNELS, 0.3),
    dict.fromkeys(CHANNELS, 0.8),
    {"input": 0.9, "output": 0.2},
    {"input": 0.2, "output": 0.9, "status": 0.95},
]


@dataclass(frozen=True)
class Blocks:
    """Both directions of a shape."""

    element_bytes: int
    sector_bytes: int
    compressor: Pipeline
    decompressor: Pipeline

    @property
    def dense_line_bytes(self) -> int:
        return LINE + LINE // self.element_bytes // 8

    def check_both_ways(self, packets: Packets, **arguments) -> Batch:
        """Compress, compare, decompress, compare; what the compressor gave."""
        crcs = checksums(packets)
        squeezed = self.compressor.run(packets, **arguments)
        self.check(squeezed, compress(packets, self.element_bytes), packets.sizes, crcs)
        back = self.decompressor.run(squeezed.packets, packets.sizes, crc32=crcs, **arguments)
        self.check(back, packets, squeezed.packets.sizes, crcs)
        return squeezed

    @staticmethod
    def check(batch: Batch, want: Packets, input_sizes, crcs) -> None:
        assert_same_packets(batch.packets, want)
        records = batch.records
        np.testing.assert_array_equal(records["status"], StreamStatus.OK)
        np.testing.assert_array_equal(records["offset"], input_sizes)
        np.testing.assert_array_equal(records["out_size"], want.sizes)
        np.testing.assert_array_equal(records["crc32"], crcs)


@pytest.fixture(scope="module", params=CONFIGS)
def blocks(request):
    element_bytes, sector_bytes = request.param
    shape = {"element_bytes": element_bytes, "sector_bytes": sector_bytes}
    with (
        Pipeline("zvc-compressor", **shape) as compressor,
        Pipeline("zvc-decompressor", **shape) as decompressor,
    ):
        yield Blocks(element_bytes, sector_bytes, compressor, decompressor)


@pytest.fixture
def rng():
    return np.random.default_rng(2018)


def test_every_density(blocks, rng):
    # A last line that is not whole, but for one packet.
    sizes = LINE * LINES_PER_DENSITY - rng.integers(0, LINE, 101)
    sizes[50] = LINE * LINES_PER_DENSITY
    packets = Packets.of(
        sparse(rng, size, blocks.element_bytes, percent / 100) for percent, size in enumerate(sizes)
    )
    batch = blocks.check_both_ways(packets)
    assert batch.packets.sizes[0] == LINES_PER_DENSITY * (LINE // blocks.element_bytes // 8)
    assert batch.packets.sizes[100] >= (LINES_PER_DENSITY - 1) * blocks.dense_line_bytes


def test_every_length_up_to_three_lines(blocks, rng):
    sizes = rng.permutation(np.arange(3 * LINE + 2))
    blocks.check_both_ways(
        Packets.of(sparse(rng, size, blocks.element_bytes, rng.random()) for size in sizes)
    )


def test_odd_values(blocks, rng):
    sizes = [0, 1, blocks.element_bytes, LINE, 5 * LINE + 3, 40 * LINE]
    blocks.check_both_ways(Packets.of(odd(rng, size, blocks.element_bytes) for size in sizes))


def test_megabytes_in_a_stream(blocks, rng):
    """Bits of sizes and places rise that are 0 elsewhere, and fall again in short streams."""
    packets = []
    for density in (0.55, 0.8, 1.0):
        packets += [sparse(rng, (1 << 22) - 1, blocks.element_bytes, density), sparse(rng, 1, 1, 1)]
    blocks.check_both_ways(Packets.of(packets))


@pytest.mark.parametrize("stalls", STALLS, ids=str)
def test_random_stalls(blocks, rng, stalls):
    edges = [0, 0, 1, blocks.element_bytes, blocks.sector_bytes, LINE - 1, LINE, LINE + 1, 2000]
    for seed in range(3):
        sizes = rng.permutation([*edges, *rng.integers(0, 6 * LINE, 20)])
        packets = Packets.of(
            sparse(rng, size, blocks.element_bytes, rng.choice([0, 0.1, 0.5, 0.9, 1]))
            for size in sizes
        )
        blocks.check_both_ways(packets, stalls=stalls, seed=seed)


class TestRate:
    """One sector per cycle when nobody stalls; only growing data may take longer."""

    def test_compressing_data_that_do_not_grow(self, blocks, rng):
        # Every count of non-zero elements in a line with which it does not, in any order.
        most = (LINE - LINE // blocks.element_bytes // 8) // blocks.element_bytes
        counts = rng.integers(0, most + 1, 3000)
        counts[::5] = most
        lines = np.zeros((len(counts), LINE // blocks.element_bytes), f"<u{blocks.element_bytes}")
        lines[np.arange(lines.shape[1]) < counts[:, None]] = 77
        lines = rng.permuted(lines, axis=1)
        record = blocks.compressor.run([lines]).records[0]
        cycles = record["input_last_cycle"] - record["input_first_cycle"] + 1
        assert cycles == lines.nbytes // blocks.sector_bytes

    def test_compressing_packet_after_packet(self, blocks, rng):
        packets = [sparse(rng, 32 * LINE, blocks.element_bytes, 0.3) for _ in range(40)]
        records = blocks.compressor.run(packets).records
        cycles = records["input_last_cycle"][-1] - records["input_first_cycle"][0] + 1
        sectors = 40 * 32 * LINE // blocks.sector_bytes
        # When every sector is a line, the output beat that a packet ends with may cost a cycle.
        assert sectors <= cycles <= sectors + (40 if blocks.sector_bytes == LINE else 0)

    @pytest.mark.parametrize("density", [0.0, 0.05, 0.38, 0.7])
    def test_decompressing(self, blocks, rng, density):
        data = sparse(rng, 3000 * LINE, blocks.element_bytes, density)
        stream = Zvc(blocks.element_bytes).compress(data)
        record = blocks.decompressor.run([stream], [data.size]).records[0]
        cycles = record["output_last_cycle"] - record["output_first_cycle"] + 1
        assert cycles == data.size // blocks.sector_bytes

    def test_dense_data_take_a_stream_beat_per_cycle(self, blocks, rng):
        lines = 2000
        data = rng.integers(1, 256, lines * LINE, np.uint8)
        squeezed = blocks.compressor.run([data])
        record = squeezed.records[0]
        beats = -(-lines * blocks.dense_line_bytes // blocks.sector_bytes)
        assert squeezed.output_beats == beats
        assert record["output_last_cycle"] - record["output_first_cycle"] + 1 == beats
        record = blocks.decompressor.run(squeezed.packets, [data.size]).records[0]
        assert record["input_last_cycle"] - record["input_first_cycle"] + 1 == beats


def test_a_reset_in_the_middle_of_transfers(blocks, rng):
    packets = Packets.of(
        sparse(rng, size, blocks.element_bytes, 0.6) for size in rng.integers(0, 5 * LINE, 12)
    )
    streams = compress(packets, blocks.element_bytes)
    crcs = checksums(packets)
    runs = [
        (blocks.compressor, packets, {}, streams),
        (blocks.decompressor, streams, {"lengths": packets.sizes, "crc32": crcs}, packets),
    ]
    for pipeline, inputs, arguments, outputs in runs:
        cycles = pipeline.run(inputs, **arguments, stalls=0.3, seed=1).cycles
        for reset_at in rng.integers(0, cycles, 40):
            partial = pipeline.run(inputs, **arguments, stalls=0.3, seed=1, reset_at=reset_at)
            finished = len(partial)
            first = Packets(outputs.data, outputs.offsets[: finished + 1])
            self_contained = Packets(outputs.data[: first.offsets[-1]], first.offsets)
            assert_same_packets(partial.packets, self_contained)
            blocks.check(pipeline.run(inputs, **arguments), outputs, inputs.sizes, crcs)


def test_packets_unlike_their_commands(blocks, rng):
    """TLAST early and late, partial beats and holes: the bytes up to there are compressed."""
    count = 4000
    sector = blocks.sector_bytes
    sizes = rng.integers(0, 3 * LINE + 1, count)
    lengths = np.where(rng.random(count) < 0.3, sizes, rng.integers(0, 3 * LINE + 1, count))
    packets = Packets.of(
        sparse(rng, size, blocks.element_bytes, density)
        for size, density in zip(sizes, rng.random(count), strict=True)
    )
    # One beat of every other packet is torn, or ends the packet without tlast.
    chosen = np.flatnonzero(rng.random(count) < 0.5)
    faults, cut = random_faults(rng, chosen, sizes[chosen], sector)
    whole = np.full(count, np.iinfo(np.int64).max)
    whole[chosen] = cut
    taken = np.minimum(np.minimum(sizes, lengths), whole)
    mismatch = (sizes != lengths) | (whole <= sizes)

    for stalls, seed in ((0.0, 0), (0.3, 1), (0.6, 2)):
        batch = blocks.compressor.run(packets, lengths, faults=faults, stalls=stalls, seed=seed)
        prefixes = Packets.of(packets.packet(i)[:n] for i, n in enumerate(taken))
        assert_same_packets(batch.packets, compress(prefixes, blocks.element_bytes))
        records = batch.records
        want = np.where(mismatch, StreamStatus.LENGTH_MISMATCH, StreamStatus.OK)
        np.testing.assert_array_equal(records["status"], want)
        np.testing.assert_array_equal(records["offset"], taken)
        np.testing.assert_array_equal(records["crc32"], checksums(prefixes))
