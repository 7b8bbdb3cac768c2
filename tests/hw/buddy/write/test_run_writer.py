"""Runs of sectors: cut at 4 KiB, written, and answered for."""

import random

import pytest

from cdma.hw.buddy.address.sector_runs import RunSplitter
from cdma.hw.buddy.write.run_writer import RunWriter
from cdma.hw.bus.burst import BusError
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, stalls

ADDRESS_BITS = 40


def bursts_of(run):
    """The bursts of a run, as (address, sectors)."""
    address, sectors = run["address"] // 32 * 32, run["sectors"]
    room = (4096 - address % 4096) // 32
    pieces = [(address, min(sectors, room)), (address + 32 * room, sectors - room)]
    return [piece for piece in pieces if piece[1] > 0]


def random_runs(count, seed):
    generator = random.Random(seed)
    return [
        {
            "address": generator.choice(
                [
                    generator.randrange((1 << ADDRESS_BITS) - 128),
                    4096 * generator.randrange(1, 1 << 28) - 32 * generator.randrange(5),
                ]
            ),
            "sectors": generator.randrange(5),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize(("source_stalls", "sink_stalls"), STALLS)
def test_runs_become_bursts_within_pages(source_stalls, sink_stalls):
    runs = random_runs(200, seed=1)
    expected = [
        {"address": address, "beats": sectors - 1}
        for run in runs
        for address, sectors in bursts_of(run)
    ]
    bench = Bench(RunSplitter(ADDRESS_BITS))
    bench.source(bench.component.i, runs, willing=stalls(source_stalls, 1))
    sink = bench.sink(bench.component.o, len(expected), willing=stalls(sink_stalls, 2))
    bench.run()
    sink.assert_received(expected)


@pytest.mark.parametrize(("source_stalls", "sink_stalls"), STALLS)
def test_runs_are_written_and_answered_in_order(source_stalls, sink_stalls):
    generator = random.Random(7)
    items, requests, beats, responses, outcomes = [], [], [], [], []
    for run in random_runs(120, seed=2):
        data, strobe = generator.getrandbits(1024), generator.getrandbits(128)
        items.append({"run": run, "data": data, "strobe": strobe})
        sector = 0
        errors = []
        for address, sectors in bursts_of(run):
            requests.append({"address": address, "beats": sectors - 1})
            for k in range(sectors):
                beats.append(
                    {
                        "data": data >> 256 * sector & (1 << 256) - 1,
                        "strobe": strobe >> 32 * sector & (1 << 32) - 1,
                        "last": int(k == sectors - 1),
                    }
                )
                sector += 1
            responses.append(generator.choice([BusError.NONE] * 3 + list(BusError)).value)
            errors += [responses[-1]] if responses[-1] else []
        outcomes.append(errors[-1] if errors else 0)
    bench = Bench(RunWriter(ADDRESS_BITS, 4))
    writer = bench.component
    bench.source(writer.i, items, willing=stalls(source_stalls, 1))
    bench.source(writer.response, responses, willing=stalls(source_stalls, 4))
    sinks = [
        (bench.sink(port, len(expected), willing=stalls(sink_stalls, seed)), expected)
        for seed, (port, expected) in enumerate(
            [(writer.request, requests), (writer.beats, beats), (writer.o, outcomes)]
        )
    ]
    bench.run()
    for sink, expected in sinks:
        sink.assert_received(expected)


@pytest.mark.parametrize("sectors", [0, 1, 2, 4])
def test_sector_per_cycle(sectors):
    count = 30
    item = {"run": {"address": 0, "sectors": sectors}, "data": 5, "strobe": 1}
    bench = Bench(RunWriter(ADDRESS_BITS, 8))
    writer = bench.component
    bench.source(writer.i, [item] * count)
    bench.source(writer.response, [0] * (count if sectors else 0))
    bench.sink(writer.request, count if sectors else 0)
    beats = bench.sink(writer.beats, count * sectors)
    outcomes = bench.sink(writer.o, count)
    bench.run()
    assert_no_bubble(beats.cycles if sectors else outcomes.cycles)


def test_run_without_sectors_does_not_overtake():
    items = [
        {"run": {"address": 0, "sectors": sectors}, "data": 0, "strobe": 0} for sectors in (1, 0, 1)
    ]
    bench = Bench(RunWriter(ADDRESS_BITS, 8))
    writer = bench.component
    bench.source(writer.i, items)
    bench.source(writer.response, [2, 0], willing=lambda cycle: cycle > 20)
    bench.sink(writer.request, 2)
    bench.sink(writer.beats, 2)
    sink = bench.sink(writer.o, 3)
    bench.run()
    sink.assert_received([2, 0, 0])
    assert min(sink.cycles) > 20


def test_answers_do_not_wait_for_outcomes_to_be_taken():
    runs = 6
    item = {"run": {"address": 0, "sectors": 1}, "data": 0, "strobe": 0}
    bench = Bench(RunWriter(ADDRESS_BITS, runs))
    writer = bench.component
    bench.source(writer.i, [item] * runs)
    answers = bench.source(writer.response, [0] * runs)
    bench.sink(writer.request, runs)
    bench.sink(writer.beats, runs)
    sink = bench.sink(writer.o, runs, willing=lambda cycle: cycle > 100)
    bench.run()
    assert max(answers.cycles) < 40 < 100 < min(sink.cycles)
