"""The entry compressor's bits, classes, latency and rate in every shape."""

import itertools

import numpy as np
import pytest

from cdma.golden import ELEMENT_BYTES
from cdma.golden.buddy.entry import SIZES, EntryCodec
from cdma.hw.codec.entry.compressor import EntryCompressor
from cdma.hw.config import SECTOR_BYTES, EntryConfig
from tests.golden.buddy.entries import KINDS, all_planes_raw, entries_of
from tests.hw.codec.entry.cases import (
    edge_entries,
    number,
    reset_while_busy,
    sectors_of,
    some_entries,
)
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, every, from_cycle, stalls
from tests.lib.shares import configs

CONFIGS = [
    *(
        EntryConfig(sector_bytes=sector_bytes, element_bytes=element_bytes)
        for sector_bytes, element_bytes in itertools.product(SECTOR_BYTES, ELEMENT_BYTES)
    ),
    *(EntryConfig(sector_bytes=sector_bytes, mode="bpc") for sector_bytes in SECTOR_BYTES),
]
QUICK = ("best-of-4-128", "best-of-2-64", "best-of-1-32", "best-of-4-32", "bpc-4-64")
LATENCY = {32: 11, 64: 9, 128: 8}


def config_id(config):
    return f"{config.mode}-{config.element_bytes}-{config.sector_bytes}"


@pytest.fixture(
    scope="module",
    params=configs({config_id(config): config for config in CONFIGS}, quick=QUICK),
)
def bench(request):
    return Bench(EntryCompressor(request.param))


@pytest.fixture
def config(bench):
    return bench.component.config


def kept_of(config, entries):
    metadata, kept = EntryCodec(config.mode, config.element_bytes).encode(entries)
    return [
        {"metadata": int(nibble), "data": number(row)}
        for nibble, row in zip(metadata, kept, strict=True)
    ]


def compress(bench, entries, *, source=always, sink=always):
    config = bench.component.config
    kept = kept_of(config, entries)
    given = bench.source(bench.component.i, sectors_of(config, entries), willing=source)
    taken = bench.sink(bench.component.o, len(entries), willing=sink)
    bench.run()
    taken.assert_received(kept)
    return {entry["metadata"] for entry in kept}, given, taken


def of_zvc_lengths(config):
    """Entries with few to all elements, from the front or scattered, that BPC is poor on.

    All numbers of elements, or every fourth and those that go just beyond a class.
    """
    elements, element_bytes = config.zvc.elements, config.element_bytes
    beyond = {(size - config.zvc.mask_bytes) // element_bytes + 1 for size in SIZES[1:7]}
    counts = {*range(0, elements + 1, elements // 32), *(n for n in beyond if n > 0)}
    generator = np.random.default_rng(11)
    rows = []
    for count in sorted(counts):
        for places in (np.arange(count), generator.permutation(elements)[:count]):
            row = np.zeros(elements, np.int64)
            row[places] = generator.integers(1, 1 << 8 * element_bytes, count)
            rows.append(row)
    return np.stack(rows).astype(f"<u{element_bytes}").view(np.uint8)


def test_keeps_entries_at_every_edge(bench, config):
    metadata, _, _ = compress(bench, edge_entries())
    assert metadata >= set(range(8))


def test_keeps_entries_of_every_kind(bench):
    compress(bench, np.concatenate([entries_of(kind, 5) for kind in KINDS]))


def test_keeps_lines_of_all_lengths(bench, config):
    metadata, _, _ = compress(bench, of_zvc_lengths(config))
    # With elements of a byte, the mask alone has 16 bytes, and few ones are BPC's, too.
    least = {4: 9, 2: 10, 1: 11}[config.element_bytes]
    assert (metadata >= set(range(least, 15))) == (config.mode == "best-of")


@pytest.mark.verify
def test_keeps_many_entries(bench):
    entries = np.concatenate([entries_of(kind, 150, 9) for kind in KINDS])
    entries = np.random.default_rng(9).permutation(entries)
    compress(bench, entries, source=stalls(0.1, 1), sink=stalls(0.1, 2))


def test_is_valid_entry_latency_cycles_after_the_first_sector(bench, config):
    entries = np.concatenate([some_entries(11, 1), np.zeros((2, 128), np.uint8), all_planes_raw()])
    assert bench.component.entry_latency == LATENCY[config.sector_bytes]
    # Each entry alone in the pipeline, then all of them on each other's heels.
    for pace in (lambda cycle: cycle % 16 < config.sectors, always):
        _, given, taken = compress(bench, entries, source=pace)
        starts = given.cycles[:: config.sectors]
        assert taken.cycles == [start + bench.component.entry_latency for start in starts]


def test_takes_a_sector_per_cycle_whatever_entries_follow_each_other(bench):
    _, given, _ = compress(bench, some_entries(33, 2))
    assert_no_bubble(given.cycles)


@pytest.mark.parametrize("kind", ["zeros", "random"])
def test_takes_a_sector_per_cycle_of_the_same_kind(bench, kind):
    _, given, _ = compress(bench, entries_of(kind, 12))
    assert_no_bubble(given.cycles)


def test_has_no_bubble_after_the_output_was_blocked(bench, config):
    blocked = 60
    _, _, taken = compress(bench, some_entries(22, 3), sink=from_cycle(blocked))
    steps = set(np.diff(taken.cycles[-8:]).tolist())
    assert steps == {config.sectors}


@pytest.mark.parametrize(("source", "sink"), STALLS[1:])
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, source, sink):
    compress(bench, some_entries(22, 5), source=stalls(source, 1), sink=stalls(sink, 2))


def test_sink_that_takes_seldom(bench):
    compress(bench, some_entries(11, 6), sink=every(7))


@pytest.mark.parametrize("sector_bytes", SECTOR_BYTES)
def test_reset_while_busy_leaves_nothing_behind(sector_bytes):
    entries = np.concatenate([entries_of("random", 1), entries_of("sparse floats", 1)])
    compressor = EntryCompressor(EntryConfig(sector_bytes=sector_bytes))
    kept = kept_of(compressor.config, entries[1:])
    reset_while_busy(compressor, entries, kept, range(1, 20, 2))
