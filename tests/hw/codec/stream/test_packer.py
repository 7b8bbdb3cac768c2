"""Lines to dense beats: bits, density and rate."""

import math

import numpy as np
import pytest

from cdma.golden.formats.zvc import Zvc
from cdma.hw.codec.stream.pack import Packer
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.rtl.payloads import (
    CONFIGS,
    config_id,
    line_beats_of,
    line_with,
    mixed_packet,
    packets_of,
)


@pytest.fixture(scope="module", params=CONFIGS, ids=config_id)
def bench(request):
    return Bench(Packer(request.param))


@pytest.fixture
def config(bench):
    return bench.component.config


def pack(bench, packets, *, source=always, sink=always):
    config = bench.component.config
    line_beats = [beat for packet in packets for beat in line_beats_of(config, packet)]
    codec = Zvc(config.element_bytes)
    streams = [codec.compress(np.frombuffer(packet, np.uint8)).tobytes() for packet in packets]
    beats = sum(max(1, math.ceil(len(s) / config.sector_bytes)) for s in streams)
    given = bench.source(bench.component.i, line_beats, willing=source)
    taken = bench.sink(bench.component.o, beats, willing=sink)
    bench.run()
    # Only the last beat of a packet may be partial: `packets_of` checks that.
    assert packets_of(taken.payloads, config.sector_bytes) == streams
    return given, taken


def counts_near_beats(config):
    """Non-zero elements per line: around whole beats, with and without the mask."""
    lanes, mask = config.lanes, config.mask_elements
    near = {
        beats * lanes - without + step
        for beats in range(config.sectors + 1)
        for without in (0, mask)
        for step in (-1, 0, 1)
    }
    return sorted(count for count in near if 0 <= count <= config.elements)


def test_full_beat_leaves_one_cycle_after_what_fills_it(bench, config):
    line = line_with(config, range(config.elements))
    given, taken = pack(bench, [line], source=lambda cycle: cycle % 4 == 0)
    # The mask and the first sector fill a beat and more; each further sector fills one.
    assert Packer.beat_latency == 1
    assert taken.cycles[: config.sectors] == [cycle + 1 for cycle in given.cycles]
    # What the mask pushed out follows by itself.
    assert taken.cycles[config.sectors] == taken.cycles[config.sectors - 1] + 1


def test_dense_lines_are_limited_by_the_output_alone(bench, config):
    lines = 8
    given, taken = pack(bench, [line_with(config, range(config.elements)) * lines])
    assert_no_bubble(taken.cycles)
    # 132, 136 or 144 B go out for 128 B in.
    grown = {4: 132, 2: 136, 1: 144}[config.element_bytes]
    assert len(taken.cycles) == math.ceil(lines * grown / config.sector_bytes)
    assert given.cycles[-1] <= taken.cycles[-1]


def test_lines_that_fit_are_taken_at_full_rate(bench, config):
    lanes, mask = config.lanes, config.mask_elements
    for count in counts_near_beats(config):
        beats = max(1, math.ceil(count / lanes))
        if count + mask <= beats * lanes:
            given, _ = pack(bench, [line_with(config, range(count)) * 6])
            assert_no_bubble(given.cycles)


def test_lines_that_do_not_fit_are_limited_by_the_output_alone(bench, config):
    lanes, mask = config.lanes, config.mask_elements
    for count in counts_near_beats(config):
        beats = max(1, math.ceil(count / lanes))
        if count + mask > beats * lanes:
            _, taken = pack(bench, [line_with(config, range(count)) * 6])
            # The first beat may wait for a second line if a line has no full one.
            assert_no_bubble(taken.cycles[1:])


def test_lines_of_every_length_back_to_back(bench, config):
    step = config.element_bytes if config.sector_bytes == 32 else 4 // config.element_bytes * 3
    packets = [line_with(config, range(count)) for count in range(0, config.elements + 1, step)]
    pack(bench, packets)
    pack(bench, [b"".join(reversed(packets))])


def test_packets_follow_each_other_without_bubble(bench, config):
    # Whole beats: nothing is left over that would cost a beat of its own.
    count = config.elements - config.mask_elements
    given, taken = pack(bench, [line_with(config, range(count))] * 5)
    assert_no_bubble(given.cycles)
    assert_no_bubble(taken.cycles)


def test_packet_without_a_line_gives_a_beat_without_bytes(bench, config):
    packets = [b"", b"", mixed_packet(config, 2, 1), b"", mixed_packet(config, 1, 2), b""]
    pack(bench, packets)
    pack(bench, packets, source=stalls(0.4, 1), sink=stalls(0.4, 2))


def test_empty_end_of_a_packet_follows_its_lines(bench, config):
    line = line_beats_of(config, line_with(config, [0]))
    line[-1]["last"] = 0
    empty = line_beats_of(config, b"")
    bench.source(bench.component.i, [*line, *empty, *line, *empty])
    taken = bench.sink(bench.component.o, 2)
    bench.run()
    stream = (1).to_bytes(config.mask_bytes, "little") + line_with(config, [0])[
        : config.element_bytes
    ]
    assert packets_of(taken.payloads, config.sector_bytes) == [stream, stream]


def test_has_no_bubble_after_the_output_was_blocked(bench, config):
    _, taken = pack(bench, [line_with(config, range(config.elements)) * 5], sink=from_cycle(15))
    assert taken.cycles == list(range(15, 15 + len(taken.cycles)))


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, config, source, sink):
    packets = [mixed_packet(config, lines, lines) for lines in (5, 1, 4)]
    pack(bench, packets, source=stalls(source, 1), sink=stalls(sink, 2))
