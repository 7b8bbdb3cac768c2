"""The decompressor's last stage: the data that it lets through, and the status of the rest."""

import pytest

from cdma.golden import StreamStatus
from cdma.hw.codec.stream.checker import LineError, StreamChecker
from cdma.hw.config import CodecConfig
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.rtl.payloads import CONFIGS, beats_of, config_id, expanded_of, packets_of, sparse


@pytest.fixture(scope="module", params=CONFIGS, ids=config_id)
def bench(request):
    return Bench(StreamChecker(request.param))


@pytest.fixture
def config(bench):
    return bench.component.config


def check(bench, cases, *, source=always, sink=always, result=always, beats=None):
    """Cases: length, sectors, bytes that should pass, result."""
    width = bench.component.config.sector_bytes
    bench.source(bench.component.length, [length for length, _, _, _ in cases])
    given = bench.source(
        bench.component.i, [s for _, sectors, _, _ in cases for s in sectors], willing=source
    )
    if beats is None:
        beats = sum(len(beats_of(passed, width)) for _, _, passed, _ in cases)
    out = bench.sink(bench.component.o, beats, willing=sink)
    told = bench.sink(bench.component.result, len(cases), willing=result)
    bench.run()
    assert packets_of(out.payloads, width) == [passed for _, _, passed, _ in cases]
    told.assert_received([said for _, _, _, said in cases])
    return given, out, told


def stream_bytes(config, packet):
    """Offset of the last line's end in the stream."""
    elements = sum(sector.get("present", 0).bit_count() for sector in expanded_of(config, packet))
    lines = -(-len(packet) // config.line_bytes)
    return lines * config.mask_bytes + elements * config.element_bytes


def right(config, packet):
    said = {
        "line_error": LineError.NONE,
        "offset": stream_bytes(config, packet),
        "size": len(packet),
    }
    return len(packet), expanded_of(config, packet), packet, said


def wrong(config, packet, index, lane, line_error):
    """The packet with an error in a lane of a sector that has an element there."""
    sectors = expanded_of(config, packet)
    sector = sectors[index]
    assert sector["present"] >> lane & 1
    before = [s["present"].bit_count() for s in sectors[:index]]
    before.append((sector["present"] & (1 << lane) - 1).bit_count())
    lines = index // config.sectors + 1
    place = index * config.sector_bytes + lane * config.element_bytes
    length = len(packet)
    if line_error == LineError.ELEMENT_ZERO:
        elements = list(sector["elements"])
        elements[lane] = 0
        sectors[index] = {**sector, "elements": elements}
    elif line_error == LineError.ELEMENT_MISSING:
        missing = sector["present"] & ~((1 << lane) - 1)
        sectors[index] = {**sector, "missing": missing, "last": 1}
        sectors = sectors[: index + 1]
    elif line_error == LineError.FILL_NONZERO:
        # A length that ends before the element's last byte.
        length = place + config.element_bytes - 1
    said = {
        "line_error": line_error,
        "offset": lines * config.mask_bytes + sum(before) * config.element_bytes,
        "size": min(place, length),
    }
    return length, sectors, packet[: said["size"]], said


def beats_out(config, length, passed, line_error):
    """A packet cut at a sector's start may end in a beat without bytes."""
    width = config.sector_bytes
    whole, rest = divmod(len(passed), width)
    if line_error != LineError.NONE:
        return whole + 1 if len(passed) < length or rest else max(whole, 1)
    return max(-(-len(passed) // width), 1)


def test_right_transfers_pass_after_two_cycles_without_bubble(bench, config):
    packets = [sparse(config, 512, 0.6, 1), sparse(config, 256, 1.0, 2)]
    given, out, told = check(bench, [right(config, packet) for packet in packets])
    assert_no_bubble(given.cycles)
    assert out.cycles == [cycle + 2 for cycle in given.cycles]
    assert told.cycles[-1] == given.cycles[-1] + 2


def test_lengths_that_are_no_whole_line(bench, config):
    packets = [sparse(config, n, 0.7, n) for n in (0, 1, 31, 33, 64, 100, 127, 129, 0, 200)]
    check(bench, [right(config, packet) for packet in packets])


@pytest.mark.parametrize("line_error", [LineError.ELEMENT_ZERO, LineError.ELEMENT_MISSING])
def test_first_error_cuts_the_packet_at_its_element(bench, config, line_error):
    packet = sparse(config, 256, 1.0, 3)
    lanes = sorted({0, 1, config.lanes // 2, config.lanes - 1})
    cases = [
        case
        for index in range(2 * config.sectors)
        for lane in lanes
        for case in (wrong(config, packet, index, lane, line_error), right(config, packet[:40]))
    ]
    beats = sum(
        beats_out(config, len_, passed, said["line_error"]) for len_, _, passed, said in cases
    )
    check(bench, cases, beats=beats)
    check(
        bench,
        cases[:8],
        beats=sum(
            beats_out(config, n, passed, said["line_error"]) for n, _, passed, said in cases[:8]
        ),
        source=stalls(0.3, 1),
        sink=stalls(0.3, 2),
        result=stalls(0.5, 3),
    )


def test_second_error_says_nothing(bench, config):
    packet = sparse(config, 256, 1.0, 4)
    length, sectors, passed, said = wrong(config, packet, 0, 1, LineError.ELEMENT_ZERO)
    for lane in (0, config.lanes - 1):
        elements = list(sectors[-1]["elements"])
        elements[lane] = 0
        sectors[-1] = {**sectors[-1], "elements": elements}
    check(bench, [(length, sectors, passed, said), right(config, packet)])


def test_zero_goes_before_fill_in_the_same_element(bench, config):
    packet = sparse(config, 128, 1.0, 5)
    length = len(packet) - config.element_bytes
    sectors = expanded_of(config, packet)
    elements = list(sectors[-1]["elements"])
    elements[-1] = 0
    sectors[-1] = {**sectors[-1], "elements": elements}
    said = {
        "line_error": LineError.ELEMENT_ZERO,
        "offset": config.mask_bytes + length,
        "size": length,
    }
    check(bench, [(length, sectors, packet[:length], said)])


def test_fill_must_be_zero(bench, config):
    packet = sparse(config, 128, 1.0, 6)
    cases = []
    for index in range(config.sectors):
        for lane in (0, config.lanes - 1):
            cases.append(wrong(config, packet, index, lane, LineError.FILL_NONZERO))
            cases.append(right(config, packet))
    width = config.sector_bytes
    beats = sum(max(1, -(-length // width)) for length, _, _, _ in cases)
    check(bench, cases, beats=beats)


def test_missing_mask_ends_the_packet_after_its_whole_lines(bench, config):
    packet = sparse(config, 128, 0.5, 7)
    before = expanded_of(config, packet)
    before[-1]["last"] = 0
    cut = {"sol": 1, "last": 1, "mask_missing": 1}
    said = {
        "line_error": LineError.MASK_MISSING,
        "offset": stream_bytes(config, packet),
        "size": len(packet),
    }
    nothing = {"line_error": LineError.MASK_MISSING, "offset": 0, "size": 0}
    cases = [(200, [*before, cut], packet, said), (200, [cut], b"", nothing), right(config, packet)]
    check(bench, cases, beats=config.sectors + 1 + 1 + config.sectors)


def test_what_the_codec_has_located_is_told_of_the_first_wrong_sector_or_the_last():
    config = CodecConfig(element_bytes=1, codecs=("quantize", "raw"))
    bench = Bench(StreamChecker(config))
    packet = sparse(config, config.line_bytes, 1.0, 9)
    line = [{**sector, "offset": 40 + i} for i, sector in enumerate(expanded_of(config, packet))]
    found = {"sol": 1, "status": StreamStatus.NONZERO_FILL, "offset": 7, "last": 1}
    said = {
        "line_error": LineError.CODEC,
        "offset": stream_bytes(config, packet) + config.mask_bytes,
        "size": len(packet),
        "status": StreamStatus.NONZERO_FILL,
        "located_offset": 7,
    }
    length, _, _, fine = right(config, packet)
    fine["located_offset"] = line[-1]["offset"]
    first = [{**sector, "last": 0} for sector in line]
    cases = [(2 * length, [*first, found], packet, said), (length, line, packet, fine)]
    check(bench, cases, beats=2 * config.sectors + 1)


def test_next_verdict_waits_for_the_former_one(bench, config):
    packet = sparse(config, 128, 0.5, 8)
    late = 40
    _, out, told = check(bench, [right(config, packet)] * 2, result=from_cycle(late))
    assert out.cycles[config.sectors - 1] < late == told.cycles[0]
    assert out.cycles[-1] > late


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_stalls_change_nothing(bench, config, source, sink):
    cases = [right(config, sparse(config, n, 0.6, n)) for n in (300, 0, 128, 5)]
    check(bench, cases, source=stalls(source, 1), sink=stalls(sink, 2), result=stalls(sink, 3))
