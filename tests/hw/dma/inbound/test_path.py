"""The whole way in, between two memories: several jobs at once, in order, bit for bit."""

import random
from collections import deque
from functools import cache

import numpy as np
import pytest

from cdma import golden
from cdma.golden import StreamStatus
from cdma.golden.formats.zvc import decode
from cdma.hw.bus.burst import BusError
from cdma.hw.codec.stream.checker import LineError
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.inbound.path import InPath
from tests.golden.formats.data import sparse_bytes
from tests.lib.shares import widths
from tests.lib.simulator import Simulator

WIDTH = 32
LINE = 128
GUARD = 0xA5
DEVICE_BYTES = 1 << 16


class HostMemory:
    """Beats come in the order of the requests, some cycles after them, and not all at once."""

    def __init__(self, memory, latency, faults, bytes_per_cycle):
        self.memory, self.latency, self.faults = memory, latency, faults
        self.bytes_per_cycle = bytes_per_cycle
        self.beats = deque()
        self.asked_beats = self.given_bytes = 0

    def asked(self, cycle, request):
        assert request.address % WIDTH == 0
        for index in range(request.beats + 1):
            address = request.address + index * WIDTH
            assert address // 4096 == request.address // 4096
            self.beats.append((cycle + self.latency, address))
        self.asked_beats += request.beats + 1

    def offer(self, cycle):
        if not self.beats or self.beats[0][0] > cycle:
            # What the link could have carried is lost.
            self.given_bytes = max(self.given_bytes, self.bytes_per_cycle * cycle - WIDTH)
            return None
        if self.given_bytes > self.bytes_per_cycle * cycle:
            return None
        self.given_bytes += WIDTH
        address = self.beats.popleft()[1]
        content = self.memory[address : address + WIDTH].tobytes()
        error = self.faults.get(address, BusError.NONE).value
        return {"data": int.from_bytes(content, "little"), "error": error}


class DeviceMemory:
    """A memory behind a unit."""

    def __init__(self, memory, latency, faults):
        self.memory, self.latency, self.faults = memory, latency, faults
        self.bursts, self.responses = deque(), deque()

    def asked(self, request):
        assert request.address % WIDTH == 0
        assert request.address // 4096 == (request.address + request.beats * WIDTH) // 4096
        self.bursts.append([request.address, request.beats + 1, request.address])

    def written(self, cycle, beat):
        address, left, start = self.bursts[0]
        content = np.frombuffer(int(beat.data).to_bytes(WIDTH, "little"), np.uint8)
        strobe = np.array([beat.strobe >> lane & 1 for lane in range(WIDTH)], bool)
        assert strobe.any()
        self.memory[address : address + WIDTH][strobe] = content[strobe]
        assert beat.last == (left == 1)
        self.bursts[0] = [address + WIDTH, left - 1, start]
        if left == 1:
            self.bursts.popleft()
            self.responses.append((cycle + self.latency, self.faults.get(start, BusError.NONE)))


class Rig:
    """An engine's way in between two memories; made once, run from reset each time."""

    def __init__(self, config):
        self.config = config
        self.path = InPath(config)
        self.simulator = None

    def run(
        self,
        host,
        jobs,
        *,
        latency=20,
        write_latency=10,
        stall=0.0,
        seed=0,
        faults=None,
        write_faults=None,
        abort_at=None,
        bytes_per_cycle=WIDTH,
    ):
        """Returns device memory and outcomes. `split`, `done` and `write_cycles` tell when."""
        self.jobs, self.stall, self.rng = jobs, stall, random.Random(seed)
        self.device = np.full(DEVICE_BYTES, GUARD, np.uint8)
        self.reader = HostMemory(host, latency, faults or {}, bytes_per_cycle)
        self.units = [
            DeviceMemory(self.device, write_latency, write_faults or {})
            for _ in range(self.config.units)
        ]
        self.abort_at = abort_at
        self.outcomes, self.split, self.done, self.write_cycles = [], [], [], []
        if self.simulator is None:
            self.simulator = Simulator(self.path)
            self.simulator.add_clock(1e-9)
            self.simulator.add_testbench(self.body)
        else:
            self.simulator.reset()
        self.simulator.run()
        return self.device, self.outcomes

    async def body(self, ctx):
        path = self.path
        queue = deque(self.jobs)
        beat = None
        answers = [None] * self.config.units
        driven = {}
        cycle = moved = 0

        def willing():
            return self.rng.random() >= self.stall

        def drive(wire, value):
            # The simulator settles after each change.
            if driven.get(id(wire)) != value:
                driven[id(wire)] = value
                ctx.set(wire, value)

        def offer(port, payload):
            drive(port.valid, payload is not None)
            if payload is not None:
                drive(port.payload, payload)

        def moves(port):
            return ctx.get(port.valid) and ctx.get(port.ready)

        while len(self.outcomes) < len(self.jobs):
            assert cycle - moved < 1500, f"hangs after {len(self.outcomes)} jobs"
            offer(path.job, queue[0] if queue else None)
            drive(path.abort, int(self.abort_at is not None and cycle >= self.abort_at))
            drive(path.outcome.ready, willing())
            drive(path.read_request.ready, willing())
            if beat is None and willing():
                beat = self.reader.offer(cycle)
            offer(path.read_beats, beat)
            for k, unit in enumerate(self.units):
                drive(path.write_request[k].ready, willing())
                drive(path.write_beats[k].ready, willing())
                if answers[k] is None and unit.responses and unit.responses[0][0] <= cycle:
                    answers[k] = unit.responses.popleft()[1] if willing() else None
                offer(path.write_response[k], answers[k])

            self.split.append(ctx.get(path.split))
            if moves(path.job):
                queue.popleft()
            if moves(path.outcome):
                self.outcomes.append(ctx.get(path.outcome.payload))
                self.done.append(cycle)
                moved = cycle
            if moves(path.read_request):
                self.reader.asked(cycle, ctx.get(path.read_request.payload))
            if moves(path.read_beats):
                beat = None
                moved = cycle
            for k, unit in enumerate(self.units):
                if moves(path.write_request[k]):
                    unit.asked(ctx.get(path.write_request[k].payload))
                if moves(path.write_beats[k]):
                    unit.written(cycle, ctx.get(path.write_beats[k].payload))
                    self.write_cycles.append(cycle)
                    moved = cycle
                if moves(path.write_response[k]):
                    answers[k] = None
            await ctx.tick()
            cycle += 1


@cache
def rig(element_bytes=4, units=2, **options):
    return Rig(
        EngineConfig(
            codec=CodecConfig(element_bytes=element_bytes),
            units=units,
            buffer_bytes=options.pop("buffer_bytes", units * 16 * LINE),
            read_buffer_bytes=options.pop("read_buffer_bytes", 2048),
            **options,
        )
    )


class Host:
    """Streams in host memory, and the jobs that read them."""

    def __init__(self, element_bytes=4):
        self.element_bytes = element_bytes
        self.rng = np.random.default_rng(1)
        self.memory = self.rng.integers(0, 256, 1 << 16).astype(np.uint8)
        self.end = 0
        self.jobs = []
        self.streams = []

    def content(self, length, density):
        return sparse_bytes(int(self.rng.integers(1 << 30)), length, density, self.element_bytes)

    def put(
        self, dst, length, density=0.4, *, offset=0, dense=False, capacity=1 << 20, damage=None
    ):
        """A job for a content of its own. `damage` makes another stream and length of them."""
        content = self.content(length, density)
        stream = content
        if not dense:
            stream = golden.codec("zvc", self.element_bytes).compress(content)
        if damage is not None:
            stream, length = damage(stream, length)
        src = self.end + offset
        self.memory[src : src + stream.size] = stream
        self.end = (src + stream.size + 63) // 64 * 64
        assert self.end <= self.memory.size
        self.streams.append(stream)
        self.jobs.append(
            {
                "src": src,
                "src_length": stream.size,
                "dst": dst,
                "length": length,
                "capacity": capacity,
                "codec": int(dense),
            }
        )


def decoded(job, stream, element_bytes):
    """Status, offset and valid bytes of the part of a stream that was read."""
    if job["codec"]:
        whole = stream.size == job["length"]
        status = StreamStatus.OK if whole else StreamStatus.PAYLOAD_TRUNCATED
        return status, stream.size, stream
    result = decode(stream, job["length"], element_bytes)
    offset = stream.size if result.status == StreamStatus.OK else result.offset
    return result.status, offset, result.data[: result.valid_bytes]


def told(outcome):
    """The stream's status and offset, as the outcome has them."""
    line_error = LineError(outcome.lines.line_error)
    if line_error == LineError.NONE:
        status = StreamStatus.TRAILING_BYTES if outcome.tail.trailing else StreamStatus.OK
    else:
        status = {
            LineError.MASK_MISSING: StreamStatus.MASK_TRUNCATED,
            LineError.ELEMENT_MISSING: StreamStatus.PAYLOAD_TRUNCATED,
            LineError.ELEMENT_ZERO: StreamStatus.ZERO_ELEMENT,
            LineError.FILL_NONZERO: StreamStatus.NONZERO_FILL,
        }[line_error]
    return status, outcome.lines.offset


def check(host, device, outcomes, *, read=None):
    """`read`: for a job's number, the bytes of its stream that could be read, if not all."""
    unknown = np.zeros(device.size, bool)
    expected = np.full(device.size, GUARD, np.uint8)
    pairs = zip(host.jobs, host.streams, outcomes, strict=True)
    for number, (job, whole, outcome) in enumerate(pairs):
        stream = whole[: (read or {}).get(number, whole.size)]
        sent = -(-job["length"] // LINE)
        if job["capacity"]:
            # With the one in which the capacity ends, or the first one behind it.
            sent = min(sent, job["capacity"] // LINE + 1)
        status, offset, content = decoded(job, stream, host.element_bytes)
        if sent * LINE < job["length"]:
            assert outcome.lines.cut
            assert 0 < outcome.receive.size <= stream.size
            assert outcome.lines.size == sent * LINE
            assert LineError(outcome.lines.line_error) is LineError.NONE
            dst, end = job["dst"], job["dst"] + job["capacity"]
            expected[dst:end] = content[: job["capacity"]]
            continue
        # How much is read of a stream with an error depends on when that is known.
        assert outcome.receive.size == outcome.tail.size
        if status == StreamStatus.OK:
            assert not outcome.lines.cut
        if status == StreamStatus.OK or number in (read or {}):
            assert outcome.receive.size == stream.size, number
        assert min(offset, stream.size) <= outcome.receive.size <= stream.size, number
        if number not in (read or {}):
            assert BusError(outcome.receive.error) is BusError.NONE
            assert outcome.receive.aborted == 0
        assert told(outcome) == (status, offset), number
        assert outcome.lines.size == len(content), number
        assert BusError(outcome.lines.error) is BusError.NONE
        if status in (StreamStatus.OK, StreamStatus.TRAILING_BYTES):
            assert outcome.lines.crc32 == golden.crc32(content), number
        dst = job["dst"]
        written = content[: job["capacity"]]
        expected[dst : dst + len(written)] = written
        unknown[dst + len(written) : dst + min(job["length"], job["capacity"])] = True
    assert np.array_equal(device[~unknown], expected[~unknown])


def many_jobs(element_bytes):
    """Lengths from 1 B on, at every kind of offset on both sides."""
    host = Host(element_bytes)
    e = element_bytes
    host.put(0x100, 1)
    host.put(0x200 + e, 700, 0.5, offset=e)
    host.put(0x1000 - 4 * e, 1000, 0.2, offset=3 * e)
    host.put(0x2000, 127, 1.0)
    host.put(0x3000 - e, 640, 0.9, dense=True, offset=5 * e)
    host.put(0x4000, 513, 0.9, dense=True)
    host.put(0x4400, 1, 1.0, dense=True, offset=7 * e)
    host.put(0x5000 + 7 * e, 3000, 0.02)
    host.put(0x7000 + 31 // e * e, 1500, 0.1)
    host.put(0x8004, 129, 0.0)
    return host


@pytest.mark.parametrize("element_bytes", widths(4, 2, 1, quick=[4, 1]))
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_jobs_arrive_bit_for_bit_between_guard_bytes(element_bytes, stall):
    host = many_jobs(element_bytes)
    device, outcomes = rig(element_bytes).run(host.memory, host.jobs, stall=stall)
    check(host, device, outcomes)


@pytest.mark.parametrize(
    "options", [{"units": 1}, {"units": 3, "split_lines": 1}, {"units": 3, "split_beats": 2}]
)
def test_any_number_of_units(options):
    host = many_jobs(4)
    device, outcomes = rig(**options).run(host.memory, host.jobs, stall=0.2)
    check(host, device, outcomes)


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_no_byte_beyond_the_capacity(stall):
    host = Host()
    for number, capacity in enumerate((0, 1, 31, 127, 128, 129, 255, 300, 383)):
        dense = bool(number % 2)
        host.put(0x400 * number + 4 * number, 384, 0.5, capacity=capacity, dense=dense)
    device, outcomes = rig().run(host.memory, host.jobs, stall=stall)
    check(host, device, outcomes)


def cut(size):
    return lambda stream, length: (stream[:size], length)


def longer(count):
    return lambda stream, length: (np.append(stream, np.zeros(count, np.uint8)), length)


def zeroed(number):
    """The first element of a stream from a place on is made zero: by the stream's first mask."""

    def damage(stream, length):
        spoiled = stream.copy()
        mask_bytes = 4
        spoiled[mask_bytes + 4 * number : mask_bytes + 4 * number + 4] = 0
        return spoiled, length

    return damage


def shorter(length):
    return lambda stream, _: (stream, length)


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_damaged_streams_are_told_as_golden_tells_them(stall):
    host = Host()
    damages = [cut(size) for size in (1, 3, 4, 5, 63, 64, 66, 150, 200)]
    damages += [longer(count) for count in (1, 4, 40)]
    damages += [zeroed(number) for number in (0, 3, 10)]
    damages += [shorter(length) for length in (1, 127, 300, 599)]
    for number, damage in enumerate(damages):
        host.put(0x400 * (2 * number) + 4 * number, 600, 0.5, damage=damage)
        host.put(0x400 * (2 * number + 1), 130, 0.5)
    device, outcomes = rig().run(host.memory, host.jobs, stall=stall)
    check(host, device, outcomes)
    statuses = {told(outcome)[0] for outcome in outcomes}
    assert len(statuses) >= 6


def test_dense_copy_of_a_short_stream_ends_where_it_does():
    host = Host()
    for number, size in enumerate((4, 128, 252, 256, 400)):
        host.put(0x400 * number, 600, 0.5, dense=True, damage=cut(size))
    device, outcomes = rig().run(host.memory, host.jobs)
    check(host, device, outcomes)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("offset", [0, 12])
def test_read_error_ends_the_stream_and_the_next_job_is_free_of_it(dense, offset):
    host = Host()
    host.put(0x100, 2000, 1.0, offset=offset, dense=dense)
    host.put(0x1004, 500)
    fault = 5 * WIDTH
    device, outcomes = rig().run(
        host.memory, host.jobs, faults={fault: BusError.DECERR, fault + 64: BusError.SLVERR}
    )
    check(host, device, outcomes, read={0: fault - offset})
    assert BusError(outcomes[0].receive.error) is BusError.DECERR
    assert outcomes[0].receive.address == fault
    assert BusError(outcomes[1].receive.error) is BusError.NONE


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_write_error_is_told_with_its_burst_and_the_bytes_before_it(stall):
    host = Host()
    host.put(0x104, 1500, 0.5)
    host.put(0x1000, 500)
    # Lines begin at 0x104 + 128 n; 0x400 is a burst's boundary inside one of them.
    faults = {0x400: BusError.SLVERR, 0x480: BusError.DECERR}
    _, outcomes = rig().run(host.memory, host.jobs, stall=stall, write_faults=faults)
    assert BusError(outcomes[0].lines.error) is BusError.SLVERR
    assert outcomes[0].lines.address == 0x400
    assert outcomes[0].lines.size == 0x400 - 0x104
    assert told(outcomes[0])[0] == StreamStatus.OK
    content = decoded(host.jobs[0], host.streams[0], 4)[2]
    assert outcomes[0].lines.crc32 == golden.crc32(content)
    assert BusError(outcomes[1].lines.error) is BusError.NONE
    assert outcomes[1].lines.size == 500


@pytest.mark.parametrize("abort_at", [0, 3, 30, 45, 80])
def test_abort_ends_every_job(abort_at):
    host = Host()
    host.put(0x100, 8000, 0.6, offset=4)
    host.put(0x4000, 512)
    host.put(0x5000, 512, dense=True)
    device, outcomes = rig().run(host.memory, host.jobs, abort_at=abort_at)
    read = {number: outcome.receive.size for number, outcome in enumerate(outcomes)}
    check(host, device, outcomes, read=read)
    assert [outcome.receive.aborted for outcome in outcomes] == [1, 1, 1]
    assert read[0] < host.streams[0].size
    assert read[1] == read[2] == 0


def test_verification_writes_nothing_and_tells_the_checksum():
    host = Host()
    host.put(0, 3000, 0.3, capacity=0)
    device, outcomes = rig().run(host.memory, host.jobs)
    assert (device == GUARD).all()
    check(host, device, outcomes)


def test_stream_of_the_next_job_is_read_before_the_former_is_written():
    host = Host()
    host.put(0x100, 512, 1.0)
    host.put(0x1000, 512, 1.0)
    lines = rig()
    lines.run(host.memory, host.jobs, latency=60, write_latency=100)
    ends = [cycle for cycle, count in enumerate(lines.split) for _ in range(count)]
    assert ends[4] < lines.done[0] - 50


def lines_per_cycle(host_bytes_per_cycle, elements, *, dense=False, dst=0):
    """Rate of lines with so many non-zero elements in turn; all units at work."""
    count = 48 if elements == [32] else 120
    words = np.zeros((count, 32), np.uint32)
    for number, line in enumerate(words):
        line[: elements[number % len(elements)]] = 0x01020304
    content = words.view(np.uint8).ravel()
    host = Host()
    host.content = lambda length, density: content
    host.put(dst, content.size, dense=dense)
    path = rig(units=6, buffer_bytes=70 * 1024, read_buffer_bytes=16 * 1024)
    device, outcomes = path.run(
        host.memory,
        host.jobs,
        latency=100,
        write_latency=200,
        bytes_per_cycle=host_bytes_per_cycle,
    )
    check(host, device, outcomes)
    # Beats of memory, without the first and the last ones.
    beats = path.write_cycles
    first, last = len(beats) // 10, 9 * len(beats) // 10
    return count * (last - first) / len(beats) / (beats[last] - beats[first])


@pytest.mark.parametrize(
    ("bytes_per_cycle", "elements", "dense", "dst", "expected"),
    [
        # Ratio 8 and 12 at the link's 16 B per cycle; the latter is the units' limit, too.
        (16, [3], False, 0, 1.0),
        (16, [1, 2, 2], False, 0, 1.5),
        # A line takes a unit a cycle more if it begins inside a beat.
        (32, [1, 2, 2], False, 4, 6 / 5),
        # The stream's limit.
        (32, [32], False, 0, 32 / 132),
        (32, [32], True, 0, 32 / 128),
    ],
)
def test_lines_per_cycle(bytes_per_cycle, elements, dense, dst, expected):
    rate = lines_per_cycle(bytes_per_cycle, elements, dense=dense, dst=dst)
    assert rate >= 0.97 * expected
