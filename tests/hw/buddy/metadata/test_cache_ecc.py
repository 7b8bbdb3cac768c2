"""Bits that flip in the metadata cache: one is corrected, two are found, nothing hangs."""

import random
from itertools import combinations

import pytest

from cdma.hw.buddy.metadata.line import ROW_WORDS, WORD_BITS, LineShape, TagWord
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.config import METADATA_CACHES
from cdma.hw.lib.codes.ecc import codeword_bits
from tests.hw.buddy.metadata.bench import CacheBench, Clear, Flip, Flush, Lookup, Settle, initial
from tests.hw.buddy.metadata.memory import Behavior

CONFIG = METADATA_CACHES["tiny"]
LINES = CONFIG.sets * CONFIG.ways
BASE = 0x5A_0000_0000
POISON = 15
NIBBLES = WORD_BITS // 4
DATA_BITS = codeword_bits(WORD_BITS)
TAG_BITS = codeword_bits(TagWord(CONFIG).size)
NONE, UNCORRECTABLE = MetadataError.NONE, MetadataError.UNCORRECTABLE
BACK = Flush(write_back=True)


@pytest.fixture(scope="module")
def bench():
    return CacheBench(CONFIG)


def nibble_of(word, place=0):
    """Nibble of a codeword by its number: words of a line, then lines that fill the cache."""
    return 2 * BASE + NIBBLES * word + place


WORDS = range(LINES * ROW_WORDS)
WARM = [Lookup.of(nibble_of(word)) for word in WORDS[::ROW_WORDS]]


def flip_data(*bits):
    """The same bits of every codeword of data."""
    mask = sum(1 << bit for bit in bits)
    row = sum(mask << DATA_BITS * k for k in range(ROW_WORDS))
    return [Flip("store.data", k, row) for k in range(LINES)]


def flip_tags(*bits, rows=range(CONFIG.sets), ways=range(CONFIG.ways)):
    """The same bits of these tags."""
    mask = sum(1 << bit for bit in bits)
    return [
        Flip("tags.array.codewords", row, sum(mask << TAG_BITS * way for way in ways))
        for row in rows
    ]


def test_a_row_s_codewords_are_where_the_flips_are(bench):
    shape = LineShape(CONFIG)
    assert (shape.rows, shape.lines) == (1, LINES)
    assert {len(row) for row in bench.rows("store.data")} == {DATA_BITS * ROW_WORDS}
    assert {len(row) for row in bench.rows("tags.array.codewords")} == {TAG_BITS * CONFIG.ways}


def test_every_flipped_bit_of_data_is_corrected(bench):
    generator = random.Random(1)
    operations = list(WARM)
    for bit in range(DATA_BITS):
        # Reads and writes, of any nibble: whatever flipped in the codeword is repaired with it.
        lookups = [
            Lookup.of(
                nibble_of(word, generator.randrange(NIBBLES)),
                write=generator.random() < 0.5,
                metadata=generator.randrange(16),
            )
            for word in WORDS
        ]
        operations += [*flip_data(bit), *lookups]
    run = bench.run([*operations, Settle(), BACK])
    run.assert_sound()
    run.assert_written_back()
    assert set(run.errors) == {NONE}
    assert run.pulses["corrected"] == DATA_BITS * len(WORDS)
    assert run.pulses["uncorrectable"] == 0
    assert len(run.fetches) == LINES


def test_every_flipped_bit_of_tags_is_corrected(bench):
    operations = list(WARM)
    generator = random.Random(2)
    for bit in range(TAG_BITS):
        lookups = [
            Lookup.of(
                nibble_of(word, generator.randrange(NIBBLES)),
                write=generator.random() < 0.3,
                metadata=generator.randrange(16),
            )
            for word in WORDS[::ROW_WORDS]
        ]
        operations += [*flip_tags(bit), *lookups]
    run = bench.run([*operations, Settle(), BACK])
    run.assert_sound()
    run.assert_written_back()
    assert set(run.errors) == {NONE}
    # A lookup repairs all tags of its set.
    assert run.pulses["corrected"] == TAG_BITS * CONFIG.sets
    assert len(run.fetches) == LINES
    assert not run.lost


@pytest.mark.parametrize("how", ["flush", "evict"])
def test_flipped_bits_are_corrected_on_the_way_to_memory(bench, how):
    writes = [Lookup.of(nibble_of(word, 3), write=True, metadata=word % 16) for word in WORDS]
    others = [Lookup.of(nibble_of(word) + (1 << 20)) for word in WORDS[::ROW_WORDS]]
    operations = []
    for bit in random.Random(3).sample(range(DATA_BITS), 12):
        flips = [*flip_data(bit), *flip_tags(bit % TAG_BITS)]
        operations += [*writes, *flips, *([] if how == "flush" else others), BACK]
    run = bench.run(operations)
    run.assert_sound()
    run.assert_written_back()
    assert run.pulses["corrected"] >= 12 * LINES
    assert run.pulses["uncorrectable"] == 0


def test_two_flipped_bits_of_data_are_told_to_reads(bench):
    pairs = random.Random(4).sample(list(combinations(range(DATA_BITS), 2)), 40)
    operations = list(WARM)
    for pair in pairs:
        reads = [Lookup.of(nibble_of(word, pair[0] % NIBBLES)) for word in WORDS]
        operations += [*flip_data(*pair), *reads, *flip_data(*pair)]
    run = bench.run([*operations, *WARM])
    run.assert_sound()
    assert run.errors == [NONE] * LINES + [UNCORRECTABLE] * len(pairs) * len(WORDS) + [NONE] * LINES
    assert run.pulses["uncorrectable"] == len(pairs) * len(WORDS)
    assert run.pulses["corrected"] == 0
    # All of it is still there, and nothing is lost but what was told.
    assert len(run.fetches) == LINES
    assert not run.lost


@pytest.mark.parametrize("how", ["flush", "evict"])
def test_what_two_flipped_bits_have_spoiled_is_poisoned_in_memory(bench, how):
    # One codeword of each line is damaged, and another nibble of the line is dirty.
    dirty = [
        Lookup.of(nibble_of(word + 1), write=True, metadata=word) for word in WORDS[::ROW_WORDS]
    ]
    damage = [Flip("store.data", row, 0b101 << 2 * DATA_BITS) for row in range(LINES)]
    others = [Lookup.of(nibble_of(word) + (1 << 20)) for word in WORDS[::ROW_WORDS]]
    run = bench.run([*dirty, *damage, *([] if how == "flush" else others), BACK])
    assert set(run.errors) == {NONE}
    assert run.pulses["uncorrectable"] == LINES
    nibbles = run.nibbles()
    for word in WORDS:
        for at in range(nibble_of(word), nibble_of(word + 1)):
            poisoned = word % ROW_WORDS == 2
            expected = POISON if poisoned else nibbles.get(at, initial(at))
            assert run.memory.nibble(at) == expected


def test_a_write_amid_damage_poisons_its_neighbors(bench):
    at = nibble_of(5, 9)
    damage = [Flip("store.data", row, 0b11 << 30 + DATA_BITS) for row in range(LINES)]
    neighbors = [Lookup.of(nibble_of(5, place)) for place in range(NIBBLES)]
    # Back to back with reads of what it leaves behind.
    run = bench.run([*WARM, *damage, Lookup.of(at, write=True, metadata=6), *neighbors, BACK])
    assert set(run.errors) == {NONE}
    assert run.metadata[-NIBBLES:] == [6 if place == 9 else POISON for place in range(NIBBLES)]
    assert run.metadata[LINES] == POISON
    assert run.memory.written == [BASE + 32]
    for place in range(NIBBLES):
        assert run.memory.nibble(nibble_of(5, place)) == (6 if place == 9 else POISON)
    for place in range(NIBBLES):
        assert run.memory.nibble(nibble_of(4, place)) == initial(nibble_of(4, place))
    assert not run.lost


def test_two_flipped_bits_of_a_tag_lose_metadata_until_clear(bench):
    generator = random.Random(5)
    pairs = generator.sample(list(combinations(range(TAG_BITS), 2)), 30)
    operations = []
    for k, pair in enumerate(pairs):
        flips = flip_tags(*pair, rows=[0], ways=[k % 2])
        # Lines go round the sets.
        same_set, other_set = Lookup.of(nibble_of(0)), Lookup.of(nibble_of(ROW_WORDS))
        operations += [*WARM, *flips, same_set, other_set, same_set, Settle(), Clear()]
    run = bench.run(operations)
    expected = [*[NONE] * LINES, UNCORRECTABLE, NONE, UNCORRECTABLE] * len(pairs)
    assert run.errors == expected
    assert run.losses == len(pairs)
    assert not run.lost
    assert len(run.fetches) == LINES * len(pairs)
    sound = [
        (lookup, metadata)
        for lookup, metadata, error in zip(run.lookups, run.metadata, run.errors, strict=True)
        if error is NONE
    ]
    assert all(metadata == initial(lookup.nibble) for lookup, metadata in sound)


@pytest.mark.parametrize("invalidate", [False, True])
def test_a_flush_that_finds_a_spoiled_tag_ends_and_loses(bench, invalidate):
    writes = [Lookup.of(nibble_of(word), write=True, metadata=word) for word in WORDS[::ROW_WORDS]]
    flush = Flush(write_back=True, invalidate=invalidate)
    run = bench.run([*writes, *flip_tags(3, 7, rows=[1], ways=[0]), flush, Settle(), *writes])
    assert run.lost
    assert run.pulses["flushed"] == 1
    # All but the line whose place nobody knows; it is gone with the others if they are dropped.
    assert len(run.memory.written) == LINES - 1
    told = [NONE, NONE if invalidate else UNCORRECTABLE] * 2
    assert run.errors == [*[NONE] * LINES, *told]


def test_damage_amid_traffic_hangs_nothing(bench):
    generator = random.Random(6)
    operations = []
    for _ in range(12):
        operations += [
            Lookup.of(
                nibble_of(generator.randrange(6) * ROW_WORDS, generator.randrange(64)),
                write=generator.random() < 0.5,
                metadata=generator.randrange(16),
            )
            for _ in range(25)
        ]
        for name, rows in (("store.data", LINES), ("tags.array.codewords", CONFIG.sets)):
            width = len(bench.rows(name)[0])
            flips = generator.getrandbits(width) & generator.getrandbits(width)
            operations.append(Flip(name, generator.randrange(rows), flips))
        if generator.random() < 0.4:
            operations.append(Clear())
        if generator.random() < 0.4:
            operations.append(Flush(write_back=True, invalidate=generator.random() < 0.5))
    run = bench.run(operations, Behavior(latency=8, stall=0.2, taker_stall=0.2))
    assert len(run.results) == len(run.lookups) == 300
    assert len(run.flushed) == len(run.flushes)
    # Afterwards it works as before.
    ok = bench.run([*WARM, Settle(), *WARM])
    ok.assert_sound()
