"""Dense beats to lines: bits, rate, and packets that hold less, more or worse than announced."""

import math

import numpy as np
import pytest

from cdma.golden.formats.zvc import Zvc
from cdma.hw.codec.stream.unpack import Unpacker
from cdma.hw.config import CodecConfig
from tests.lib.rtl.bench import (
    STALLS,
    Bench,
    Sink,
    always,
    assert_no_bubble,
    bits,
    fields,
    from_cycle,
    stalls,
)
from tests.lib.rtl.payloads import (
    CONFIGS,
    beats_of,
    config_id,
    cut_line_beats,
    line_beats_of,
    line_with,
    lines_of,
    mixed_packet,
    sparse,
)

LINE_BYTES = 128
GARBAGE = bytes(range(1, 256)) * 2


class PairSink(Sink):
    """Takes `LinePair`s apart: `received` and `cycles` are those of line beats."""

    wide = False

    def observe(self, cycle, valid, ready, payload):
        moved = super().observe(cycle, valid, ready, payload)
        if moved:
            pair = self.port.payload.shape().from_bits(self.received.pop())
            self.received.append(pair.first.as_bits())
            if pair.paired:
                self.received.append(pair.second.as_bits())
                self.cycles.append(cycle)
                assert pair.first.eol
                assert pair.second.sol
                if not self.wide:
                    assert pair.first.sol
                    assert pair.second.eol
            else:
                assert (pair.second.count, pair.second.mask) == (0, 0)
        return moved

    def assert_received(self, expected):
        shape = self.port.payload.shape()["first"].shape
        assert len(self.received) == len(expected)
        for index, (got, want) in enumerate(zip(self.received, expected, strict=True)):
            if got != bits(shape, want):
                assert fields(shape, got) == fields(shape, bits(shape, want)), f"beat {index}"


SHAPES = [
    *((config, 1, 1) for config in CONFIGS),
    *((CodecConfig(element_bytes=e, sector_bytes=32), 2, w) for e in (4, 2, 1) for w in (1, 2)),
    *((CodecConfig(element_bytes=4, sector_bytes=128), 2, w) for w in (1, 2)),
]
"""Configuration, lines per cycle, line beats of a chunk."""


@pytest.fixture(
    scope="module",
    params=SHAPES,
    ids=lambda shape: f"{config_id(shape[0])}-{shape[1]}-per-cycle-in-{shape[2]}",
)
def bench(request):
    config, lines_per_cycle, chunk_beats = request.param
    return Bench(Unpacker(config, lines_per_cycle=lines_per_cycle, chunk_beats=chunk_beats))


def line_sink(bench, count, *, willing=always):
    """A sink for so many line beats, alone or in pairs."""
    if bench.component.lines_per_cycle == 1:
        return bench.sink(bench.component.o, count, willing=willing)
    sink = PairSink(bench.component.o, count, willing)
    sink.wide = bench.component.chunk_beats == 2
    bench.ends.append(sink)
    return sink


@pytest.fixture
def config(bench):
    return bench.component.config


def compressed(config, packet):
    return Zvc(config.element_bytes).compress(np.frombuffer(packet, np.uint8)).tobytes()


def unpack(bench, packets, *, source=always, sink=always):
    config = bench.component.config
    streams = [compressed(config, packet) for packet in packets]
    beats = [beat for s in streams for beat in beats_of(s, config.sector_bytes)]
    line_beats = [beat for packet in packets for beat in line_beats_of(config, packet)]
    bench.source(bench.component.command, [len(lines_of(config, p)) for p in packets])
    given = bench.source(bench.component.i, beats, willing=source)
    taken = line_sink(bench, len(line_beats), willing=sink)
    tails = bench.sink(bench.component.tail, len(packets))
    bench.run()
    taken.assert_received(line_beats)
    tails.assert_received([{"size": len(s)} for s in streams])
    return given, taken


def transfers(bench, cases):
    """Run packets that need not be right: (lines, beats, expected line beats, tail) each.

    Of the tail, only the named fields are compared: after damage nothing says whether more bytes
    are trailing.
    """
    bench.source(bench.component.command, [lines for lines, _, _, _ in cases])
    bench.source(bench.component.i, [beat for _, beats, _, _ in cases for beat in beats])
    expected = [beat for _, _, line_beats, _ in cases for beat in line_beats]
    taken = line_sink(bench, len(expected))
    tails = bench.sink(bench.component.tail, len(cases))
    bench.run()
    taken.assert_received(expected)
    for index, (got, (_, _, _, tail)) in enumerate(zip(tails.payloads, cases, strict=True)):
        assert {name: got[name] for name in tail} == tail, f"tail of packet {index}"


def cuts(bench, packet, sizes):
    """Run the packet's stream, cut off after so many bytes."""
    config = bench.component.config
    stream = compressed(config, packet)
    transfers(
        bench,
        [
            (
                len(lines_of(config, packet)),
                beats_of(stream[:size], config.sector_bytes),
                cut_line_beats(config, packet, size),
                {"framing_error": 0, "size": size},
            )
            for size in sizes
        ],
    )


def test_line_beat_leaves_a_cycle_or_two_after_the_beat_that_completes_it(bench, config):
    line = line_with(config, range(config.elements))
    given, taken = unpack(bench, [line], source=lambda cycle: cycle % 6 == 2)
    # The mask pushes each of the line's beats into the next beat of the stream.
    latency = bench.component.line_beat_latency
    assert latency == (1 if config.mask_elements == 1 else 2)
    assert taken.cycles == [cycle + latency for cycle in given.cycles[1:]]


def soonest(bench, packet, arrivals):
    """Cycles at which the packet's line beats can leave, if only beats and each other hold them up.

    `arrivals` are the cycles of the stream's beats if they are never held up.
    """
    config = bench.component.config
    cycles, position, cycle = [], 0, 0
    # What left last, if another may leave with it: its size.
    alone = None
    wide = bench.component.chunk_beats == 2
    for beat in line_beats_of(config, packet):
        size = beat["count"] * config.element_bytes + config.mask_bytes * beat["sol"]
        position += size
        beats = (position - 1) // config.sector_bytes
        complete = arrivals[beats] + bench.component.line_beat_latency
        short = beat["sol"] and beat["eol"] and bench.component.lines_per_cycle == 2
        fits = short and alone and alone + size <= config.sector_bytes + config.mask_bytes
        if wide:
            # A last beat, and the first one of the line behind it, of any size.
            short, fits = beat["eol"], beat["sol"] and alone
        if fits and complete <= cycle:
            alone = None
        else:
            cycle = max(cycle + 1, complete)
            alone = size if short else None
        cycles.append(cycle)
    return cycles


@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0, None])
def test_every_line_beat_leaves_as_soon_as_it_can(bench, config, density):
    packet = mixed_packet(config, 20, 8) if density is None else sparse(config, 1280, density, 1)
    given, taken = unpack(bench, [packet])
    start = given.cycles[0]
    arrivals = list(range(start, start + len(given.cycles)))
    if bench.component.chunk_beats == 2:
        # Short lines, two per cycle, may leave no slot for what longer ones behind them need.
        arrivals = given.cycles
    assert taken.cycles == soonest(bench, packet, arrivals)


def test_dense_lines_are_taken_a_beat_per_cycle(bench, config):
    given, _ = unpack(bench, [line_with(config, range(config.elements)) * 12])
    assert_no_bubble(given.cycles)


def test_chunks_of_two_beats_take_a_beat_per_cycle_of_lines_of_any_size(bench, config):
    if bench.component.chunk_beats == 1:
        return
    lines = 60 * config.sectors
    for part in (0.5, 0.6, 0.8, 1.0):
        given, _ = unpack(bench, [sparse(config, LINE_BYTES * lines, part, 7)])
        # The first beats wait for nothing, and the last one for no line behind it.
        assert given.cycles[-1] - given.cycles[0] <= len(given.cycles) * 1.01


def test_finds_lines_as_fast_as_it_should(bench, config):
    # Empty and short lines: several begin in one beat.
    lines = bench.component.lines_per_cycle
    for count in (0, 1):
        if lines * (config.mask_bytes + count * config.element_bytes) > config.sector_bytes:
            continue  # They do not come in so fast.
        _, taken = unpack(bench, [line_with(config, range(count)) * 24])
        start = taken.cycles[0]
        assert taken.cycles == [start + k // lines for k in range(24)]


def test_has_no_bubble_after_the_output_was_blocked(bench, config):
    _, taken = unpack(bench, [line_with(config, [0, 1]) * 20], sink=from_cycle(20))
    if bench.component.lines_per_cycle == 1:
        assert taken.cycles == list(range(20, 40))
    else:
        assert sorted(set(taken.cycles))[:4] == [20, 21, 22, 23]


def test_line_that_was_offered_alone_leaves_alone(bench, config):
    # The first beat holds one whole line; the second line comes while that waits.
    whole = config.sector_bytes - config.mask_bytes
    first = line_with(config, range(whole // config.element_bytes))
    packet = first + line_with(config, []) * 3
    _, taken = unpack(bench, [packet], sink=from_cycle(20))
    lines = bench.component.lines_per_cycle
    assert taken.cycles == [20, *(21 + k // lines for k in range(3))]


def test_lines_of_every_length_back_to_back(bench, config):
    step = 1 if config.element_bytes == 4 else 5
    packets = [line_with(config, range(count)) for count in range(0, config.elements + 1, step)]
    unpack(bench, [b"".join(packets), b"".join(reversed(packets))])


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_loses_repeats_and_reorders_nothing_under_stalls(bench, config, source, sink):
    packets = [mixed_packet(config, lines, lines) for lines in (4, 0, 1, 3)]
    unpack(bench, packets, source=stalls(source, 1), sink=stalls(sink, 2))


def test_packet_cut_anywhere_ends_in_damage(bench, config):
    packet = line_with(config, range(0, config.elements, 2)) + line_with(
        config, range(config.elements - 3)
    )
    stream = compressed(config, packet)
    # At every byte of the first elements; then at some elements, and one byte short of them.
    step = config.element_bytes * 7
    sizes = {*range(24), *range(24, len(stream), step), *range(23, len(stream), step)}
    cuts(bench, packet, sorted(sizes))


def test_short_lines_cut_anywhere_end_in_damage(bench, config):
    packet = b"".join(line_with(config, range(count)) for count in (1, 0, 2, 3, 0, 1))
    cuts(bench, packet, range(0, len(compressed(config, packet)), 1 + config.mask_elements // 4))


def test_bytes_behind_the_lines_are_trailing_and_drained(bench, config):
    packet = sparse(config, 256, 0.5, 3)
    stream = compressed(config, packet)
    cases = []
    for extra in (1, 0, config.element_bytes, 0, config.sector_bytes, 0, 300, 0):
        beats = beats_of(stream + GARBAGE[:extra], config.sector_bytes)
        tail = {"trailing": bool(extra), "framing_error": 0}
        cases.append((2, beats, line_beats_of(config, packet), tail))
    transfers(bench, cases)


def test_no_lines_announced(bench, config):
    none = line_beats_of(config, b"")
    packet = sparse(config, 128, 0.5, 4)
    stream = compressed(config, packet)
    width = config.sector_bytes
    transfers(
        bench,
        [
            (0, beats_of(b"", width), none, {"size": 0}),
            (0, beats_of(GARBAGE[:1], width), none, {"size": 1, "trailing": 1}),
            (0, beats_of(GARBAGE[:300], width), none, {"size": 300, "trailing": 1}),
            (1, beats_of(stream, width), line_beats_of(config, packet), {"size": len(stream)}),
            (0, beats_of(b"", width), none, {"size": 0}),
        ],
    )


def test_whole_lines_behind_a_null_beat(bench, config):
    # A packet whose last beat has no bytes is as long as the beats before it.
    packet = line_with(config, range(config.elements - config.mask_elements))
    stream = compressed(config, packet)
    beats = beats_of(stream, config.sector_bytes)
    beats[-1]["last"] = 0
    beats += beats_of(b"", config.sector_bytes)
    case = (1, beats, line_beats_of(config, packet), {"size": len(stream)})
    transfers(bench, [case, case])


def test_packet_with_a_hole_before_its_lines_are_complete_is_cut_there(bench, config):
    packet = sparse(config, 256, 0.9, 5)
    stream = compressed(config, packet)
    width = config.sector_bytes
    whole = {"framing_error": 0, "trailing": 0, "size": len(stream)}
    cases = []
    for index in range(math.ceil(len(stream) / width)):
        for size in (0, 3, width // 2, width):
            beats = beats_of(stream, width)
            keep = min(size, beats[index]["size"])
            beats[index] |= {
                "size": keep,
                "framing_error": 1,
                "data": beats[index]["data"] & (1 << 8 * keep) - 1,
            }
            end = index * width + keep
            if end == len(stream):
                continue
            tail = {"framing_error": 1, "size": end}
            cases.append((2, beats, cut_line_beats(config, packet, end), tail))
            # The next one is as if nothing had happened.
            cases.append((2, beats_of(stream, width), line_beats_of(config, packet), whole))
    transfers(bench, cases)
