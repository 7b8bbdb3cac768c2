"""CRC-32 on the way through, against zlib."""

import random
import zlib

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.beat import Beat
from cdma.hw.lib.codes.crc import Crc32
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, from_cycle, stalls
from tests.lib.rtl.payloads import beats_of, packets_of

WIDTHS = (4, 32, 64, 128)
RESULT_LATENCY = {4: 5, 32: 8, 64: 9, 128: 11}


class WatchedStream(wiring.Component):
    """Beats that pass a CRC."""

    def __init__(self, data_bytes):
        self.data_bytes = data_bytes
        self.crc = Crc32(data_bytes)
        super().__init__(
            {
                "i": In(stream.Signature(Beat(data_bytes))),
                "o": Out(stream.Signature(Beat(data_bytes))),
                "result": Out(stream.Signature(32)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = self.crc
        self.crc.watch(m, self.i, self.o, data=self.i.payload.data)
        wiring.connect(m, self.crc.result, wiring.flipped(self.result))
        return m


@pytest.fixture(scope="module", params=WIDTHS)
def bench(request):
    return Bench(WatchedStream(request.param))


@pytest.fixture
def width(bench):
    return bench.component.data_bytes


def checksum(bench, packets, *, source=always, sink=always, result=always):
    width = bench.component.data_bytes
    beats = [beat for packet in packets for beat in beats_of(packet, width)]
    given = bench.source(bench.component.i, beats, willing=source)
    taken = bench.sink(bench.component.o, len(beats), willing=sink)
    crcs = bench.sink(bench.component.result, len(packets), willing=result)
    bench.run()
    assert crcs.payloads == [zlib.crc32(packet) for packet in packets]
    taken.assert_received(beats)
    assert packets_of(taken.payloads, width) == packets
    return given, taken, crcs


def packets_of_every_last_beat(width):
    generator = random.Random(width)
    return [generator.randbytes(generator.randrange(2) * width + n) for n in range(width + 1)]


def test_matches_zlib_for_every_size_of_the_last_beat(bench, width):
    checksum(bench, packets_of_every_last_beat(width))


def test_all_zeros_and_all_ones(bench, width):
    checksum(
        bench, [bytes(width), bytes(3 * width + 1), b"\xff" * width, b"\xff" * (2 * width + 3)]
    )


def test_packet_without_bytes_and_packet_that_ends_in_a_beat_without_bytes(bench, width):
    full = random.Random(2).randbytes(width)
    beats = [*beats_of(full, width), *beats_of(b"", width), *beats_of(full, width)]
    beats[0]["last"] = 0
    bench.source(bench.component.i, beats)
    taken = bench.sink(bench.component.o, 3)
    crcs = bench.sink(bench.component.result, 2)
    bench.run()
    assert crcs.payloads == [zlib.crc32(full)] * 2
    taken.assert_received(beats)


def test_beats_pass_at_once_and_the_result_follows_in_time(bench, width):
    gap = 20
    packets = [bytes(n) + b"x" for n in range(width)]
    given, taken, crcs = checksum(bench, packets, source=lambda cycle: cycle % gap == 0)
    assert taken.cycles == given.cycles
    latencies = [crc - cycle for crc, cycle in zip(crcs.cycles, given.cycles, strict=True)]
    assert latencies[-1] == 2
    assert max(latencies) == RESULT_LATENCY[width] == bench.component.crc.result_latency
    if width == 32:
        assert max(latencies[3::4]) == 5, "whole elements of 4 bytes are undone sooner"


def test_long_packets_follow_each_other_without_bubble(bench, width):
    # Long enough for the former result to be out before the next one.
    beats = RESULT_LATENCY[width] + 2
    packets = [random.Random(n).randbytes(beats * width - n) for n in range(3)]
    given, taken, _ = checksum(bench, packets)
    assert_no_bubble(given.cycles)
    assert_no_bubble(taken.cycles)


def test_last_beat_waits_until_the_former_result_is_taken(bench, width):
    release = 40
    packets = [bytes(width), bytes(3 * width)]
    given, _, crcs = checksum(bench, packets, result=from_cycle(release))
    assert given.cycles[:3] == [0, 1, 2]
    assert given.cycles[3] == crcs.cycles[0] + 1 == release + 1


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_stalls_change_nothing(bench, width, source, sink):
    packets = packets_of_every_last_beat(width)[:20]
    checksum(bench, packets, source=stalls(source, 1), sink=stalls(sink, 2), result=stalls(sink, 3))
