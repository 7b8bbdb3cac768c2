"""The metadata cache: what lookups give, when, and what memory holds in the end."""

import random

import pytest

from cdma.hw.buddy.metadata.cache import MetadataCache
from cdma.hw.buddy.metadata.line import LineShape
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.bus.burst import BusError
from cdma.hw.config import METADATA_CACHES, MetadataCacheConfig
from cdma.hw.emit.netlist import to_verilog
from tests.hw.buddy.metadata.bench import CacheBench, Clear, Flush, Lookup, Settle, initial
from tests.hw.buddy.metadata.memory import Behavior
from tests.hw.emit.test_verilog import LINT_WAIVERS, lint
from tests.lib.rtl.bench import assert_no_bubble
from tests.lib.shares import names

CONFIGS = {
    "tiny": METADATA_CACHES["tiny"],
    "split": MetadataCacheConfig(capacity_bytes=1024, slices=2, ways=4, line_bytes=64, misses=3),
    "direct": MetadataCacheConfig(capacity_bytes=128, slices=1, ways=1, line_bytes=128, misses=1),
    "wide": MetadataCacheConfig(capacity_bytes=512, slices=2, ways=8, misses=5),
}
BASE = 0xA5_5000_0000
"""High bits of addresses count."""
BEHAVIORS = {
    "fast": Behavior(),
    "slow": Behavior(latency=30),
    "stalls": Behavior(stall=0.4, taker_stall=0.3, idle=0.2, latency=12),
    "late takers": Behavior(taker_stall=0.8, latency=4),
}
BACK = Flush(write_back=True)


@pytest.fixture(scope="module")
def benches():
    """Benches by configuration, made when they are needed."""
    made = {}

    def bench_of(name):
        if name not in made:
            made[name] = CacheBench(CONFIGS.get(name) or METADATA_CACHES[name])
        return made[name]

    return bench_of


@pytest.fixture
def tiny(benches):
    return benches("tiny")


def line_addresses(config, count, first=BASE):
    """Lines of the same set of the same slice."""
    step = config.line_bytes * config.slices * config.sets
    return [first + step * k for k in range(count)]


def random_lookups(config, count, seed, *, lines=None):
    """In some more lines than the cache holds, spread over a few tags; half of them near the one
    before."""
    generator = random.Random(seed)
    held = config.slices * config.sets * config.ways
    lines = lines or held + held // 2 + 1
    # A part of the lines are far away, so that the tag's high bits tell them apart.
    far = [generator.choice((0, 0, 1 << 34)) for _ in range(lines)]
    at = 0
    for _ in range(count):
        if generator.random() < 0.5:
            at = generator.randrange(lines)
        nibble = 2 * (BASE ^ far[at]) + 2 * config.line_bytes * at
        # Few places, so that what was written is read.
        nibble += generator.choice((0, 1, 2, 15, 16, 2 * config.line_bytes - 1))
        yield Lookup.of(nibble, write=generator.random() < 0.5, metadata=generator.randrange(16))


@pytest.mark.parametrize("behavior", BEHAVIORS)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("tiny", 200),
        ("split", 120),
        *(
            pytest.param(name, count, marks=pytest.mark.verify)
            for name, count in (
                *(("direct", 80), ("wide", 60)),
                *((name, 1000) for name in ("tiny", "split", "direct", "wide")),
            )
        ),
    ],
)
def test_results_and_memory_are_those_of_a_reference(benches, name, count, behavior):
    bench = benches(name)
    lookups = random_lookups(bench.config, count, len(behavior))
    run = bench.run([*lookups, BACK], BEHAVIORS[behavior], seed=count)
    run.assert_sound()
    run.assert_written_back()
    assert set(run.errors) == {MetadataError.NONE}
    assert run.pulses["hit"] + run.pulses["miss"] == count
    assert run.pulses["miss"] == len(run.fetches)
    assert not run.lost


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("slice", 150),
        pytest.param("paper_3_2", 800, marks=pytest.mark.verify),
        pytest.param("paper_table2", 400, marks=pytest.mark.verify),
    ],
)
def test_presets_are_sound_too(benches, name, count):
    bench = benches(name)
    lookups = random_lookups(bench.config, count, 1, lines=count // 5)
    run = bench.run([*lookups, BACK], Behavior(latency=20, stall=0.2))
    run.assert_sound()
    run.assert_written_back()
    assert run.pulses["miss"] == len(run.fetches) > 20


@pytest.mark.parametrize("name", ["tiny", "split"])
def test_hits_take_constant_time_whatever_they_are(benches, name):
    bench = benches(name)
    lines = line_addresses(bench.config, 1) + line_addresses(
        bench.config, 1, BASE + bench.config.line_bytes
    )
    generator = random.Random(7)
    # Reads and writes of one nibble, of its neighbors and of other lines, back to back.
    lookups = [
        Lookup(
            generator.choice(lines) + generator.choice((0, 0, 0, 1, 8, 31)),
            upper=generator.random() < 0.3,
            write=generator.random() < 0.6,
            metadata=generator.randrange(16),
        )
        for _ in range(200)
    ]
    warm = [Lookup(line) for line in lines]
    run = bench.run([*warm, Settle(), *lookups, BACK])
    run.assert_sound()
    run.assert_written_back()
    asked, results, hints = (
        cycles[len(warm) :] for cycles in (run.asked, run.result_cycles, run.hint_cycles)
    )
    assert_no_bubble(asked)
    latency = MetadataCache.hit_latency
    assert [end - start for start, end in zip(asked, results, strict=True)] == [latency] * 200
    assert [end - start for start, end in zip(asked, hints, strict=True)] == [4] * 200
    assert MetadataCache.hint_latency == 4
    assert set(run.hints[len(warm) :]) == {0}
    assert len(run.fetches) == 2


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_hints_come_early_and_tell_what_waits_for_memory(tiny, behavior):
    lookups = list(random_lookups(tiny.config, 120, 3))
    does = BEHAVIORS[behavior]
    run = tiny.run(lookups, does)
    delays = [hint - asked for asked, hint in zip(run.asked, run.hint_cycles, strict=True)]
    if not does.taker_stall:
        assert set(delays) == {MetadataCache.hint_latency}
    fetches = iter(run.fetches)
    # A lookup of a line that is not there waits; one that waits for nothing comes soon.
    held = set()
    for lookup, hint in zip(run.lookups, run.hints, strict=True):
        line = lookup.address // 32
        if line not in held:
            assert hint
            assert next(fetches).address == line * 32 or does.stall
        held.add(line)
    if not does.taker_stall:
        backlog = LineShape(tiny.config).tasks + 2 * MetadataCache.hit_latency
        waits = [end - start for start, end in zip(run.asked, run.result_cycles, strict=True)]
        assert all(hint or cycles < backlog for hint, cycles in zip(run.hints, waits, strict=True))


def test_lines_are_fetched_while_others_are(benches):
    for name in ("tiny", "wide"):
        bench = benches(name)
        step = bench.config.line_bytes * bench.config.slices
        lookups = [Lookup(BASE + step * k) for k in range(bench.config.misses)]
        run = bench.run(lookups, Behavior(latency=80))
        run.assert_sound()
        assert run.memory.most_reads == bench.config.misses
        assert_no_bubble([fetch.asked for fetch in run.fetches])


def test_misses_behind_hits_behind_a_miss_are_fetched_at_once(tiny):
    one, two, three = (BASE + 32 * k for k in range(3))
    lookups = [Lookup(one), Lookup(two), Lookup(one + 1), Lookup(one + 2), Lookup(three)]
    run = tiny.run([Lookup(one), Settle(), *lookups], Behavior(latency=50))
    run.assert_sound()
    assert [fetch.address for fetch in run.fetches] == [one, two, three]
    assert run.fetches[2].asked == run.fetches[1].asked + 3
    # The hits come right behind the miss that they had to wait for.
    assert_no_bubble(run.result_cycles[2:5])


def test_a_line_that_is_coming_is_not_fetched_again(tiny):
    lookups = [Lookup(BASE + k % 32, write=k % 3 == 0, metadata=k % 16) for k in range(20)]
    run = tiny.run([*lookups, BACK], Behavior(latency=50))
    run.assert_sound()
    run.assert_written_back()
    assert len(run.fetches) == run.pulses["miss"] == 1
    assert run.hints[:8] == [1] * 8


def test_a_set_all_of_whose_lines_are_coming_gives_them_way(tiny):
    lines = line_addresses(tiny.config, 6)
    lookups = [Lookup(line, write=True, metadata=k % 16) for k, line in enumerate(lines * 3)]
    run = tiny.run([*lookups, BACK], Behavior(latency=30))
    run.assert_sound()
    run.assert_written_back()
    assert len(run.fetches) == 18
    assert run.pulses["evicted"] == 16


def test_a_line_is_fetched_only_when_its_write_back_is_answered(tiny):
    one, two, three = line_addresses(tiny.config, 3)
    lookups = [Lookup(one, write=True, metadata=initial(2 * one) ^ 5), Lookup(two), Lookup(three)]
    run = tiny.run([*lookups, Lookup(one)], Behavior(latency=40))
    run.assert_sound()
    assert run.memory.written == [one]
    assert [fetch.address for fetch in run.fetches] == [one, two, three, one]


def test_what_was_used_last_stays(benches):
    bench = benches("split")
    lines = line_addresses(bench.config, 6)
    # A tree of pseudo-LRU bits: after a, b, c, d, a the victim is c; then the other half's b.
    asked = [*lines[:4], lines[0], lines[4], lines[0], lines[1], lines[3], lines[4], lines[2]]
    run = bench.run([Lookup(line) for line in asked])
    run.assert_sound()
    assert [fetch.address for fetch in run.fetches] == [*lines[:5], lines[2]]
    # Ways without a line are taken first.
    assert run.pulses["evicted"] == 2


ERRORS = {
    BusError.SLVERR: MetadataError.READ,
    BusError.DECERR: MetadataError.READ,
    BusError.FRAMING: MetadataError.READ,
    BusError.TIMEOUT: MetadataError.TIMEOUT,
}


@pytest.mark.parametrize("name", ["tiny", "split"])
@pytest.mark.parametrize("error", ERRORS)
def test_a_failed_fetch_is_everybody_s_who_waits_for_it(benches, name, error):
    bench = benches(name)
    one, two = line_addresses(bench.config, 2)
    waiting = [
        Lookup(one, write=True, metadata=1),
        Lookup(one),
        Lookup(two, write=True, metadata=2),
        Lookup(one + 20, upper=True),
    ]
    later = [Lookup(one), Lookup(two), Lookup(one)]
    last_beat = bench.config.line_bytes // 32 - 1
    behavior = Behavior(
        latency=20, read_error=lambda number: error if number == last_beat else BusError.NONE
    )
    run = bench.run([*waiting, Settle(), *later, BACK], behavior)
    run.assert_sound()
    run.assert_written_back()
    failed, fine = ERRORS[error], MetadataError.NONE
    assert run.errors == [failed, failed, fine, failed, fine, fine, fine]
    assert [fetch.address for fetch in run.fetches] == [one, two, one]
    assert run.memory.written == [two]
    assert not run.lost


def test_the_first_error_of_a_line_is_the_line_s(benches):
    bench = benches("split")
    for errors in ([BusError.TIMEOUT, BusError.SLVERR], [BusError.DECERR, BusError.TIMEOUT]):
        behavior = Behavior(read_error=[*errors, *[BusError.NONE] * 2].__getitem__)
        run = bench.run([Lookup(BASE), Settle(), Lookup(BASE)], behavior)
        assert run.errors == [ERRORS[errors[0]], MetadataError.NONE]


@pytest.mark.parametrize(
    ("name", "count", "seed"),
    [
        ("tiny", 300, 0),
        ("split", 150, 1),
        *(pytest.param("tiny", 1000, k, marks=pytest.mark.verify) for k in range(4)),
        *(pytest.param("split", 600, k, marks=pytest.mark.verify) for k in range(4)),
    ],
)
def test_failed_fetches_at_random_leave_everything_sound(benches, name, count, seed):
    bench = benches(name)
    generator = random.Random(seed)
    errors = [generator.choice([*ERRORS, *[BusError.NONE] * 12]) for _ in range(4 * count)]
    behavior = Behavior(latency=15, stall=0.2, taker_stall=0.1, read_error=errors.__getitem__)
    flushes = [Flush(write_back=True, invalidate=bool(k % 2)) for k in range(4)]
    operations = list(random_lookups(bench.config, count, seed))
    for k, flush in enumerate(flushes):
        operations.insert((k + 1) * count // 4, flush)
    run = bench.run(operations, behavior, seed=seed)
    run.assert_sound()
    run.assert_written_back()
    size = bench.config.line_bytes
    failed = {
        (fetch.address, ERRORS[fetch.error])
        for fetch in run.fetches
        if fetch.error is not BusError.NONE
    }
    told = {
        (lookup.address // size * size, error)
        for lookup, error in zip(run.lookups, run.errors, strict=True)
        if error is not MetadataError.NONE
    }
    assert told == failed
    assert len(failed) > 3
    assert not run.lost


def test_what_memory_does_not_take_is_lost(tiny):
    one, two, three = line_addresses(tiny.config, 3)
    for error in ERRORS:
        behavior = Behavior(write_error=lambda number, error=error: [error, BusError.NONE][number])
        evicts = [Lookup(one, write=True, metadata=1), Lookup(two), Lookup(three)]
        run = tiny.run([*evicts, Settle(), Lookup(two), Lookup(three)], behavior)
        assert (run.lost, run.losses) == (True, 1)
        assert run.errors == [MetadataError.NONE] * 5
        again = [Lookup(two, write=True, metadata=3), Lookup(one), Lookup(three), BACK]
        run = tiny.run([*evicts, Settle(), Clear(), *again], behavior)
        assert (run.lost, run.losses) == (False, 1)
        # All lines were dropped.
        assert len(run.fetches) == 6
        assert run.metadata[4] == initial(2 * one)


def test_clear_drops_all_lines(benches):
    for name in ("tiny", "split"):
        bench = benches(name)
        lines = [BASE + bench.config.line_bytes * k for k in range(4)]
        writes = [Lookup(line, write=True, metadata=initial(2 * line) ^ 15) for line in lines]
        reads = [Lookup(line) for line in lines]
        run = bench.run([*writes, Clear(), *reads, BACK], Behavior(latency=10))
        assert run.metadata == [initial(2 * line) for line in lines * 2]
        assert len(run.fetches) == 8
        assert run.memory.written == []


def test_flush_writes_back_what_is_dirty_and_keeps_it(tiny):
    lines = [BASE + 32 * k for k in range(4)]
    lookups = [Lookup(line, write=k % 2 == 0, metadata=k) for k, line in enumerate(lines)]
    reads = [Lookup(line) for line in lines]
    run = tiny.run([*lookups, BACK, *reads, BACK], Behavior(latency=10))
    run.assert_sound()
    run.assert_written_back()
    assert sorted(run.memory.written) == [lines[0], lines[2]]
    assert len(run.fetches) == 4
    assert run.pulses["flushed"] == 2


def test_flush_may_drop_lines_with_and_without_writing_them(tiny):
    lines = [BASE + 32 * k for k in range(4)]
    writes = [Lookup(line, write=True, metadata=initial(2 * line) ^ 9) for line in lines]
    reads = [Lookup(line) for line in lines]
    run = tiny.run([*writes, Flush(write_back=True, invalidate=True), *reads])
    run.assert_sound()
    run.assert_written_back()
    assert len(run.fetches) == 8
    run = tiny.run([*writes, Flush(invalidate=True), *reads, BACK])
    assert run.metadata == [initial(2 * line) for line in lines * 2]
    assert run.memory.written == []
    run = tiny.run([*writes, Flush(), *reads])
    run.assert_sound()
    assert len(run.fetches) == 4
    assert run.memory.written == []
    assert run.pulses["flushed"] == 1


@pytest.mark.parametrize(("name", "count"), [("tiny", 250), ("split", 100)])
def test_flushes_amid_lookups_are_in_order(benches, name, count):
    bench = benches(name)
    generator = random.Random(count)
    operations = []
    for lookup in random_lookups(bench.config, count, 9):
        operations.append(lookup)
        if generator.random() < 0.06:
            operations.append(Flush(write_back=True, invalidate=generator.random() < 0.4))
    run = bench.run([*operations, BACK], Behavior(latency=10, stall=0.2), seed=1)
    run.assert_sound()
    run.assert_written_back()
    assert len(run.flushed) > 3


@pytest.mark.parametrize("name", names(("tiny", "split", "direct", "slice"), quick=["tiny"]))
def test_verilog_is_clean(name, tmp_path):
    config = CONFIGS.get(name) or METADATA_CACHES[name]
    modules = to_verilog(MetadataCache(config), "metadata_cache", assertions=False)
    waivers = "\n".join(f"/* verilator lint_off {rule} */" for rule in LINT_WAIVERS)
    lint("metadata_cache", "\n".join([waivers, *(m.text for m in modules), ""]), tmp_path)
    # However many slices, ways and words there are, they are alike.
    names = [module.name for module in modules]
    assert names.count("metadata_cache_slice") == 1
    # Memories are called after their sizes.
    others = [name for name in names if "_ram_" not in name]
    assert not [name for name in others if name[-1].isdigit()]
