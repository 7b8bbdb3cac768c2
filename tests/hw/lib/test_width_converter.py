"""Packets in beats of another width: bytes, sizes, places, latency and rate."""

import random

import pytest

from cdma.hw.lib.width_converter import PacketNarrower, PacketWidener
from tests.lib.rtl.bench import STALLS, Bench, always, assert_no_bubble, stalls

SHAPES = [(2, 4), (4, 32), (32, 64), (32, 128)]


def draw_packets(count: int, longest: int) -> list[bytes]:
    choose = random.Random(3)
    return [choose.randbytes(choose.randint(1, longest)) for _ in range(count)]


def beats_of(packet: bytes, width: int) -> list[dict[str, int]]:
    parts = [packet[i : i + width] for i in range(0, len(packet), width)] or [b""]
    return [
        {"data": int.from_bytes(part, "little"), "size": len(part), "last": k == len(parts) - 1}
        for k, part in enumerate(parts)
    ]


def packets_of(beats: list[dict[str, int]], width: int) -> list[bytes]:
    """Packets in beats, each of which is whole but for the last one of a packet."""
    packets, packet = [], b""
    for beat in beats:
        assert beat["last"] or beat["size"] == width
        packet += beat["data"].to_bytes(width, "little")[: beat["size"]]
        if beat["last"]:
            packets.append(packet)
            packet = b""
    return packets


def flat(packets: list[bytes], width: int) -> list[dict[str, int]]:
    return [beat for packet in packets for beat in beats_of(packet, width)]


@pytest.mark.parametrize(("narrow", "wide"), SHAPES)
@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_narrower_gives_the_same_packets(narrow, wide, source, sink):
    packets = draw_packets(40, 3 * wide)
    bench = Bench(PacketNarrower(wide, narrow))
    bench.source(bench.component.i, flat(packets, wide), willing=stalls(source, 1))
    taken = bench.sink(bench.component.o, len(flat(packets, narrow)), willing=stalls(sink, 2))
    bench.run()
    assert packets_of(taken.payloads, narrow) == packets


@pytest.mark.parametrize(("narrow", "wide"), SHAPES)
@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_widener_gives_the_same_packets_from_any_place_and_zeros_around_them(
    narrow, wide, source, sink
):
    packets = draw_packets(40, 3 * wide)
    choose = random.Random(4)
    places = [choose.randrange(wide // narrow) for _ in packets]
    padded = [bytes(place * narrow) + packet for place, packet in zip(places, packets, strict=True)]
    bench = Bench(PacketWidener(narrow, wide))
    bench.source(bench.component.first, places, willing=stalls(source, 3))
    bench.source(bench.component.i, flat(packets, narrow), willing=stalls(source, 1))
    taken = bench.sink(bench.component.o, len(flat(padded, wide)), willing=stalls(sink, 2))
    bench.run()
    # Zeros before and behind a packet's bytes, too, though nobody writes them.
    expected = [beat["data"] for beat in flat(padded, wide)]
    assert [beat["data"] for beat in taken.payloads] == expected
    assert packets_of(taken.payloads, wide) == padded


@pytest.mark.parametrize(("narrow", "wide"), SHAPES)
@pytest.mark.parametrize("widens", [False, True])
def test_packet_that_is_cut_off_ends_with_a_beat_of_no_bytes(widens, narrow, wide):
    width, made = (narrow, wide) if widens else (wide, narrow)
    bench = Bench(PacketWidener(narrow, wide) if widens else PacketNarrower(wide, narrow))
    if widens:
        bench.source(bench.component.first, [0, 0])
    whole = {"data": (1 << 8 * width) - 1, "size": width, "last": 0}
    end = {"data": 0, "size": 0, "last": 1}
    bench.source(bench.component.i, [whole, end, end])
    taken = bench.sink(bench.component.o, 2 if widens else wide // narrow + 2)
    bench.run()
    assert packets_of(taken.payloads, made) == [b"\xff" * width, b""]


def test_narrower_gives_a_beat_per_cycle():
    packets = draw_packets(20, 300)
    bench = Bench(PacketNarrower(64, 32))
    given = bench.source(bench.component.i, flat(packets, 64))
    taken = bench.sink(bench.component.o, len(flat(packets, 32)))
    bench.run()
    assert_no_bubble(taken.cycles)
    assert taken.cycles[0] == given.cycles[0] + 1


def test_widener_takes_a_beat_per_cycle():
    packets = draw_packets(20, 300)
    bench = Bench(PacketWidener(32, 64))
    bench.source(bench.component.first, [0] * len(packets), willing=always)
    given = bench.source(bench.component.i, flat(packets, 32))
    taken = bench.sink(bench.component.o, len(flat(packets, 64)))
    bench.run()
    assert_no_bubble(given.cycles)
    assert taken.cycles[-1] == given.cycles[-1] + 1
