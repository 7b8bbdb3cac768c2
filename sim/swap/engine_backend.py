"""Through the whole engine: descriptors out, records back, over a modeled memory and link.

Arrays are queued across each other, so that the link does not wait between two of them: the engine
reads the next array while the records of the one before are written.

The *queue* of an element size has the pieces of all its arrays. A *window* is as much of it as both
memories and the ring hold. All pieces of a window go out behind one doorbell, and then all of them
come back behind another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from pathlib import Path

import numpy as np

from golden.stream import ByteArray
from hw.config import EngineConfig
from hw.progress import report
from sim.driver import (
    Buffer,
    CompletionRecord,
    CopyKind,
    Engine,
    OutOfMemoryError,
    Throttle,
    Transfer,
)
from sim.machine import Machine, MachineConfig
from sim.machine.rtl import generated_engine
from sim.swap.backend import (
    IN,
    OUT,
    Array,
    ArrayResult,
    EngineFigures,
    Payload,
    QueueFigures,
    result_faults,
)

MEMORY_BYTES = 64 << 20
"""Size of each memory of the machine; what does not fit into it goes in several windows."""

RING_ENTRIES = 1024
"""Most transfers in a window, which costs the link some 1,500 cycles: before its first byte and
behind its last."""

STALLS = "stall_"
"""What the names of the registers begin with that count stalls."""

POISON = 0xA5
"""What device memory is filled with, so that what comes back has come back."""


class EngineBackend:
    """A machine with an engine and its driver for each element size that comes up.

    Parameters
    ----------
    config : EngineConfig
        The engine; the element size in it does not matter.
    surroundings : MachineConfig
        Its memory and its link.
    throttle : Throttle
        How fast device memory may be read.
    stalls : float
        Probability, per cycle and bus channel, that a slave is not ready.
    seed : int
        Of the stalls.
    waves : path, optional
        Write the waves there. Only with arrays of one element size.
    memory_bytes : int
        Size of device memory, and of host memory; a multiple of 4096.
    ring_entries : int
        Most transfers in flight: a power of two.

    Raises
    ------
    sim.machine.MachineError
        If the simulator cannot be built; later, if the RTL hangs or breaks a rule.
    """

    def __init__(
        self,
        config: EngineConfig,
        surroundings: MachineConfig,
        *,
        throttle: Throttle,
        stalls: float = 0.0,
        seed: int = 0,
        waves: Path | None = None,
        memory_bytes: int = MEMORY_BYTES,
        ring_entries: int = RING_ENTRIES,
    ) -> None:
        self.config = config
        self.surroundings = surroundings
        self.throttle = throttle
        self.stalls = stalls
        self.seed = seed
        self.waves = waves
        self.memory_bytes = memory_bytes
        self.ring_entries = ring_entries
        self._engines: dict[int, Engine] = {}
        self._counted: list[QueueFigures] = []

    def close(self) -> None:
        for engine in self._engines.values():
            engine.machine.close()

    def transfer(self, payloads: Sequence[Payload]) -> Iterator[tuple[int, ArrayResult]]:
        # One queue per element size, since each of them has an engine of its own. The engine has no
        # transfers of nothing; the stream of nothing is empty.
        queues: dict[int, list[_Piece]] = {}
        for index, payload in enumerate(payloads):
            full = [piece for piece in payload.pieces if piece.size]
            if not full:
                yield index, _EMPTY
            for piece in full:
                last = piece is full[-1]
                queues.setdefault(payload.element_bytes, []).append(_Piece(index, piece, last))
        if not queues:
            return
        # Engines that have to be built are built before anything waits for them.
        engines = {size: self._engine(size) for size in queues}
        progress = _Progress(sum(map(len, queues.values())))
        for size, queue in queues.items():
            yield from self._drain(engines[size], queue, progress)

    def queue_figures(self) -> QueueFigures:
        return QueueFigures.joined(self._counted)

    def _drain(
        self, engine: Engine, queue: Sequence["_Piece"], progress: "_Progress"
    ) -> Iterator[tuple[int, ArrayResult]]:
        """Take a queue out and back, window by window, and yield the arrays that are complete."""
        # The parts, so far, of an array that does not end in its window.
        begun: list[ArrayResult] = []
        sent = 0
        while sent < len(queue):
            window = _fill(engine, queue[sent : sent + self.ring_entries])
            sent += len(window)
            transferred = _transfer_window(engine, window, progress)
            self._counted.append(transferred.figures)
            for index, part, complete in transferred.parts:
                begun.append(part)
                if complete:
                    yield index, ArrayResult.joined(begun)
                    begun = []

    def _engine(self, element_bytes: int) -> Engine:
        if element_bytes not in self._engines:
            codec = replace(self.config.codec, element_bytes=element_bytes)
            machine = Machine(
                generated_engine(replace(self.config, codec=codec)),
                self.surroundings,
                device_bytes=self.memory_bytes,
                host_bytes=self.memory_bytes,
                stalls=self.stalls,
                seed=self.seed,
                waves=self.waves,
            )
            self._engines[element_bytes] = Engine(
                machine,
                ring_entries=self.ring_entries,
                throttles=(self.throttle, self.throttle),
            )
        return self._engines[element_bytes]


@dataclass(frozen=True)
class _Piece:
    """A transfer's worth of the array with this index."""

    index: int
    data: Array
    last: bool


@dataclass(frozen=True)
class _Placed:
    """A piece with room in both memories."""

    piece: _Piece
    device: Buffer
    host: Buffer

    @property
    def index(self) -> int:
        return self.piece.index


@dataclass(frozen=True)
class _Done:
    """A transfer's record, and what passed between the record before it and its own.

    Attributes
    ----------
    at : int
        The cycle in which the driver saw the record.
    """

    record: CompletionRecord
    at: int
    cycles: int
    link_out_busy_cycles: float
    link_in_busy_cycles: float
    dram_read_bytes: int


@dataclass(frozen=True)
class _Transferred:
    """A window's results: index, result, and whether the array is complete with it."""

    parts: list[tuple[int, ArrayResult, bool]]
    figures: QueueFigures


_EMPTY = ArrayResult(
    streams=[np.zeros(0, np.uint8)],
    returned=[np.zeros(0, np.uint8)],
    cycles_out=0,
    cycles_in=0,
    faults=set(),
    engine=EngineFigures(),
)


class _Progress:
    """Reports transfers as their records come."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._done = {OUT: count(1), IN: count(1)}
        for phase in self._done:
            report(phase, 0, total)

    def step(self, phase: str) -> None:
        report(phase, next(self._done[phase]), self.total)


def _fill(engine: Engine, queue: Sequence[_Piece]) -> list[_Placed]:
    """As many pieces from the queue's head as both memories have room for."""
    window: list[_Placed] = []
    for piece in queue:
        try:
            device = engine.device.alloc(piece.data.size)
            try:
                host = engine.host.alloc(engine.shape.worst_stream_bytes(piece.data.size))
            except OutOfMemoryError:
                engine.device.free(device)
                raise
        except OutOfMemoryError:
            if not window:
                raise
            break
        window.append(_Placed(piece, device, host))
    return window


def _transfer_window(
    engine: Engine, window: Sequence[_Placed], progress: _Progress
) -> _Transferred:
    """Take a window's pieces out, then back, and free their memory."""
    for placed in window:
        placed.device.array[:] = placed.piece.data
    engine.clear_counters()
    out = _finish(
        engine,
        [
            engine.submit(
                p.host, p.device, p.device.nbytes, CopyKind.DEVICE_TO_HOST, doorbell=False
            )
            for p in window
        ],
        OUT,
        progress,
    )
    figures_out = _queue_figures(engine)
    for placed in window:
        placed.device.array[:] = POISON
    # Of a transfer that has failed, whatever there is of its stream goes back, and fails again.
    sizes = [
        max(1, min(done.record.out_size, placed.host.nbytes))
        for done, placed in zip(out, window, strict=True)
    ]
    engine.clear_counters()
    back = _finish(
        engine,
        [
            engine.submit(
                placed.device,
                placed.host,
                placed.device.nbytes,
                CopyKind.HOST_TO_DEVICE,
                stream_bytes=size,
                crc=done.record.crc32,
                doorbell=False,
            )
            for placed, size, done in zip(window, sizes, out, strict=True)
        ],
        IN,
        progress,
    )
    figures_in = _queue_figures(engine)
    streams = [p.host.array[:size].copy() for p, size in zip(window, sizes, strict=True)]
    parts = []
    whole = zip(window, out, back, streams, strict=True)
    for index, group in groupby(whole, key=lambda row: row[0].index):
        rows = list(group)
        parts.append((index, _part(rows), rows[-1][0].piece.last))
    for placed in window:
        engine.device.free(placed.device)
        engine.host.free(placed.host)
    return _Transferred(
        parts,
        QueueFigures(
            # The way in reserves nothing of the buffer.
            buffer_high_water_bytes=figures_out.buffer_high_water_bytes,
            stall_cycles=QueueFigures.joined([figures_out, figures_in]).stall_cycles,
        ),
    )


def _finish(
    engine: Engine, transfers: Sequence[Transfer], phase: str, progress: _Progress
) -> list[_Done]:
    """Ring once for all of them, and take what the machine has counted at each one's record.

    No register is read between the records, which would let time pass.
    """
    machine = engine.machine
    machine.clear_counters()
    before = machine.counters()
    last = engine.doorbell()
    done = []
    for transfer in transfers:
        record = engine.wait(transfer)
        now, at = machine.counters(), machine.cycles
        done.append(
            _Done(
                record,
                at,
                at - last,
                now.link_out_busy_cycles - before.link_out_busy_cycles,
                now.link_in_busy_cycles - before.link_in_busy_cycles,
                int(now.dram_read_bytes.sum() - before.dram_read_bytes.sum()),
            )
        )
        before, last = now, at
        progress.step(phase)
    return done


def _queue_figures(engine: Engine) -> QueueFigures:
    counted = engine.counters()
    return QueueFigures(
        buffer_high_water_bytes=counted["reservation_high_water"],
        stall_cycles={
            name.removeprefix(STALLS): value
            for name, value in counted.items()
            if name.startswith(STALLS)
        },
    )


def _part(rows: Sequence[tuple[_Placed, _Done, _Done, ByteArray]]) -> ArrayResult:
    """The result of an array's pieces in a window."""
    faults = set()
    for placed, leaving, coming, stream in rows:
        data = placed.piece.data
        faults |= _faults("way out", leaving.record, data, stream.size)
        faults |= _faults("way in", coming.record, data, data.size)
    out, back = [row[1] for row in rows], [row[2] for row in rows]
    return ArrayResult(
        streams=[stream for *_, stream in rows],
        returned=[placed.device.array.copy() for placed, *_ in rows],
        cycles_out=sum(done.cycles for done in out),
        cycles_in=sum(done.cycles for done in back),
        faults=faults,
        engine=EngineFigures(
            link_out_busy_cycles=sum(done.link_out_busy_cycles for done in out),
            link_in_busy_cycles=sum(done.link_in_busy_cycles for done in back),
            dram_read_bytes=sum(done.dram_read_bytes for done in out),
            latency_cycles_out=_latency(out),
            latency_cycles_in=_latency(back),
            statuses=tuple(done.record.status for done in (*out, *back)),
        ),
    )


def _latency(done: Sequence[_Done]) -> int:
    """From the first descriptor's arrival to the last record."""
    return done[-1].at - (done[0].at - done[0].record.cycles)


def _faults(way: str, record: CompletionRecord, piece: Array, size: int) -> set[str]:
    name = None if record.ok else record.status.name
    return result_faults(way, name, record.crc32, record.out_size, piece, size)
