"""A window of the queue: transfers that are in flight together, first out, then back.

It has as many of the queue's pieces as both memories and the ring hold. All of them go out behind
one doorbell, and come back behind another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from cdma.builds.progress import Tally
from cdma.golden.formats.stream import ByteArray
from cdma.hw.codec.registry import line_codec
from cdma.sim.driver import Buffer, CompletionRecord, CopyKind, Engine, OutOfMemoryError, Transfer
from cdma.sim.swap.backend import (
    IN,
    OUT,
    Array,
    ArrayResult,
    EngineFigures,
    QueueFigures,
    result_faults,
)
from cdma.sim.swap.encoding import Encoding

STALLS = "stall_"
"""What the names of the registers begin with that count stalls."""

POISON = 0xA5
"""What device memory is filled with, so that what comes back has come back."""


@dataclass(frozen=True)
class Piece:
    """The part of an array that one transfer moves.

    Attributes
    ----------
    index : int
        Of the array.
    data : array
        Its bytes.
    encoding : Encoding
        What the array is compressed with.
    last : bool
        The array ends with it.
    """

    index: int
    data: Array
    encoding: Encoding
    last: bool


@dataclass(frozen=True)
class PlacedPiece:
    """A piece with memory on the device and the host."""

    piece: Piece
    device: Buffer
    host: Buffer


@dataclass(frozen=True)
class _Transferred:
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


def fill_window(engine: Engine, queue: Sequence[Piece]) -> list[PlacedPiece]:
    """Take as many pieces from the queue's head as both memories have space for.

    Raises
    ------
    OutOfMemoryError
        There is no room for even one.
    """
    window: list[PlacedPiece] = []
    for piece in queue:
        try:
            device = engine.device.alloc(piece.data.size)
            try:
                host = engine.host.alloc(
                    engine.shape.worst_stream_bytes(piece.data.size, piece.encoding.codec)
                )
            except OutOfMemoryError:
                engine.device.free(device)
                raise
        except OutOfMemoryError:
            if not window:
                raise
            break
        window.append(PlacedPiece(piece, device, host))
    return window


def transfer_window(
    engine: Engine, window: Sequence[PlacedPiece], progress: Mapping[str, Tally]
) -> tuple[list[tuple[int, ArrayResult, bool]], QueueFigures]:
    """Take a window's pieces out, then back, and free their memory.

    Returns
    -------
    parts
        For each array that has pieces in the window: its index, what came of these pieces, and
        whether the array is complete with them.
    figures
        What the engine has counted.
    """
    out, figures_out = _send_out(engine, window, progress[OUT])
    # Of a transfer that has failed, whatever there is of its stream goes back, and fails again.
    sizes = [
        max(1, min(done.record.out_size, placed.host.nbytes))
        for done, placed in zip(out, window, strict=True)
    ]
    back, figures_in = _bring_back(engine, window, out, sizes, progress[IN])
    streams = [p.host.array[:size].copy() for p, size in zip(window, sizes, strict=True)]
    parts = []
    whole = zip(window, out, back, streams, strict=True)
    for index, group in groupby(whole, key=lambda row: row[0].piece.index):
        rows = list(group)
        parts.append((index, _part(rows), rows[-1][0].piece.last))
    for placed in window:
        engine.device.free(placed.device)
        engine.host.free(placed.host)
    return parts, QueueFigures(
        # The way in reserves nothing of the buffer.
        buffer_high_water_bytes=figures_out.buffer_high_water_bytes,
        stall_cycles=QueueFigures.joined([figures_out, figures_in]).stall_cycles,
    )


def _send_out(
    engine: Engine, window: Sequence[PlacedPiece], progress: Tally
) -> tuple[list[_Transferred], QueueFigures]:
    for placed in window:
        placed.device.array[:] = placed.piece.data
    _clear_counters(engine)
    transfers = [
        engine.submit(
            placed.host,
            placed.device,
            placed.device.nbytes,
            CopyKind.DEVICE_TO_HOST,
            placed.piece.encoding.codec,
            parameters=placed.piece.encoding.parameters,
            doorbell=False,
        )
        for placed in window
    ]
    return _finish(engine, transfers, progress), _queue_figures(engine)


def _bring_back(
    engine: Engine,
    window: Sequence[PlacedPiece],
    out: Sequence[_Transferred],
    stream_sizes: Sequence[int],
    progress: Tally,
) -> tuple[list[_Transferred], QueueFigures]:
    for placed in window:
        placed.device.array[:] = POISON
    _clear_counters(engine)
    transfers = []
    for placed, size, done in zip(window, stream_sizes, out, strict=True):
        encoding = placed.piece.encoding
        compressed = line_codec(encoding.codec).number is not None
        transfers.append(
            engine.submit(
                placed.device,
                placed.host,
                placed.device.nbytes,
                CopyKind.HOST_TO_DEVICE,
                encoding.codec,
                parameters=encoding.parameters,
                # Plain copies are as long as their data, and compare nothing.
                stream_bytes=size if compressed else None,
                crc=done.record.crc32 if compressed else None,
                doorbell=False,
            )
        )
    return _finish(engine, transfers, progress), _queue_figures(engine)


def _clear_counters(engine: Engine) -> None:
    engine.clear_counters()
    engine.machine.clear_counters()


def _finish(engine: Engine, transfers: Sequence[Transfer], progress: Tally) -> list[_Transferred]:
    """Ring once for all of them, and take what the machine has counted at each one's record.

    No register is read between the records, which would let time pass.
    """
    machine = engine.machine
    before = machine.counters()
    last = engine.doorbell()
    done = []
    for transfer in transfers:
        record = engine.wait(transfer)
        now, at = machine.counters(), machine.cycles
        done.append(
            _Transferred(
                record,
                at,
                at - last,
                now.link_out_busy_cycles - before.link_out_busy_cycles,
                now.link_in_busy_cycles - before.link_in_busy_cycles,
                int(now.dram_read_bytes.sum() - before.dram_read_bytes.sum()),
            )
        )
        before, last = now, at
        progress.step()
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


def _part(rows: Sequence[tuple[PlacedPiece, _Transferred, _Transferred, ByteArray]]) -> ArrayResult:
    """Result of an array's pieces in a window."""
    faults = set()
    for placed, leaving, coming, stream in rows:
        data = placed.piece.encoding.returned(placed.piece.data)
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


def _latency(done: Sequence[_Transferred]) -> int:
    """Cycles from the first descriptor's arrival in the engine to the last record."""
    return done[-1].at - (done[0].at - done[0].record.cycles)


def _faults(way: str, record: CompletionRecord, piece: Array, size: int) -> set[str]:
    name = None if record.ok else record.status.name
    return result_faults(way, name, record.crc32, record.out_size, piece, size)
