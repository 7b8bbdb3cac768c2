"""The BPC compressor: bits, latency and rate."""

import numpy as np
import pytest

from cdma.golden.formats.bpc.bpc import code_bits, encode_entries
from cdma.hw.codec.bpc.compressor import BpcCompressor
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

LATENCY = {32: 10, 64: 8, 128: 7}


@pytest.fixture(scope="module", params=SECTOR_BYTES)
def bench(request):
    return Bench(BpcCompressor(EntryConfig(sector_bytes=request.param)))


@pytest.fixture
def config(bench):
    return bench.component.config


def codes_of(entries, longest_bits=1024):
    codes = encode_entries(entries).data
    lengths = code_bits(entries)
    return [
        {"data": number(entry if bits > longest_bits else code), "bits": int(bits)}
        for entry, code, bits in zip(entries, codes, lengths, strict=True)
    ]


def compress(bench, entries, *, source=always, sink=always):
    compressor = bench.component
    given = bench.source(compressor.i, sectors_of(compressor.config, entries), willing=source)
    taken = bench.sink(compressor.o, len(entries), willing=sink)
    bench.run()
    taken.assert_received(codes_of(entries, compressor.longest_bits))
    return given, taken


def test_codes_at_every_edge(bench):
    compress(bench, edge_entries())


def test_codes_of_every_kind(bench):
    compress(bench, np.concatenate([entries_of(kind, 6) for kind in KINDS]))


@pytest.mark.verify
def test_codes_of_many_entries(bench):
    compress(bench, np.concatenate([entries_of(kind, 400, 9) for kind in KINDS]))


def test_code_leaves_entry_latency_cycles_after_the_first_sector(bench, config):
    entries = some_entries(11, 1)
    assert bench.component.entry_latency == LATENCY[config.sector_bytes]
    # Each entry alone in the pipeline, then all of them on each other's heels.
    for pace in (lambda cycle: cycle % 16 < config.sectors, always):
        given, taken = compress(bench, entries, source=pace)
        starts = given.cycles[:: config.sectors]
        assert taken.cycles == [start + bench.component.entry_latency for start in starts]


def test_takes_a_sector_per_cycle(bench):
    given, _ = compress(bench, some_entries(22, 2))
    assert_no_bubble(given.cycles)


def test_has_no_bubble_after_the_output_was_blocked(bench):
    blocked = 40
    given, _ = compress(bench, some_entries(22, 3), sink=from_cycle(blocked))
    late = [cycle for cycle in given.cycles if cycle >= blocked]
    assert late[0] == blocked
    assert_no_bubble(late)


def test_keeps_the_pace_of_a_slow_source(bench):
    given, _ = compress(bench, some_entries(11, 4), source=every(3))
    assert all(cycle % 3 == 0 for cycle in given.cycles)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, source, sink):
    compress(bench, some_entries(33, 5), source=stalls(source, 1), sink=stalls(sink, 2))


def test_sink_that_takes_seldom(bench):
    compress(bench, some_entries(11, 6), sink=every(7))


@pytest.mark.parametrize("sector_bytes", SECTOR_BYTES)
def test_codes_beyond_the_longest_of_use_are_the_entry_as_it_is(sector_bytes):
    compressor = BpcCompressor(EntryConfig(sector_bytes=sector_bytes), longest_bits=768)
    compress(Bench(compressor), np.concatenate([edge_entries()[-60:], all_planes_raw()]))


@pytest.mark.parametrize("sector_bytes", SECTOR_BYTES)
def test_reset_while_busy_leaves_nothing_behind(sector_bytes):
    entries = np.concatenate([entries_of("sparse floats", 1), entries_of("ramp", 1)])
    compressor = BpcCompressor(EntryConfig(sector_bytes=sector_bytes))
    reset_while_busy(compressor, entries, codes_of(entries[1:]), range(1, 20, 2))
