"""Bytes kept in host memory: out through the engine, and back when they are wanted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cdma import golden
from cdma.golden.formats.stream import ByteArray
from cdma.sim.driver import Buffer, BusyError, CopyKind, Engine, OutOfMemoryError, Transfer
from cdma.sim.driver.memory.buffers import Memory
from cdma.sim.swap.backend import TRANSFER_BYTES

Learner = Callable[[Transfer], object]
"""A function that is given transfers that have their records."""


class StashError(RuntimeError):
    """Bytes cannot be kept: "cause; mend"."""


@dataclass(frozen=True)
class _Piece:
    """The part of an array that one transfer moves, in host memory."""

    buffer: Buffer
    nbytes: int
    codec: str | None
    parameters: Mapping[str, int]
    crc: int


@dataclass(eq=False)
class Stashed:
    """An array that is out on the host.

    Attributes
    ----------
    nbytes, stream_bytes : int
        Bytes uncompressed, and bytes in host memory.
    """

    pieces: tuple[_Piece, ...]

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    @property
    def stream_bytes(self) -> int:
        return sum(piece.buffer.nbytes for piece in self.pieces)


@dataclass(frozen=True)
class _Sent:
    """A piece on its way to a buffer of device memory."""

    piece: _Piece
    device: Buffer
    transfer: Transfer


@dataclass(frozen=True)
class Arriving:
    """An array on its way back.

    Attributes
    ----------
    stashed : Stashed
    sent : tuple
        Its pieces' transfers.
    cycles : int
        What sending for them took.
    """

    stashed: Stashed
    sent: tuple[_Sent, ...]
    cycles: int


@dataclass
class SwapTotals:
    """Totals of one direction.

    Attributes
    ----------
    arrays, nbytes, stream_bytes : int
        The number of arrays, their bytes uncompressed, and their bytes on the link.
    cycles : int
        Cycles of the machine in which the program waited for these arrays: from before an array's
        first doorbell to behind its last record, less what passed between `begin` and `finish`.
    """

    arrays: int = 0
    nbytes: int = 0
    stream_bytes: int = 0
    cycles: int = 0


class Stash:
    """Arrays in an engine's host memory.

    An array goes in transfers of at most 4 MiB, one after another, each through a buffer of device
    memory that is free again afterwards. Host memory has as much as the streams take.

    Parameters
    ----------
    engine : Engine
    verify : bool
        Let the engine read back and compare what it has written, before the record.

    Attributes
    ----------
    out, back : SwapTotals
    nbytes, stream_bytes : int
        What is out now.
    """

    def __init__(self, engine: Engine, *, verify: bool = False) -> None:
        self.engine = engine
        self.verify = verify
        self.out = SwapTotals()
        self.back = SwapTotals()
        self.nbytes = 0
        self.stream_bytes = 0
        # Of transfers that were interrupted; free as soon as the engine has done with them.
        self._late: list[Buffer] = []

    def put(
        self,
        array: ByteArray,
        codec: str | None,
        parameters: Mapping[str, int] | None = None,
        *,
        restored: ByteArray | None = None,
        learn: Learner | None = None,
    ) -> Stashed:
        """Take an array's bytes out; None copies them as they are.

        Parameters
        ----------
        array : uint8 (bytes,)
        codec : str or None
        parameters : mapping of str to int, optional
            The codec's, the same ones on the way back.
        restored : uint8 (bytes,), optional
            What a lossy codec must bring back, to be compared with the record's CRC-32.
        learn : callable, optional
            Gets the transfer of each piece, with its record.

        Raises
        ------
        StashError
            A memory of the machine has no room, or the engine's record is of other bytes than
            `restored`. Nothing of the array is out then.
        TransferError, MachineError
            The engine failed. Nothing of the array is out then.
        """
        started = self.engine.machine.cycles
        pieces: list[_Piece] = []
        try:
            for part in _parts(array):
                pieces.append(self._put(part, codec, parameters or {}, learn))
            if restored is not None:
                _require_restored(pieces, restored)
        except BaseException:
            for piece in pieces:
                self._free(piece.buffer)
            raise
        stashed = Stashed(tuple(pieces))
        self.nbytes += stashed.nbytes
        self.stream_bytes += stashed.stream_bytes
        self._count(self.out, stashed, started)
        return stashed

    def get(self, stashed: Stashed) -> ByteArray:
        """Return the array's bytes, a new array; they also stay out until `drop`.

        Raises
        ------
        StashError
            Device memory has no room.
        TransferError, MachineError
            The engine failed, or what came back has another CRC-32.
        """
        started = self.engine.machine.cycles
        array = np.empty(stashed.nbytes, np.uint8)
        for piece, part in zip(stashed.pieces, _parts(array), strict=True):
            self._receive(self._send(piece), part)
        self._count(self.back, stashed, started)
        return array

    def begin(self, stashed: Stashed) -> Arriving:
        """Let the engine bring an array back while other copies run; `finish` gives its bytes.

        Raises
        ------
        StashError
            Device memory has no room for all of the array at once. Nothing comes then.
        """
        started = self.engine.machine.cycles
        sent: list[_Sent] = []
        try:
            for piece in stashed.pieces:
                sent.append(self._send(piece))
        except BaseException:
            for one in sent:
                self._free(one.device)
            raise
        return Arriving(stashed, tuple(sent), self.engine.machine.cycles - started)

    def finish(self, arriving: Arriving) -> ByteArray:
        """Wait for an array that `begin` has sent for, and return its bytes; raises as `get`."""
        started = self.engine.machine.cycles - arriving.cycles
        array = np.empty(arriving.stashed.nbytes, np.uint8)
        for sent, part in zip(arriving.sent, _parts(array), strict=True):
            self._receive(sent, part)
        self._count(self.back, arriving.stashed, started)
        return array

    def cancel(self, arriving: Arriving) -> None:
        """Want nothing of an array any more that `begin` has sent for; it stays out."""
        for sent in arriving.sent:
            self._free(sent.device)

    def drop(self, stashed: Stashed) -> None:
        """Free the array's host memory."""
        self.nbytes -= stashed.nbytes
        self.stream_bytes -= stashed.stream_bytes
        for piece in stashed.pieces:
            self._free(piece.buffer)

    def _send(self, piece: _Piece) -> _Sent:
        device = self._alloc(self.engine.device, piece.nbytes)
        try:
            transfer = self.engine.submit(
                device,
                piece.buffer,
                piece.nbytes,
                CopyKind.HOST_TO_DEVICE,
                piece.codec,
                crc=None if piece.codec is None else piece.crc,
                parameters=piece.parameters,
            )
        except BaseException:
            self._free(device)
            raise
        return _Sent(piece, device, transfer)

    def _receive(self, sent: _Sent, part: ByteArray) -> None:
        """Wait for a piece, and copy it."""
        try:
            record = self.engine.wait(sent.transfer).check()
            # A plain copy does not compare by itself.
            if record.crc32 != sent.piece.crc:
                raise StashError(
                    f"{sent.piece.buffer} came back with CRC-32 {record.crc32:#010x} instead of "
                    f"{sent.piece.crc:#010x}: something has written to host memory; leave it alone"
                )
            part[:] = sent.device.array
        finally:
            self._free(sent.device)

    def _put(
        self,
        part: ByteArray,
        codec: str | None,
        parameters: Mapping[str, int],
        learn: Learner | None,
    ) -> _Piece:
        engine = self.engine
        device = self._alloc(engine.device, part.size)
        try:
            worst = (
                part.size if codec is None else engine.shape.worst_stream_bytes(part.size, codec)
            )
            host = self._alloc(engine.host, worst)
            try:
                device.array[:] = part
                transfer = engine.submit(
                    host,
                    device,
                    part.size,
                    CopyKind.DEVICE_TO_HOST,
                    codec,
                    verify=self.verify and codec is not None,
                    parameters=parameters,
                )
                record = engine.wait(transfer).check()
                if learn is not None:
                    learn(transfer)
            except BaseException:
                self._free(host)
                raise
        finally:
            self._free(device)
        # What compression saved is given back; the stream stays where it is.
        engine.host.free(host)
        host = engine.host.alloc(record.out_size, address=host.address)
        return _Piece(host, part.size, codec, parameters, record.crc32)

    def _alloc(self, memory: Memory, nbytes: int) -> Buffer:
        late, self._late = self._late, []
        for buffer in late:
            self._free(buffer)
        try:
            return memory.alloc(nbytes)
        except OutOfMemoryError as error:
            raise StashError(
                f"{error}; {self.nbytes} bytes are out as {self.stream_bytes}: let less go out, or "
                f"give the machine more {memory.name}_bytes"
            ) from error

    def _free(self, buffer: Buffer) -> None:
        try:
            buffer.memory.free(buffer)
        except BusyError:
            self._late.append(buffer)

    def _count(self, traffic: SwapTotals, stashed: Stashed, started: int) -> None:
        traffic.arrays += 1
        traffic.nbytes += stashed.nbytes
        traffic.stream_bytes += stashed.stream_bytes
        traffic.cycles += self.engine.machine.cycles - started


def _require_restored(pieces: Sequence[_Piece], restored: ByteArray) -> None:
    """Raise a `StashError` unless the records' CRC-32s are those of what must come back."""
    for piece, part in zip(pieces, _parts(restored), strict=True):
        wanted = golden.crc32(part)
        if piece.crc != wanted:
            raise StashError(
                f"the record of {piece.codec} has CRC-32 {piece.crc:#010x}, and the golden model "
                f"restores {wanted:#010x}: the engine's codec is another one; give the driver the "
                "codecs that the engine was built with"
            )


def _parts(array: ByteArray) -> Iterator[ByteArray]:
    for start in range(0, array.size, TRANSFER_BYTES):
        yield array[start : start + TRANSFER_BYTES]
