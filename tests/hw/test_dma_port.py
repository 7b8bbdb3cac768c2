"""A shared AXI4 port: who gets what, how fast, and what happens when the bus does not answer."""

import random
from collections import deque

import pytest
from amaranth.hdl import ClockDomain, Module, Value
from amaranth.sim import Simulator

from hw.dma.bus import BusError
from hw.dma.port import Axi4Port
from tests.hw.axi4_bus import CHANNELS, Axi4Bus, Behavior, content
from tests.hw.bench import assert_no_bubble

WIDTH = 4
READS, WRITES = (3, 2), (2, 3)
STALLS = [0.0, 0.3, 0.7]


class Reader:
    """A source of reads. `beats[i]` are those of burst i: cycle, data, error."""

    def __init__(self, port, index, stall, seed):
        self.request, self.stream = port.read_request[index], port.read_beats[index]
        self.index, self.stall, self.random = index, stall, random.Random(seed)
        self.bursts, self.asked, self.beats = [], [], []
        self.waiting = self.standing = None

    def ask(self, *bursts):
        self.bursts += bursts

    def wires(self):
        return [
            self.request.ready,
            self.stream.valid,
            self.stream.payload.data,
            Value.cast(self.stream.payload.error),
        ]

    def drive(self, ctx):
        if self.waiting is None and len(self.asked) < len(self.bursts):
            self.waiting = self.random.random() >= self.stall or None
        ctx.set(self.request.valid, bool(self.waiting))
        if self.waiting:
            address, beats = self.bursts[len(self.asked)]
            ctx.set(self.request.payload, {"address": address, "beats": beats - 1})
        self.willing = self.random.random() >= self.stall
        ctx.set(self.stream.ready, self.willing)

    def observe(self, cycle, values):
        taken, valid, data, error = values
        if self.waiting and taken:
            self.asked.append(cycle)
            self.waiting = None
        if self.standing is not None:
            assert valid, f"cycle {cycle}: beat of source {self.index} withdrawn"
            assert (data, error) == self.standing, f"cycle {cycle}: a beat changed"
        self.standing = (data, error) if valid and not self.willing else None
        if valid and self.willing:
            if not self.beats or len(self.beats[-1]) == self.bursts[len(self.beats) - 1][1]:
                assert len(self.beats) < len(self.asked), f"cycle {cycle}: a beat unasked"
                self.beats.append([])
            self.beats[-1].append((cycle, data, BusError(error)))

    @property
    def done(self):
        return len(self.beats) == len(self.bursts) and (
            not self.bursts or len(self.beats[-1]) == self.bursts[-1][1]
        )

    def errors(self):
        """By burst, of each beat; those without are as memory has them."""
        for (address, _), beats in zip(self.bursts, self.beats, strict=True):
            for index, (_, data, error) in enumerate(beats):
                if error is BusError.NONE:
                    assert data == content(address + WIDTH * index, WIDTH)
        return [[error for _, _, error in beats] for beats in self.beats]


class Writer:
    """A source of writes. `answers[i]` is that to burst i: cycle, error."""

    def __init__(self, port, index, stall, seed):
        self.request, self.stream = port.write_request[index], port.write_beats[index]
        self.response = port.write_response[index]
        self.index, self.stall, self.random = index, stall, random.Random(seed)
        self.bursts, self.asked, self.given, self.answers = [], [], [], []
        self.data = deque()
        self.memory = {}
        self.waiting = self.offering = self.standing = None

    def ask(self, *bursts):
        self.bursts += bursts

    def wires(self):
        return [self.request.ready, self.stream.ready, self.response.valid, self.response.payload]

    def drive(self, ctx):
        if self.waiting is None and len(self.asked) < len(self.bursts):
            self.waiting = self.random.random() >= self.stall or None
        ctx.set(self.request.valid, bool(self.waiting))
        if self.waiting:
            address, beats = self.bursts[len(self.asked)]
            ctx.set(self.request.payload, {"address": address, "beats": beats - 1})
        if self.offering is None and self.data:
            self.offering = self.random.random() >= self.stall or None
        ctx.set(self.stream.valid, bool(self.offering))
        if self.offering:
            ctx.set(self.stream.payload, self.data[0])
        self.willing = self.random.random() >= self.stall
        ctx.set(self.response.ready, self.willing)

    def observe(self, cycle, values):
        asked, given, valid, error = values
        if self.offering and given:
            self.offering = None
            if self.data.popleft()["last"]:
                self.given.append(cycle)
        if self.waiting and asked:
            self._load(*self.bursts[len(self.asked)])
            self.asked.append(cycle)
            self.waiting = None
        if self.standing is not None:
            assert valid, f"cycle {cycle}: response of source {self.index} withdrawn"
            assert error == self.standing, f"cycle {cycle}: a response changed"
        self.standing = error if valid and not self.willing else None
        if valid and self.willing:
            assert len(self.answers) < len(self.given), f"cycle {cycle}: answered too early"
            self.answers.append((cycle, BusError(error)))

    def _load(self, address, beats):
        for index in range(beats):
            data = self.random.getrandbits(8 * WIDTH)
            strobe = self.random.randrange(1, 1 << WIDTH)
            self.data.append({"data": data, "strobe": strobe, "last": index == beats - 1})
            for lane in range(WIDTH):
                if strobe >> lane & 1:
                    at = address + WIDTH * index + lane
                    self.memory[at] = data >> 8 * lane & 0xFF

    @property
    def done(self):
        return len(self.answers) == len(self.bursts)

    def errors(self):
        return [error for _, error in self.answers]


class Bench:
    """The port, its sources and a bus."""

    def __init__(self, reads=READS, writes=WRITES):
        self.port = Axi4Port(WIDTH, 32, 1, reads, writes)
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.port = self.port
        self.simulator = Simulator(m)
        self.simulator.add_clock(1e-9)
        self.simulator.add_testbench(self._clock)
        self.runs = 0

    def prepare(self, behavior, *, timeout=0, stall=0.0, seed=0):
        self.seed = seed
        self.timeout = timeout
        port = self.port
        self.bus = Axi4Bus(port.m_axi, behavior, seed)
        self.readers = [
            Reader(port, k, stall, (seed, k).__hash__()) for k in range(len(port.reads))
        ]
        self.writers = [
            Writer(port, k, stall, (seed, -k).__hash__()) for k in range(len(port.writes))
        ]
        return self.bus

    def run(self, then=None, *, until=None, limit=6000):
        """Until all sources are done and the port is idle; `then` is called there, and asks more if
        it gives True."""
        self.then, self.limit = then, limit
        self.until = until or (lambda cycle: all(s.done for s in self.readers + self.writers))
        if self.runs:
            self.simulator.reset()
        self.runs += 1
        self.simulator.run()

    async def _clock(self, ctx):
        port = self.port
        sources = [*self.readers, *self.writers]
        ctx.set(port.timeout_cycles, self.timeout)
        wires = [*self.bus.wires(), port.idle, port.beat_read, port.beat_written]
        bus_wires = len(self.bus.wires())
        for source in sources:
            wires += source.wires()
        moved = {"r": False, "w": False}
        idle_since = 0
        for cycle in range(self.limit):
            self.bus.drive(ctx, cycle)
            for source in sources:
                source.drive(ctx)
            _, _, *values = await ctx.tick().sample(*wires)
            idle, beat_read, beat_written = values[bus_wires : bus_wires + 3]
            assert beat_read == moved["r"]
            assert beat_written == moved["w"]
            assert not (idle and self.bus.owes), f"cycle {cycle}: idle although the bus owes"
            before = {channel: len(cycles) for channel, cycles in self.bus.transfers.items()}
            self.bus.observe(ctx, cycle, values[:bus_wires])
            moved = {c: len(self.bus.transfers[c]) > before[c] for c in moved}
            at = bus_wires + 3
            for source in sources:
                count = len(source.wires())
                source.observe(cycle, values[at : at + count])
                at += count
            idle_since = idle_since + 1 if self.until(cycle) and idle else 0
            if idle_since > 8:
                if self.then is None or not self.then(cycle):
                    return
                self.then, idle_since = None, 0
        raise AssertionError(f"not done after {self.limit} cycles")


@pytest.fixture(scope="module")
def bench():
    return Bench()


@pytest.fixture(scope="module")
def fast_bench():
    """Bursts enough that nothing waits for an answer."""
    return Bench((16, 16), (16, 16))


def some_bursts(seed, count, *, most=6, base=0):
    generator = random.Random(seed)
    return [
        (base + 0x100 * index + WIDTH * generator.randrange(8), generator.randint(1, most))
        for index in range(count)
    ]


def ask_all(bench, count, *, base=0, seed=1):
    for k, source in enumerate([*bench.readers, *bench.writers]):
        source.ask(*some_bursts(seed + k, count, base=base + (k << 20)))


def assert_clean(bench, first=0):
    """No errors from that burst on."""
    for reader in bench.readers:
        assert all(e is BusError.NONE for beats in reader.errors()[first:] for e in beats)
    for writer in bench.writers:
        assert all(error is BusError.NONE for error in writer.errors()[first:])


@pytest.mark.parametrize("source_stall", STALLS)
@pytest.mark.parametrize("bus_stall", STALLS)
def test_every_source_gets_what_it_asked_for(bench, bus_stall, source_stall):
    behavior = Behavior(stall=bus_stall, latency=12)
    bus = bench.prepare(behavior, timeout=400, stall=source_stall, seed=7)
    ask_all(bench, 24)
    bench.run()
    assert_clean(bench)
    memory = {}
    for writer in bench.writers:
        memory.update(writer.memory)
    assert bus.written == memory
    for channel, bounds in (("r", READS), ("b", WRITES)):
        for k, bound in enumerate(bounds):
            assert 1 <= bus.most_open[channel, k] <= bound


def test_bus_may_wait_for_data_before_it_takes_the_address(bench):
    bus = bench.prepare(Behavior(data_first=True), timeout=50)
    ask_all(bench, 8)
    bench.run()
    assert_clean(bench)
    assert len(bus.transfers["b"]) == 16


def test_error_responses_find_their_burst(bench):
    errors = {0: BusError.SLVERR, 5: BusError.DECERR}
    bench.prepare(Behavior(latency=1, read_errors=errors, write_errors=errors))
    bench.readers[1].ask((0x0, 4), (0x100, 3))
    bench.writers[1].ask(*[(0x100 * i, 2) for i in range(7)])
    bench.run()
    none, slave, decode = BusError.NONE, BusError.SLVERR, BusError.DECERR
    assert bench.readers[1].errors() == [[slave, none, none, none], [none, decode, none]]
    assert bench.writers[1].errors() == [slave, none, none, none, none, decode, none]


def test_sources_take_turns(fast_bench):
    bench = fast_bench
    bench.prepare(Behavior(latency=1))
    for source in [*bench.readers, *bench.writers]:
        source.ask(*[(0x100 * i, 4) for i in range(12)])
    bench.run()
    for sources in (bench.readers, bench.writers):
        turns = sorted((cycle, k) for k, source in enumerate(sources) for cycle in source.asked)
        assert [k for _, k in turns] in ([0, 1] * 12, [1, 0] * 12)


@pytest.mark.parametrize("beats", [1, 4])
def test_a_beat_per_cycle_each_way(fast_bench, beats):
    bench = fast_bench
    bus = bench.prepare(Behavior(latency=1))
    for source in [*bench.readers, *bench.writers]:
        source.ask(*[(0x100 * i, beats) for i in range(40)])
    bench.run()
    assert_clean(bench)
    assert_no_bubble(bus.transfers["r"])
    assert_no_bubble(bus.transfers["w"])
    if beats == 1:
        for channel in CHANNELS:
            assert_no_bubble(bus.transfers[channel])


def test_latencies(bench):
    bus = bench.prepare(Behavior(latency=1))
    bench.readers[0].ask((0, 1))
    bench.writers[0].ask((0, 1))
    bench.run()
    [[(beat, _, _)]] = bench.readers[0].beats
    assert bus.transfers["ar"] == [bench.readers[0].asked[0] + 1]
    assert [beat] == [bus.transfers["r"][0] + 1]
    assert bus.transfers["aw"] == [bench.writers[0].asked[0] + 1]
    assert bus.transfers["w"] == [bench.writers[0].asked[0] + 4]
    assert bench.writers[0].answers[0][0] == bus.transfers["b"][0] + 1


# The bus does not answer.

TIMEOUT = 40
ANSWER_CYCLES = 30
"""Within which the made-up answers to what these tests ask for are taken."""


def timed_out(bench):
    """By source, the numbers of the bursts with a time-out."""
    found = []
    for reader in bench.readers:
        found.append([i for i, e in enumerate(reader.errors()) if BusError.TIMEOUT in e])
    for writer in bench.writers:
        found.append([i for i, e in enumerate(writer.errors()) if e is BusError.TIMEOUT])
    return found


def concerned(bench, channel):
    return (0, 1) if channel in ("ar", "r") else (2, 3)


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("index", [0, 1, 6, 13])
@pytest.mark.parametrize("channel", CHANNELS)
def test_hang_is_answered_with_a_timeout_and_recovers(bench, channel, index, stall):
    lift = 400
    behavior = Behavior(stall=stall, latency=9, hangs={channel: index}, lift=lift)
    bus = bench.prepare(behavior, timeout=TIMEOUT, stall=stall, seed=index)
    ask_all(bench, 12)
    answered_at = []

    def until(cycle):
        done = all(source.done for source in [*bench.readers, *bench.writers])
        if done and not answered_at:
            answered_at.append(cycle)
        return done

    def again(cycle):
        # Nothing was reset: the next ones go well.
        ask_all(bench, 6, base=1 << 24, seed=9)
        return True

    bench.run(again, until=until)
    found = timed_out(bench)
    half = concerned(bench, channel)
    assert any(found[k] for k in half)
    assert not any(found[k] for k in range(4) if k not in half)
    for bursts in found:
        assert all(i < 12 for i in bursts)
        # From some burst on, all; none before.
        assert bursts == list(range(12 - len(bursts), 12))
    # Long before the bus answered.
    assert answered_at[0] < bus.hung_since[channel] + lift
    memory = {}
    for writer in bench.writers:
        memory.update(writer.memory)
    assert bus.written.items() <= memory.items()


@pytest.mark.parametrize("channel", CHANNELS)
def test_answers_to_a_dead_bus_come_at_once(bench, channel):
    half = ("ar", "r") if channel in ("ar", "r") else ("aw", "w", "b")
    bus = bench.prepare(Behavior(latency=1, hangs={channel: 2}), timeout=TIMEOUT)
    ask_all(bench, 3)
    sources = [*bench.readers, *bench.writers]
    done_at = []

    def until(cycle):
        if all(source.done for source in sources):
            done_at.append(cycle)
        return False

    with pytest.raises(AssertionError, match="not done after 300 cycles"):
        bench.run(until=until, limit=300)
    last = max(cycle for c in half for cycle in bus.transfers[c])
    assert last + TIMEOUT < done_at[0] < last + TIMEOUT + ANSWER_CYCLES
    assert bus.owes


def test_no_timeout_without_a_limit(bench):
    behavior = Behavior(latency=1, hangs={"r": 3, "b": 3}, lift=2000)
    bench.prepare(behavior, timeout=0)
    ask_all(bench, 6)
    bench.run()
    assert_clean(bench)


@pytest.mark.parametrize("channel", CHANNELS)
def test_limit_counts_cycles_without_a_transfer(bench, channel):
    half = ("ar", "r") if channel in ("ar", "r") else ("aw", "w", "b")
    outcomes = set()
    for lift in range(TIMEOUT - 4, TIMEOUT + 10, 2):
        bus = bench.prepare(Behavior(latency=1, hangs={channel: 1}, lift=lift), timeout=TIMEOUT)
        bench.readers[0].ask((0, 1), (64, 1))
        bench.writers[0].ask((0, 1), (64, 1))
        bench.run()
        ends = bus.transfers[channel][1]
        before = max(cycle for c in half for cycle in bus.transfers[c] if cycle < ends)
        silence = ends - before - 1
        outcomes.add(any(timed_out(bench)))
        if silence < TIMEOUT:
            assert not any(timed_out(bench))
        elif silence > TIMEOUT:
            assert any(timed_out(bench))
    assert outcomes == {True, False}
