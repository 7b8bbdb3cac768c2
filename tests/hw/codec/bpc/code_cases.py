"""BPC codes that are whole, and codes that are damaged in every way, as rows and sizes."""

import numpy as np

from cdma.golden.formats.bpc.bpc import encode_entries
from cdma.hw.codec.entry.payloads import CODE_BYTES
from tests.golden.buddy.entries import all_planes_raw, mixed_entries
from tests.golden.formats.bpc import slow_bpc

ONES = "00000"
ZERO_PLANE = "00001"


def two(place):
    return f"00010{place:05b}"


def one(place):
    return f"00011{place:05b}"


def raw(dbx):
    return f"1{dbx:031b}"


def run(planes):
    return slow_bpc.code_of_run(planes)


def ones(planes):
    """As many planes of codes that may follow each other."""
    return "".join(one(place) for place in range(planes))


HAND_MADE = (
    # Bases that are longer than they need to be.
    "0010000",
    *(f"010{base:08b}" for base in (0, 7, 0xF8)),
    *(f"011{base:016b}" for base in (0, 127, 0xFF80)),
    *(f"1{base:032b}" for base in (0, 32767, 2**32 - 32768)),
    # Runs that go beyond plane 0, or on from another run; in each code of a step.
    *("000" + ones(n) + run(34 - n) for n in range(1, 6)),
    *("000" + ones(n) + run(2) + run(1) for n in range(5)),
    "000" + run(32) + run(2),
    "000" + run(32) + run(1),
    "000" + ONES + run(31) + run(1),
    "000" + ONES + run(32) + run(1),
    # Places that there are not.
    *("000" + code for code in (two(30), two(31), one(31))),
    # Longer codes than there are for this plane.
    *("000" + raw(dbx) for dbx in (0, 2**31 - 1, 1 << 30, 1, 3, 3 << 29)),
    "000" + raw(5) + raw(5),
    "000" + ONES + ONES,
    "000" + one(4) + one(4),
    "000" + two(4) + two(4),
    # A plane of zeros under a plane of zeros.
    "000" + ZERO_PLANE,
    "000" + ONES + ZERO_PLANE + ZERO_PLANE,
    "000" + run(4) + ZERO_PLANE,
    # Planes that no words have, alone and with bits behind the code.
    "000" + one(3) + ZERO_PLANE + run(31),
    "000" + one(3) + ZERO_PLANE + run(31) + "1",
    # Bits behind the code, up to the next byte.
    *("000" + run(33) + "0" * place + "1" for place in range(6)),
    # Codes that are right.
    "000" + run(33),
    "000" + ONES + run(32),
    "001" + "0001" + run(32) + ONES,
    *(f"010{base:08b}" + run(33) for base in (8, 0xF7)),
    *(f"011{base:016b}" + run(33) for base in (128, 0xFF7F)),
    *(f"1{base:032b}" + run(33) for base in (32768, 2**32 - 32769)),
)
"""Bit strings, most of them with a code that is wrong; zeros are behind them."""


def hand_made():
    """Rows, uint8 (n, 128), and sizes, with zeros behind the codes for planes that they lack."""
    rows = np.zeros((len(HAND_MADE), 128), np.uint8)
    sizes = np.empty(len(HAND_MADE), np.int64)
    for index, code in enumerate(HAND_MADE):
        data = slow_bpc.to_bytes(code)
        rows[index, : len(data)] = np.frombuffer(data, np.uint8)
        # Of every other one, no more than its bytes are there.
        sizes[index] = len(data) + 8 * (index % 2)
    return rows, sizes


def encoded(entries):
    """The codes of entries, the raw ones of them as if they were codes, as far as the decoder takes
    them."""
    codes = encode_entries(entries)
    return codes.data, np.minimum(-(-codes.bits // 8), CODE_BYTES)


def damaged(count, seed=0):
    """About `count` codes: with a bit flipped, cut off, both, noise, and as they are."""
    generator = np.random.default_rng(seed)
    rows, sizes = encoded(np.concatenate([mixed_entries(count, seed), all_planes_raw(seed)]))
    damage = np.arange(len(rows)) % 5
    flip = np.flatnonzero((damage == 0) | (damage == 2))
    bits = generator.integers(0, 8 * sizes[flip])
    rows[flip, bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    cut = np.flatnonzero((damage == 1) | (damage == 2))
    sizes[cut] = generator.integers(0, sizes[cut] + 1)
    noise = np.flatnonzero(damage == 3)
    rows[noise] = generator.integers(0, 256, (noise.size, 128))
    rows[noise, 0] &= 0x1F
    sizes[noise] = generator.integers(0, CODE_BYTES + 1, noise.size)
    return rows, sizes


def truncations(entry):
    """The code of one entry, cut off behind each of its bytes."""
    row, size = encoded(entry)
    sizes = np.arange(size[0] + 1)
    return np.repeat(row, sizes.size, axis=0), sizes


def noise_behind(rows, sizes, seed=0):
    """The same codes with anything behind what there is of them."""
    noise = np.random.default_rng(seed).integers(0, 256, rows.shape, np.uint8)
    return np.where(np.arange(128) < sizes[:, None], rows, noise)
