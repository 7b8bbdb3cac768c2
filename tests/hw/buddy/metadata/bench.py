"""A metadata cache in simulation: what is asked of it, in order, and what comes.

    bench = CacheBench(config)
    run = bench.run([Lookup(0x40), Lookup(0x40, write=True, metadata=3), Flush(write_back=True)])

Each operation is given as soon as the cache takes it; `Settle` waits until everything before it has
ended, and so does `Flip`. The cache's memories are full of garbage at first.
"""

import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Cat, Fragment, Module, Value
from amaranth.lib import memory

from cdma.hw.buddy.metadata.cache import MetadataCache
from cdma.hw.buddy.payloads import MetadataError
from cdma.hw.config import MetadataCacheConfig
from tests.hw.buddy.metadata.memory import BEAT_BYTES, Behavior, Fetch, LineMemory, content
from tests.lib.rtl.bench import Sink, always, bits
from tests.lib.simulator import Simulator

HANG_CYCLES = 1500
SETTLE_CYCLES = 6
GARBAGE = ("codewords", "trees", "data", "outcomes")
"""Memories that nothing is known of at first."""
PULSES = ("hit", "miss", "evicted", "corrected", "uncorrectable", "flushed")


@dataclass(frozen=True)
class Lookup:
    address: int
    upper: bool = False
    write: bool = False
    metadata: int = 0

    @classmethod
    def of(cls, nibble: int, *, write: bool = False, metadata: int = 0) -> "Lookup":
        """Return a lookup of a nibble by its number in memory, low nibbles of bytes first."""
        return cls(nibble // 2, bool(nibble % 2), write, metadata)

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
    """Flips the bits of `mask` in a row of a memory of the cache, told by the end of its name."""

    memory: str
    row: int
    mask: int


Operation = Lookup | Flush | Clear | Settle | Flip


@dataclass
class Run:
    """Events of one run.

    Attributes
    ----------
    lookups, asked
        Those that were taken, and when.
    results, result_cycles
        Metadata and error of each.
    hints, hint_cycles
    pulses
        How many there were of each.
    flushes
        That were taken: how many lookups before each.
    flushed
        What had been written to memory when each was done.
    lost, losses
        In the end, and how often it has risen.
    memory
    """

    memory: LineMemory
    lookups: list[Lookup] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    results: list[tuple[int, MetadataError]] = field(default_factory=list)
    result_cycles: list[int] = field(default_factory=list)
    hints: list[int] = field(default_factory=list)
    hint_cycles: list[int] = field(default_factory=list)
    pulses: Counter[str] = field(default_factory=Counter)
    flushes: list[int] = field(default_factory=list)
    flushed: list[dict[int, int]] = field(default_factory=list)
    lost: bool = False
    losses: int = 0

    @property
    def metadata(self) -> list[int]:
        return [metadata for metadata, _ in self.results]

    @property
    def errors(self) -> list[MetadataError]:
        return [error for _, error in self.results]

    @property
    def fetches(self) -> list[Fetch]:
        return self.memory.fetches

    @property
    def ended(self) -> bool:
        """Everything that was asked."""
        return (
            len(self.results) == len(self.hints) == len(self.asked)
            and len(self.flushed) == len(self.flushes)
            and self.memory.idle
        )

    def nibbles(self, lookups: int | None = None) -> dict[int, int]:
        """Nibbles that the first lookups have written. Those that failed have written nothing."""
        results = zip(self.lookups, self.errors, strict=False)
        return {
            lookup.nibble: lookup.metadata
            for lookup, error in list(results)[:lookups]
            if lookup.write and error is MetadataError.NONE
        }

    def assert_sound(self) -> None:
        """Every result is that of a reference which takes lookups one after the other."""
        nibbles: dict[int, int] = {}
        assert len(self.results) == len(self.lookups)
        for index, (lookup, (metadata, error)) in enumerate(
            zip(self.lookups, self.results, strict=True)
        ):
            if error is MetadataError.NONE:
                at = lookup.nibble
                assert metadata == nibbles.get(at, initial(at)), f"lookup {index}: {lookup}"
                if lookup.write:
                    nibbles[at] = lookup.metadata

    def assert_written_back(self) -> None:
        """At each flush, memory had all of what had been written, and nothing else."""
        for lookups, beats in zip(self.flushes, self.flushed, strict=True):
            nibbles = self.nibbles(lookups)
            for address, beat in beats.items():
                for place in range(2 * BEAT_BYTES):
                    at = 2 * address + place
                    assert beat >> 4 * place & 15 == nibbles.get(at, initial(at)), hex(at)
            for at, metadata in nibbles.items():
                assert metadata == initial(at) or at // 64 * 32 in beats, hex(at)


def initial(nibble: int) -> int:
    """A nibble of what memory holds at first."""
    address, place = divmod(nibble, 2 * BEAT_BYTES)
    return content(address * BEAT_BYTES) >> 4 * place & 15


class CacheBench:
    """A cache. Can run again and again, each time from reset."""

    def __init__(self, config: MetadataCacheConfig) -> None:
        self.config = config
        self.cache = MetadataCache(config)
        m = Module()
        m.submodules.cache = self.cache
        fragment = Fragment.get(m, None)
        self._memories = dict(_memories(fragment, ""))
        self._simulator = Simulator(fragment)
        self._simulator.add_clock(1e-9)
        self._simulator.add_testbench(self._clock)
        self._has_run = False

    def run(
        self, operations: Sequence[Operation], behavior: Behavior | None = None, *, seed: int = 0
    ) -> Run:
        self._does = behavior or Behavior()
        self._operations = deque([*operations, Settle()])
        self._random = random.Random(seed)
        self._run = Run(LineMemory(self.cache, self.config.line_bytes, self._does, seed))
        if self._has_run:
            self._simulator.reset()
        self._has_run = True
        self._simulator.run()
        return self._run

    def rows(self, name: str) -> list[Any]:
        """Rows of the memory whose name ends so."""
        (found,) = (data for path, data in self._memories.items() if path.endswith(name))
        return [Value.cast(found[row]) for row in range(found.depth)]

    def _willing(self, probability: float) -> bool:
        return self._random.random() >= probability

    def _apply(self, ctx: Any, settled: bool) -> bool:
        """Carry out what waits for the end of everything before it; whether all is done."""
        while settled and self._operations:
            match self._operations[0]:
                case Flip(name, number, mask):
                    row = self.rows(name)[number]
                    ctx.set(row, ctx.get(row) ^ mask)
                case Settle():
                    pass
                case _:
                    return False
            self._operations.popleft()
        return not self._operations

    async def _clock(self, ctx: Any) -> None:
        cache, run = self.cache, self._run
        for name in GARBAGE:
            for path in self._memories:
                if path.endswith(name):
                    rows = Cat(self.rows(path))
                    ctx.set(rows, self._random.getrandbits(len(rows)))
        sinks = [Sink(port, 1 << 20, always) for port in (cache.hint, cache.o)]
        # All at once, for each setting has the simulator settle.
        inputs = Cat(
            *(cache.hint.ready, cache.o.ready, cache.lookup.valid, cache.lookup.payload),
            *(cache.flush.valid, cache.flush.payload, cache.clear, *run.memory.inputs()),
        )
        memory_wires = run.memory.inputs()
        own = [cache.lookup.ready, cache.flush.ready, cache.lost]
        own += [getattr(cache, name) for name in PULSES]
        for sink in sinks:
            own += [sink.port.valid, sink.port.ready, Value.cast(sink.port.payload)]
        error_of = cache.o.payload.shape()
        moved = cycle = 0
        offers = False
        while True:
            assert cycle - moved < HANG_CYCLES, f"nothing has moved since cycle {moved}"
            if self._apply(ctx, run.ended and cycle - moved > SETTLE_CYCLES):
                break
            operation = self._operations[0]
            offers |= isinstance(operation, Lookup | Flush) and self._willing(self._does.idle)
            # Lookups do not pause for a flush, and may get ahead of it.
            lookup = next((o for o in list(self._operations)[:2] if isinstance(o, Lookup)), None)
            if not isinstance(operation, Lookup | Flush):
                lookup = None
            ctx.set(
                inputs,
                _packed(
                    [
                        *((self._willing(self._does.taker_stall), 1) for _ in sinks),
                        *self._offer(operation if offers else None, lookup if offers else None),
                        (isinstance(operation, Clear), 1),
                        *(
                            (value, len(wire))
                            for wire, value in zip(
                                memory_wires, run.memory.drive(cycle), strict=True
                            )
                        ),
                    ]
                ),
            )
            _, _, *values = await ctx.tick().sample(*own, *run.memory.outputs())
            ready = (values[0], values[1])
            run.losses += values[2] and not run.lost
            run.lost = bool(values[2])
            pulses, values = values[3 : 3 + len(PULSES)], values[3 + len(PULSES) :]
            run.pulses.update(dict(zip(PULSES, pulses, strict=True)))
            moves = run.memory.observe(cycle, values[6:]) | any(pulses)
            if pulses[-1]:
                run.flushed.append(dict(run.memory.beats))
            if offers and lookup and ready[0]:
                run.lookups.append(lookup)
                run.asked.append(cycle)
                self._operations.remove(lookup)
                moves = True
            if offers and isinstance(operation, Flush) and ready[1]:
                run.flushes.append(len(run.lookups))
                self._operations.popleft()
                moves = True
            if isinstance(operation, Clear):
                self._operations.popleft()
                moves = True
            # What is offered stays until it is taken.
            offers &= any(self._operations[0] is offered for offered in (operation, lookup))
            if sinks[0].observe(cycle, *values[:3]):
                run.hints.append(values[2])
                run.hint_cycles.append(cycle)
                moves = True
            if sinks[1].observe(cycle, *values[3:6]):
                result = error_of.from_bits(values[5])
                run.results.append((result.metadata, result.error))
                run.result_cycles.append(cycle)
                moves = True
            assert max(len(run.hints), len(run.results)) <= len(run.asked), f"cycle {cycle}"
            if moves:
                moved = cycle
            cycle += 1

    def _offer(self, operation: Operation | None, lookup: Lookup | None) -> list[tuple[int, int]]:
        """The wires of lookups and flushes."""
        shape = self.cache.lookup.payload.shape()
        # What stands on the wires while valid is low must not matter.
        asked = bits(shape, vars(lookup)) if lookup else self._random.getrandbits(shape.size)
        flushed = self._random.getrandbits(2)
        if isinstance(operation, Flush):
            flushed = bits(self.cache.flush.payload.shape(), vars(operation))
        return [
            (lookup is not None, 1),
            (asked, shape.size),
            (isinstance(operation, Flush), 1),
            (flushed, 2),
        ]


def _packed(fields: Sequence[tuple[int, int]]) -> int:
    """Values and their widths, the first in the low bits."""
    packed = place = 0
    for value, width in fields:
        packed |= int(value) << place
        place += width
    return packed


def _memories(fragment: Fragment, path: str) -> Iterator[tuple[str, Any]]:
    for subfragment, name, _ in fragment.subfragments:
        origin = (subfragment.origins or [None])[0]
        if isinstance(origin, memory.Memory):
            yield f"{path}.{name}", origin.data
        else:
            yield from _memories(subfragment, f"{path}.{name}")
