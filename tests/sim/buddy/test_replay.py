"""Traces on compressed memory: how they are made, what is to come of them, and what does."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.golden.buddy.address_map import PageFields, Target
from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.config import EntryConfig, buddy_preset
from cdma.plan.buddy.page_parameters import page_parameters
from cdma.plan.buddy.profile import profile
from cdma.sim.buddy import (
    PATTERNS,
    Content,
    Region,
    ReplayError,
    expect,
    link_slowdowns,
    load_snapshots,
    load_trace,
    pattern_trace,
    replay_channels,
    replay_trace,
    snapshot_content,
    spilling_content,
    split,
    sweep_caches,
    sweep_links,
)
from cdma.sim.machine import Access, AccessTrace, BuddyMachineConfig
from tests.golden.buddy.entries import mixed_entries
from tests.golden.buddy.xc_entries import bf16_entries
from tests.lib.shares import widths

CONFIG = buddy_preset("tiny")
THREE = replace(CONFIG, entry=EntryConfig(mode="best-of-three"))
PAGE = CONFIG.page_bytes
RNG = np.random.default_rng(11)


def mixed(nbytes: int, seed: int) -> np.ndarray:
    entries = mixed_entries(4000)
    rows = np.random.default_rng(seed).integers(0, len(entries), -(-nbytes // ENTRY_BYTES))
    return entries[rows].reshape(-1)[:nbytes]


@pytest.fixture(scope="module")
def content() -> Content:
    """An allocation for each target, and one that is not compressed; ends are not of pages."""
    regions = [
        Region(
            name=target.name,
            target=target,
            before=mixed(PAGE + 1000 * target, target),
            after=mixed(PAGE + 1000 * target, 10 + target),
        )
        for target in Target
    ]
    plain = replace(regions[1], name="plain", compressed=False)
    return Content((*regions, plain), CONFIG)


@pytest.fixture(scope="module")
def bf16_content() -> Content:
    """An allocation of bf16 for each target, and one that is not compressed; some pages have no
    centre.
    """
    regions = []
    for target in Target:
        before, after = (bf16_entries(100, seed=seed).reshape(-1) for seed in (target, 10 + target))
        has_xc = np.arange(2) >= target % 3 - 1
        parameters = page_parameters(before, PAGE) * has_xc
        regions.append(
            Region(
                name=target.name, target=target, before=before, after=after, parameters=parameters
            )
        )
    return Content((*regions, replace(regions[1], name="plain", compressed=False)), THREE)


def random_trace(content: Content, count: int, seed: int) -> AccessTrace:
    """Accesses of all sizes and alignments, with masks, many of the same bytes."""
    rng = np.random.default_rng(seed)
    end = content.address_map.logical_bytes
    accesses = []
    for _ in range(count):
        nbytes = int(rng.choice([1, 3, 32, 100, 128, 300, 1000]))
        page = int(rng.integers(0, end // 4096)) * 4096
        address = page + int(rng.integers(0, min(1200, 4097 - nbytes)))
        data = rng.integers(0, 4, nbytes, np.uint8) * rng.integers(0, 2)
        accesses.append(
            Access(
                address,
                nbytes,
                data.astype(np.uint8) if rng.random() < 0.5 else None,
                id=int(rng.integers(0, 16)),
                beat_bytes=int(rng.choice([0, 4, 16])),
                mask=rng.random(nbytes) < 0.7 if rng.random() < 0.3 else None,
            )
        )
    return AccessTrace.of(accesses)


class TestContent:
    def test_allocations_are_where_the_driver_puts_them(self, content):
        pages = [1, 2, 2, 2, 2, 2]
        assert content.starts == [PAGE * sum(pages[:i]) for i in range(6)]
        memory = content.memory()
        for start, region in zip(content.starts, content.regions, strict=True):
            np.testing.assert_array_equal(memory.read(start, region.before.size), region.before)
            np.testing.assert_array_equal(
                content.after[start : start + region.after.size], region.after
            )
        assert memory.map.device_bytes % 4096 == memory.map.carve_out_bytes % 4096 == 0

    def test_uncompressed_memory_is_as_it_is(self, content):
        plain = content.uncompressed()
        assert plain.starts == content.starts
        memory = plain.memory()
        for start, region in zip(plain.starts, plain.regions, strict=True):
            np.testing.assert_array_equal(
                memory.device[start : start + region.before.size], region.before
            )

    @pytest.mark.parametrize("target", [Target.X1_33, Target.X2, Target.X4, Target.X16])
    @pytest.mark.parametrize("fraction", [0.0, 0.054, 1.0])
    def test_as_many_entries_spill_as_were_asked_for(self, target, fraction):
        made = spilling_content(8 * PAGE, fraction, target, CONFIG, seed=3)
        memory = made.memory()
        every = np.arange(0, 8 * PAGE, ENTRY_BYTES)
        for data in (made.regions[0].before, made.regions[0].after):
            memory.write(0, data)
            where = memory.translate(every)
            needs = (where.buddy_sectors(memory.metadata(every)) >= 0).any(axis=1)
            assert needs.sum() == round(fraction * every.size)

    def test_of_snapshots(self):
        allocations = load_snapshots(["indices"])
        config = replace(CONFIG, pages=1024)
        targets = profile(allocations, page_bytes=PAGE).targets()
        made = snapshot_content(allocations, targets, config)
        assert [region.name for region in made.regions] == list(targets)
        ids = next(region for region in made.regions if region.name == "particles.ids")
        first, *_, last = next(a for a in allocations if a.name == "particles.ids").arrays
        np.testing.assert_array_equal(ids.before.view(np.int32), first)
        np.testing.assert_array_equal(ids.after.view(np.int32), last)

    def test_that_cannot_be(self):
        with pytest.raises(ReplayError, match="there is nothing in memory"):
            Content((), CONFIG)
        with pytest.raises(ReplayError, match="the data take 17 pages, the page table has 16"):
            spilling_content(17 * PAGE, 0.1, Target.X2, CONFIG)
        with pytest.raises(ReplayError, match="nothing spills with a target of 1x"):
            spilling_content(PAGE, 0.1, Target.X1, CONFIG)
        with pytest.raises(ReplayError, match=r"must be 0 to 1, not 1\.5"):
            spilling_content(PAGE, 1.5, Target.X2, CONFIG)


class TestPatterns:
    def test_a_stream_goes_through_the_data_and_begins_again(self, content):
        units = content.units(512)
        trace = pattern_trace(content, "stream", accesses=2 * units.size + 1, access_bytes=512)
        np.testing.assert_array_equal(trace.address, [*units, *units, units[0]])
        # The first allocation ends with a page, the second in the middle of one.
        assert units[15:18].tolist() == [PAGE - 512, PAGE, PAGE + 512]
        assert PAGE + 9 * 1024 not in units

    def test_random_accesses_are_anywhere(self, content):
        trace = pattern_trace(content, "random", accesses=2000, seed=1)
        units = content.units(128)
        assert set(trace.address) <= set(units)
        assert len(set(trace.address)) > 0.8 * units.size
        again = pattern_trace(content, "random", accesses=2000, seed=1)
        np.testing.assert_array_equal(trace.address, again.address)

    def test_strides_come_to_every_piece(self, content):
        units = content.units(128)
        trace = pattern_trace(content, "strided", accesses=2 * units.size, stride_bytes=1280)
        assert (np.diff(trace.address[:6]) == 1280).all()
        assert set(trace.address) == set(units)

    def test_reads_and_writes(self, content):
        trace = pattern_trace(content, "random", accesses=4000, read_fraction=0.75)
        assert trace.write.mean() == pytest.approx(0.25, abs=0.03)
        assert not pattern_trace(content, "stream", accesses=50).write.any()
        for i in np.flatnonzero(trace.write)[:20]:
            place = slice(trace.address[i], trace.address[i] + 128)
            np.testing.assert_array_equal(trace.bytes_of(i), content.after[place])
        assert trace.id[:18].tolist() == [*range(16), 0, 1]
        assert (pattern_trace(content, "stream", accesses=9, access_bytes=8).beat_bytes == 8).all()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"pattern": "zigzag"}, "unknown pattern 'zigzag'; choose stream, random, strided"),
            ({"accesses": 0}, "at least 1 access, not 0"),
            ({"access_bytes": 96}, "a power of two of bytes, 1 to 4096"),
            ({"read_fraction": -0.1}, r"fraction of reads must be 0 to 1, not -0\.1"),
            ({"stride_bytes": 0}, "stride must be at least 1 B, not 0"),
        ],
    )
    def test_that_cannot_be(self, content, options, message):
        with pytest.raises(ReplayError, match=message):
            pattern_trace(content, **{"pattern": "stream", "accesses": 5, **options})

    def test_no_allocation_is_large_enough(self):
        small = Content(
            (Region(name="a", target=Target.X1, before=mixed(99, 1), after=mixed(99, 2)),), CONFIG
        )
        with pytest.raises(ReplayError, match="no allocation has 128 B; take smaller accesses"):
            pattern_trace(small, "stream", accesses=1)


class TestFiles:
    def test_a_trace_from_a_file(self, content, tmp_path):
        path = tmp_path / "trace.npz"
        np.savez(path, address=[0, 128, 256], bytes=128, write=[True, False, True], id=[1, 2, 3])
        trace = load_trace(path, content)
        assert trace.address.tolist() == [0, 128, 256]
        assert trace.nbytes.tolist() == [128] * 3
        assert trace.write.tolist() == [True, False, True]
        assert trace.id.tolist() == [1, 2, 3]
        np.testing.assert_array_equal(trace.bytes_of(2), content.after[256:384])
        np.savez(path, address=[0, 9], bytes=[2, 4], write=[1, 1], data=np.arange(6, dtype="u1"))
        assert load_trace(path, content).bytes_of(1).tolist() == [2, 3, 4, 5]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"address": [0], "bytes": [1]}, "has no array 'write'; a trace has address, bytes"),
            ({"address": [0, 1], "bytes": [1, 1, 1], "write": 0}, "bytes must be of 2 accesses"),
            ({"address": [1 << 20], "bytes": 1, "write": 0}, "addresses must be 0 to 90111"),
            ({"address": [], "bytes": 1, "write": 0}, "has no accesses; give some"),
            ({"address": [0], "bytes": 4, "write": 1, "data": [0]}, "data must have 4 B"),
        ],
    )
    def test_that_cannot_be(self, content, tmp_path, arrays, message):
        np.savez(tmp_path / "trace.npz", **{name: np.array(a) for name, a in arrays.items()})
        with pytest.raises(ReplayError, match=message):
            load_trace(tmp_path / "trace.npz", content)

    @pytest.mark.parametrize("text", [b"", b"not an archive", b"PK\x03\x04"])
    def test_that_cannot_be_read(self, content, tmp_path, text):
        (tmp_path / "trace.npz").write_bytes(text)
        with pytest.raises(ReplayError, match="is no trace that can be read; save arrays"):
            load_trace(tmp_path / "trace.npz", content)
        with pytest.raises(ReplayError, match="is no trace that can be read"):
            load_trace(tmp_path / "none.npz", content)


class TestExpected:
    def test_it_is_what_one_access_after_the_other_gives(self, content):
        trace = random_trace(content, 300, seed=1)
        made = expect(content, trace)
        memory = content.memory()
        np.testing.assert_array_equal(made.device_before, memory.device)
        np.testing.assert_array_equal(made.buddy_before, memory.buddy)
        for i, address in enumerate(trace.address.tolist()):
            data = trace.bytes_of(i).copy()
            before = memory.read(address, data.size)
            if trace.write[i]:
                mask = trace.bytes_of(i, trace.mask)
                # Piece by piece, as the model writes no masks. Where the entry is whole, what is
                # in between is as it was.
                memory.write(address, np.where(mask, data, before))
            else:
                data = before
            np.testing.assert_array_equal(trace.bytes_of(i, made.data), data, err_msg=f"{i}")
        np.testing.assert_array_equal(made.device_after, memory.device)
        np.testing.assert_array_equal(made.buddy_after, memory.buddy)

    def test_accesses_outside(self, content):
        with pytest.raises(ReplayError, match="addresses must be 0 to 90111"):
            expect(content, AccessTrace.of([Access(90112, 1)]))


class TestXc:
    """Pages of bf16, of which each has a centre and a pattern of its own, or none."""

    def test_pages_have_parameters_of_their_own(self, bf16_content):
        memory = bf16_content.memory()
        for start, region in zip(bf16_content.starts, bf16_content.regions, strict=True):
            pages = start // PAGE + np.arange(region.pages(PAGE))
            found = [PageFields.unpack(memory.page_entry(int(page))[0]).xc for page in pages]
            assert found == (region.parameters.tolist() if region.compressed else [0, 0])
        assert 0 in found

    def test_snapshots_have_those_of_their_first_content(self):
        allocation = load_snapshots(["indices"])[:1]
        targets = {a.name: Target.X1_33 for a in allocation}
        for config in (CONFIG, THREE):
            (region,) = snapshot_content(allocation, targets, replace(config, pages=1024)).regions
            if not config.entry.has_parameters:
                assert region.parameters is None
                continue
            own = page_parameters(allocation[0].arrays[0], PAGE)
            np.testing.assert_array_equal(region.parameters, own)

    @pytest.mark.parametrize("stalls", [0.0, 0.3])
    def test_every_bit_is_the_golden_models(self, bf16_content, stalls):
        trace = pattern_trace(bf16_content, "random", accesses=600, read_fraction=0.6, seed=2)
        expected = expect(bf16_content, trace)
        done = replay_trace(THREE, expected, stalls=stalls, seed=5)
        assert done.faults == ()
        counted, right = done.counters, expected.traffic
        assert counted["device_sectors_written"] == right.device_written
        assert counted["buddy_sectors_read"] == right.buddy_read
        assert counted["buddy_sectors_written"] == right.buddy_written

    @pytest.mark.parametrize("stalls", [0.0, 0.4])
    def test_accesses_of_all_kinds(self, bf16_content, stalls):
        expected = expect(bf16_content, random_trace(bf16_content, 400, seed=7))
        assert replay_trace(THREE, expected, stalls=stalls).faults == ()

    def test_fewer_entries_spill_than_with_two_codes(self):
        data = bf16_entries(512, seed=1, spread=0.2).reshape(-1)
        spilled = {}
        for config in (CONFIG, THREE):
            has_xc = config.entry.has_parameters
            region = Region(
                name="weights",
                target=Target.X1_33,
                before=data,
                after=data,
                parameters=page_parameters(data, PAGE) if has_xc else None,
            )
            made = Content((region,), config)
            trace = pattern_trace(made, "stream", accesses=512, read_fraction=1.0)
            done = replay_trace(config, expect(made, trace))
            assert done.bit_exact
            spilled[has_xc] = done.buddy_access_fraction
        assert spilled[False] > 0.6
        assert spilled[True] < 0.2

    def test_channels_share_the_pages(self, bf16_content):
        trace = pattern_trace(bf16_content, "random", accesses=300, read_fraction=0.6, seed=3)
        done = replay_channels(THREE, split(bf16_content, trace, 2))
        assert done.faults == ()


class TestReplay:
    @pytest.mark.parametrize("pattern", PATTERNS)
    @pytest.mark.parametrize("access_bytes", widths(32, 128, 1024, quick=[128]))
    def test_every_bit_is_the_golden_models(self, content, pattern, access_bytes):
        for made in (content, content.uncompressed()):
            trace = pattern_trace(
                made, pattern, accesses=200, access_bytes=access_bytes, read_fraction=0.6, seed=2
            )
            expected = expect(made, trace)
            for stalls in (0.0, 0.3):
                done = replay_trace(CONFIG, expected, stalls=stalls, seed=5)
                assert done.faults == ()
                assert done.bit_exact
                if access_bytes < ENTRY_BYTES:
                    # Reads and writes of an entry that share no byte are in any order.
                    continue
                # What moves is what has to, but for device sectors read at a guess.
                counted, right = done.counters, expected.traffic
                guessed = counted["overfetched_sectors"]
                assert counted["device_sectors_read"] - guessed == right.device_read
                assert counted["device_sectors_written"] == right.device_written
                assert counted["buddy_sectors_read"] == right.buddy_read
                assert counted["buddy_sectors_written"] == right.buddy_written

    @pytest.mark.parametrize("stalls", [0.0, 0.4])
    @pytest.mark.parametrize("outstanding", widths(1, 64, quick=[64]))
    def test_accesses_of_all_kinds(self, content, stalls, outstanding):
        expected = expect(content, random_trace(content, 400, seed=7))
        done = replay_trace(
            CONFIG, expected, stalls=stalls, most_reads=outstanding, most_writes=outstanding
        )
        assert done.faults == ()

    def test_figures(self):
        made = spilling_content(8 * PAGE, 0.25, Target.X2, CONFIG)
        trace = pattern_trace(made, "stream", accesses=512, read_fraction=1.0)
        done = replay_trace(CONFIG, expect(made, trace))
        assert done.buddy_access_fraction == 0.25
        # A line of 64 entries' metadata for each page.
        assert done.hit_rate == pytest.approx(63 / 64)
        assert done.nbytes == 512 * 128
        assert done.bytes_per_s == pytest.approx(done.nbytes / done.cycles * 875e6)
        assert done.mean_read_latency > 306
        assert done.link_in_busy == pytest.approx(
            128 * 64 / (150e9 / 32 / 875e6) / done.cycles, 0.1
        )
        plain = replay_trace(CONFIG, expect(made.uncompressed(), trace))
        assert plain.buddy_access_fraction == 0.0
        assert plain.hit_rate is None

    def test_slower_links_take_longer(self):
        made = spilling_content(8 * PAGE, 0.5, Target.X4, CONFIG)
        expected = expect(made, pattern_trace(made, "stream", accesses=512))
        done = sweep_links(CONFIG, expected, rates=(5, 50, 500), most_reads=8)
        assert all(each.bit_exact for each in done.values())
        cycles = [each.cycles for each in done.values()]
        assert cycles == sorted(cycles, reverse=True)
        assert cycles[0] > 2 * cycles[-1]

    @pytest.mark.verify
    def test_slowdowns_are_beside_uncompressed_memory(self):
        made = spilling_content(8 * PAGE, 0.5, Target.X4, CONFIG)
        trace = pattern_trace(made, "stream", accesses=512, read_fraction=1.0)
        found = link_slowdowns(CONFIG, made, trace, rates=(5, 500), outstanding=8)
        assert found[5] > found[500]
        compressed = replay_trace(
            CONFIG,
            expect(made, trace),
            BuddyMachineConfig().with_link(5),
            most_reads=8,
            most_writes=8,
        )
        plain = replay_trace(
            CONFIG, expect(made.uncompressed(), trace), most_reads=8, most_writes=8
        )
        assert found[5] == compressed.cycles / plain.cycles - 1

    def test_a_slowdown_of_wrong_data_is_none(self, content, monkeypatch):
        def wrong(*arguments):
            expected = expect(*arguments)
            return replace(expected, data=expected.data ^ 1)

        monkeypatch.setattr("cdma.sim.buddy.replay.expect", wrong)
        trace = pattern_trace(content, "stream", accesses=20)
        with pytest.raises(ReplayError, match=r"access 0 read .*; the controller's RTL is wrong"):
            link_slowdowns(CONFIG, content, trace, rates=(150,), outstanding=8)

    def test_wrong_data_are_found(self, content):
        expected = expect(content, pattern_trace(content, "stream", accesses=20))
        wrong = expected.data.copy()
        wrong[3 * 128 + 5] ^= 1
        (fault,) = replay_trace(CONFIG, replace(expected, data=wrong)).faults
        assert fault.startswith("access 3 read 0x")
        assert " at 0x185, not 0x" in fault
        assert fault.endswith("; 1 bytes in all are wrong")

    @pytest.mark.parametrize("memory", ["device", "buddy"])
    def test_wrong_memory_is_found(self, content, memory):
        expected = expect(content, pattern_trace(content, "stream", accesses=20))
        wrong = getattr(expected, f"{memory}_after").copy()
        wrong[77] ^= 1
        (fault,) = replay_trace(CONFIG, replace(expected, **{f"{memory}_after": wrong})).faults
        assert fault.startswith(f"{memory} memory has 0x")
        assert " at 0x4d, not 0x" in fault

    def test_accesses_that_fail_are_told(self, content):
        trace = pattern_trace(content, "stream", accesses=20)
        burst = trace.burst.copy()
        burst[4] = 0
        faults = replay_trace(CONFIG, expect(content, replace(trace, burst=burst))).faults
        assert (
            faults[0] == "1 accesses failed, the first is 4: unsupported burst in a read at 0x200"
        )

    @pytest.mark.verify
    def test_larger_caches_hit_more(self):
        made = spilling_content(16 * PAGE, 0.1, Target.X2, CONFIG)
        trace = pattern_trace(made, "random", accesses=3000, read_fraction=0.7)
        done = sweep_caches(CONFIG, expect(made, trace), sizes=(64, 128, 512))
        assert all(each.bit_exact for each in done.values())
        rates = [each.hit_rate for each in done.values()]
        assert rates == sorted(rates)
        # 16 lines hold the metadata of all pages.
        assert rates[-1] > 0.99 > 0.5 > rates[0]
