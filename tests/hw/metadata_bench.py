"""A metadata cache before a memory that is slow, refuses, and lets reads overtake writes.

    bench = CacheBench(config)
    run = bench.run([Lookup(0x40), Lookup(0x40, write=True, metadata=3), Flush(write_back=True)])

Operations are given in order, each as soon as the cache takes it; `Settle` waits until everything
before it has ended. What memory holds at first is told by its address.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Fragment, Module, Value
from amaranth.lib import memory
from amaranth.sim import Simulator

from hw.buddy.metadata_cache import MetadataCache
from hw.buddy.payloads import MetadataError
from hw.bus.burst import BusError
from hw.config import MetadataCacheConfig

BEAT_BYTES = 32
HANG_CYCLES = 1500
SETTLE_CYCLES = 6
PULSES = ("hit", "miss", "evicted", "corrected", "uncorrectable", "flushed")


@dataclass(frozen=True)
class Lookup:
    address: int
    upper: bool = False
    write: bool = False
    metadata: int = 0

    @property
    def nibble(self) -> int:
        return 2 * self.address + self.upper


@dataclass(frozen=True)
class Flush:
    write_back: bool = False
    invalidate: bool = False


@dataclass(frozen=True)
class Clear:
    pass


@dataclass(frozen=True)
class Settle:
    pass


@dataclass(frozen=True)
class Flip:
    """Flips bits of a memory of the cache, told by its name, in a row."""

    memory: str
    row: int
    mask: int


Operation = Lookup | Flush | Clear | Settle | Flip


@dataclass(frozen=True)
class Behavior:
    """What memory, and who takes results and hints, do slowly or not at all.

    Attributes
    ----------
    stall
        Probability that a stream stalls in a cycle.
    taker_stall
        That results or hints are not taken.
    idle
        That nothing is asked in a cycle.
    latency
        Most cycles from a request to its answer.
    read_error, write_error
        What becomes of a read beat or of a write burst: called with its number and address.
    """

    stall: float = 0.0
    taker_stall: float = 0.0
    idle: float = 0.0
    latency: int = 1
    read_error: Callable[[int, int], BusError] = lambda number, address: BusError.NONE
    write_error: Callable[[int, int], BusError] = lambda number, address: BusError.NONE


@dataclass
class Run:
    """What happened. Cycles are those of transfers.

    Attributes
    ----------
    results, hints
        Cycle, metadata and error; cycle and hint.
    asked
        Cycles of lookups.
    fetched, written
        Addresses of lines, in the order of their requests.
    pulses
        How many there were of each.
    lost
        In the end.
    memory
        Content of the lines that were written.
    """

    lookups: list[Lookup] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    results: list[tuple[int, int, MetadataError]] = field(default_factory=list)
    hints: list[tuple[int, int]] = field(default_factory=list)
    fetched: list[int] = field(default_factory=list)
    fetch_cycles: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    pulses: Counter[str] = field(default_factory=Counter)
    flushes: int = 0
    lost: bool = False
    memory: dict[int, int] = field(default_factory=dict)
    most_reads: int = 0

    @property
    def metadata(self) -> list[int]:
        return [metadata for _, metadata, _ in self.results]

    @property
    def errors(self) -> list[MetadataError]:
        return [error for _, _, error in self.results]


def content(address: int) -> int:
    """The 32 B that memory holds at first."""
    return random.Random(address).getrandbits(8 * BEAT_BYTES)


def nibble_at(memory: dict[int, int], nibble: int) -> int:
    address = nibble // 2 // BEAT_BYTES * BEAT_BYTES
    beat = memory.get(address, content(address))
    return beat >> 4 * (nibble - 2 * address) & 15


def expected(lookups: Sequence[Lookup]) -> tuple[list[int], dict[int, int]]:
    """What the lookups give, and the nibbles behind them."""
    nibbles: dict[int, int] = {}
    results = []
    for lookup in lookups:
        results.append(nibbles.get(lookup.nibble, nibble_at({}, lookup.nibble)))
        if lookup.write:
            nibbles[lookup.nibble] = lookup.metadata
    return results, nibbles


class _Memory:
    """The side of the cache where the lines come from.

    A read sees what is there when it is asked, a write changes it when it is answered: the worst
    that AXI allows.
    """

    def __init__(self, config: MetadataCacheConfig, behavior: Behavior, run: Run, seed: int):
        self.line_bytes = config.line_bytes
        self.does = behavior
        self.run = run
        self.random = random.Random(seed)
        self.reads: deque[tuple[int, list[tuple[int, int]]]] = deque()
        self.beats: deque[tuple[int, int, int]] = deque()
        self.bursts: deque[int] = deque()
        self.line: list[int] = []
        self.answers: deque[tuple[int, int, list[int]]] = deque()
        self.read_beats = self.write_bursts = 0
        self.offered_beat: list[int] | None = None
        self.offered_answer: list[int] | None = None

    def stalls(self) -> bool:
        return self.random.random() < self.does.stall

    def drive(self, cycle: int) -> list[int]:
        """Readies of requests and beats; then a beat, and a response, with their valids."""
        if self.offered_beat is None and self.reads and self.reads[0][0] <= cycle:
            if not self.stalls():
                address, data = self.reads[0][1].pop(0)
                if not self.reads[0][1]:
                    self.reads.popleft()
                error = self.does.read_error(self.read_beats, address)
                self.read_beats += 1
                if error is not BusError.NONE:
                    data = self.random.getrandbits(8 * BEAT_BYTES)
                self.offered_beat = [1, data, error.value]
        if self.offered_answer is None and self.answers and self.answers[0][0] <= cycle:
            if not self.stalls():
                _, address, beats = self.answers.popleft()
                error = self.does.write_error(self.write_bursts, address)
                self.write_bursts += 1
                if error is BusError.NONE:
                    for k, beat in enumerate(beats):
                        self.run.memory[address + BEAT_BYTES * k] = beat
                self.offered_answer = [1, error.value]
        self.takes_read, self.takes_write = not self.stalls(), not self.stalls()
        self.takes_beat = bool(self.bursts) and not self.stalls()
        return [
            *(self.takes_read, self.takes_write, self.takes_beat),
            *(self.offered_beat or [0, self.random.getrandbits(256), 0]),
            *(self.offered_answer or [0, self.random.randrange(5)]),
        ]

    def observe(self, cycle: int, values: Sequence[int]) -> bool:
        asks, read_address, read_beats, sends, write_address, write_beats, *values = values
        valid, data, strobe, last, beat_taken, answer_taken = values
        moved = False
        if self.offered_beat is not None and beat_taken:
            self.offered_beat, moved = None, True
        if self.offered_answer is not None and answer_taken:
            self.offered_answer, moved = None, True
        due = cycle + self.random.randint(1, self.does.latency)
        if valid and self.takes_beat:
            moved = True
            assert strobe == (1 << BEAT_BYTES) - 1
            self.line.append(data)
            assert last == (len(self.line) == self.line_bytes // BEAT_BYTES)
            if last:
                self.answers.append((due, self.bursts.popleft(), self.line))
                self.line = []
        for takes, valid, address, beats, log in (
            (self.takes_read, asks, read_address, read_beats, self.run.fetched),
            (self.takes_write, sends, write_address, write_beats, self.run.written),
        ):
            if takes and valid:
                moved = True
                log.append(address)
                assert address % self.line_bytes == 0
                assert beats == self.line_bytes // BEAT_BYTES - 1
        if self.takes_read and asks:
            self.run.fetch_cycles.append(cycle)
            places = range(read_address, read_address + self.line_bytes, BEAT_BYTES)
            beats_of = [(at, self.run.memory.get(at, content(at))) for at in places]
            self.reads.append((due, beats_of))
            self.run.most_reads = max(self.run.most_reads, len(self.reads))
        if self.takes_write and sends:
            self.bursts.append(write_address)
        return moved

    @property
    def idle(self) -> bool:
        waits = self.reads or self.bursts or self.answers
        return not (waits or self.offered_beat or self.offered_answer)


class CacheBench:
    """The cache in Amaranth's simulator. Can run again and again, each time from reset."""

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        self.cache = MetadataCache(config)
        m = Module()
        m.submodules.cache = self.cache
        fragment = Fragment.get(m, None)
        self.memories = dict(_memories(fragment, ""))
        self.simulator = Simulator(fragment)
        self.simulator.add_clock(1e-9)
        self.simulator.add_testbench(self._clock)
        self.runs = 0

    def run(
        self, operations: Sequence[Operation], behavior: Behavior | None = None, *, seed: int = 0
    ) -> Run:
        self.outcome = Run()
        self.behavior = behavior or Behavior()
        self.operations = deque(operations)
        self.seed = seed
        if self.runs:
            self.simulator.reset()
        self.runs += 1
        self.simulator.run()
        return self.outcome

    def memory(self, name: str) -> Any:
        (found,) = (data for path, data in self.memories.items() if path.endswith(name))
        return found

    async def _clock(self, ctx: Any) -> None:
        cache, does, run = self.cache, self.behavior, self.outcome
        generator = random.Random(self.seed + 1)
        bus = _Memory(self.config, does, run, self.seed)
        lookup = Value.cast(cache.lookup.payload)
        shape = cache.lookup.payload.shape()
        read, write = cache.read_request, cache.write_request
        inputs = [
            *(read.ready, write.ready, cache.write_beats.ready),
            *(cache.read_beats.valid, cache.read_beats.payload.data),
            Value.cast(cache.read_beats.payload.error),
            *(cache.write_response.valid, Value.cast(cache.write_response.payload)),
        ]
        beat = cache.write_beats
        memory_outputs = [
            *(read.valid, read.payload.address, read.payload.beats),
            *(write.valid, write.payload.address, write.payload.beats),
            *(beat.valid, beat.payload.data, beat.payload.strobe, beat.payload.last),
            *(cache.read_beats.ready, cache.write_response.ready),
        ]
        own = [
            *(cache.lookup.ready, cache.flush.ready, cache.lost),
            *(cache.hint.valid, cache.hint.payload),
            *(cache.o.valid, cache.o.payload.metadata, Value.cast(cache.o.payload.error)),
            *(getattr(cache, name) for name in PULSES),
        ]
        standing: dict[str, tuple[int, ...]] = {}
        moved = cycle = 0
        offers = False
        while True:
            assert cycle - moved < HANG_CYCLES, f"nothing has moved since cycle {moved}"
            next_operation = self.operations[0] if self.operations else Settle()
            clears = False
            if isinstance(next_operation, Settle | Flip):
                ended = (
                    len(run.results) == len(run.asked) == len(run.hints)
                    and run.pulses["flushed"] == run.flushes
                    and bus.idle
                )
                if not ended:
                    moved_long_ago = False
                else:
                    moved_long_ago = cycle - moved > SETTLE_CYCLES
                if moved_long_ago:
                    if not self.operations:
                        break
                    self.operations.popleft()
                    if isinstance(next_operation, Flip):
                        row = self.memory(next_operation.memory)[next_operation.row]
                        value = ctx.get(row)
                        bits = value if isinstance(value, int) else value.as_bits()
                        flipped = bits ^ next_operation.mask
                        shape_of = None if isinstance(value, int) else value.shape()
                        ctx.set(row, shape_of.from_bits(flipped) if shape_of else flipped)
                    continue
            elif isinstance(next_operation, Clear):
                clears = True
                self.operations.popleft()
                moved = cycle
            else:
                offers = offers or generator.random() >= does.idle
            asks = isinstance(next_operation, Lookup) and offers
            flushes = isinstance(next_operation, Flush) and offers
            ctx.set(cache.lookup.valid, asks)
            if isinstance(next_operation, Lookup) and asks:
                fields = vars(next_operation)
                ctx.set(lookup, shape.const(fields).as_bits())
            else:
                ctx.set(lookup, generator.getrandbits(len(lookup)))
            ctx.set(cache.flush.valid, flushes)
            if isinstance(next_operation, Flush):
                ctx.set(cache.flush.payload.write_back, next_operation.write_back)
                ctx.set(cache.flush.payload.invalidate, next_operation.invalidate)
            ctx.set(cache.clear, clears)
            takes_hint = generator.random() >= does.taker_stall
            takes_result = generator.random() >= does.taker_stall
            ctx.set(cache.hint.ready, takes_hint)
            ctx.set(cache.o.ready, takes_result)
            for wire, value in zip(inputs, bus.drive(cycle), strict=True):
                ctx.set(wire, value)
            _, _, *values = await ctx.tick().sample(*own, *memory_outputs)
            ready, flush_ready, lost, hints, hint, valid, metadata, error, *rest = values
            pulses, memory_values = rest[: len(PULSES)], rest[len(PULSES) :]
            run.lost = bool(lost)
            for name, pulse in zip(PULSES, pulses, strict=True):
                run.pulses[name] += pulse
            if pulses[-1]:
                moved = cycle
            if asks and ready:
                run.asked.append(cycle)
                run.lookups.append(next_operation)
                self.operations.popleft()
                offers, moved = False, cycle
            if flushes and flush_ready:
                run.flushes += 1
                self.operations.popleft()
                offers, moved = False, cycle
            for name, is_valid, takes, payload in (
                ("hint", hints, takes_hint, (hint,)),
                ("result", valid, takes_result, (metadata, error)),
                ("read", memory_values[0], bus.takes_read, tuple(memory_values[1:3])),
                ("write", memory_values[3], bus.takes_write, tuple(memory_values[4:6])),
                ("beat", memory_values[6], bus.takes_beat, tuple(memory_values[7:10])),
            ):
                if name in standing:
                    assert is_valid, f"cycle {cycle}: {name} was withdrawn"
                    assert payload == standing.pop(name), f"cycle {cycle}: {name} changed"
                if is_valid and not takes:
                    standing[name] = payload
            if hints and takes_hint:
                run.hints.append((cycle, hint))
                moved = cycle
            if valid and takes_result:
                run.results.append((cycle, metadata, MetadataError(error)))
                moved = cycle
            assert len(run.hints) <= len(run.asked) and len(run.results) <= len(run.asked)
            if bus.observe(cycle, memory_values):
                moved = cycle
            cycle += 1


def _memories(fragment: Fragment, path: str) -> Any:
    for subfragment, name, _ in fragment.subfragments:
        origin = (subfragment.origins or [None])[0]
        if isinstance(origin, memory.Memory):
            yield f"{path}.{name}", origin.data
        else:
            yield from _memories(subfragment, f"{path}.{name}")
