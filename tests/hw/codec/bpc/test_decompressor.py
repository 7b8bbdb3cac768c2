"""Decompression of BPC codes: bits, verdicts, latency and rate, whatever the codes are like."""

import pytest

from cdma.golden.formats.bpc.decoder import decode_entries
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.decompressor import BpcDecompressor
from cdma.hw.codec.entry.payloads import CODE_BYTES
from cdma.hw.config import SECTOR_BYTES, EntryConfig
from tests.golden.buddy.entries import KINDS, all_planes_raw, entries_of, mixed_entries
from tests.hw.codec.bpc.code_cases import damaged, encoded, hand_made, noise_behind, truncations
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, every, from_cycle, stalls
from tests.lib.rtl.resets import assert_reset_leaves_nothing


@pytest.fixture(scope="module", params=SECTOR_BYTES)
def bench(request):
    return Bench(BpcDecompressor(EntryConfig(sector_bytes=request.param)))


def codes_of(rows, sizes):
    return [
        {"data": int.from_bytes(row[:CODE_BYTES].tobytes(), "little"), "size": int(size)}
        for row, size in zip(rows, sizes, strict=True)
    ]


def sectors_of(config, decoded):
    return [
        {
            "data": int.from_bytes(sector.tobytes(), "little"),
            "status": int(decoded.status[index]),
            "offset": int(decoded.offset[index]),
            "bits": int(decoded.bits[index]),
        }
        for index, entry in enumerate(decoded.data)
        for sector in entry.reshape(config.sectors, config.sector_bytes)
    ]


def decompress(bench, rows, sizes, *, source=always, sink=always):
    """Checks what comes out; gives the verdicts and the cycles."""
    decoded = decode_entries(rows, sizes)
    sectors = sectors_of(bench.component.config, decoded)
    given = bench.source(bench.component.i, codes_of(rows, sizes), willing=source)
    taken = bench.sink(bench.component.o, len(sectors), willing=sink)
    bench.run()
    taken.assert_received(sectors)
    return decoded, given, taken


@pytest.mark.parametrize("kind", KINDS)
def test_restores_entries_of_all_kinds(bench, kind):
    rows, sizes = encoded(entries_of(kind, 8))
    _, _, taken = decompress(bench, rows, sizes)
    assert_no_bubble(taken.cycles)


def test_latency_is_eleven_cycles_whatever_the_code(bench):
    decoded, given, taken = decompress(bench, *damaged(22), source=every(15))
    assert bench.component.entry_latency == 11  # Buddy Compression, §3.5
    sectors = bench.component.config.sectors
    assert taken.cycles[::sectors] == [cycle + 11 for cycle in given.cycles]
    assert len(set(decoded.status)) == 3


def test_has_no_bubble_and_takes_an_entry_per_sectors_cycles(bench):
    _, given, taken = decompress(bench, *damaged(40, seed=2))
    assert_no_bubble(taken.cycles)
    sectors = bench.component.config.sectors
    assert given.cycles == list(range(0, sectors * len(given.cycles), sectors))


def test_has_no_bubble_after_the_output_was_blocked(bench):
    _, _, taken = decompress(bench, *damaged(30, seed=3), sink=from_cycle(60))
    assert taken.cycles == list(range(60, 60 + len(taken.cycles)))


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, source, sink):
    rows, sizes = damaged(30, seed=4)
    decompress(bench, rows, sizes, source=stalls(source, 1), sink=stalls(sink, 2))


def test_finds_what_the_table_does_not_have(bench):
    decoded, _, _ = decompress(bench, *hand_made())
    assert set(decoded.status) == {
        StreamStatus.OK,
        StreamStatus.BAD_TOKEN,
        StreamStatus.NONZERO_FILL,
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_finds_where_codes_end_too_soon(bench, seed):
    entry = all_planes_raw() if seed else entries_of("smooth floats", 1, seed=1)
    rows, sizes = truncations(entry)
    decompress(bench, noise_behind(rows, sizes), sizes)


def test_does_not_look_behind_what_there_is(bench):
    rows, sizes = encoded(mixed_entries(30, seed=5))
    decoded = decode_entries(rows, sizes)
    noisy, _, _ = decompress(bench, noise_behind(rows, sizes), sizes)
    assert (noisy.data == decoded.data).all()


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_model_on_many_codes(bench, seed):
    rows, sizes = damaged(2000, seed=100 + seed)
    decoded, _, _ = decompress(bench, rows, sizes, source=stalls(0.1, 1), sink=stalls(0.1, 2))
    assert len(set(decoded.status)) == 4


@pytest.mark.parametrize("sector_bytes", SECTOR_BYTES)
def test_reset_while_busy_leaves_nothing_behind(sector_bytes):
    config = EntryConfig(sector_bytes=sector_bytes)
    rows, sizes = encoded(entries_of("ramp", 2))
    before, after = codes_of(rows, sizes)
    sectors = sectors_of(config, decode_entries(rows[1:], sizes[1:]))
    expected = [sector["data"] for sector in sectors]
    component = BpcDecompressor(config)
    assert_reset_leaves_nothing(component, before, after, expected, cycles=range(1, 16))
