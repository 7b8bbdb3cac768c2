"""The codecs of entries of three codes: bits, statuses, latency and rate in every width."""

import itertools

import numpy as np
import pytest
from amaranth.hdl import Cat, Value
from amaranth.lib import data

from cdma.golden import StreamStatus
from cdma.golden.buddy.entry import AS_IT_IS, XC_METADATA, EntryCodec
from cdma.golden.buddy.xc_entry import KIND, KIND_BYTE, encode, fits
from cdma.hw.codec.entry.best_of_three import entry_compressor, entry_decompressor
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.config import SECTOR_BYTES, EntryConfig
from tests.golden.buddy.entries import all_planes_raw, entries_of, mixed_entries
from tests.golden.buddy.xc_entries import CENTRE, ODD, PATTERN, bf16_entries, entry_of, xc
from tests.hw.codec.entry.cases import edge_entries, number, sectors_of
from tests.lib.rtl.bench import (
    STALLS,
    Bench,
    FlatPort,
    always,
    assert_no_bubble,
    every,
    from_cycle,
    stalls,
)
from tests.lib.rtl.resets import assert_reset_leaves_nothing

CONFIGS = {
    f"{element_bytes}-{sector_bytes}": EntryConfig(
        mode="best-of-three", sector_bytes=sector_bytes, element_bytes=element_bytes
    )
    for sector_bytes, element_bytes in zip(SECTOR_BYTES, (4, 2, 1), strict=True)
}
PAGES = np.array([xc(), 0, xc(127, 0), xc(125, 2), 3 << 8, xc(124, 3), xc(1, 0), xc(255, 3)])
"""Parameters of pages: usual ones, none, and those that fit nothing."""
LATENCY = {32: 11, 64: 9, 128: 8}


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS)
def compressor(request):
    return Bench(entry_compressor(request.param))


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS)
def decompressor(request):
    return Bench(entry_decompressor(request.param))


def codec_of(config):
    return EntryCodec(config.mode, config.element_bytes)


def with_parameters(component):
    """The input stream with the parameters beside it, as one."""
    layout = data.StructLayout(
        {"payload": component.i.payload.shape(), "parameters": Parameters().size}
    )
    wires = Cat(Value.cast(component.i.payload), Value.cast(component.parameters))
    return FlatPort(component.i.valid, component.i.ready, data.View(layout, wires))


def pages_of(count, seed=0):
    """Parameters for so many entries, half of them usual ones."""
    generator = np.random.default_rng([seed, count])
    usual = generator.random(count) < 0.5
    return np.where(usual, xc(), generator.choice(PAGES, count))


def compress(bench, entries, parameters, *, source=always, sink=always):
    """Checks what is kept; gives its metadata and the cycles."""
    config = bench.component.config
    metadata, kept = codec_of(config).encode(entries, parameters)
    given = bench.source(
        with_parameters(bench.component),
        [
            {"payload": sector, "parameters": int(page)}
            for sector, page in zip(
                sectors_of(config, entries), np.repeat(parameters, config.sectors), strict=True
            )
        ],
        willing=source,
    )
    taken = bench.sink(bench.component.o, len(entries), willing=sink)
    bench.run()
    taken.assert_received(
        [
            {"metadata": int(nibble), "data": number(row)}
            for nibble, row in zip(metadata, kept, strict=True)
        ]
    )
    return metadata, given, taken


def restore(bench, metadata, kept, parameters, *, source=always, sink=always):
    """Checks what comes out; gives the statuses of entries of XC and the cycles."""
    config = bench.component.config
    restored = codec_of(config).decode(metadata, kept, parameters)
    given = bench.source(
        with_parameters(bench.component),
        [
            {"payload": {"metadata": int(nibble), "data": number(row)}, "parameters": int(page)}
            for nibble, row, page in zip(metadata, kept, parameters, strict=True)
        ],
        willing=source,
    )
    taken = bench.sink(bench.component.o, len(metadata) * config.sectors, willing=sink)
    bench.run()
    taken.assert_received(
        [
            {"data": number(sector), "status": int(status), "offset": int(offset)}
            for entry, status, offset in zip(
                restored.data, restored.status, restored.offset, strict=True
            )
            for sector in entry.reshape(config.sectors, config.sector_bytes)
        ]
    )
    of_xc = (metadata == XC_METADATA) & (parameters % 256 != 0)
    return {StreamStatus(int(status)) for status in restored.status[of_xc]}, given, taken


def odd_entries(count=6):
    """Entries of the data that they are for, with NaNs, infinities, denormals and −0.0."""
    generator = np.random.default_rng(1)
    words = CENTRE << 7 | generator.integers(0, 128, (count, 64))
    words |= generator.integers(0, 2, words.shape) << 15
    # All of them in a dense entry; in a sparse one, half are as many as fit.
    for sparse, row in enumerate(words):
        odd = generator.permutation(ODD)[: 4 if sparse % 2 else 8]
        places = generator.permutation(64)
        row[places[: odd.size]] = odd
        row[places[odd.size :][: 3 * (sparse % 2)]] = 0
    return np.concatenate([entry_of(row.tolist()) for row in words])


def at_the_limit():
    """Dense entries whose fields take 759 to 769 bits, with and without escapes."""
    generator = np.random.default_rng(3)
    rows = []
    for bits, escapes in itertools.product(range(110, 131, 2), (0, 1, 2)):
        exponents = [CENTRE - 100] * escapes
        exponents += [CENTRE - 4] * (bits // 4 - 3 * escapes)
        exponents += [CENTRE - 2] * (bits % 4 // 2)
        exponents += [CENTRE] * (64 - len(exponents))
        rest = generator.integers(1, 256, 64)
        words = (rest & 128) << 8 | np.array(exponents) << 7 | rest & 127
        rows.append(entry_of(generator.permutation(words).tolist()))
    return np.concatenate(rows)


def sparse_to_dense():
    """Entries of all numbers of elements."""
    generator = np.random.default_rng(4)
    entries = bf16_entries(65, seed=4, spread=0.2).view("<u2").copy()
    for kept, row in enumerate(entries):
        row[row == 0] = CENTRE << 7
        row[generator.permutation(64)[kept:]] = 0
    return entries.view(np.uint8)


def every_edge():
    return np.concatenate(
        [
            np.zeros((1, 128), np.uint8),
            np.full((1, 128), 255, np.uint8),
            odd_entries(),
            at_the_limit(),
            sparse_to_dense(),
        ]
    )


def some_entries(count, seed):
    """Entries of the kinds that each code is for."""
    entries = np.concatenate(
        [bf16_entries(2 * count // 3, seed), mixed_entries(count // 3, seed), all_planes_raw(seed)]
    )
    return np.random.default_rng(seed).permutation(entries)


def of_xc(entries, parameters):
    """Those of the entries that fit with the parameters, as XC keeps them, and all of them so."""
    parameters = np.broadcast_to(parameters, len(entries))
    chosen = fits(entries, parameters)
    kept = encode(entries[chosen], parameters[chosen])
    return np.full(len(kept), XC_METADATA, np.uint8), kept, parameters[chosen]


def damaged(config, count, seed=0):
    """Kept entries and their pages: as they are, or with a bit or their metadata changed."""
    generator = np.random.default_rng(seed)
    entries = some_entries(count, seed)
    parameters = pages_of(len(entries), seed)
    metadata, kept = codec_of(config).encode(entries, parameters)
    damage = np.arange(len(kept)) % 4
    bits = generator.integers(0, 768, len(kept))
    # Half of the changed bits are late ones: extras, escapes, fill and the kind.
    bits = np.where(generator.integers(0, 2, bits.size), bits, generator.integers(640, 768))
    flip = np.flatnonzero(damage == 1)
    kept[flip, bits[flip] // 8] ^= (1 << bits[flip] % 8).astype(np.uint8)
    metadata[damage == 2] = generator.integers(0, 16, (damage == 2).sum())
    noise = np.flatnonzero(damage == 2)[::2]
    kept[noise] = generator.integers(0, 256, (noise.size, 128))
    # What is behind an entry of XC is not looked at.
    kept[metadata == XC_METADATA, 96:] = 0xA5
    return metadata, kept, parameters


def sparse_row(mask, rest=0):
    """A sparse entry of elements of class 0 under this mask."""
    kept = mask.bit_count()
    row = mask.to_bytes(8, "little") + bytes(-(-kept // 4)) + bytes([rest]) * kept
    return row.ljust(KIND_BYTE, b"\0") + bytes([KIND])


REFUSED = (
    sparse_row(0),
    sparse_row(2**64 - 1),
    # 63 classes have two bits of padding.
    sparse_row(2**63 - 1)[:23] + b"\x40" + sparse_row(2**63 - 1)[24:],
    # All of class 3: 32 B of extras.
    b"\xff" * 16 + bytes(80),
    b"\xff" * 96,
    # The first of two escapes has a code.
    b"\x0f" + bytes(79) + b"\xff\x7e\x02" + bytes(13),
    # An escape of 0 with a rest of 0.
    b"\x03" + bytes(79) + b"\x0f\x00" + bytes(14),
    # Extras that are not filled up with zeros.
    b"\x02" + bytes(79) + b"\x10" + bytes(15),
)
FILLED = {
    # Behind the last escape; behind entries without extras; in front of the kind; before others.
    b"\x0f" + bytes(79) + b"\xff\x01\x02\x01" + bytes(12): 83,
    bytes(80) + b"\x01" + bytes(15): 80,
    bytes(95) + b"\x40": 95,
    bytes(90) + b"\x80" + bytes(4) + b"\x7f": 90,
}


@pytest.mark.parametrize("parameters", [0, xc(), xc(125, 3)], ids=["no centre", "usual", "wide"])
def test_keeps_entries_at_every_edge(compressor, parameters):
    entries = every_edge()
    metadata, _, _ = compress(compressor, entries, np.full(len(entries), parameters))
    assert (XC_METADATA in metadata) == (parameters != 0)
    assert {0, AS_IT_IS} <= set(metadata.tolist())


def test_keeps_entries_that_the_other_codes_are_for(compressor):
    entries = edge_entries()
    metadata, _, _ = compress(compressor, entries, np.full(len(entries), xc()))
    assert set(metadata.tolist()) >= set(range(8))


def test_keeps_entries_of_pages_of_several_parameters(compressor):
    entries = some_entries(90, 1)
    metadata, given, _ = compress(compressor, entries, pages_of(len(entries)))
    assert 15 < (metadata == XC_METADATA).sum() < 80
    assert_no_bubble(given.cycles)


def test_is_valid_entry_latency_cycles_after_the_first_sector(compressor):
    component = compressor.component
    entries = np.concatenate([some_entries(12, 2), np.zeros((2, 128), np.uint8), odd_entries(2)])
    assert component.entry_latency == LATENCY[component.config.sector_bytes]
    # Each entry alone in the pipeline, then all of them on each other's heels.
    for pace in (lambda cycle: cycle % 16 < component.config.sectors, always):
        _, given, taken = compress(compressor, entries, pages_of(len(entries)), source=pace)
        starts = given.cycles[:: component.config.sectors]
        assert taken.cycles == [start + component.entry_latency for start in starts]


def test_compressor_has_no_bubble_after_the_output_was_blocked(compressor):
    entries = some_entries(24, 3)
    _, _, taken = compress(compressor, entries, pages_of(len(entries)), sink=from_cycle(60))
    assert set(np.diff(taken.cycles[-8:]).tolist()) == {compressor.component.config.sectors}


@pytest.mark.parametrize(("source", "sink"), STALLS[1:])
def test_compressor_under_stalls(compressor, source, sink):
    entries = some_entries(24, 5)
    compress(
        compressor,
        entries,
        pages_of(len(entries)),
        source=stalls(source, 1),
        sink=stalls(sink, 2),
    )


def test_restores_entries_at_every_edge(decompressor):
    entries = every_edge()
    parts = [of_xc(entries, page) for page in (xc(), xc(125, 3), xc(127, 0))]
    statuses, _, taken = restore(decompressor, *map(np.concatenate, zip(*parts, strict=True)))
    assert statuses == {StreamStatus.OK}
    assert_no_bubble(taken.cycles)


def test_refuses_what_no_compressor_writes(decompressor):
    rows = [*REFUSED, *FILLED, sparse_row(2**63 - 1), bytes(96)]
    kept = np.zeros((len(rows), 128), np.uint8)
    kept[:, :96] = [list(row) for row in rows]
    metadata = np.full(len(rows), XC_METADATA, np.uint8)
    parameters = np.full(len(rows), xc())
    found = codec_of(decompressor.component.config).decode(metadata, kept, parameters)
    assert found.status[: len(REFUSED)].tolist() == [StreamStatus.BAD_TOKEN] * len(REFUSED)
    filled = slice(len(REFUSED), len(REFUSED) + len(FILLED))
    assert found.status[filled].tolist() == [StreamStatus.NONZERO_FILL] * len(FILLED)
    assert found.offset[filled].tolist() == list(FILLED.values())
    restore(decompressor, metadata, kept, parameters)


def test_refuses_xc_on_pages_without_a_centre(decompressor):
    metadata, kept, _ = of_xc(odd_entries(4), xc())
    assert len(kept) == 4
    for page in (0, 3 << 8):
        restored = codec_of(decompressor.component.config).decode(metadata, kept, page)
        assert restored.status.tolist() == [StreamStatus.BAD_TOKEN] * len(kept)
        restore(decompressor, metadata, kept, np.full(len(kept), page))


def test_equals_the_model_on_damaged_entries(decompressor):
    statuses, _, taken = restore(decompressor, *damaged(decompressor.component.config, 150, 1))
    assert statuses == {StreamStatus.OK, StreamStatus.BAD_TOKEN, StreamStatus.NONZERO_FILL}
    assert_no_bubble(taken.cycles)


def test_latency_is_eleven_cycles_whatever_is_kept(decompressor):
    component = decompressor.component
    entries = damaged(component.config, 24, seed=2)
    _, given, taken = restore(decompressor, *entries, source=every(15))
    assert component.entry_latency == 11  # Buddy Compression, §3.5
    assert taken.cycles[:: component.config.sectors] == [cycle + 11 for cycle in given.cycles]


def test_takes_an_entry_per_sectors_cycles(decompressor):
    sectors = decompressor.component.config.sectors
    _, given, _ = restore(decompressor, *damaged(decompressor.component.config, 30, seed=3))
    assert given.cycles == list(range(0, sectors * len(given.cycles), sectors))


def test_decompressor_has_no_bubble_after_the_output_was_blocked(decompressor):
    entries = damaged(decompressor.component.config, 40, seed=4)
    _, _, taken = restore(decompressor, *entries, sink=from_cycle(60))
    assert taken.cycles == list(range(60, 60 + len(taken.cycles)))


@pytest.mark.parametrize(("source", "sink"), STALLS[1:])
def test_decompressor_under_stalls(decompressor, source, sink):
    restore(
        decompressor,
        *damaged(decompressor.component.config, 30, seed=5),
        source=stalls(source, 1),
        sink=stalls(sink, 2),
    )


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(4))
def test_many_entries(compressor, seed):
    entries = some_entries(1200, 100 + seed)
    pages = pages_of(len(entries), seed)
    compress(compressor, entries, pages, source=stalls(0.1, 1), sink=stalls(0.1, 2))


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(4))
def test_many_damaged_entries(decompressor, seed):
    entries = damaged(decompressor.component.config, 1200, 100 + seed)
    restore(decompressor, *entries, source=stalls(0.1, 1), sink=stalls(0.1, 2))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_reset_while_restoring_leaves_nothing_behind(config):
    entries = np.concatenate([odd_entries(1), entries_of("ramp", 1)])
    metadata, kept = codec_of(config).encode(entries, xc())
    assert metadata[0] == XC_METADATA
    before, after = (
        {"metadata": int(nibble), "data": number(row)}
        for nibble, row in zip(metadata, kept, strict=True)
    )
    expected = [number(row) for row in entries[1].reshape(-1, config.sector_bytes)]
    assert_reset_leaves_nothing(
        entry_decompressor(config),
        before,
        after,
        expected,
        cycles=range(1, 16, 2),
        held={"parameters": {"centre": CENTRE, "pattern": PATTERN}},
    )
