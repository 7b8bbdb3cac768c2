"""Framing of the compressor: packets held to their lengths, and filled to whole lines."""

import pytest

from cdma.hw.codec.stream.frame import LinePadder, PacketTrimmer
from cdma.hw.config import CodecConfig
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.rtl.payloads import CONFIGS, beats_of, config_id, packets_of, sectors_of, sparse

WIDTHS = (32, 64, 128)


def content(nbytes):
    return bytes(i % 255 + 1 for i in range(nbytes))


# The trimmer.


@pytest.fixture(scope="module", params=WIDTHS)
def trimmer(request):
    return Bench(PacketTrimmer(request.param))


def trim(bench, cases, *, source=always, sink=always, taken=always):
    """Cases: announced length, received beats, bytes that should pass, mismatch."""
    width = bench.component.data_bytes
    bench.source(bench.component.length, [length for length, _, _, _ in cases])
    given = bench.source(
        bench.component.i, [beat for _, beats, _, _ in cases for beat in beats], willing=source
    )
    beats = sum(until_end(length, beats) for length, beats, _, _ in cases)
    out = bench.sink(bench.component.o, beats, willing=sink)
    told = bench.sink(bench.component.taken, len(cases), willing=taken)
    bench.run()
    assert packets_of(out.payloads, width) == [passed for _, _, passed, _ in cases]
    told.assert_received(
        [{"mismatch": mismatch, "size": len(passed)} for _, _, passed, mismatch in cases]
    )
    return given, out, told


def until_end(length, beats):
    """Beats up to the one that ends the packet, completes its length, or is torn."""
    count = 0
    for beat in beats:
        count += 1
        length -= beat["size"]
        if beat["last"] or length <= 0 or "framing_error" in beat:
            break
    return count


def announced(nbytes, width):
    return nbytes, beats_of(content(nbytes), width), content(nbytes), 0


def misframed(length, nbytes, width):
    return length, beats_of(content(nbytes), width), content(min(nbytes, length)), 1


def lengths(width):
    return (0, 1, width - 1, width, width + 1, 2 * width, 5 * width + 3)


def test_trimmer_passes_packets_of_their_length_at_once(trimmer):
    width = trimmer.component.data_bytes
    given, out, _ = trim(trimmer, [announced(n, width) for n in (4 * width, 4 * width, width + 5)])
    assert_no_bubble(given.cycles)
    assert out.cycles == given.cycles


def test_trimmer_cuts_long_packets_and_ends_short_ones(trimmer):
    width = trimmer.component.data_bytes
    cases = []
    for length in lengths(width):
        for nbytes in lengths(width):
            if length == nbytes:
                cases.append(announced(nbytes, width))
            else:
                cases.append(misframed(length, nbytes, width))
    trim(trimmer, cases)
    trim(trimmer, cases, source=stalls(0.3, 1), sink=stalls(0.3, 2), taken=stalls(0.5, 3))


def test_trimmer_ends_a_packet_at_a_hole_and_drops_the_rest(trimmer):
    width = trimmer.component.data_bytes
    cases = []
    for index in range(3):
        for size in (0, 1, width - 1, width):
            beats = beats_of(content(3 * width), width)
            beats[index] |= {"framing_error": 1, "size": size}
            cases.append((3 * width, beats, content(3 * width)[: index * width + size], 1))
            cases.append(announced(width + 1, width))
    trim(trimmer, cases)


def test_trimmer_drains_while_its_output_is_blocked(trimmer):
    # What is dropped needs no room.
    width = trimmer.component.data_bytes
    given, out, told = trim(trimmer, [misframed(1, 20 * width, width)], sink=from_cycle(5))
    assert out.cycles == [5]
    assert given.cycles == list(range(5, 25))
    assert told.cycles[0] > given.cycles[-1]


def test_trimmer_ends_no_packet_before_the_former_one_was_told(trimmer):
    width = trimmer.component.data_bytes
    given, _, told = trim(
        trimmer, [announced(width, width), announced(3 * width, width)], taken=from_cycle(30)
    )
    assert given.cycles[2] < 30 <= told.cycles[0] < given.cycles[3]


# The padder.


@pytest.fixture(scope="module", params=CONFIGS, ids=config_id)
def padder(request):
    return Bench(LinePadder(request.param))


def pad(bench, packets, *, source=always, sink=always):
    config: CodecConfig = bench.component.config
    sectors = [sector for packet in packets for sector in sectors_of(config, packet)]
    given = bench.source(
        bench.component.i,
        [beat for packet in packets for beat in beats_of(packet, config.sector_bytes)],
        willing=source,
    )
    out = bench.sink(bench.component.o, len(sectors), willing=sink)
    bench.run()
    out.assert_received(sectors)
    return given, out


def test_padder_fills_to_whole_lines_without_delay(padder):
    config = padder.component.config
    packets = [sparse(config, nbytes, 0.8, nbytes) for nbytes in (1, 31, 64, 96, 128, 129, 255)]
    given, out = pad(padder, packets)
    assert_no_bubble(out.cycles)
    assert given.cycles[0] == out.cycles[0] == 0


def test_padder_tells_of_empty_packets(padder):
    config = padder.component.config
    pad(padder, [b"", b"", sparse(config, 128, 0.5, 1), b"", sparse(config, 5, 1.0, 2), b""])


def test_padder_fills_behind_a_last_beat_without_bytes(padder):
    config = padder.component.config
    width = config.sector_bytes
    for sectors in range(1, config.sectors + 1):
        packet = sparse(config, sectors * width, 0.9, sectors)
        beats = beats_of(packet, width)
        beats[-1]["last"] = 0
        beats += beats_of(b"", width)
        expected = sectors_of(config, packet)
        if sectors == config.sectors:
            # The line is complete already: only its end is still to be told.
            expected[-1]["last"] = 0
            expected.append({"last": 1, "empty": 1})
        padder.source(padder.component.i, beats)
        out = padder.sink(padder.component.o, len(expected))
        padder.run()
        out.assert_received(expected)


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_padder_under_stalls(padder, source, sink):
    config = padder.component.config
    packets = [sparse(config, nbytes, 0.8, nbytes) for nbytes in (1, 0, 130, 128, 77)]
    pad(padder, packets, source=stalls(source, 1), sink=stalls(sink, 2))
