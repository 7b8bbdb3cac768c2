"""Tensors on their way out and back, piece by piece, through the engine's ring."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cdma.sim.driver import Buffer, CopyKind, Engine, Span, Transfer
from cdma.sim.execute.carried_tensor import CarriedTensor
from cdma.sim.machine import Machine

PIECE_BYTES = 32 << 10
"""Records come in the order of the ring, so a short copy waits for a long one before it that goes
the other way. In pieces of this size, whole lines, neither waits long."""

LEAST_IN_FLIGHT = 2
"""Pieces of one direction, however long they are."""

MOST_IN_FLIGHT = 24

COVER_CYCLES = 2000
"""So much time on the link stands in the ring behind the piece in front, in each direction: more
than what its record, and then the next piece's descriptor and first data, take to come."""

USUAL_RATIO = 4
"""The compression ratio that is assumed before a stream's length is known, unless the tensor is
known, from the step before, to have a better one."""


class CopyError(RuntimeError):
    """A tensor came back changed."""


@dataclass(eq=False)
class _Piece:
    name: str
    start: int
    nbytes: int
    host: Buffer
    last: bool
    device: Span | None = None
    stream_bytes: int = 0
    crc: int = 0


class Copier:
    """Moves tensors, each out and back once.

    Copies of one direction go one after another, and the two directions at the same time, unless
    the link has one at a time.

    Parameters
    ----------
    engine : Engine
        With all of its host memory free.
    jobs : mapping of str to CarriedTensor
        By the tensors' names.
    duplex : bool

    Attributes
    ----------
    cycles : dict
        For a way, `out` or `in`, and a name: when the copy's first piece was submitted, and when
        the record of its last was there.
    """

    def __init__(self, engine: Engine, jobs: Mapping[str, CarriedTensor], duplex: bool) -> None:
        self.engine = engine
        self.jobs = jobs
        self.cycles: dict[tuple[str, str], tuple[int, int]] = {}
        self._started: dict[tuple[str, str], int] = {}
        self._pieces = {name: list(self._cut(name, job)) for name, job in jobs.items()}
        self._duplex = duplex
        self._waiting: dict[str, deque[_Piece]] = {"out": deque(), "in": deque()}
        self._flying: dict[str, deque[tuple[_Piece, Transfer]]] = {"out": deque(), "in": deque()}

    @property
    def machine(self) -> Machine:
        return self.engine.machine

    @property
    def busy(self) -> bool:
        """True if any piece is in flight."""
        return any(self._flying.values())

    def put(self, way: str, name: str, device: Buffer) -> None:
        """Queue a tensor in a direction, behind those that were put before.

        `device` is where it is on the device, or is to be.
        """
        for piece in self._pieces[name]:
            piece.device = device.span(piece.start, piece.nbytes)
        self._waiting[way].extend(self._pieces[name])

    def pump(self, begin: int) -> None:
        """Submit as many pieces as the ring should hold. Cycles count from `begin`."""
        ways = ("out", "in") if self._duplex else (self._turn(),)
        for way in ways:
            waiting, flying = self._waiting[way], self._flying[way]
            while waiting and self._wants_more(way):
                piece = waiting.popleft()
                now = self.machine.cycles - begin
                flying.append((piece, self._submit(way, piece)))
                self._started.setdefault((way, piece.name), now)

    def poll(self, begin: int) -> bool:
        """Collect the records that have come; return True if there were any."""
        self.engine.poll()
        found = False
        for way, flying in self._flying.items():
            while flying and flying[0][1].done:
                piece, transfer = flying.popleft()
                self._end(way, piece, transfer, begin)
                found = True
        return found

    def has_ended(self, way: str, name: str) -> bool:
        return (way, name) in self.cycles

    def stream_bytes(self, name: str) -> int:
        """Bytes that a tensor occupied on the link."""
        return sum(piece.stream_bytes for piece in self._pieces[name])

    def wait_for_oldest(self) -> None:
        """Let time pass until any record comes; the driver's error if none does."""
        assert self.busy
        flying = [pieces[0][1] for pieces in self._flying.values() if pieces]
        self.engine.wait(min(flying, key=lambda transfer: transfer.index))

    def out_now(self) -> list[str]:
        """Names of the tensors of which a part has left device memory and is not back."""
        left = {name for way, name in self._started if way == "out"}
        return sorted(name for name in left if not self.has_ended("in", name))

    def describe_out(self) -> str:
        """Describe those tensors for people."""
        names = self.out_now()
        if not names:
            return "no tensor is out"
        nbytes = sum(self.jobs[name].raw.size for name in names)
        return f"{len(names)} tensors, {nbytes:,} bytes, are out: {', '.join(names)}"

    def check(self, name: str, device: Buffer) -> None:
        """Raise `CopyError` if a tensor that is back is not what its codec restores."""
        restored = self.jobs[name].restored
        back = device.array[: restored.size]
        if not np.array_equal(back, restored):
            wrong = int(np.argmax(back != restored))
            raise CopyError(f"{name} came back changed, first at byte {wrong}")

    def _cut(self, name: str, job: CarriedTensor) -> Iterator[_Piece]:
        for start in range(0, job.raw.size, PIECE_BYTES):
            nbytes = min(PIECE_BYTES, job.raw.size - start)
            worst = (
                nbytes
                if job.codec is None
                else self.engine.shape.worst_stream_bytes(nbytes, job.codec)
            )
            host = self.engine.host.alloc(worst)
            yield _Piece(name, start, nbytes, host, last=start + nbytes == job.raw.size)

    def _turn(self) -> str:
        """Direction of a half-duplex link: one with pieces in flight, else one that waits."""
        for way in ("out", "in"):
            if self._flying[way] or self._waiting[way]:
                return way
        return "out"

    def _wants_more(self, way: str) -> bool:
        flying = self._flying[way]
        if len(flying) < LEAST_IN_FLIGHT:
            return True
        config = self.machine.config
        rate = config.link_out_bytes_per_cycle if way == "out" else config.link_in_bytes_per_cycle
        behind = sum(self._expected_bytes(piece) for piece, _ in list(flying)[1:]) / rate
        return behind < COVER_CYCLES and len(flying) < MOST_IN_FLIGHT

    def _expected_bytes(self, piece: _Piece) -> float:
        """Bytes that are expected on the link."""
        job = self.jobs[piece.name]
        usual = 1 if job.codec is None else min(1 / USUAL_RATIO, job.stream_bytes / job.raw.size)
        return piece.stream_bytes or piece.nbytes * usual

    def _submit(self, way: str, piece: _Piece) -> Transfer:
        job = self.jobs[piece.name]
        assert piece.device is not None
        if way == "out":
            return self.engine.submit(
                piece.host,
                piece.device,
                piece.nbytes,
                CopyKind.DEVICE_TO_HOST,
                job.codec,
                parameters=job.parameters,
            )
        return self.engine.submit(
            piece.device,
            piece.host.span(0, piece.stream_bytes),
            piece.nbytes,
            CopyKind.HOST_TO_DEVICE,
            job.codec,
            crc=None if job.codec is None else piece.crc,
            parameters=job.parameters,
        )

    def _end(self, way: str, piece: _Piece, transfer: Transfer, begin: int) -> None:
        record = transfer.result().check()
        if way == "out":
            piece.stream_bytes, piece.crc = record.out_size, record.crc32
        if piece.last:
            now = self.machine.cycles - begin
            self.cycles[way, piece.name] = self._started[way, piece.name], now
