"""Bursts of a manager, cut into accesses to entries, and their data gathered."""

import random

import pytest

from cdma.hw.buddy.frontend.burst_splitter import BurstSplitter
from cdma.hw.buddy.frontend.write_collector import WriteCollector
from cdma.hw.config import BUDDY_PRESETS, BuddyConfig, EntryConfig
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, stalls

CONFIGS = {width: BuddyConfig(entry=EntryConfig(sector_bytes=width)) for width in (32, 64, 128)}
INCR = 1


def beat_addresses(burst):
    """Addresses of each beat, as AXI counts them (IHI 0022, A3.4.1)."""
    size = 1 << burst["size"]
    aligned = burst["address"] // size * size
    return [burst["address"], *(aligned + k * size for k in range(1, burst["beats"] + 1))]


def split(burst):
    """The accesses that a burst is cut into."""
    addresses = beat_addresses(burst)
    accesses = []
    for address in addresses:
        if not accesses or address // 128 != accesses[-1]["address"] // 128:
            accesses.append(
                {
                    "id": burst["id"],
                    "address": address,
                    "size": burst["size"],
                    "beats": 0,
                    "last": 0,
                    "unsupported": int(burst["burst"] != INCR),
                }
            )
        accesses[-1]["beats"] += 1
    accesses[-1]["last"] = 1
    return accesses


def random_bursts(config, count, seed):
    generator = random.Random(seed)
    sizes = range(config.entry.sector_bytes.bit_length())
    full = config.entry.sector_bytes.bit_length() - 1
    return [
        {
            "id": generator.randrange(16),
            "address": generator.choice(
                [
                    generator.randrange(1 << 40),
                    128 * generator.randrange(1 << 33),
                    128 * generator.randrange(1 << 33) + generator.randrange(128),
                    (1 << 40) - 4096,
                ]
            ),
            "beats": generator.choice([0, 1, 3, 7, generator.randrange(256)]) if index % 8 else 255,
            "size": generator.choice([full, full, generator.choice(sizes)]),
            "burst": generator.choice([INCR, INCR, INCR, 0, 2]),
        }
        for index in range(count)
    ]


@pytest.mark.parametrize("width", CONFIGS)
@pytest.mark.parametrize(("source_stalls", "sink_stalls"), STALLS)
def test_bursts_are_cut_at_entries(width, source_stalls, sink_stalls):
    config = CONFIGS[width]
    bursts = random_bursts(config, 60, seed=width)
    expected = [access for burst in bursts for access in split(burst)]
    for access in expected:
        access["address"] %= 1 << 40
    bench = Bench(BurstSplitter(config))
    bench.source(bench.component.i, bursts, willing=stalls(source_stalls, 1))
    sink = bench.sink(bench.component.o, len(expected), willing=stalls(sink_stalls, 2))
    bench.run()
    sink.assert_received(expected)


def test_access_per_cycle():
    config = BUDDY_PRESETS["channel"]
    bursts = random_bursts(config, 20, seed=3)
    count = sum(len(split(burst)) for burst in bursts)
    bench = Bench(BurstSplitter(config))
    source = bench.source(bench.component.i, bursts)
    sink = bench.sink(bench.component.o, count)
    bench.run()
    assert_no_bubble(sink.cycles)
    assert sink.cycles[0] == 1
    assert source.cycles[-1] == count - 1


def write_beats(config, burst, generator):
    """Beats of a write, and what they write: by address."""
    width = config.entry.sector_bytes
    beats, written = [], {}
    for address in beat_addresses(burst):
        end = (address >> burst["size"]) + 1 << burst["size"]
        lanes = range(address % width, address % width + end - address)
        data = generator.getrandbits(8 * width)
        strobe = sum(1 << lane for lane in lanes if generator.random() < 0.8)
        if generator.random() < 0.4:
            strobe = sum(1 << lane for lane in lanes)
        beats.append({"data": data, "strobe": strobe, "last": 0})
        for lane in lanes:
            if strobe >> lane & 1:
                written[address // width * width + lane] = data >> 8 * lane & 0xFF
    beats[-1]["last"] = 1
    return beats, written


@pytest.mark.parametrize("width", CONFIGS)
@pytest.mark.parametrize(("source_stalls", "sink_stalls"), STALLS)
def test_data_of_writes_is_gathered_by_entry(width, source_stalls, sink_stalls):
    config = CONFIGS[width]
    generator = random.Random(width)
    accesses, beats, expected = [], [], []
    for burst in random_bursts(config, 24, seed=width):
        burst["beats"] %= 24
        if burst["address"] > (1 << 40) - 8192:
            burst["address"] -= 8192
        data, written = write_beats(config, burst, generator)
        beats += data
        for access in split(burst):
            start = access["address"] // 128 * 128
            places = [j for j in range(128) if start + j in written]
            accesses.append(access)
            expected.append(
                {
                    "access": access,
                    "data": sum(written[start + j] << 8 * j for j in places),
                    "strobe": sum(1 << j for j in places),
                }
            )
    bench = Bench(WriteCollector(config))
    bench.source(bench.component.i, accesses, willing=stalls(source_stalls, 1))
    bench.source(bench.component.beats, beats, willing=stalls(source_stalls, 3))
    sink = bench.sink(bench.component.o, len(expected), willing=stalls(sink_stalls, 2))
    bench.run()
    sink.assert_received(expected)


def test_beat_of_a_write_per_cycle():
    config = BUDDY_PRESETS["narrow"]
    access = {"id": 1, "address": 256, "size": 5, "beats": 4, "last": 1, "unsupported": 0}
    beats = [{"data": k, "strobe": (1 << 32) - 1, "last": k % 4 == 3} for k in range(40)]
    bench = Bench(WriteCollector(config))
    bench.source(bench.component.i, [access] * 10)
    source = bench.source(bench.component.beats, beats)
    sink = bench.sink(bench.component.o, 10)
    bench.run()
    assert_no_bubble(source.cycles)
    assert sink.cycles == [4 * k + 4 for k in range(10)]
