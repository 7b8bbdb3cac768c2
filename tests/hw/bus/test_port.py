"""A shared AXI4 port: who gets what, how fast, and what happens when the bus does not answer."""

import gc
import random
from collections import deque

import pytest
from amaranth.hdl import Cat, ClockDomain, Module, Value

from cdma.hw.bus.burst import BusError
from cdma.hw.bus.port import Axi4Port
from tests.lib.rtl.axi4_bus import CHANNELS, Axi4Bus, Behavior, content
from tests.lib.rtl.bench import assert_no_bubble
from tests.lib.simulator import Simulator

WIDTH = 4
READS, WRITES = (3, 2), (2, 3)
STALLS = [0.0, 0.3, 0.7]
TIMEOUT = 40


def offered_request(source):
    """The wires of a source's request in the next cycle."""
    if source.waiting is None and len(source.asked) < len(source.bursts):
        source.waiting = source.random.random() >= source.stall or None
    if not source.waiting:
        return [0, 0, 0]
    address, beats = source.bursts[len(source.asked)]
    return [1, address, beats - 1]


class Reader:
    """A source of reads. `beats[i]` are those of burst i: cycle, data, error."""

    def __init__(self, port, index, stall, seed):
        self.request, self.stream = port.read_request[index], port.read_beats[index]
        self.index, self.stall, self.random = index, stall, random.Random(seed)
        self.bursts, self.asked, self.beats = [], [], []
        self.absence = ()
        self.waiting = self.standing = None

    def ask(self, *bursts):
        self.bursts += bursts

    def outputs(self):
        return [
            self.request.ready,
            self.stream.valid,
            self.stream.payload.data,
            Value.cast(self.stream.payload.error),
        ]

    def inputs(self):
        request = self.request.payload
        return [self.request.valid, request.address, request.beats, self.stream.ready]

    def drive(self, cycle):
        self.willing = (
            self.waits and cycle not in self.absence and self.random.random() >= self.stall
        )
        return [*offered_request(self), self.willing]

    def observe(self, cycle, values):
        taken, valid, data, error = values
        if self.waiting and taken:
            self.asked.append(cycle)
            self.waiting = None
        if self.standing is not None:
            assert valid, f"cycle {cycle}: beat of source {self.index} withdrawn"
            assert (data, error) == self.standing, f"cycle {cycle}: a beat changed"
        self.standing = (data, error) if valid and not self.willing else None
        assert not valid or self.waits, f"cycle {cycle}: a beat unasked"
        if valid and self.willing:
            if self._ended:
                self.beats.append([])
            self.beats[-1].append((cycle, data, BusError(error)))

    @property
    def _ended(self):
        """No burst has begun and not ended."""
        return not self.beats or len(self.beats[-1]) == self.bursts[len(self.beats) - 1][1]

    @property
    def waits(self):
        return len(self.beats) < len(self.asked) or not self._ended

    @property
    def done(self):
        return len(self.beats) == len(self.bursts) and self._ended

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
        self.absence = ()
        self.data = deque()
        self.memories = []
        self.waiting = self.offering = self.standing = None

    def ask(self, *bursts):
        self.bursts += bursts

    def outputs(self):
        return [self.request.ready, self.stream.ready, self.response.valid, self.response.payload]

    def inputs(self):
        request, beat = self.request.payload, self.stream.payload
        return [
            *(self.request.valid, request.address, request.beats),
            *(self.stream.valid, beat.data, beat.strobe, beat.last),
            self.response.ready,
        ]

    def drive(self, cycle):
        if self.offering is None and self.data:
            self.offering = self.random.random() >= self.stall or None
        beat = self.data[0].values() if self.offering else (0, 0, 0)
        self.willing = (
            self.waits and cycle not in self.absence and self.random.random() >= self.stall
        )
        return [*offered_request(self), bool(self.offering), *beat, self.willing]

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
        assert not valid or self.waits, f"cycle {cycle}: answered too early"
        if valid and self.willing:
            self.answers.append((cycle, BusError(error)))

    def _load(self, address, beats):
        memory = {}
        self.memories.append(memory)
        for index in range(beats):
            data = self.random.getrandbits(8 * WIDTH)
            strobe = self.random.randrange(1, 1 << WIDTH)
            self.data.append({"data": data, "strobe": strobe, "last": index == beats - 1})
            for lane in range(WIDTH):
                if strobe >> lane & 1:
                    at = address + WIDTH * index + lane
                    memory[at] = data >> 8 * lane & 0xFF

    @property
    def waits(self):
        return len(self.answers) < len(self.given)

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
        port, bus = self.port, self.bus
        sources = [*self.readers, *self.writers]
        ctx.set(port.timeout_cycles, self.timeout)
        # Each assignment lets the simulator settle: all inputs in one.
        inputs = [bus.inputs(), *(source.inputs() for source in sources)]
        wires = Cat(wire for group in inputs for wire in group)
        widths = [len(Value.cast(wire)) for group in inputs for wire in group]
        outputs = [[port.idle, port.beat_read, port.beat_written], bus.outputs()]
        outputs += [source.outputs() for source in sources]
        moved = {"r": False, "w": False}
        idle_since = 0
        for cycle in range(self.limit):
            values = bus.drive(ctx, cycle)
            for source in sources:
                values += source.drive(cycle)
            joined = shift = 0
            for width, value in zip(widths, values, strict=True):
                joined |= value << shift
                shift += width
            ctx.set(wires, joined)
            _, _, *sampled = await ctx.tick().sample(*(w for group in outputs for w in group))
            groups = []
            for group in outputs:
                groups.append(sampled[: len(group)])
                del sampled[: len(group)]
            idle, beat_read, beat_written = groups[0]
            assert beat_read == moved["r"]
            assert beat_written == moved["w"]
            assert not (idle and bus.owes), f"cycle {cycle}: idle although the bus owes"
            before = {channel: len(bus.transfers[channel]) for channel in moved}
            bus.observe(cycle, groups[1])
            moved = {c: len(bus.transfers[c]) > before[c] for c in moved}
            for source, values in zip(sources, groups[2:], strict=True):
                source.observe(cycle, values)
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


@pytest.fixture(scope="module")
def narrow_bench():
    return Bench((2,), (2,))


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


def assert_memory(bench):
    """Memory has all of the writes that went well, and of others nothing that is not theirs."""
    possible, certain = {}, {}
    for writer in bench.writers:
        for memory, error in zip(writer.memories, writer.errors(), strict=True):
            possible.update(memory)
            if error is BusError.NONE:
                certain.update(memory)
    assert certain.items() <= bench.bus.written.items() <= possible.items()


@pytest.mark.parametrize("source_stall", STALLS)
@pytest.mark.parametrize("bus_stall", STALLS)
def test_every_source_gets_what_it_asked_for(bench, bus_stall, source_stall):
    behavior = Behavior(stall=bus_stall, latency=12)
    bus = bench.prepare(behavior, timeout=400, stall=source_stall, seed=7)
    ask_all(bench, 24)
    bench.run()
    assert_clean(bench)
    assert_memory(bench)
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
    assert bus.transfers["w"] == [bench.writers[0].asked[0] + 3]
    assert bench.writers[0].answers[0][0] == bus.transfers["b"][0] + 1


def test_rlast_too_early_or_too_late_concerns_its_burst_alone(bench):
    behavior = Behavior(stall=0.3, early_last={1: 1, 4: 0, 9: 2}, late_last={2: 1, 6: 3, 7: 1})
    bus = bench.prepare(behavior, timeout=400, stall=0.3)
    for k, reader in enumerate(bench.readers):
        reader.ask(*[((k << 20) + 0x100 * i, 4) for i in range(8)])
    bench.run()
    wrong = [
        beats
        for reader in bench.readers
        for beats in reader.errors()
        if any(error is not BusError.NONE for error in beats)
    ]
    none, framing = BusError.NONE, BusError.FRAMING
    early = [[none] * first + [framing] * (4 - first) for first in (1, 0, 2)]
    late = [[none] * 3 + [framing]] * 3
    assert sorted(wrong, key=repr) == sorted(early + late, key=repr)
    assert len(bus.transfers["r"]) == 16 * 4 - (2 + 3 + 1) + (1 + 3 + 1)


def test_answers_that_nobody_asked_for_are_dropped(bench, narrow_bench):
    # From an ID without a source, and from one whose source asks nothing.
    for silent in (narrow_bench, bench):
        silent.prepare(Behavior(stall=0.2, unasked=(1,)), timeout=TIMEOUT, stall=0.3)
        for source in (silent.readers[0], silent.writers[0]):
            source.ask(*some_bursts(3, 20))
        silent.run()
        assert_clean(silent)
        assert_memory(silent)


# The bus does not answer.

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
@pytest.mark.parametrize("index", [0, 1, 13])
@pytest.mark.parametrize("channel", CHANNELS)
def test_hang_is_answered_with_a_timeout_and_recovers(bench, channel, index, stall):
    lift = 250
    behavior = Behavior(stall=stall, latency=9, hangs={channel: index}, lift=lift)
    bus = bench.prepare(behavior, timeout=TIMEOUT, stall=stall, seed=index)
    ask_all(bench, 8)
    answered_at = []

    def until(cycle):
        done = all(source.done for source in [*bench.readers, *bench.writers])
        if done and not answered_at:
            answered_at.append(cycle)
        return done

    def again(cycle):
        # Nothing was reset: the next ones go well.
        ask_all(bench, 3, base=1 << 24, seed=9)
        return True

    bench.run(again, until=until)
    found = timed_out(bench)
    half = concerned(bench, channel)
    assert any(found[k] for k in half)
    assert not any(found[k] for k in range(4) if k not in half)
    for bursts in found:
        # From some burst on, all that were asked for meanwhile.
        assert bursts == list(range(8 - len(bursts), 8))
    # Long before the bus answered.
    assert answered_at[0] < bus.hung_since[channel] + lift
    assert_memory(bench)


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("channel", CHANNELS)
def test_half_lives_again_though_sources_never_pause(bench, channel, stall):
    behavior = Behavior(stall=stall, latency=9, hangs={channel: 5}, lift=100)
    bus = bench.prepare(behavior, timeout=TIMEOUT, stall=stall, seed=3)
    # Dead, the port answers a read beat and a write beat per cycle and source.
    for k, source in enumerate([*bench.readers, *bench.writers]):
        source.ask(*some_bursts(k, 120, most=4, base=k << 20))
    bench.run()
    for k, bursts in enumerate(timed_out(bench)):
        if k in concerned(bench, channel):
            assert bursts == list(range(bursts[0], bursts[-1] + 1))
            assert bursts[-1] < 119
        else:
            assert not bursts
    assert_memory(bench)
    told = [c for writer in bench.writers for c, e in writer.answers if e is BusError.TIMEOUT]
    if told:
        # Only what stood on the bus already is still written.
        lives = min(c for writer in bench.writers for c, e in writer.answers if c > max(told))
        addressed = max(c for c in bus.transfers["aw"] if c < lives - 4)
        late = [c for c in bus.strobed if min(told) <= c <= min(addressed, max(told))]
        assert len(late) <= 1


@pytest.mark.parametrize("seed", range(12))
def test_answers_later_than_the_limit_are_nobody_s(bench, seed):
    """The limit is below what this bus takes, so that it dies and lives all the time."""
    generator = random.Random(seed)
    behavior = Behavior(stall=generator.choice([0.2, 0.6]), latency=40)
    if seed % 2:
        behavior.early_last = dict.fromkeys(range(3, 200, 7), 0)
        behavior.late_last = dict.fromkeys(range(5, 200, 7), 2)
    stall = generator.choice([0.0, 0.5])
    bench.prepare(behavior, timeout=generator.choice([10, 12]), stall=stall, seed=seed)
    ask_all(bench, 40)
    bench.run()
    read = {error for reader in bench.readers for beats in reader.errors() for error in beats}
    written = {error for writer in bench.writers for error in writer.errors()}
    assert read - {BusError.FRAMING} == written == {BusError.NONE, BusError.TIMEOUT}
    if seed % 2 == 0:
        assert BusError.FRAMING not in read
    assert_memory(bench)


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


@pytest.mark.parametrize("owner", [0, 1])
def test_each_request_has_the_attributes_of_its_owner(owner):
    port = Axi4Port(WIDTH, 32, 1, (2,), (2,), owners=2, user_bits=3)
    m = Module()
    m.domains.sync = ClockDomain()
    m.submodules.port = port
    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    axi = port.m_axi
    own = {"prot": 0b101, "arcache": 0b1010, "awcache": 0b0110, "user": 0b110}
    other = {"prot": 0b010, "arcache": 0b0101, "awcache": 0b1001, "user": 0b001}

    async def bench(ctx):
        ctx.set(port.attributes, [own, other] if owner == 0 else [other, own])
        for request in (port.read_request[0], port.write_request[0]):
            ctx.set(request.payload.owner, owner)
            ctx.set(request.valid, 1)
        for channel in ("ar", "aw"):
            await ctx.tick().until(getattr(axi, f"{channel}valid"))
            pins = {
                name: ctx.get(getattr(axi, channel + name))
                for name in ("prot", "cache", "user", "size", "burst", "lock", "qos")
            }
            assert pins == {
                "prot": own["prot"],
                "cache": own[f"{channel}cache"],
                "user": own["user"],
                "size": 2,
                "burst": 1,
                "lock": 0,
                "qos": 0,
            }

    simulator.add_testbench(bench)
    simulator.run()


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


def test_source_that_does_not_take_its_answers_is_not_the_fault_of_the_bus(bench):
    bench.prepare(Behavior(latency=1), timeout=TIMEOUT)
    for source in (bench.readers[0], bench.writers[0]):
        source.ask(*[(0x100 * i, 4) for i in range(6)])
        source.absence = range(30, 30 + 4 * TIMEOUT)
    bench.run()
    assert_clean(bench)


def test_beats_without_end_do_not_keep_a_half_alive(bench):
    """RLAST is so late that it may as well not come."""
    bench.prepare(Behavior(latency=1, late_last={0: 300}), timeout=TIMEOUT)
    bench.readers[0].ask((0, 2), *[(0x100 * i, 2) for i in range(1, 4)])
    answered_at = []

    def until(cycle):
        if bench.readers[0].done:
            answered_at.append(cycle)
        return bench.readers[0].done

    def again(cycle):
        bench.readers[0].ask((0x4000, 5))
        return True

    bench.run(again, until=until)
    none, framing, timeout = BusError.NONE, BusError.FRAMING, BusError.TIMEOUT
    assert bench.readers[0].errors() == [[none, framing], *[[timeout] * 2] * 3, [none] * 5]
    assert answered_at[0] < TIMEOUT + ANSWER_CYCLES


@pytest.mark.parametrize(
    ("reads", "writes", "message"),
    [
        ((), (1,), r"reads must name 1 to 2 sources, not \(\)"),
        ((1,), (1, 1, 1), r"writes must name 1 to 2 sources, not \(1, 1, 1\)"),
        ((2, 0), (1,), r"reads must be at least 1 for each source, not \(2, 0\)"),
    ],
)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_ports_that_cannot_be(reads, writes, message):
    with pytest.raises(ValueError, match=message):
        Axi4Port(WIDTH, 32, 1, reads, writes)
    # The half-made port must go while its warning is still ignored.
    gc.collect()
