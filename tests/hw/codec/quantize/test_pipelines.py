"""Both pipelines against the golden model: bits, latency, rate, stalls, and malformed lines."""

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.formats.stream import StreamError
from cdma.hw.codec.quantize.compressor.pipeline import QuantizeCompressor
from tests.hw.codec.quantize.lines import (
    Decompressor,
    beats_of_line,
    cut_beats,
    damaged,
    expanded,
    fp32_lines,
    golden,
    quantize_config,
    sectors_of,
)
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.shares import widths

WIDTHS = widths(32, 64, 128, quick=[32])
FORMS = {(kind << 1) | mapped for kind in range(3) for mapped in (0, 1)} | {6}
"""Of headers, bits 7 to 5."""


@pytest.fixture(scope="module", params=WIDTHS)
def compressor(request):
    return Bench(QuantizeCompressor(quantize_config(request.param)))


@pytest.fixture(scope="module", params=WIDTHS)
def decompressor(request):
    return Bench(Decompressor(quantize_config(request.param)))


def streams_of(lines, k):
    codec = golden(k)
    return [codec.compress(line.view("<f4")).tobytes() for line in lines]


def restored_lines(streams, k):
    codec = golden(k)
    return [codec.decompress(np.frombuffer(stream, np.uint8), 128) for stream in streams]


def with_k(beats, k):
    return [{"beat": beat, "parameters": k} for beat in beats]


def compress(bench, lines, k=127, *, source=always, sink=always):
    component = bench.component
    config = component.config
    streams = streams_of(lines, k)
    beats = [b for s in streams for b in beats_of_line(config, s)]
    beats[-1]["last"] = 1
    given = bench.source(component.i, sectors_of(config, lines, k), willing=source)
    taken = bench.sink(component.o, len(beats), willing=sink)
    bench.run()
    taken.assert_received(beats)
    return given, taken, streams


def decompress(bench, lines, k=127, *, source=always, sink=always):
    component = bench.component
    config = component.config
    streams = streams_of(lines, k)
    beats = [b for s in streams for b in beats_of_line(config, s)]
    pairs = zip(restored_lines(streams, k), streams, strict=True)
    sectors = [x for line, s in pairs for x in expanded(config, line, len(s))]
    beats[-1]["last"] = sectors[-1]["last"] = 1
    given = bench.source(component.i, with_k(beats, k), willing=source)
    taken = bench.sink(component.o, len(sectors), willing=sink)
    bench.run()
    taken.assert_received(sectors)
    return given, taken


# Compression.


def test_first_beat_leaves_line_latency_cycles_after_the_first_sector(compressor):
    config = compressor.component.config
    given, taken, _ = compress(compressor, fp32_lines(np.random.default_rng(1), 1, 127))
    latency = {32: 16, 64: 12, 128: 10}[config.sector_bytes]
    assert compressor.component.line_latency == latency
    assert taken.cycles[0] == given.cycles[0] + latency


def test_lines_of_every_form_are_the_golden_models_a_sector_per_cycle(compressor):
    given, _, streams = compress(compressor, fp32_lines(np.random.default_rng(127), 40, 127))
    assert_no_bubble(given.cycles)
    forms = {stream[0] >> 5 for stream in streams}
    # Zigzag is 1 and 2, where there are negative numbers; zero lines are plain.
    assert forms == FORMS


@pytest.mark.parametrize("k", [1, 233, 254])
def test_ends_of_the_range_of_bounds_are_compressed(compressor, k):
    compress(compressor, fp32_lines(np.random.default_rng(k), 16, k))


def test_no_line_is_longer_than_129_bytes(compressor):
    noise = np.random.default_rng(3).integers(0, 2**32, (8, 32), np.uint32).view(np.uint8)
    _, _, streams = compress(compressor, noise)
    assert max(len(stream) for stream in streams) == 129


def test_compressor_has_no_bubble_after_the_output_was_blocked(compressor):
    lines = fp32_lines(np.random.default_rng(4), 24, 127)
    given, _, _ = compress(compressor, lines, sink=from_cycle(60))
    assert_no_bubble([cycle for cycle in given.cycles if cycle >= 60])


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_compressor_loses_repeats_and_reorders_nothing(compressor, source, sink):
    lines = fp32_lines(np.random.default_rng(5), 12, 100)
    compress(compressor, lines, 100, source=stalls(source, 1), sink=stalls(sink, 2))


def test_empty_transfers_pass_the_compressor(compressor):
    component = compressor.component
    config = component.config
    lines = fp32_lines(np.random.default_rng(6), 2, 127)
    empty = {"sol": 1, "eol": 1, "last": 1, "empty": 1}
    beats = [b for s in streams_of(lines, 127) for b in beats_of_line(config, s)]
    beats[-1]["last"] = 1
    sectors = sectors_of(config, lines, 127)
    nothing = {"last": 1, "empty": 1, "elements": [0xFF] * config.sector_bytes, "parameters": 127}
    compressor.source(component.i, [nothing, *sectors, nothing, *sectors])
    taken = compressor.sink(component.o, 2 + 2 * len(beats))
    compressor.run()
    taken.assert_received([empty, *beats, empty, *beats])


def test_lines_of_two_transfers_keep_their_own_bounds(compressor):
    component = compressor.component
    config = component.config
    lines = fp32_lines(np.random.default_rng(7), 6, 120)
    sectors, beats = [], []
    for i, line in enumerate(lines):
        k = (118, 131)[i % 2]
        sectors += sectors_of(config, [line], k)
        beats += beats_of_line(config, streams_of([line], k)[0])
        beats[-1]["last"] = 1
    compressor.source(component.i, sectors)
    taken = compressor.sink(component.o, len(beats))
    compressor.run()
    taken.assert_received(beats)


def test_without_a_bound_every_line_is_kept_as_it_is(compressor):
    component = compressor.component
    config = component.config
    lines = [np.zeros(128, np.uint8), *fp32_lines(np.random.default_rng(8), 3, 127)]
    beats = [b for line in lines for b in beats_of_line(config, b"\xc0" + line.tobytes())]
    beats[-1]["last"] = 1
    compressor.source(component.i, sectors_of(config, lines, 0))
    taken = compressor.sink(component.o, len(beats))
    compressor.run()
    taken.assert_received(beats)


# Decompression.


def test_first_sector_leaves_sector_latency_cycles_after_a_lines_only_beat(decompressor):
    component = decompressor.component
    zeros = np.zeros((3, 128), np.uint8)
    given, taken = decompress(decompressor, zeros, source=lambda cycle: cycle % 40 == 0)
    latency = component.decompressor.sector_latency
    assert latency == {32: 19, 64: 17, 128: 17}[component.config.sector_bytes]
    assert taken.cycles[:: component.config.sectors] == [c + latency for c in given.cycles]


def test_lines_of_every_form_are_restored_a_sector_per_cycle(decompressor):
    _, taken = decompress(decompressor, fp32_lines(np.random.default_rng(127), 40, 127))
    assert_no_bubble(taken.cycles)


@pytest.mark.parametrize("k", [1, 233, 254])
def test_ends_of_the_range_of_bounds_are_restored(decompressor, k):
    decompress(decompressor, fp32_lines(np.random.default_rng(k), 16, k), k)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_decompressor_loses_repeats_and_reorders_nothing(decompressor, source, sink):
    lines = fp32_lines(np.random.default_rng(9), 12, 100)
    decompress(decompressor, lines, 100, source=stalls(source, 1), sink=stalls(sink, 2))


def test_values_come_back_within_the_bound(decompressor):
    """Against the bound itself, not against the golden model."""
    component = decompressor.component
    rng = np.random.default_rng(10)
    values = (rng.normal(size=(12, 32)) * 8).astype("<f4")
    k = 122
    streams = streams_of(values.view(np.uint8), k)
    beats = [b for s in streams for b in beats_of_line(component.config, s)]
    beats[-1]["last"] = 1
    decompressor.source(component.i, with_k(beats, k))
    taken = decompressor.sink(component.o, 12 * component.config.sectors)
    decompressor.run()
    data = np.array([sector["elements"] for sector in taken.payloads], np.uint8)
    back = data.view("<f4").reshape(values.shape)
    errors = np.abs(back.astype(np.float64) - values)
    assert errors.max() <= 2.0 ** (k - 128)
    assert errors.max() > 0.9 * 2.0 ** (k - 128)


def test_line_that_the_stream_cuts_off_gives_its_status_and_no_data(decompressor):
    component = decompressor.component
    config = component.config
    lines = fp32_lines(np.random.default_rng(11), 8, 127)
    beats, sectors = [], []
    streams = streams_of(lines, 127)
    for line, stream in zip(restored_lines(streams, 127), streams, strict=True):
        places = {0, 1, 3, 5, len(stream) // 2, len(stream) - 1}
        for size in sorted(place for place in places if place < len(stream)):
            beats += cut_beats(config, stream, size)
            sectors.append({"sol": 1, "last": 1, "status": StreamStatus.PAYLOAD_TRUNCATED})
        # Behind it, as if nothing had happened.
        whole = beats_of_line(config, stream)
        whole[-1]["last"] = 1
        beats += whole
        sectors += expanded(config, line, len(stream), last=1)
    for source, sink in STALLS[::3]:
        decompressor.source(component.i, with_k(beats, 127), willing=stalls(source, 1))
        taken = decompressor.sink(component.o, len(sectors), willing=stalls(sink, 2))
        decompressor.run()
        taken.assert_received(sectors)


def check_malformed(decompressor, rng, count, k, **willing):
    """Lines, most of them damaged, answered as the golden decoder answers; returns the statuses."""
    component = decompressor.component
    config = component.config
    beats, sectors, statuses = [], [], []
    for stream in streams_of(fp32_lines(rng, count, k), k):
        bad = damaged(rng, stream) if rng.random() < 0.8 else stream
        try:
            line = golden(k).decompress(np.frombuffer(bad, np.uint8), 128)
            statuses.append(StreamStatus.OK)
            sectors += expanded(config, line, len(bad))
        except StreamError as error:
            statuses.append(error.status)
            sectors.append({"sol": 1, "status": error.status, "offset": error.offset})
        beats += beats_of_line(config, bad)
    decompressor.source(component.i, with_k(beats, k), willing=willing.get("source", always))
    taken = decompressor.sink(component.o, len(sectors), willing=willing.get("sink", always))
    decompressor.run()
    taken.assert_received(sectors)
    return statuses


@pytest.mark.parametrize("k", [127, 240])
def test_malformed_lines_are_answered_as_the_golden_model_answers_them(decompressor, k):
    statuses = check_malformed(decompressor, np.random.default_rng(12), 60, k)
    assert {*statuses} == {StreamStatus.OK, StreamStatus.BAD_TOKEN}
    assert statuses.count(StreamStatus.OK) > 5


def test_coded_lines_without_a_bound_are_refused(decompressor):
    component = decompressor.component
    streams = [b"\x00", *streams_of(fp32_lines(np.random.default_rng(13), 4, 127), 127)]
    streams = [stream for stream in streams if stream[0] != 0xC0]
    for k in (0, 255):
        beats = [b for s in streams for b in beats_of_line(component.config, s)]
        decompressor.source(component.i, with_k(beats, k))
        taken = decompressor.sink(component.o, len(streams))
        decompressor.run()
        taken.assert_received([{"sol": 1, "status": StreamStatus.BAD_TOKEN}] * len(streams))


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(2))
def test_many_lines_at_many_bounds_are_compressed(compressor, seed):
    rng = np.random.default_rng([14, seed])
    for k in rng.integers(1, 255, 8).tolist():
        lines = fp32_lines(rng, 100, k)
        compress(compressor, lines, k, source=stalls(0.1, seed), sink=stalls(0.1, seed + 1))


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(2))
def test_many_lines_at_many_bounds_are_restored(decompressor, seed):
    rng = np.random.default_rng([16, seed])
    for k in rng.integers(1, 255, 8).tolist():
        lines = fp32_lines(rng, 100, k)
        decompress(decompressor, lines, k, source=stalls(0.1, seed), sink=stalls(0.1, seed + 1))


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(2))
def test_many_malformed_lines(decompressor, seed):
    rng = np.random.default_rng([15, seed])
    for k in (1, 60, 127, 200, 233, 245, 254):
        check_malformed(decompressor, rng, 100, k, source=stalls(0.2, seed), sink=stalls(0.2, seed))
