"""The entry decompressor's data, check results, latency and rate in every shape."""

import itertools

import numpy as np
import pytest

from cdma.golden import ELEMENT_BYTES, StreamStatus
from cdma.golden.buddy.entry import EntryCodec, sizes_of
from cdma.hw.codec.entry.decompressor import EntryDecompressor
from cdma.hw.config import SECTOR_BYTES, EntryConfig
from tests.golden.buddy.entries import KINDS, all_planes_raw, entries_of, mixed_entries
from tests.hw.codec.bpc.code_cases import noise_behind
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, every, from_cycle, stalls
from tests.lib.rtl.resets import assert_reset_leaves_nothing
from tests.lib.shares import configs

CONFIGS = [
    *(
        EntryConfig(sector_bytes=sector_bytes, element_bytes=element_bytes)
        for sector_bytes, element_bytes in itertools.product(SECTOR_BYTES, ELEMENT_BYTES)
    ),
    *(EntryConfig(sector_bytes=sector_bytes, mode="bpc") for sector_bytes in SECTOR_BYTES),
]
QUICK = ("best-of-4-128", "best-of-2-64", "best-of-1-32", "bpc-4-32")


def config_id(config):
    return f"{config.mode}-{config.element_bytes}-{config.sector_bytes}"


@pytest.fixture(
    scope="module",
    params=configs({config_id(config): config for config in CONFIGS}, quick=QUICK),
)
def bench(request):
    return Bench(EntryDecompressor(request.param))


@pytest.fixture
def config(bench):
    return bench.component.config


def codec_of(config):
    return EntryCodec(config.mode, config.element_bytes)


def kept_of(metadata, kept):
    return [
        {"metadata": int(number), "data": int.from_bytes(row.tobytes(), "little")}
        for number, row in zip(metadata, kept, strict=True)
    ]


def sectors_of(config, metadata, kept):
    restored = codec_of(config).decode(metadata, kept)
    return [
        {
            "data": int.from_bytes(sector.tobytes(), "little"),
            "status": int(restored.status[index]),
            "offset": int(restored.offset[index]),
        }
        for index, entry in enumerate(restored.data)
        for sector in entry.reshape(config.sectors, config.sector_bytes)
    ]


def restore(bench, metadata, kept, *, source=always, sink=always):
    """Checks what comes out; gives the statuses of entries and the cycles."""
    config = bench.component.config
    sectors = sectors_of(config, metadata, kept)
    given = bench.source(bench.component.i, kept_of(metadata, kept), willing=source)
    taken = bench.sink(bench.component.o, len(sectors), willing=sink)
    bench.run()
    taken.assert_received(sectors)
    return {StreamStatus(sector["status"]) for sector in sectors}, given, taken


def damaged(config, count, seed=0):
    """About `count` kept entries: as they are, with a bit or the metadata changed, and noise."""
    generator = np.random.default_rng(seed)
    metadata, kept = codec_of(config).encode(mixed_entries(count, seed))
    damage = np.arange(len(kept)) % 6
    bits = generator.integers(0, 8 * np.maximum(sizes_of(metadata), 1))
    # Half of the changed bits are early ones: masks, and the first codes.
    bits = np.where(generator.integers(0, 2, bits.size), bits, bits % 40)
    flip = np.flatnonzero((damage == 0) | (damage == 1))
    kept[flip, bits[flip] // 8] ^= (1 << bits[flip] % 8).astype(np.uint8)
    # A class that is too large, one that is too small, the other codec.
    changed = (damage == 1) | (damage == 2)
    metadata[changed] = generator.integers(0, 16, changed.sum())
    noise = damage == 3
    metadata[noise] = generator.integers(0, 16, noise.sum())
    kept[noise] = generator.integers(0, 256, (noise.sum(), 128))
    # Elements that are zero, under masks that announce them.
    zeros = (damage == 4) & (metadata > 8)
    kept[zeros, config.zvc.mask_bytes :] *= generator.integers(
        0, 2, (zeros.sum(), 128 - config.zvc.mask_bytes), np.uint8
    )
    behind = generator.integers(0, 2, len(kept)).astype(bool)
    kept[behind] = noise_behind(kept[behind], sizes_of(metadata[behind]), seed)
    return metadata, kept


def extremes(config):
    """Entries that are full, empty, and in each class, of either codec."""
    mask_bytes, element_bytes = config.zvc.mask_bytes, config.zvc.element_bytes
    dense = np.full(128, 0xFF, np.uint8)
    rows = [np.concatenate([entries_of("zeros", 1), all_planes_raw(), dense[None]])]
    for elements in range(0, config.zvc.elements + 1, 3):
        row = np.zeros((1, 128), np.uint8)
        row[:, : elements * element_bytes] = np.arange(elements * element_bytes) * 37 % 255 + 1
        rows.append(row)
    metadata, kept = codec_of(config).encode(np.concatenate(rows))
    # Every metadata, with zeros, ones, and codes that fill and exceed each class.
    full = np.full(128, 0x5A, np.uint8)
    full[:mask_bytes] = 0xFF
    numbers = np.repeat(np.arange(16, dtype=np.uint8), 3)
    others = np.tile(np.stack([np.zeros(128, np.uint8), dense, full]), (16, 1))
    return np.concatenate([metadata, numbers]), np.concatenate([kept, others])


def test_equals_the_model_on_entries_of_all_kinds(bench, config):
    entries = np.concatenate([entries_of(kind, 3) for kind in KINDS])
    metadata, kept = codec_of(config).encode(entries)
    statuses, _, taken = restore(bench, metadata, noise_behind(kept, sizes_of(metadata)))
    assert statuses == {StreamStatus.OK}
    assert_no_bubble(taken.cycles)


def test_equals_the_model_on_damaged_entries(bench, config):
    statuses, _, taken = restore(bench, *damaged(config, 70, seed=1))
    assert statuses >= {
        StreamStatus.OK,
        StreamStatus.PAYLOAD_TRUNCATED,
        StreamStatus.BAD_TOKEN,
        StreamStatus.NONZERO_FILL,
        StreamStatus.LENGTH_MISMATCH,
    }
    assert (StreamStatus.ZERO_ELEMENT in statuses) == (config.mode == "best-of")
    assert_no_bubble(taken.cycles)


def test_equals_the_model_on_empty_and_full_entries(bench, config):
    statuses, _, _ = restore(bench, *extremes(config))
    assert (StreamStatus.MASK_TRUNCATED in statuses) == (config.zvc.mask_bytes > 8)


def test_latency_is_eleven_cycles_whatever_is_kept(bench, config):
    _, given, taken = restore(bench, *damaged(config, 11, seed=2), source=every(15))
    assert bench.component.entry_latency == 11  # Buddy Compression, §3.5
    assert taken.cycles[:: config.sectors] == [cycle + 11 for cycle in given.cycles]


def test_takes_an_entry_per_sectors_cycles(bench, config):
    _, given, _ = restore(bench, *damaged(config, 20, seed=3))
    assert given.cycles == list(range(0, config.sectors * len(given.cycles), config.sectors))


def test_has_no_bubble_after_the_output_was_blocked(bench, config):
    _, _, taken = restore(bench, *damaged(config, 30, seed=4), sink=from_cycle(60))
    assert taken.cycles == list(range(60, 60 + len(taken.cycles)))


@pytest.mark.parametrize(("source", "sink"), STALLS[1:])
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, config, source, sink):
    metadata, kept = damaged(config, 20, seed=5)
    restore(bench, metadata, kept, source=stalls(source, 1), sink=stalls(sink, 2))


@pytest.mark.verify
def test_equals_the_model_on_many_damaged_entries(bench, config):
    metadata, kept = damaged(config, 1500, seed=100)
    restore(bench, metadata, kept, source=stalls(0.1, 1), sink=stalls(0.1, 2))


@pytest.mark.parametrize("sector_bytes", SECTOR_BYTES)
def test_reset_while_busy_leaves_nothing_behind(sector_bytes):
    config = EntryConfig(sector_bytes=sector_bytes)
    metadata, kept = codec_of(config).encode(
        np.concatenate([entries_of("sparse floats", 1), entries_of("ramp", 1)])
    )
    before, after = kept_of(metadata, kept)
    expected = [sector["data"] for sector in sectors_of(config, metadata[1:], kept[1:])]
    component = EntryDecompressor(config)
    assert_reset_leaves_nothing(component, before, after, expected, cycles=range(1, 16, 2))
