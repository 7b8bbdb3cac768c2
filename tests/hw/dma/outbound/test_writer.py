"""Writes to memory: every byte where it belongs, none elsewhere, and legal bursts only."""

import random

import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.dma.outbound.writer import HOST_BURST_BEATS, StreamWriter
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, offer, stalls
from tests.lib.simulator import Simulator

WIDTH = 32


@pytest.fixture(scope="module")
def bench():
    return Bench(StreamWriter(WIDTH, 4))


def packet(dst, size, seed=1):
    """The beats of a packet whose bytes stand as memory at `dst` does, and its bytes."""
    generator = random.Random(seed)
    lead = dst % WIDTH
    content = generator.randbytes(lead + size)
    beats = []
    for start in range(0, max(1, len(content)), WIDTH):
        piece = content[start : start + WIDTH]
        beats.append(
            {
                "data": int.from_bytes(piece, "little"),
                "size": len(piece),
                "last": start + WIDTH >= len(content),
            }
        )
    return beats, content[lead:]


def bursts(start, end):
    """Bursts that must be written for a range: addresses and beats."""
    address = start // WIDTH * WIDTH
    found = []
    while start < end and address < end:
        stop = min((address // (WIDTH * HOST_BURST_BEATS) + 1) * WIDTH * HOST_BURST_BEATS, end)
        count = -(-(stop - address) // WIDTH)
        found.append((address, count))
        address += count * WIDTH
    return found


def write(bench, jobs, *, probability=(0.0, 0.0), responses=None):
    """Each job: dst, size of the packet, capacity, limit. Returns memory, outcomes and the bench's
    ends."""
    packets = [packet(dst, size, seed) for seed, (dst, size, _, _) in enumerate(jobs)]
    ranges = [(dst, dst + min(size, capacity, limit)) for dst, size, capacity, limit in jobs]
    expected = [burst for start, end in ranges for burst in bursts(start, end)]
    writer = bench.component
    bench.source(
        writer.job,
        [{"dst": dst, "capacity": capacity, "limit": limit} for dst, _, capacity, limit in jobs],
        willing=stalls(probability[0], 1),
    )
    given = bench.source(
        writer.i,
        [beat for beats, _ in packets for beat in beats],
        willing=stalls(probability[0], 2),
    )
    requests = bench.sink(writer.request, len(expected), willing=stalls(probability[1], 3))
    beats = bench.sink(
        writer.beats, sum(count for _, count in expected), willing=stalls(probability[1], 4)
    )
    bench.source(
        writer.response,
        responses or [0] * len(expected),
        willing=stalls(probability[0], 5),
    )
    outcomes = bench.sink(writer.outcome, len(jobs), willing=stalls(probability[1], 6))
    bench.run()
    assert [(r["address"], r["beats"] + 1) for r in requests.payloads] == expected
    memory = {}
    stream = iter(zip(beats.payloads, beats.cycles, strict=True))
    for request, asked in zip(requests.payloads, requests.cycles, strict=True):
        for index in range(request["beats"] + 1):
            beat, cycle = next(stream)
            assert cycle > asked, "data before its request"
            assert beat["last"] == (index == request["beats"])
            for lane in range(WIDTH):
                if beat["strobe"] >> lane & 1:
                    memory[request["address"] + WIDTH * index + lane] = (
                        beat["data"] >> 8 * lane & 0xFF
                    )
    wanted = {}
    for (start, end), (_, content) in zip(ranges, packets, strict=True):
        wanted.update(zip(range(start, end), content, strict=False))
    assert memory == wanted
    return outcomes.payloads, given, beats


ALL = 1 << 20
JOBS = [
    (0x1000, 32, ALL, ALL),
    (0x2000, 1, ALL, ALL),
    (0x3004, 27, ALL, ALL),
    (0x401C, 8, ALL, ALL),
    (0x5000, 512, ALL, ALL),
    (0x6FE0, 70, ALL, ALL),
    (0x71F4, 1300, ALL, ALL),
    (0xFFFF_FFFF_0000, 96, ALL, ALL),
]


@pytest.mark.parametrize("probability", STALLS)
def test_packets_land_where_they_belong(bench, probability):
    outcomes, _, _ = write(bench, JOBS, probability=probability)
    for (_, size, _, _), outcome in zip(JOBS, outcomes, strict=True):
        assert outcome["size"] == size
        assert outcome["overflow"] == 0
        assert BusError(outcome["error"]) is BusError.NONE


@pytest.mark.parametrize("dst", [0x1000, 0x1004, 0x11FC])
@pytest.mark.parametrize("probability", [STALLS[0], STALLS[3]])
def test_capacity_holds_to_the_byte(bench, dst, probability):
    capacities = [0, 1, 4, 27, 28, 29, 31, 32, 33, 63, 64, 511, 512, 599, 600, 601]
    jobs = [(dst, 600, capacity, ALL) for capacity in capacities]
    outcomes, _, _ = write(bench, jobs, probability=probability)
    for capacity, outcome in zip(capacities, outcomes, strict=True):
        assert outcome["size"] == min(600, capacity)
        assert outcome["overflow"] == (capacity < 600)


def test_padding_behind_the_limit_is_no_overflow(bench):
    jobs = [(0x1004, 128, 100, 100), (0x2000, 128, 100, 101), (0x3000, 128, 100, 97)]
    outcomes, _, _ = write(bench, jobs)
    assert [(o["size"], o["overflow"]) for o in outcomes] == [(100, 0), (100, 1), (97, 0)]


def test_first_error_is_told_with_its_burst_and_the_next_packet_is_free_of_it(bench):
    jobs = [(0x1000, 1500, ALL, ALL), (0x4000, 64, ALL, ALL)]
    outcomes, _, _ = write(bench, jobs, responses=[0, 3, 2, 0])
    assert BusError(outcomes[0]["error"]) is BusError.DECERR
    assert outcomes[0]["address"] == 0x1200
    assert outcomes[0]["size"] == 1500
    assert BusError(outcomes[1]["error"]) is BusError.NONE


def test_a_beat_per_cycle(bench):
    _, given, beats = write(bench, [(0x1000, 8192, ALL, ALL)])
    assert_no_bubble(given.cycles)
    assert beats.cycles[-1] - beats.cycles[0] == 255


@pytest.mark.parametrize("fails", [0, 1, 2, 3])
def test_no_burst_begins_behind_an_error_if_the_writer_stops_there(fails):
    """The response to each of eight bursts comes as soon as the burst has been sent."""
    writer = StreamWriter(WIDTH, 4, stops_at_error=True)
    packets = [packet(0x1000, 4096, 1)[0], packet(0x4000, 1500, 2)[0]]
    jobs = [{"dst": dst, "capacity": ALL, "limit": ALL} for dst in (0x1000, 0x4000)]
    requests, outcomes, responses = [], [], []

    async def body(ctx):
        beats = [beat for beats in packets for beat in beats]
        given = ((writer.job, jobs), (writer.i, beats), (writer.response, responses))
        answered = 0
        for stream in (writer.request, writer.beats, writer.outcome):
            ctx.set(stream.ready, 1)
        for _ in range(400):
            await offer(ctx, given)
            if ctx.get(writer.request.valid):
                requests.append(ctx.get(writer.request.payload.address))
            if ctx.get(writer.outcome.valid):
                outcome = ctx.get(writer.outcome.payload)
                outcomes.append((BusError(outcome.error), outcome.address))
            sent = bool(ctx.get(writer.beats.valid) and ctx.get(writer.beats.payload.last))
            refused = sent and answered == fails
            await ctx.tick()
            ctx.set(writer.answered, sent)
            ctx.set(writer.refused, refused)
            if sent:
                responses.append(BusError.SLVERR if refused else BusError.NONE)
                answered += 1

    simulator = Simulator(writer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    step = WIDTH * HOST_BURST_BEATS
    first = [address for address in requests if address < 0x4000]
    assert first == [0x1000 + step * k for k in range(len(first))]
    # One is filled while another one is sent, and one is begun.
    assert fails < len(first) <= min(8, fails + 3)
    assert requests[len(first) :] == [0x4000, 0x4000 + step, 0x4000 + 2 * step]
    assert outcomes[0] == (BusError.SLVERR, 0x1000 + step * fails)
    assert outcomes[1][0] is BusError.NONE
