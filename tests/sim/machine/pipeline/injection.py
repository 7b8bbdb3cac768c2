"""Errors of links and memories in good streams: a few flipped bits, or a burst."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden import StreamStatus
from cdma.sim.machine import Packets
from cdma.sim.machine.pipeline.batch import Batch

MOST_FLIPS = 3
BURST_BITS = 32
"""CRC-32 misses no error of up to three bits in what it is of, nor in so many bits of it."""


def injected(rng: np.random.Generator, packets: Packets) -> Packets:
    """Packets with one to three flipped bits each or, every other one, a burst.

    A burst flips its first and last bit, which are up to `BURST_BITS` apart, and any between. Empty
    packets stay as they are.
    """
    starts, sizes = 8 * packets.offsets[:-1], 8 * packets.sizes
    bits = np.unpackbits(packets.data)
    full = np.flatnonzero(sizes > 0)
    in_bursts = full[rng.random(full.size) < 0.5]
    alone = np.setdiff1d(full, in_bursts)
    for i, count in zip(alone, rng.integers(1, MOST_FLIPS + 1, alone.size), strict=True):
        places = rng.choice(sizes[i], min(int(count), sizes[i]), replace=False)
        bits[starts[i] + places] ^= 1
    lengths = np.minimum(rng.integers(2, BURST_BITS + 1, in_bursts.size), sizes[in_bursts])
    for i, length in zip(in_bursts, lengths, strict=True):
        pattern = rng.integers(0, 2, length, np.uint8)
        pattern[0] = pattern[-1] = 1
        first = starts[i] + rng.integers(0, sizes[i] - length + 1)
        bits[first : first + length] ^= pattern
    return Packets(np.packbits(bits), packets.offsets)


@dataclass(frozen=True)
class Found:
    """The number of errors that were injected, and what came of them.

    Attributes
    ----------
    injected : int
    harmless : int
        All bytes are right, and nothing was told.
    silent : int
        Some byte is wrong, and nothing was told.
    by_checksum : int
        Only the checksum told.
    """

    injected: int
    harmless: int
    silent: int
    by_checksum: int


def found_in(batch: Batch, originals: Packets, damaged: Packets) -> Found:
    """Compare what a decompressor made of damaged streams with what was compressed."""
    status: npt.NDArray[np.int64] = batch.records["status"]
    hit = damaged.sizes > 0
    passed = np.flatnonzero(hit & (status == StreamStatus.OK))
    right = sum(np.array_equal(batch.packet(i), originals.packet(i)) for i in passed)
    return Found(
        injected=int(hit.sum()),
        harmless=right,
        silent=len(passed) - right,
        by_checksum=int((hit & (status == StreamStatus.CRC_MISMATCH)).sum()),
    )
