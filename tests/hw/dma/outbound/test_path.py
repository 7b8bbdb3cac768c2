"""The whole way out, between two memories: several jobs at once, in order, bit for bit."""

import random
from collections import deque
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cdma import golden
from cdma.hw.bus.burst import BusError
from cdma.hw.config import EngineConfig
from cdma.hw.dma.outbound.path import OutPath
from tests.lib.simulator import Simulator

WIDTH = 32
GUARD = 0xA5


class Device:
    """A memory behind a unit: beats come in order, some cycles after their request."""

    def __init__(self, memory, latency, rng, faults):
        self.memory, self.latency, self.rng, self.faults = memory, latency, rng, faults
        self.beats = deque()
        self.read_bytes = 0

    def asked(self, cycle, request):
        for index in range(request.beats + 1):
            address = request.address + index * WIDTH
            assert address // 4096 == request.address // 4096
            self.beats.append((cycle + self.latency, address))

    def offer(self, cycle):
        if self.beats and self.beats[0][0] <= cycle:
            address = self.beats[0][1]
            data = int.from_bytes(self.memory[address : address + WIDTH].tobytes(), "little")
            return {"data": data, "error": self.faults.get(address, BusError.NONE).value}
        return None


@cache
def prepared(config):
    """A way out, its simulator and the list of what it runs: made once, run from reset."""
    path = OutPath(config)
    bodies = []

    async def body(ctx):
        await bodies[0](ctx)

    simulator = Simulator(path)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    return path, simulator, bodies


def run(
    config,
    jobs,
    device,
    *,
    latency=20,
    stall=0.0,
    seed=0,
    faults=None,
    throttle=(0, 0),
    abort_at=None,
    host_bytes=1 << 16,
    response_cycles=5,
    responses_first=False,
    reserved=None,
):
    """Returns host memory, outcomes, and in which cycles lines were issued.

    With `responses_first`, outcomes are taken only while the host has no response to give.
    A list `reserved` gets the beats that are reserved in each cycle.
    """
    path, simulator, bodies = prepared(config)
    rng = random.Random(seed)
    host = np.full(host_bytes, GUARD, np.uint8)
    outcomes, issued = [], []

    async def body(ctx):
        queue = deque(jobs)
        units = [Device(device, latency, rng, faults or {}) for _ in range(config.units)]
        writes, responses = deque(), deque()
        ctx.set(path.throttle_rate[0], throttle[0])
        ctx.set(path.throttle_burst[0], throttle[1])
        offered = [None] * config.units
        cycle = 0

        def willing():
            return rng.random() >= stall

        while len(outcomes) < len(jobs):
            assert cycle < 30_000, f"hangs after {len(outcomes)} jobs"
            ctx.set(path.job.valid, bool(queue))
            if queue:
                ctx.set(path.job.payload, queue[0])
            ctx.set(path.abort, int(abort_at is not None and cycle >= abort_at))
            ctx.set(path.outcome.ready, willing() and not (responses_first and responses))
            ctx.set(path.write_request.ready, willing())
            ctx.set(path.write_beats.ready, willing())
            ctx.set(path.write_response.valid, bool(responses and responses[0] <= cycle))
            for k, unit in enumerate(units):
                ctx.set(path.read_request[k].ready, willing())
                if offered[k] is None and willing():
                    offered[k] = unit.offer(cycle)
                ctx.set(path.read_beats[k].valid, offered[k] is not None)
                if offered[k] is not None:
                    ctx.set(path.read_beats[k].payload, offered[k])
            await ctx.delay(1e-10)

            def moves(port):
                return ctx.get(port.valid) and ctx.get(port.ready)

            issued.append(ctx.get(path.issued))
            if reserved is not None:
                reserved.append(ctx.get(path.reserved))
            if moves(path.job):
                queue.popleft()
            if moves(path.outcome):
                outcomes.append(ctx.get(path.outcome.payload))
            if moves(path.write_request):
                request = ctx.get(path.write_request.payload)
                writes.append([request.address, request.beats + 1])
            if moves(path.write_beats):
                beat = ctx.get(path.write_beats.payload)
                address, left = writes[0]
                content = np.frombuffer(int(beat.data).to_bytes(WIDTH, "little"), np.uint8)
                strobe = np.array([beat.strobe >> lane & 1 for lane in range(WIDTH)], bool)
                host[address : address + WIDTH][strobe] = content[strobe]
                assert beat.last == (left == 1)
                writes[0] = [address + WIDTH, left - 1]
                if left == 1:
                    writes.popleft()
                    responses.append(cycle + response_cycles)
            if moves(path.write_response):
                responses.popleft()
            for k, unit in enumerate(units):
                if moves(path.read_request[k]):
                    unit.asked(cycle, ctx.get(path.read_request[k].payload))
                if moves(path.read_beats[k]):
                    unit.beats.popleft()
                    offered[k] = None
            await ctx.tick()
            cycle += 1

    if bodies:
        simulator.reset()
    bodies[:] = [body]
    simulator.run()
    return host, outcomes, issued


@pytest.fixture(scope="module")
def device():
    rng = np.random.default_rng(1)
    words = rng.integers(1, 1 << 32, 1 << 14, dtype=np.uint32)
    # Regions of every density, one after the other.
    words *= rng.random(words.size) < np.repeat([0.0, 0.1, 0.4, 1.0], words.size // 4)
    return words.view(np.uint8)


def job(src, length, dst, *, capacity=1 << 20, dense=0, throttle_class=0):
    return {
        "src": src,
        "length": length,
        "dst": dst,
        "capacity": capacity,
        "codec": dense,
        "throttle_class": throttle_class,
    }


def stream_of(device, j):
    content = device[j["src"] : j["src"] + j["length"]]
    return content if j["codec"] else golden.codec("zvc").compress(content)


def check(device, jobs, host, outcomes):
    expected = np.full(host.size, GUARD, np.uint8)
    for j, outcome in zip(jobs, outcomes, strict=True):
        stream = stream_of(device, j)
        size = min(stream.size, j["capacity"])
        expected[j["dst"] : j["dst"] + size] = stream[:size]
        assert outcome.write.size == size
        assert outcome.write.overflow == (stream.size > j["capacity"])
        assert outcome.read.crc32 == golden.crc32(device[j["src"] : j["src"] + j["length"]])
        assert outcome.read.cut == 0
    assert np.array_equal(host, expected)


SMALL = EngineConfig(units=2, buffer_bytes=2 * 4 * 128)
JOBS = [
    job(0, 1, 0),
    job(1000, 700, 0x104),
    job(0x4000 - 256, 1000, 0x1FF8),
    job(0x8004, 640, 0x3000, dense=1),
    job(0x8000, 513, 0x400C, dense=1),
    job(0xC000, 1200, 0x5000),
    job(0x6000, 300, 0x6004, capacity=100),
    job(0xC000, 256, 0x7010, capacity=0),
]


@pytest.mark.parametrize("drain_beats", [1, 2])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_jobs_arrive_bit_for_bit_between_guard_bytes(device, stall, drain_beats):
    config = replace(SMALL, drain_beats=drain_beats)
    host, outcomes, _ = run(config, JOBS, device, stall=stall)
    check(device, JOBS, host, outcomes)


def test_responses_are_taken_whatever_the_outcomes_wait_for(device):
    # On the bus, those to records wait behind them; and for these records, the outcomes.
    jobs = [job(0x8000, (520, 120, 16)[k % 3], 0x1000 * k) for k in range(9)]
    host, outcomes, _ = run(SMALL, jobs, device, response_cycles=100, responses_first=True)
    check(device, jobs, host, outcomes)


def test_more_transfers_wait_for_their_responses_at_once(device):
    jobs = [job(0x8000 + 128 * k, 16 + k % 3, 0x400 * k) for k in range(20)]
    cycles = {}
    for transfers in (2, 4, 16):
        config = replace(SMALL, transfers=transfers)
        host, outcomes, issued = run(config, jobs, device, response_cycles=200)
        check(device, jobs, host, outcomes)
        cycles[transfers] = len(issued)
    assert cycles[16] < cycles[4] / 2
    assert cycles[4] <= cycles[2]


def test_three_units_and_lines_that_cross_pages(device):
    config = EngineConfig(units=3, buffer_bytes=3 * 6 * 128)
    jobs = [job(4096 - 4 * k, 4 * k + 260, 0x400 * k + 4 * k) for k in range(1, 5)]
    host, outcomes, _ = run(config, jobs, device, latency=35)
    check(device, jobs, host, outcomes)


def test_reads_of_the_next_job_begin_before_the_former_is_written(device):
    jobs = [job(0, 1024, 0x100), job(1024, 1024, 0x1000)]
    _, _, issued = run(EngineConfig(units=2, buffer_bytes=1 << 13), jobs, device, latency=60)
    cycles = [cycle for cycle, count in enumerate(issued) for _ in range(count)]
    assert len(cycles) == 16
    assert cycles[8] < 60


def test_all_of_the_buffer_is_reserved_while_nothing_has_come(device):
    reserved = []
    run(SMALL, [job(0, 4096, 0x100)], device, latency=200, reserved=reserved)
    assert max(reserved) == SMALL.units * SMALL.unit_beats
    assert reserved[-1] == 0


def test_fault_is_told_with_the_beats_address_and_the_next_job_is_free_of_it(device):
    jobs = [job(0x4000, 1024, 0x100), job(0x5000, 512, 0x1000)]
    host, outcomes, _ = run(SMALL, jobs, device, faults={0x4000 + 5 * 128 + 64: BusError.DECERR})
    assert BusError(outcomes[0].read.error) is BusError.DECERR
    assert outcomes[0].read.faulty_beat == (5 * 128 + 64) // WIDTH
    good = golden.codec("zvc").compress(device[0x4000 : 0x4000 + 5 * 128])
    assert outcomes[0].write.size == good.size
    assert np.array_equal(host[0x100 : 0x100 + good.size], good)
    assert BusError(outcomes[1].read.error) is BusError.NONE
    assert outcomes[1].read.crc32 == golden.crc32(device[0x5000 : 0x5000 + 512])


@pytest.mark.parametrize("abort_at", [0, 3, 30, 60])
def test_abort_ends_every_job(device, abort_at):
    jobs = [job(0, 4096, 0x100), job(4096, 512, 0x2000)]
    host, outcomes, _ = run(SMALL, jobs, device, abort_at=abort_at)
    lines = outcomes[0].read.lines
    assert outcomes[0].read.cut == 1
    assert lines < 32
    stream = golden.codec("zvc").compress(device[: 128 * lines])
    assert outcomes[0].write.size == stream.size
    assert np.array_equal(host[0x100 : 0x100 + stream.size], stream)
    assert outcomes[1].read.lines == 0
    assert outcomes[1].write.size == 0
    assert (host[0x2000:] == GUARD).all()


def test_throttle_holds_the_rate(device):
    rate, burst = 8 * 256, 256
    _, _, issued = run(SMALL, [job(0, 4096, 0x100)], device, throttle=(rate, burst))
    for start in range(0, len(issued) - 100, 10):
        assert 128 * sum(issued[start : start + 100]) <= 8 * 100 + burst
    assert sum(issued) == 32
