"""The expanding pipeline: bits, latency, rate, and what it makes of lines that are cut off."""

import pytest

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.zvc.decompressor import ZvcDecompressor
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.rtl.payloads import (
    CONFIGS,
    FAST_CONFIGS,
    config_id,
    expanded_of,
    line_beats_of,
    line_with,
    mixed_packet,
    sparse,
)
from tests.lib.shares import configs


@pytest.fixture(
    scope="module",
    params=configs(
        {config_id(one): one for one in CONFIGS + FAST_CONFIGS},
        quick=["E4-S32", "E2-S32", "E1-S32", "E4-S128", "E4-S32-fast"],
    ),
)
def bench(request):
    return Bench(ZvcDecompressor(request.param))


@pytest.fixture
def config(bench):
    return bench.component.config


def decompress(bench, packets, *, source=always, sink=always):
    config = bench.component.config
    beats = [beat for packet in packets for beat in line_beats_of(config, packet)]
    sectors = [sector for packet in packets for sector in expanded_of(config, packet)]
    given = bench.source(bench.component.i, beats, willing=source)
    taken = bench.sink(bench.component.o, len(sectors), willing=sink)
    bench.run()
    taken.assert_received(sectors)
    assert bench.component.sector_latency == sector_latency(config)
    return given, taken


def sector_latency(config):
    return 2 + (config.latency == "fast")  # 2: cDMA, §V-B


def test_sector_leaves_sector_latency_cycles_after_the_beat_that_completes_it(bench, config):
    dense = line_with(config, range(config.elements))
    # In a dense line each beat completes a sector; one that comes late holds up nothing else.
    given, taken = decompress(bench, [dense] * 2, source=lambda cycle: cycle % 5 == 0)
    assert taken.cycles == [cycle + sector_latency(config) for cycle in given.cycles]


def test_first_sector_leaves_sector_latency_cycles_after_a_lines_only_beat(bench, config):
    lines = [line_with(config, []), line_with(config, [config.elements - 1])]
    given, taken = decompress(bench, lines, source=lambda cycle: cycle % 12 == 0)
    assert taken.cycles == [
        cycle + sector_latency(config) + sector
        for cycle in given.cycles
        for sector in range(config.sectors)
    ]


@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
def test_gives_a_sector_per_cycle(bench, config, density):
    packets = [sparse(config, 640, density, 1), sparse(config, 256, density, 2)]
    _, taken = decompress(bench, packets)
    assert_no_bubble(taken.cycles)


def test_gives_a_sector_per_cycle_whatever_lines_follow_each_other(bench, config):
    _, taken = decompress(bench, [mixed_packet(config, 8, seed) for seed in (1, 2)])
    assert_no_bubble(taken.cycles)


def test_has_no_bubble_after_the_output_was_blocked(bench, config):
    _, taken = decompress(bench, [mixed_packet(config, 8, 3)], sink=from_cycle(20))
    assert taken.cycles == list(range(20, 20 + len(taken.cycles)))


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, config, source, sink):
    packets = [mixed_packet(config, lines, lines) for lines in (4, 1, 3)]
    decompress(bench, packets, source=stalls(source, 1), sink=stalls(sink, 2))


def test_empty_transfers_pass_between_lines(bench, config):
    line = sparse(config, 128, 0.5, 5)
    packets = [b"", b"", line, b"", sparse(config, 256, 1.0, 6), b"", b"", line]
    _, taken = decompress(bench, packets)
    assert_no_bubble(taken.cycles)
    decompress(bench, packets, source=stalls(0.4, 3), sink=stalls(0.4, 4))


def cut_places(config):
    """Payload elements left over: at the borders of beats, and next to them."""
    lanes = config.lanes
    near = {0, 1, lanes - 1, lanes, lanes + 1, 2 * lanes, 3 * lanes - 1, config.elements - 1}
    return sorted(kept for kept in near if kept < config.elements)


def cut_line(config, line, kept):
    """The line's beats when the stream ends after `kept` payload elements, and its sectors."""
    beats = line_beats_of(config, line)
    # As many elements per beat, until the beat that lacks some.
    last = min(kept // config.lanes, len(beats) - 1)
    beats = beats[: last + 1]
    count = kept - last * config.lanes
    beats[-1] |= {
        "elements": beats[-1]["elements"][:count],
        "count": count,
        "eol": 1,
        "last": 1,
        "truncation": Truncation.PAYLOAD,
    }
    sectors = []
    seen = 0
    for sector in expanded_of(config, line):
        missing = 0
        for lane in range(config.lanes):
            if sector["present"] >> lane & 1:
                if seen >= kept:
                    missing |= 1 << lane
                seen += 1
        sectors.append({**sector, "missing": missing, "last": bool(missing)})
        if missing:
            break
    return beats, sectors


def known(config, sectors):
    """The sectors without what a missing element's lane holds: that is not specified."""
    return [
        {
            **sector,
            "elements": [
                0 if sector["missing"] >> lane & 1 else element
                for lane, element in enumerate(sector["elements"])
            ],
        }
        for sector in sectors
    ]


@pytest.mark.parametrize("line", ["dense", "half"])
def test_line_cut_in_its_payload_ends_in_the_sector_that_lacks_an_element(bench, config, line):
    places = range(config.elements) if line == "dense" else range(0, config.elements, 2)
    whole = line_with(config, places)
    beats, sectors = [], []
    for kept in cut_places(config):
        if kept >= len(places):
            continue
        # A whole line first; behind the damage the next transfer is as if nothing had happened.
        before_beats, before = line_beats_of(config, whole), expanded_of(config, whole)
        before_beats[-1]["last"] = before[-1]["last"] = 0
        cut_beats, cut_sectors = cut_line(config, whole, kept)
        beats += before_beats + cut_beats
        sectors += before + cut_sectors
    bench.source(bench.component.i, beats)
    taken = bench.sink(bench.component.o, len(sectors))
    bench.run()
    blank = dict.fromkeys(("missing", "mask_missing", "empty", "status", "offset"), 0)
    blank["elements"] = [0] * config.lanes
    assert known(config, taken.payloads) == known(config, [{**blank, **s} for s in sectors])


def test_line_cut_in_its_mask_gives_one_sector_that_says_so(bench, config):
    line = sparse(config, 128, 0.7, 7)
    before_beats, before = line_beats_of(config, line), expanded_of(config, line)
    before_beats[-1]["last"] = before[-1]["last"] = 0
    beats = [
        {"sol": 1, "eol": 1, "last": 1, "truncation": Truncation.MASK},
        *before_beats,
        {"sol": 1, "eol": 1, "last": 1, "truncation": Truncation.MASK},
        *line_beats_of(config, line),
    ]
    cut = {"sol": 1, "last": 1, "mask_missing": 1}
    sectors = [cut, *before, cut, *expanded_of(config, line)]
    for source, sink in STALLS:
        bench.source(bench.component.i, beats, willing=stalls(source, 1))
        taken = bench.sink(bench.component.o, len(sectors), willing=stalls(sink, 2))
        bench.run()
        taken.assert_received(sectors)
