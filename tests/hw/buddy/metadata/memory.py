"""The memory behind a metadata cache: slow, refusing, with reads that overtake writes."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Value

from cdma.hw.bus.burst import BusError

BEAT_BYTES = 32


def content(address: int) -> int:
    """The 32 B that memory holds at first."""
    return random.Random(address).getrandbits(8 * BEAT_BYTES)


@dataclass(frozen=True)
class Behavior:
    """Delays and refusals of memory and of those around the cache.

    Attributes
    ----------
    stall
        Probability that memory stalls a stream in a cycle.
    taker_stall
        That results or hints are not taken.
    idle
        That nothing is asked in a cycle.
    latency
        Most cycles from a request to its answer.
    read_error, write_error
        How a read beat or a write burst ends, told by its number.
    """

    stall: float = 0.0
    taker_stall: float = 0.0
    idle: float = 0.0
    latency: int = 1
    read_error: Callable[[int], BusError] = lambda number: BusError.NONE
    write_error: Callable[[int], BusError] = lambda number: BusError.NONE


@dataclass(frozen=True)
class Fetch:
    """A line that was read.

    Attributes
    ----------
    address
    asked
        The cycle of its request.
    beats
        What was in memory then.
    """

    address: int
    asked: int
    beats: list[int]
    errors: list[BusError] = field(default_factory=list)

    @property
    def error(self) -> BusError:
        """The first beat's that was not answered."""
        return next((error for error in self.errors if error is not BusError.NONE), BusError.NONE)


class LineMemory:
    """Reads see what is there when they are asked, writes change it when they are answered: the
    worst that AXI allows. Checks the streams' and the bursts' rules.

    Attributes
    ----------
    beats
        By address, those that were written.
    fetches
        In the order of their requests.
    written
        Addresses of lines, in the order of their responses; refused ones too.
    most_reads
        Lines that were under way at once.
    """

    def __init__(self, cache: Any, line_bytes: int, behavior: Behavior, seed: int) -> None:
        self.cache = cache
        self.line_bytes = line_bytes
        self.does = behavior
        self.random = random.Random(seed)
        self.beats: dict[int, int] = {}
        self.fetches: list[Fetch] = []
        self.written: list[int] = []
        self.most_reads = 0
        self._reads: deque[tuple[int, Fetch]] = deque()
        self._bursts: deque[int] = deque()
        self._line: list[int] = []
        self._writes: deque[tuple[int, int, list[int]]] = deque()
        self._beats_read = 0
        self._beat: tuple[int, int] | None = None
        self._response: int | None = None
        self._standing: dict[int, list[int]] = {}

    def inputs(self) -> list[Any]:
        """The cache's, as `drive` gives them."""
        cache = self.cache
        return [
            *(cache.read_request.ready, cache.write_request.ready, cache.write_beats.ready),
            *(cache.read_beats.valid, cache.read_beats.payload.data),
            Value.cast(cache.read_beats.payload.error),
            *(cache.write_response.valid, Value.cast(cache.write_response.payload)),
        ]

    def outputs(self) -> list[Any]:
        """The cache's, as `observe` takes them."""
        cache = self.cache
        read, write, beats = cache.read_request, cache.write_request, cache.write_beats
        return [
            *(read.valid, read.payload.address, read.payload.beats),
            *(write.valid, write.payload.address, write.payload.beats),
            *(beats.valid, beats.payload.data, beats.payload.strobe, beats.payload.last),
            *(cache.read_beats.ready, cache.write_response.ready),
        ]

    def nibble(self, number: int) -> int:
        """Nibble that memory holds, low nibbles of bytes first."""
        address, place = divmod(number, 2 * BEAT_BYTES)
        address *= BEAT_BYTES
        return self.beats.get(address, content(address)) >> 4 * place & 15

    @property
    def idle(self) -> bool:
        standing = self._beat is not None or self._response is not None
        return not (standing or self._reads or self._bursts or self._writes)

    def _stalls(self) -> bool:
        return self.random.random() < self.does.stall

    def _due(self, cycle: int) -> int:
        return cycle + self.random.randint(1, self.does.latency)

    def drive(self, cycle: int) -> list[int]:
        due = bool(self._reads) and self._reads[0][0] <= cycle
        if self._beat is None and due and not self._stalls():
            fetch = self._reads[0][1]
            error = self.does.read_error(self._beats_read)
            self._beats_read += 1
            data = fetch.beats[len(fetch.errors)]
            fetch.errors.append(error)
            if error is not BusError.NONE:
                data = self.random.getrandbits(8 * BEAT_BYTES)
            self._beat = (data, error.value)
            if len(fetch.errors) == len(fetch.beats):
                self._reads.popleft()
        due = bool(self._writes) and self._writes[0][0] <= cycle
        if self._response is None and due and not self._stalls():
            _, address, beats = self._writes.popleft()
            error = self.does.write_error(len(self.written))
            self.written.append(address)
            if error is BusError.NONE:
                self.beats |= {address + BEAT_BYTES * k: beat for k, beat in enumerate(beats)}
            self._response = error.value
        beat = (self.random.getrandbits(8 * BEAT_BYTES), 0) if self._beat is None else self._beat
        response = self.random.randrange(5) if self._response is None else self._response
        self._takes = [not self._stalls() for _ in range(3)]
        # Nothing of a burst before its address.
        self._takes[2] &= bool(self._bursts)
        return [*self._takes, self._beat is not None, *beat, self._response is not None, response]

    def observe(self, cycle: int, values: Sequence[int]) -> bool:
        """True if anything moved."""
        read, write, beat = values[:3], values[3:6], values[6:10]
        beat_taken, response_taken = values[10:]
        moved = False
        for k, (valid, *payload) in enumerate((read, write, beat)):
            if k in self._standing:
                assert valid, f"cycle {cycle}: valid was withdrawn"
                assert payload == self._standing.pop(k), f"cycle {cycle}: a payload changed"
            if valid and not self._takes[k]:
                self._standing[k] = payload
            moved |= bool(valid and self._takes[k])
        if self._beat is not None and beat_taken:
            self._beat, moved = None, True
        if self._response is not None and response_taken:
            self._response, moved = None, True
        if beat[0] and self._takes[2]:
            self._take_beat(cycle, *beat[1:])
        if read[0] and self._takes[0]:
            self._take_read(cycle, *read[1:])
        if write[0] and self._takes[1]:
            self._check_burst(*write[1:])
            self._bursts.append(write[1])
        return moved

    def _check_burst(self, address: int, beats: int) -> None:
        assert address % self.line_bytes == 0
        assert (beats + 1) * BEAT_BYTES == self.line_bytes

    def _take_read(self, cycle: int, address: int, beats: int) -> None:
        self._check_burst(address, beats)
        places = range(address, address + self.line_bytes, BEAT_BYTES)
        fetch = Fetch(address, cycle, [self.beats.get(at, content(at)) for at in places])
        self.fetches.append(fetch)
        self._reads.append((self._due(cycle), fetch))
        self.most_reads = max(self.most_reads, len(self._reads))

    def _take_beat(self, cycle: int, data: int, strobe: int, last: int) -> None:
        assert strobe == (1 << BEAT_BYTES) - 1
        self._line.append(data)
        assert last == (len(self._line) == self.line_bytes // BEAT_BYTES)
        if last:
            self._writes.append((self._due(cycle), self._bursts.popleft(), self._line))
            self._line = []
