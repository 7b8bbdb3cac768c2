"""Both pipelines at every width and of every element format: bits, latency, rate, and lines that
the stream cuts off."""

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.hw.codec.xc.compressor.pipeline import XcCompressor
from tests.hw.codec.xc.lines import (
    FORMATS,
    Decompressor,
    beats_of_line,
    codings,
    cut_beats,
    expanded,
    golden,
    lines_of,
    sectors_of,
    xc_config,
)
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.shares import widths

WIDTHS = widths(32, 64, 128, quick=[32])


@pytest.fixture(scope="module", params=FORMATS, ids=[form.name for form in FORMATS])
def elements(request):
    return request.param


@pytest.fixture(scope="module", params=WIDTHS)
def compressor(request, elements):
    return Bench(XcCompressor(xc_config(request.param, elements), elements))


@pytest.fixture(scope="module", params=WIDTHS)
def decompressor(request, elements):
    return Bench(Decompressor(xc_config(request.param, elements), elements))


def some_lines(bench, seed, count):
    return lines_of(bench.component.elements, np.random.default_rng(seed), count)


def coding_of(bench, number):
    return codings(bench.component.elements)[number]


def streams_of(bench, lines, coding):
    codec = golden(*coding, elements=bench.component.elements)
    return [codec.compress(line).tobytes() for line in lines]


def with_parameters(beats, coding):
    centre, pattern = coding
    return [{"beat": beat, "parameters": centre | pattern << 8} for beat in beats]


def compress(bench, lines, number=0, *, source=always, sink=always):
    component = bench.component
    config = component.config
    coding = coding_of(bench, number)
    beats = [b for s in streams_of(bench, lines, coding) for b in beats_of_line(config, s)]
    beats[-1]["last"] = 1
    given = bench.source(component.i, sectors_of(config, lines, *coding), willing=source)
    taken = bench.sink(component.o, len(beats), willing=sink)
    bench.run()
    taken.assert_received(beats)
    return given, taken


def decompress(bench, lines, number=0, *, source=always, sink=always):
    component = bench.component
    config = component.config
    coding = coding_of(bench, number)
    streams = streams_of(bench, lines, coding)
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
    given, taken = compress(compressor, some_lines(compressor, 1, 1))
    latency = {32: 12, 64: 8, 128: 6}[config.sector_bytes]
    # Trimmed mantissas take three cycles more.
    latency += 3 * compressor.component.elements.trims
    assert compressor.component.line_latency == latency
    assert taken.cycles[0] == given.cycles[0] + latency


@pytest.mark.parametrize("number", range(7))
def test_takes_a_sector_per_cycle_whatever_lines_follow_each_other(compressor, number):
    given, _ = compress(compressor, some_lines(compressor, 2, 24), number)
    assert_no_bubble(given.cycles)


def test_compressor_has_no_bubble_after_the_output_was_blocked(compressor):
    lines = some_lines(compressor, 3, 24)
    given, _ = compress(compressor, lines, sink=from_cycle(60))
    assert_no_bubble([cycle for cycle in given.cycles if cycle >= 60])


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_compressor_loses_repeats_and_reorders_nothing(compressor, source, sink):
    lines = some_lines(compressor, 4, 16)
    compress(compressor, lines, 1, source=stalls(source, 1), sink=stalls(sink, 2))


def test_empty_transfers_pass_the_compressor(compressor):
    component = compressor.component
    config = component.config
    line = some_lines(compressor, 5, 1)
    coding = coding_of(compressor, 0)
    (stream,) = streams_of(compressor, line, coding)
    empty = {"sol": 1, "eol": 1, "last": 1, "empty": 1}
    beats = beats_of_line(config, stream)
    beats[-1]["last"] = 1
    sectors = sectors_of(config, line, *coding)
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
    # Packed escapes and trimmed mantissas take a cycle more.
    elements = component.elements
    more = elements.exponent_bits == 5 or elements.trims
    assert latency == {32: 15, 64: 13, 128: 12}[component.config.sector_bytes] + more
    assert taken.cycles[:: component.config.sectors] == [c + latency for c in given.cycles]


@pytest.mark.parametrize("number", range(7))
def test_gives_a_sector_per_cycle_whatever_lines_follow_each_other(decompressor, number):
    _, taken = decompress(decompressor, some_lines(decompressor, 6, 24), number)
    assert_no_bubble(taken.cycles)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_decompressor_loses_repeats_and_reorders_nothing(decompressor, source, sink):
    lines = some_lines(decompressor, 7, 16)
    decompress(decompressor, lines, 3, source=stalls(source, 1), sink=stalls(sink, 2))


def test_line_that_the_stream_cuts_off_gives_its_status_and_no_data(decompressor):
    component = decompressor.component
    config = component.config
    lines = some_lines(decompressor, 8, 12)
    coding = coding_of(decompressor, 0)
    header = component.elements.header_bytes
    mask_end = header + component.elements.mask_bytes
    beats, sectors = [], []
    for line, stream in zip(lines, streams_of(decompressor, lines, coding), strict=True):
        head = mask_end if stream[0] >> 6 == 2 else header
        places = {0, 1, header, mask_end - 1, mask_end, len(stream) // 2, len(stream) - 1}
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
