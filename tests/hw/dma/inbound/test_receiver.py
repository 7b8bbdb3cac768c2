"""Streams from host memory: what is asked for, what is given, and how packets end early."""

import itertools
import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from cdma.hw.bus.burst import BusError
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.inbound.receiver import StreamReceiver
from tests.lib.rtl.bench import STALLS, stalls
from tests.lib.shares import configs
from tests.lib.simulator import Simulator

MEMORY_BYTES = 1 << 17
MEMORY = random.Random(1).randbytes(MEMORY_BYTES)
BURST_BEATS = 16
HANG_CYCLES = 2000

SHAPES = [(4, 32), (2, 32), (1, 32), (4, 128)]


def config_of(element_bytes, sector_bytes, *, read_buffer_bytes=None):
    return EngineConfig(
        codec=CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes),
        host_bytes=sector_bytes,
        read_buffer_bytes=read_buffer_bytes or 64 * sector_bytes,
    )


@dataclass
class Run:
    """Outputs that were seen."""

    packets: list = field(default_factory=lambda: [b""])
    given_at: list = field(default_factory=list)
    ends_at: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    asked_at: list = field(default_factory=list)
    outcomes: list = field(default_factory=list)
    starved: int = 0
    high_water: int = 0


class Bench:
    """The receiver between a memory that answers in order and whoever takes the packets."""

    def __init__(self, config):
        self.config = config
        self.receiver = StreamReceiver(config)
        self.simulator = Simulator(self.receiver)
        self.simulator.add_clock(1e-9)
        self.simulator.add_testbench(self.body)
        self.fresh = True

    def run(self, jobs, *, latency=5, stall=(0.0, 0.0), seed=0, faults=None, aborts=(), takes=None):
        """`jobs`: (src, size); `faults`: by the beat's address; `aborts`: cycles with abort."""
        self.jobs, self.latency, self.faults = jobs, latency, faults or {}
        self.stall, self.seed, self.aborts, self.takes = stall, seed, aborts, takes
        if not self.fresh:
            self.simulator.reset()
        self.fresh = False
        self.seen = Run()
        self.simulator.run()
        assert self.seen.packets.pop() == b"", "the last packet does not end"
        return self.seen

    async def body(self, ctx):
        receiver, seen, width = self.receiver, self.seen, self.config.host_bytes
        source, sink = self.stall
        asks = stalls(source, self.seed + 1)
        answers = stalls(source, self.seed + 2)
        takes = self.takes or stalls(sink, self.seed + 3)
        tells = stalls(sink, self.seed + 4)
        jobs, beats = deque(self.jobs), deque()
        held, offered, cycle, moved = 0, False, 0, 0
        standing = None
        while min(len(seen.outcomes), len(seen.ends_at)) < len(self.jobs) or held:
            assert cycle - moved < HANG_CYCLES, f"nothing has moved since cycle {moved}"
            ctx.set(receiver.job.valid, bool(jobs))
            if jobs:
                ctx.set(receiver.job.payload, {"src": jobs[0][0], "size": jobs[0][1]})
            ctx.set(receiver.abort, cycle in self.aborts)
            ctx.set(receiver.request.ready, asks(cycle))
            ctx.set(receiver.o.ready, takes(cycle))
            ctx.set(receiver.outcome.ready, tells(cycle))
            offered = offered or bool(beats and beats[0][0] <= cycle and answers(cycle))
            ctx.set(receiver.beats.valid, offered)
            if offered:
                address = beats[0][1]
                error = self.faults.get(address, BusError.NONE)
                good = int.from_bytes(MEMORY[address : address + width], "little")
                # An erroneous beat's data must not matter.
                data = good if error is BusError.NONE else ~good & (1 << 8 * width) - 1
                ctx.set(receiver.beats.payload, {"data": data, "error": error})
            await ctx.delay(1e-10)

            def moves(port):
                return ctx.get(port.valid) and ctx.get(port.ready)

            seen.starved += ctx.get(receiver.starved)
            if moves(receiver.job):
                jobs.popleft()
                moved = cycle
            if moves(receiver.request):
                request = ctx.get(receiver.request.payload)
                seen.requests.append((request.address, request.beats + 1))
                seen.asked_at.append(cycle)
                for index in range(request.beats + 1):
                    beats.append((cycle + self.latency, request.address + index * width))
                held += request.beats + 1
                moved = cycle
            seen.high_water = max(seen.high_water, held)
            if offered:
                assert ctx.get(receiver.beats.ready), "no room was reserved"
                beats.popleft()
                offered = False
                held -= 1
                moved = cycle
            if ctx.get(receiver.o.valid):
                beat = ctx.get(receiver.o.payload)
                if standing is not None:
                    assert standing == beat.as_bits(), "the payload changed while valid"
                standing = None if ctx.get(receiver.o.ready) else beat.as_bits()
            else:
                assert standing is None, "valid was withdrawn"
            if moves(receiver.o):
                assert beat.framing_error == 0
                assert beat.last or beat.size == width
                seen.packets[-1] += int(beat.data).to_bytes(width, "little")[: beat.size]
                seen.given_at.append(cycle)
                if beat.last:
                    seen.packets.append(b"")
                    seen.ends_at.append(cycle)
                moved = cycle
            if moves(receiver.outcome):
                outcome = ctx.get(receiver.outcome.payload)
                error = BusError(outcome.error)
                seen.outcomes.append((outcome.size, outcome.aborted, error, outcome.address))
                moved = cycle
            await ctx.tick()
            cycle += 1


def bursts(src, size, width):
    """The bursts that read a range: addresses and beats."""
    address, end = src // width * width, src + size
    while address < end:
        boundary = (address // width // BURST_BEATS + 1) * BURST_BEATS * width
        stop = min(boundary, -(-end // width) * width)
        yield address, (stop - address) // width
        address = stop


def assert_whole(seen, jobs, width):
    for packet, (src, size) in zip(seen.packets, jobs, strict=True):
        assert packet == MEMORY[src : src + size]
    assert [outcome[:3] for outcome in seen.outcomes] == [
        (size, 0, BusError.NONE) for _, size in jobs
    ]
    assert seen.requests == [burst for job in jobs for burst in bursts(*job, width=width)]


@pytest.fixture(
    scope="module",
    params=configs({f"E{e}-S{s}": (e, s) for e, s in SHAPES}, quick=["E4-S32", "E1-S32"]),
)
def bench(request):
    return Bench(config_of(*request.param))


@pytest.fixture(scope="module")
def small():
    return Bench(config_of(4, 32, read_buffer_bytes=32 * 32))


def sizes(config):
    width, element = config.host_bytes, config.codec.element_bytes
    around = (element, width - element, width, 2 * width, BURST_BEATS * width)
    return sorted({1, *(n + step for n in around for step in (-1, 0, 1) if n + step > 0)})


@pytest.mark.parametrize("stall", STALLS)
def test_streams_of_every_size_from_every_element(bench, stall):
    width, element = bench.config.host_bytes, bench.config.codec.element_bytes
    generator = random.Random(len(stall))
    offsets = [element * (k % (width // element)) for k in (0, 1, 3, -1)]
    places = itertools.cycle((0, width, (BURST_BEATS - 1) * width, 4096 - width, 8192 - 2 * width))
    jobs = [(next(places) + offset, size) for offset in offsets for size in sizes(bench.config)]
    generator.shuffle(jobs)
    assert_whole(bench.run(jobs, stall=stall, seed=7), jobs, width)


def test_asks_soon_and_gives_soon(small):
    seen = small.run([(64, 96)], latency=4)
    # The job is taken in cycle 0; a beat comes `latency` cycles after its request.
    assert seen.asked_at == [2]
    assert seen.given_at == [9, 10, 11]
    assert seen.starved == 8


def test_aligned_streams_have_a_beat_per_cycle_and_no_bubble_between_packets(bench):
    width = bench.config.host_bytes
    jobs = [(k * 64 * width % 4096, beats * width) for k, beats in enumerate((40, 2, 5, 64, 3))]
    seen = bench.run(jobs)
    start = seen.given_at[0]
    assert seen.given_at == list(range(start, start + 114))


def test_unaligned_streams_lose_a_cycle_per_packet(bench):
    width, element = bench.config.host_bytes, bench.config.codec.element_bytes
    # The last but one ends with a beat of memory.
    sizes = (40 * width, 7 * width, 1, 8 * width - element, width)
    offsets = (element, width - element, element, element, element)
    seen = bench.run(list(zip(offsets, sizes, strict=True)))
    start = seen.given_at[0]
    expected = []
    for beats in (40, 7, 1, 8, 1):
        expected += range(start, start + beats)
        start += beats + 1
    assert seen.given_at == expected


def test_packets_of_one_beat_take_two_cycles(small):
    seen = small.run([(64 * k, 4) for k in range(12)])
    assert seen.given_at == list(range(seen.given_at[0], seen.given_at[0] + 24, 2))


def test_asks_only_for_what_there_is_room_for(small):
    beats = small.config.read_beats
    jobs = [(0, 4096), (4096, 2048)]
    seen = small.run(jobs, takes=lambda cycle: cycle > 400)
    assert_whole(seen, jobs, 32)
    # Nothing leaves at first, but for what fills the registers behind the queue.
    asked = sum(
        count for (_, count), at in zip(seen.requests, seen.asked_at, strict=True) if at < 400
    )
    assert asked == beats
    assert seen.high_water == beats


def test_next_jobs_reads_begin_while_the_former_data_comes(bench):
    width = bench.config.host_bytes
    jobs = [(0, 16 * width), (0, 16 * width), (8192, 16 * width)]
    seen = bench.run(jobs, latency=30)
    assert seen.asked_at == [2, 3, 4]


@pytest.mark.parametrize("stall", STALLS)
def test_packet_ends_at_the_first_error(bench, stall):
    width, element = bench.config.host_bytes, bench.config.codec.element_bytes
    errors = itertools.cycle((BusError.SLVERR, BusError.DECERR, BusError.TIMEOUT, BusError.FRAMING))
    jobs, faults, expected = [], {}, []
    size = 20 * width
    slots = itertools.count()
    for offset in (0, element, width - element):
        for faulty in (0, 1, 15, 16, 19, 20):
            if not offset and faulty == 20:
                continue
            src = next(slots) * 32 * width + offset
            first = src // width * width
            address = first + faulty * width
            error = next(errors)
            good = max(0, address - src)
            jobs.append((src, size))
            faults[address] = error
            expected.append((good, 0, error, address))
    # A second error behind the first, and a good job after every bad one.
    faults |= {address + width: BusError.SLVERR for address in list(faults)}
    seen = bench.run(jobs, stall=stall, faults=faults, seed=11)
    for packet, (src, _), outcome in zip(seen.packets, jobs, expected, strict=True):
        assert packet == MEMORY[src : src + outcome[0]]
    assert seen.outcomes == expected


def test_nothing_is_missed_while_the_rest_of_a_job_is_dropped(small):
    seen = small.run([(64, 30 * 32)], latency=4, faults={64: BusError.SLVERR})
    assert seen.given_at == [9]
    assert seen.starved == 8


def test_asks_for_no_more_after_an_error(small):
    width = small.config.host_bytes
    # The buffer holds two bursts; the error is in the first beat.
    seen = small.run([(0, 200 * width), (4096, width)], latency=3, faults={0: BusError.DECERR})
    assert len(seen.requests) <= 3
    assert seen.requests[-1] == (4096, 1)
    assert seen.outcomes[0] == (0, 0, BusError.DECERR, 0)
    assert seen.outcomes[1][:3] == (width, 0, BusError.NONE)


def test_next_jobs_error_is_not_that_of_a_job_that_was_cut(small):
    width = small.config.host_bytes
    jobs = [(0, 40 * width), (100 * width, width), (200 * width, width)]
    faults = {100 * width: BusError.SLVERR}
    # The fault waits at the head of the queue when the first packet is cut.
    seen = small.run(jobs, faults=faults, aborts=(2,), takes=lambda cycle: cycle > 50)
    assert [outcome[:3] for outcome in seen.outcomes] == [
        (16 * width, 1, BusError.NONE),
        (0, 0, BusError.SLVERR),
        (width, 0, BusError.NONE),
    ]


def assert_cut_right(seen, jobs, width):
    """Whatever was cut: each packet is the beginning of its stream, as far as it was asked for."""
    requests = deque(seen.requests)
    for packet, (src, size), outcome in zip(seen.packets, jobs, seen.outcomes, strict=True):
        asked = 0
        for burst in bursts(src, size, width):
            if not requests or requests[0] != burst:
                break
            requests.popleft()
            asked = burst[0] + burst[1] * width - src
        expected = min(asked, size)
        assert packet == MEMORY[src : src + expected]
        assert outcome[:3] == (expected, expected < size, BusError.NONE)
    assert not requests


def aborted_jobs(config):
    width, element = config.host_bytes, config.codec.element_bytes
    # Each in its own part of memory, so that its bursts are known from all others.
    offsets = (0, element, width - element, 0, 3 * element, 0)
    return [
        (index * 80 * width + offset, size)
        for index, (offset, size) in enumerate(
            zip(
                offsets,
                (40 * width, 20 * width + 1, 33 * width, 1, 2 * width, 9 * width),
                strict=True,
            )
        )
    ]


@pytest.mark.parametrize("stall", [STALLS[0], STALLS[3]])
def test_abort_ends_all_jobs_with_what_was_asked_for(bench, stall):
    jobs = aborted_jobs(bench.config)
    generator = random.Random(3)
    cut = 0
    for first in (0, 1, 2, 3, *(generator.randrange(100) for _ in range(4))):
        seen = bench.run(jobs, stall=stall, aborts=range(first, 100_000), seed=first)
        assert_cut_right(seen, jobs, bench.config.host_bytes)
        assert all(at <= first + 20 for at in seen.asked_at)
        cut += sum(outcome[1] for outcome in seen.outcomes)
    assert cut > 10


def test_jobs_after_an_abort_are_whole(small):
    jobs = aborted_jobs(small.config)
    generator = random.Random(5)
    whole = cut = 0
    for seed in range(12):
        # Abort for some cycles, also for one only.
        first = generator.randrange(120)
        aborts = range(first, first + generator.choice((1, 1, 2, 30)))
        seen = small.run(jobs, stall=generator.choice(STALLS), aborts=aborts, seed=seed)
        assert_cut_right(seen, jobs, small.config.host_bytes)
        cut += sum(outcome[1] for outcome in seen.outcomes)
        whole += sum(not outcome[1] for outcome in seen.outcomes)
    assert cut > 10
    assert whole > 20


def test_errors_and_aborts_together(small):
    """The first error ends the packet, whether the job is then cut or not."""
    width = small.config.host_bytes
    generator = random.Random(6)
    for seed in range(12):
        jobs = aborted_jobs(small.config)
        faults = {
            src // width * width + generator.randrange(-(-size // width)) * width: BusError.SLVERR
            for src, size in jobs
            if generator.random() < 0.5
        }
        first = generator.randrange(200)
        aborts = range(first, first + generator.choice((1, 30, 1000)))
        stall = generator.choice(STALLS)
        seen = small.run(jobs, stall=stall, faults=faults, aborts=aborts, seed=seed)
        for packet, (src, size), outcome in zip(seen.packets, jobs, seen.outcomes, strict=True):
            good, was_cut, error, address = outcome
            assert packet == MEMORY[src : src + good]
            mine = [at for at in faults if src - width < at < src + size]
            if error is BusError.NONE:
                assert was_cut == (good < size)
                # Beats at fault were not asked for.
                assert all(was_cut and at >= (src + good) // width * width for at in mine)
            else:
                assert [address] == mine
                assert good == max(0, address - src)
