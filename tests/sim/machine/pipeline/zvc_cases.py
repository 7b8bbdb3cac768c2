"""Transfers for the ZVC blocks by the hundred thousand, made with whole-array numpy."""

import zlib
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.zvc import Zvc
from cdma.sim.machine import FAULT, Packets
from tests.lib.shares import configs

CONFIGS = configs(
    {
        f"{element}B-elements-{sector}B-sectors": (element, sector)
        for element in (4, 2, 1)
        for sector in (32, 64, 128)
    },
    quick=["4B-elements-32B-sectors"],
)
"""Element and sector bytes of every shipped shape."""

# Odd to floating point, and data like any other to ZVC: zeros of both signs, the least and largest
# denormals and normals, infinities, quiet and signaling NaNs; 2 bytes of both kinds.
ODD_VALUES = {
    4: "00000000 80000000 00000001 80000001 007fffff 00800000 7f7fffff 7f800000 ff800000 7fc00000 "
    "7f800001 ffffffff",
    2: "0000 8000 0001 03ff 0400 7bff 7c00 fc00 7e00 7c01 007f 0080 7f80 ff80 7fc0 ffff",
    1: "00 80 01 07 08 7e 7f 78 f8 ff",
}

Generator = np.random.Generator


def elements(
    rng: Generator, count: int, element_bytes: int, density: float | npt.NDArray[np.float64]
) -> npt.NDArray[np.unsignedinteger]:
    """`count` elements, zero but for a share of `density`; half of those have a single bit set."""
    bits = 8 * element_bytes
    values = rng.integers(1, 2**bits, count, np.uint64)
    single = np.uint64(1) << rng.integers(0, bits, count, np.uint64)
    values = np.where(rng.random(count) < 0.5, values, single)
    values[rng.random(count) >= density] = 0
    return values.astype(f"<u{element_bytes}")


def sparse(rng: Generator, nbytes: int, element_bytes: int, density: float) -> ByteArray:
    """uint8 (nbytes,), zero but for a share of `density` of its elements."""
    count = -(-nbytes // element_bytes)
    return elements(rng, count, element_bytes, density).view(np.uint8)[:nbytes]


def odd(rng: Generator, nbytes: int, element_bytes: int) -> ByteArray:
    """uint8 (nbytes,) of `ODD_VALUES`."""
    count = -(-nbytes // element_bytes)
    patterns = [int(pattern, 16) for pattern in ODD_VALUES[element_bytes].split()]
    values = np.array(patterns, f"<u{element_bytes}")
    return rng.choice(values, count).view(np.uint8)[:nbytes]


def compress(packets: Packets, element_bytes: int) -> Packets:
    """The expected stream of each packet."""
    codec = Zvc(element_bytes)
    count = len(packets.offsets) - 1
    return Packets.of(codec.compress(packets.packet(i)) for i in range(count))


def checksums(packets: Packets) -> npt.NDArray[np.uint32]:
    """The CRC-32 of each packet."""
    bounds = packets.offsets.tolist()
    data = memoryview(np.ascontiguousarray(packets.data))
    return np.array([zlib.crc32(data[a:b]) for a, b in pairwise(bounds)], np.uint32)


def random_faults(
    rng: Generator, transfers: IntArray, sizes: IntArray, sector_bytes: int
) -> tuple[npt.NDArray[np.void], IntArray]:
    """A random fault in each of these packets, and how many bytes precede what it breaks.

    The second is more than the packet's size if the fault breaks no rule.
    """
    count = len(transfers)
    beats = np.maximum(1, -(-sizes // sector_bytes))
    beat = rng.integers(0, beats)
    # A run of lanes, with or without a hole.
    lanes = np.arange(sector_bytes) < rng.integers(0, sector_bytes + 1, count)[:, None]
    hole = rng.integers(0, sector_bytes, count)
    holed = np.flatnonzero(rng.random(count) < 0.5)
    lanes[holed, hole[holed]] = False
    null_end = rng.random(count) < 0.2

    rest = sizes - beat * sector_bytes
    sent = lanes & (np.cumsum(lanes, axis=1) <= rest[:, None])
    run = np.cumprod(sent, axis=1).sum(axis=1)
    last = (sent.sum(axis=1) == rest) & ~null_end
    malformed = (sent.sum(axis=1) > run) | (~last & (run < sector_bytes))
    faults = np.zeros(count, FAULT)
    faults["transfer"], faults["beat"], faults["null_end"] = transfers, beat, null_end
    bits = np.zeros((count, 128), bool)
    bits[:, :sector_bytes] = lanes
    faults["keep"] = np.packbits(bits, axis=1, bitorder="little").view("<u8")
    return faults, np.where(malformed, beat * sector_bytes + run, sizes + 1)


def assert_same_packets(got: Packets, want: Packets) -> None:
    """Fails with the first packet that differs, and where."""
    if np.array_equal(got.offsets, want.offsets) and np.array_equal(got.data, want.data):
        return
    assert len(got.offsets) == len(want.offsets), "another number of packets"
    for index in range(len(want.offsets) - 1):
        have, right = got.packet(index), want.packet(index)
        common = min(have.size, right.size)
        differs = np.flatnonzero(have[:common] != right[:common])
        at = int(differs[0]) if differs.size else common
        assert np.array_equal(have, right), (
            f"packet {index} of {have.size} instead of {right.size} bytes differs at byte {at}: "
            f"{have[at : at + 16].tobytes().hex(' ')} instead of "
            f"{right[at : at + 16].tobytes().hex(' ')}"
        )
