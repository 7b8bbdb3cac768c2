"""Entries of 128 B of every kind that BPC and ZVC tell apart."""

import numpy as np
import numpy.typing as npt

from tests.golden.formats.data import ODD_FLOATS

KINDS = (
    "zeros",
    "random",
    "sparse floats",
    "odd floats",
    "smooth floats",
    "ramp",
    "small integers",
    "halves",
    "bytes",
    "one word",
    "planes",
)
Entries = npt.NDArray[np.uint8]


def entries_of(kind: str, count: int, seed: int = 0) -> Entries:
    """uint8 (count, 128)."""
    generator = np.random.default_rng([seed, KINDS.index(kind)])
    shape = (count, 32)
    if kind == "zeros":
        words = np.zeros(shape, np.uint32)
    elif kind == "random":
        words = generator.integers(0, 2**32, shape, np.uint32)
    elif kind == "sparse floats":
        words = np.abs(generator.standard_normal(shape, np.float32))
        words[generator.random(shape) < generator.random((count, 1))] = 0
    elif kind == "odd floats":
        words = generator.choice(ODD_FLOATS, shape)
    elif kind == "smooth floats":
        step = 10.0 ** generator.uniform(-5, -1, (count, 1))
        words = np.sin(generator.random((count, 1)) + step * np.arange(32)).astype(np.float32)
    elif kind == "ramp":
        start = generator.integers(-(2**31), 2**31, (count, 1))
        # Ramps that wrap around are among them.
        step = generator.integers(-(2**27), 2**27, (count, 1)) >> generator.integers(
            0, 28, (count, 1)
        )
        words = (start + step * np.arange(32)).astype(np.uint32)
    elif kind == "small integers":
        limit = 1 << generator.integers(0, 31, (count, 1))
        words = generator.integers(-limit, limit, shape).astype(np.int32)
    elif kind == "halves":
        words = generator.standard_normal((count, 64)).astype(np.float16)
    elif kind == "bytes":
        words = generator.integers(0, 256, (count, 128), np.uint8)
        words[generator.random(words.shape) < generator.random((count, 1))] = 0
    elif kind == "one word":
        words = np.zeros(shape, np.uint32)
        words[np.arange(count), generator.integers(0, 32, count)] = generator.integers(
            0, 2**32, count, np.uint32
        )
    else:
        words = _words_of_planes(generator, count)
    return words.view(np.uint8).reshape(count, 128)


def mixed_entries(count: int, seed: int = 0) -> Entries:
    """About `count` entries of all kinds, shuffled; uint8 (n, 128)."""
    each = -(-count // len(KINDS))
    entries = np.concatenate([entries_of(kind, each, seed) for kind in KINDS])
    return np.random.default_rng(seed).permutation(entries)


def all_planes_raw(seed: int = 0) -> Entries:
    """An entry whose code is as long as any: base and all 33 planes as they are; uint8 (1, 128)."""
    return np.random.default_rng(seed).integers(0, 256, (1, 128)).astype(np.uint8)


def _words_of_planes(generator: np.random.Generator, count: int) -> npt.NDArray[np.uint32]:
    """Words whose planes are of all sorts: same, zero, all others, one, two, and any."""
    base_bits = generator.choice([0, 3, 4, 7, 8, 15, 16, 31], (count, 1))
    bases = generator.integers(-(2**base_bits), 2**base_bits) * (base_bits > 0)
    deltas = np.zeros((count, 31), np.int64)
    above = np.zeros(count, np.int64)
    sort = generator.integers(0, 6, (count, 32))
    sort[generator.random(sort.shape) < generator.random((count, 1))] = 0
    for row in range(32):
        place = generator.integers(0, 31, count)
        dbx = np.choose(
            sort[:, row],
            [
                np.zeros(count, np.int64),
                above,
                np.full(count, 2**31 - 1),
                1 << place,
                3 << np.minimum(place, 29),
                generator.integers(0, 2**31, count),
            ],
        )
        above = above ^ dbx
        deltas |= (above[:, None] >> np.arange(31) & 1) << (31 - row)
    return np.cumsum(np.concatenate([bases, deltas], axis=1), axis=1).astype(np.uint32)
