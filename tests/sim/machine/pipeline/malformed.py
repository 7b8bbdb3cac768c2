"""Streams that no compressor wrote, by the hundred thousand, and what must be answered to them."""

from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np
import numpy.typing as npt
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.zvc import DecodedMany, Zvc, decode_many
from cdma.sim.machine import Packets, Pipeline
from tests.sim.machine.pipeline.zvc_cases import checksums, elements

LINE = 128
NEVER = np.iinfo(np.int64).max


class Corruption(IntEnum):
    NONE = 0
    CUT = auto()
    FLIPPED_BITS = auto()
    BURST = auto()
    NOISE = auto()
    LONGER = auto()
    OTHER_LENGTH = auto()
    ZEROED_ELEMENT = auto()
    OTHER_CRC = auto()


@dataclass
class Streams:
    """Streams with commands; `damage` tells what was done to them."""

    packets: Packets
    lengths: IntArray
    crcs: npt.NDArray[np.uint32]
    check_crc: npt.NDArray[np.bool_]
    damage: IntArray

    def __len__(self) -> int:
        return len(self.lengths)


def running_sum(counts: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)])


def addresses(starts: IntArray, counts: IntArray) -> IntArray:
    """`counts[i]` addresses from each `starts[i]` on."""
    return np.arange(counts.sum()) + np.repeat(starts - running_sum(counts)[:-1], counts)


def good_streams(
    rng: np.random.Generator, count: int, element_bytes: int, fewest_lines: int = 0
) -> Streams:
    """Streams of up to three lines, a few of up to forty, of all densities and lengths.

    Those of up to three lines have at least `fewest_lines`.
    """
    lines = np.where(
        rng.random(count) < 0.01, rng.integers(0, 41, count), rng.integers(fewest_lines, 4, count)
    )
    first = running_sum(lines)
    lengths = lines * LINE
    partial = (rng.random(count) < 0.5) & (lines > 0)
    lengths[partial] -= rng.integers(0, LINE, partial.sum())
    line_elements = LINE // element_bytes
    density = np.repeat(rng.random(count), lines * line_elements)
    data = elements(rng, len(density), element_bytes, density).view(np.uint8)
    # Streams hold whole lines, filled with zeros.
    data[addresses(first[:-1] * LINE + lengths, lines * LINE - lengths)] = 0
    codec = Zvc(element_bytes)
    line_offsets = running_sum(codec.line_sizes(data))
    packets = Packets(codec.compress(data), line_offsets[first])
    kept = data[addresses(first[:-1] * LINE, lengths)]
    return Streams(
        packets,
        lengths,
        checksums(Packets(kept, running_sum(lengths))),
        np.ones(count, np.bool_),
        np.zeros(count, np.int64),
    )


def damaged_streams(
    rng: np.random.Generator, count: int, element_bytes: int, *, few_good: bool = False
) -> Streams:
    """Streams, about as many of each kind of damage and good ones, in random order.

    With `few_good`, every fiftieth is good, and few have no line, which most kinds leave as it is.
    """
    good = good_streams(rng, count, element_bytes, fewest_lines=int(few_good))
    damage = rng.integers(int(few_good), len(Corruption), count)
    if few_good:
        damage[::50] = Corruption.NONE
    sizes = good.packets.sizes
    changed = sizes.copy()
    chosen = {kind: np.flatnonzero(damage == kind) for kind in Corruption}

    cut = chosen[Corruption.CUT]
    changed[cut] = rng.integers(0, np.maximum(sizes[cut], 1))
    changed[chosen[Corruption.NOISE]] = rng.integers(0, 400, len(chosen[Corruption.NOISE]))
    longer = chosen[Corruption.LONGER]
    changed[longer] += rng.integers(1, 300, len(longer))
    offsets = running_sum(changed)
    # Noise of every density, so that its masks announce many elements or few.
    data = rng.integers(0, 256, offsets[-1], np.uint8)
    data[rng.random(len(data)) < np.repeat(rng.random(count), changed)] = 0
    kept = np.where(damage == Corruption.NOISE, 0, np.minimum(sizes, changed))
    data[addresses(offsets[:-1], kept)] = good.packets.data[
        addresses(good.packets.offsets[:-1], kept)
    ]

    # One bit in all of them, a second one in every other, a third one in every third.
    for step in (1, 2, 3):
        flipped = chosen[Corruption.FLIPPED_BITS][::step]
        flipped = flipped[changed[flipped] > 0]
        at = offsets[flipped] + rng.integers(0, changed[flipped])
        np.bitwise_xor.at(data, at, np.uint8(1) << rng.integers(0, 8, len(at), np.uint8))
    burst = chosen[Corruption.BURST]
    burst = burst[changed[burst] > 0]
    start = rng.integers(0, changed[burst])
    length = np.minimum(rng.integers(2, 9, len(burst)), changed[burst] - start)
    at = addresses(offsets[burst] + start, length)
    data[at] ^= rng.integers(1, 256, len(at), np.uint8)
    zero_an_element(rng, data, offsets, chosen[Corruption.ZEROED_ELEMENT], element_bytes)

    lengths = good.lengths.copy()
    other = chosen[Corruption.OTHER_LENGTH]
    near = np.maximum(0, lengths[other] + rng.integers(-2 * LINE, 2 * LINE, len(other)))
    far = rng.integers(0, 2**32, len(other))
    far[::3] = 2**32 - 1 - rng.integers(0, 2 * LINE, len(far[::3]))
    lengths[other] = np.where(rng.random(len(other)) < 0.9, near, far)
    crcs = good.crcs.copy()
    wrong = chosen[Corruption.OTHER_CRC]
    crcs[wrong] ^= np.uint32(1) << rng.integers(0, 32, len(wrong), np.uint32)
    check_crc = rng.random(count) < 0.9
    return Streams(Packets(data, offsets), lengths, crcs, check_crc, damage)


def zero_an_element(
    rng: np.random.Generator,
    data: ByteArray,
    offsets: IntArray,
    chosen: IntArray,
    element_bytes: int,
) -> None:
    """Zero an element of the first line of each stream that has one."""
    mask_bytes = LINE // element_bytes // 8
    chosen = chosen[np.diff(offsets)[chosen] > mask_bytes]
    masks = data[offsets[chosen][:, None] + np.arange(mask_bytes)]
    counts = np.bitwise_count(masks).sum(axis=1, dtype=np.int64)
    chosen, counts = chosen[counts > 0], counts[counts > 0]
    starts = offsets[chosen] + mask_bytes + element_bytes * rng.integers(0, counts)
    data[addresses(starts, np.full(len(starts), element_bytes))] = 0


@dataclass
class Answers:
    """The expected results of streams."""

    status: IntArray
    offset: IntArray
    output: Packets
    crcs: npt.NDArray[np.uint32]


def golden_answers(streams: Streams, element_bytes: int, cut: IntArray) -> Answers:
    """As the golden decoder sees them; `cut` bytes of each come before its framing is broken."""
    sizes = streams.packets.sizes
    truncated = cut <= sizes
    seen = np.minimum(sizes, cut)
    whole = streams.packets
    data = whole.data[addresses(whole.offsets[:-1], seen)] if truncated.any() else whole.data
    decoded: DecodedMany = decode_many(
        data, running_sum(seen), streams.lengths, element_bytes, streams.crcs
    )
    status = decoded.status.astype(np.int64)
    offset = decoded.offset.copy()
    unchecked = (status == StreamStatus.CRC_MISMATCH) & ~streams.check_crc
    status[unchecked] = StreamStatus.OK
    # What is missing or could not be judged is so because the framing broke.
    vague = [
        StreamStatus.OK,
        StreamStatus.CRC_MISMATCH,
        StreamStatus.MASK_TRUNCATED,
        StreamStatus.PAYLOAD_TRUNCATED,
    ]
    broken = truncated & np.isin(status, vague)
    status[broken] = StreamStatus.LENGTH_MISMATCH
    offset[broken] = cut[broken]
    fine = status == StreamStatus.OK
    offset[fine] = sizes[fine]
    output = Packets(decoded.data, decoded.data_offsets)
    return Answers(status, offset, output, checksums(output))


def assert_answered(batch, answers: Answers, streams: Streams) -> None:
    """Compare status, offset, size, checksum and every byte; fail with the first stream's."""
    records = batch.records
    same = (
        (records["status"] == answers.status)
        & (records["offset"] == answers.offset)
        & (records["out_size"] == answers.output.sizes)
        & (records["crc32"] == answers.crcs)
    )
    if not (same.all() and np.array_equal(batch.output, answers.output.data)):
        index = next(
            i
            for i in range(len(streams))
            if not same[i] or not np.array_equal(batch.packet(i), answers.output.packet(i))
        )
        got = records[index]
        pytest.fail(
            f"stream {index}, {Corruption(streams.damage[index]).name}, for "
            f"{streams.lengths[index]} bytes: {streams.packets.packet(index).tobytes().hex()}\n"
            f"got {StreamStatus(got['status']).name} at {got['offset']}, crc {got['crc32']:08x}: "
            f"{batch.packet(index).tobytes().hex()}\n"
            f"not {StreamStatus(answers.status[index]).name} at {answers.offset[index]}, "
            f"crc {answers.crcs[index]:08x}: {answers.output.packet(index).tobytes().hex()}"
        )


def check_damaged_streams(
    pipeline: Pipeline,
    element_bytes: int,
    seed: list[int],
    count: int,
    stalls: float,
    *,
    few_good: bool = False,
) -> int:
    """Run that many streams, most of them damaged, and compare every answer with golden's.

    Returns the number of malformed ones, whose status is not OK.
    """
    streams = damaged_streams(np.random.default_rng(seed), count, element_bytes, few_good=few_good)
    answers = golden_answers(streams, element_bytes, np.full(count, NEVER))
    # All there is to find is there to be found.
    assert set(np.unique(answers.status)) == {
        StreamStatus.OK,
        StreamStatus.MASK_TRUNCATED,
        StreamStatus.PAYLOAD_TRUNCATED,
        StreamStatus.TRAILING_BYTES,
        StreamStatus.ZERO_ELEMENT,
        StreamStatus.NONZERO_FILL,
        StreamStatus.CRC_MISMATCH,
    }
    batch = pipeline.run(
        streams.packets,
        streams.lengths,
        crc32=streams.crcs,
        check_crc=streams.check_crc,
        stalls=stalls,
        seed=1,
    )
    assert_answered(batch, answers, streams)
    return int((answers.status != StreamStatus.OK).sum())
