"""Both pipelines at every width: bits, latency, rate, and lines that the stream cuts off."""

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.hw.codec.xc.compressor.pipeline import XcCompressor
from tests.hw.codec.xc.lines import (
    CODINGS,
    Decompressor,
    beats_of_line,
    bf16_lines,
    cut_beats,
    expanded,
    golden,
    sectors_of,
    xc_config,
)
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.shares import widths

WIDTHS = widths(32, 64, 128, quick=[32])


@pytest.fixture(scope="module", params=WIDTHS)
def compressor(request):
    return Bench(XcCompressor(xc_config(request.param)))


@pytest.fixture(scope="module", params=WIDTHS)
def decompressor(request):
    return Bench(Decompressor(xc_config(request.param)))


def streams_of(lines, coding):
    codec = golden(*coding)
    return [codec.compress(line).tobytes() for line in lines]


def with_parameters(beats, coding):
    centre, pattern = coding
    return [{"beat": beat, "parameters": centre | pattern << 8} for beat in beats]


def compress(bench, lines, coding=CODINGS[0], *, source=always, sink=always):
    component = bench.component
    config = component.config
    beats = [b for s in streams_of(lines, coding) for b in beats_of_line(config, s)]
    beats[-1]["last"] = 1
    given = bench.source(component.i, sectors_of(config, lines, *coding), willing=source)
    taken = bench.sink(component.o, len(beats), willing=sink)
    bench.run()
    taken.assert_received(beats)
    return given, taken


def decompress(bench, lines, coding=CODINGS[0], *, source=always, sink=always):
    component = bench.component
    config = component.config
    streams = streams_of(lines, coding)
    beats = [b for s in streams for b in beats_of_line(config, s)]
    pairs = zip(lines, streams, strict=True)
    sectors = [x for line, s in pairs for x in expanded(config, line, len(s))]
    beats[-1]["last"] = sectors[-1]["last"] = 1
    given = bench.source(component.i, with_parameters(beats, coding), willing=source)
    taken = bench.sink(component.o, len(sectors), willing=sink)
    bench.run()
    taken.assert_received(sectors)
    return given, taken


def test_first_beat_leaves_line_latency_cycles_after_the_first_sector(compressor):
    config = compressor.component.config
    given, taken = compress(compressor, bf16_lines(np.random.default_rng(1), 1))
    latency = {32: 12, 64: 8, 128: 6}[config.sector_bytes]
    assert compressor.component.line_latency == latency
    assert taken.cycles[0] == given.cycles[0] + latency


@pytest.mark.parametrize("coding", CODINGS)
def test_takes_a_sector_per_cycle_whatever_lines_follow_each_other(compressor, coding):
    given, _ = compress(compressor, bf16_lines(np.random.default_rng(2), 24), coding)
    assert_no_bubble(given.cycles)


def test_compressor_has_no_bubble_after_the_output_was_blocked(compressor):
    lines = bf16_lines(np.random.default_rng(3), 24)
    given, _ = compress(compressor, lines, sink=from_cycle(60))
    assert_no_bubble([cycle for cycle in given.cycles if cycle >= 60])


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_compressor_loses_repeats_and_reorders_nothing(compressor, source, sink):
    lines = bf16_lines(np.random.default_rng(4), 16)
    compress(compressor, lines, CODINGS[1], source=stalls(source, 1), sink=stalls(sink, 2))


def test_empty_transfers_pass_the_compressor(compressor):
    component = compressor.component
    config = component.config
    line = bf16_lines(np.random.default_rng(5), 1)
    (stream,) = streams_of(line, CODINGS[0])
    empty = {"sol": 1, "eol": 1, "last": 1, "empty": 1}
    beats = beats_of_line(config, stream)
    beats[-1]["last"] = 1
    sectors = sectors_of(config, line, *CODINGS[0])
    compressor.source(
        component.i, [{"last": 1, "empty": 1}, *sectors, {"last": 1, "empty": 1}, *sectors]
    )
    taken = compressor.sink(component.o, 2 + 2 * len(beats))
    compressor.run()
    taken.assert_received([empty, *beats, empty, *beats])


def test_first_sector_leaves_sector_latency_cycles_after_a_lines_only_beat(decompressor):
    component = decompressor.component
    zeros = np.zeros((3, 128), np.uint8)
    given, taken = decompress(decompressor, zeros, source=lambda cycle: cycle % 40 == 0)
    latency = component.decompressor.sector_latency
    assert latency == {32: 15, 64: 13, 128: 12}[component.config.sector_bytes]
    assert taken.cycles[:: component.config.sectors] == [c + latency for c in given.cycles]


@pytest.mark.parametrize("coding", CODINGS)
def test_gives_a_sector_per_cycle_whatever_lines_follow_each_other(decompressor, coding):
    _, taken = decompress(decompressor, bf16_lines(np.random.default_rng(6), 24), coding)
    assert_no_bubble(taken.cycles)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_decompressor_loses_repeats_and_reorders_nothing(decompressor, source, sink):
    lines = bf16_lines(np.random.default_rng(7), 16)
    decompress(decompressor, lines, CODINGS[3], source=stalls(source, 1), sink=stalls(sink, 2))


def test_line_that_the_stream_cuts_off_gives_its_status_and_no_data(decompressor):
    component = decompressor.component
    config = component.config
    lines = bf16_lines(np.random.default_rng(8), 12)
    coding = CODINGS[0]
    beats, sectors = [], []
    for line, stream in zip(lines, streams_of(lines, coding), strict=True):
        head = 9 if stream[0] >> 6 == 2 else 1
        places = {0, 1, 8, 9, len(stream) // 2, len(stream) - 1}
        for size in sorted(place for place in places if place < len(stream)):
            beats += cut_beats(config, stream, size)
            status = StreamStatus.MASK_TRUNCATED if size < head else StreamStatus.PAYLOAD_TRUNCATED
            sectors.append({"sol": 1, "last": 1, "status": status})
        # Behind it, as if nothing had happened.
        whole = beats_of_line(config, stream)
        whole[-1]["last"] = 1
        beats += whole
        sectors += expanded(config, line, len(stream), last=1)
    for source, sink in STALLS[::3]:
        decompressor.source(component.i, with_parameters(beats, coding), willing=stalls(source, 1))
        taken = decompressor.sink(component.o, len(sectors), willing=stalls(sink, 2))
        decompressor.run()
        taken.assert_received(sectors)
