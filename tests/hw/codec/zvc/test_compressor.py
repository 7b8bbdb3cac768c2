"""The compressing pipeline: bits, latency and rate."""

import pytest

from cdma.hw.codec.zvc.compressor import ZvcCompressor
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, every, from_cycle, stalls
from tests.lib.rtl.payloads import (
    CONFIGS,
    FAST_CONFIGS,
    config_id,
    line_beats_of,
    line_with,
    mixed_packet,
    sectors_of,
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
    return Bench(ZvcCompressor(request.param))


@pytest.fixture
def config(bench):
    return bench.component.config


def compress(bench, packets, *, source=always, sink=always):
    config = bench.component.config
    sectors = [sector for packet in packets for sector in sectors_of(config, packet)]
    beats = [beat for packet in packets for beat in line_beats_of(config, packet)]
    given = bench.source(bench.component.i, sectors, willing=source)
    taken = bench.sink(bench.component.o, len(beats), willing=sink)
    bench.run()
    taken.assert_received(beats)
    assert bench.component.line_latency == line_latency(config)
    return given, taken


def line_latency(config):
    # cDMA, §V-B: 6 cycles for 32 B sectors.
    return {32: 6, 64: 4, 128: 3}[config.sector_bytes] + (config.latency == "fast")


def first_beats(taken):
    return [cycle for cycle, beat in zip(taken.cycles, taken.payloads, strict=True) if beat["sol"]]


def test_line_leaves_line_latency_cycles_after_its_first_sector(bench, config):
    packets = [
        line_with(config, places)
        for places in ([], [0], [config.elements - 1], range(config.elements))
    ]
    # Each line alone in the pipeline, then all of them on each other's heels.
    alone = 16

    def willing(cycle):
        return cycle % alone < config.sectors

    for pace in (willing, always):
        given, taken = compress(bench, packets, source=pace)
        starts = given.cycles[:: config.sectors]
        assert first_beats(taken) == [start + line_latency(config) for start in starts]


@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
def test_takes_a_sector_per_cycle(bench, config, density):
    given, _ = compress(bench, [sparse(config, 1536, density, 1), sparse(config, 512, density, 2)])
    assert_no_bubble(given.cycles)


def test_takes_a_sector_per_cycle_whatever_lines_follow_each_other(bench, config):
    given, _ = compress(bench, [mixed_packet(config, 8, seed) for seed in (1, 2)])
    assert_no_bubble(given.cycles)


def test_has_no_bubble_after_the_output_was_blocked(bench, config):
    blocked = 30
    given, _ = compress(bench, [mixed_packet(config, 12, 3)], sink=from_cycle(blocked))
    late = [cycle for cycle in given.cycles if cycle >= blocked]
    assert late[0] == blocked
    assert_no_bubble(late)


def test_keeps_the_pace_of_a_slow_source(bench, config):
    given, _ = compress(bench, [mixed_packet(config, 6, 4)], source=every(3))
    assert all(cycle % 3 == 0 for cycle in given.cycles)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, config, source, sink):
    packets = [mixed_packet(config, lines, lines) for lines in (4, 1, 3)]
    compress(bench, packets, source=stalls(source, 1), sink=stalls(sink, 2))


def test_empty_transfers_pass_between_lines(bench, config):
    line = sparse(config, 128, 0.5, 5)
    packets = [b"", b"", line, b"", sparse(config, 256, 1.0, 6), b"", b"", line]
    compress(bench, packets)
    compress(bench, packets, source=stalls(0.4, 3), sink=stalls(0.4, 4))


def test_minus_zero_denormals_and_nans_are_data(bench, config):
    top = 0x80 << 8 * (config.element_bytes - 1)
    elements = [top, 1, (1 << 8 * config.element_bytes) - 1, 0] * (config.elements // 4)
    packet = b"".join(e.to_bytes(config.element_bytes, "little") for e in elements)
    _, taken = compress(bench, [packet])
    assert taken.payloads[0]["mask"] == int("0111" * (config.elements // 4), 2)
