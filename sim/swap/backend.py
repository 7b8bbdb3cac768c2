"""Backends that arrays are sent through, and the result of each array."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cdma import golden
from cdma.golden.formats.stream import ByteArray
from cdma.hw.dma.control.descriptor import Status
from cdma.sim.swap.encoding import Encoding

Array = npt.NDArray[Any]

TRANSFER_BYTES = 4 << 20
"""An array goes in transfers of at most this size; whole lines, so that the stream is the same."""

OUT, IN = "swap out", "swap in"
"""The phases that a backend reports to `cdma.builds.progress`, counted in transfers."""


@dataclass(frozen=True, kw_only=True)
class Payload:
    """An array's bytes as a backend takes them.

    Attributes
    ----------
    pieces : sequence of array
        Of bytes, at most `TRANSFER_BYTES` each; whole lines but for the last. An empty array has
        one empty piece.
    element_bytes : int
        Of the array.
    encoding : Encoding
        What it is compressed with.
    """

    pieces: Sequence[Array]
    element_bytes: int
    encoding: Encoding


@dataclass(frozen=True, kw_only=True)
class EngineFigures:
    """Figures of engine and machine, counted while an array was at the head of the queue.

    Attributes
    ----------
    link_out_busy_cycles, link_in_busy_cycles : float
        The cycles of `ArrayResult.cycles_out` in which the link moved something to the host, and
        those of `cycles_in` in which it moved something from it, for whatever array.
    dram_read_bytes : int
        Bytes read from device memory in `cycles_out`, for whatever array.
    latency_cycles_out, latency_cycles_in : int
        Cycles from the arrival of the array's first descriptor in the engine to its last record.
        The wait for what is ahead of it in the queue is included.
    statuses : tuple of Status
        The statuses of all transfers.
    """

    link_out_busy_cycles: float = 0.0
    link_in_busy_cycles: float = 0.0
    dram_read_bytes: int = 0
    latency_cycles_out: int = 0
    latency_cycles_in: int = 0
    statuses: tuple[Status, ...] = ()

    @property
    def status(self) -> Status | None:
        """The worst of `statuses`; None if there are none."""
        return max(self.statuses, default=None)

    @classmethod
    def joined(cls, parts: Sequence["EngineFigures"]) -> "EngineFigures":
        """The figures of several parts that follow one another."""
        return cls(
            link_out_busy_cycles=sum(part.link_out_busy_cycles for part in parts),
            link_in_busy_cycles=sum(part.link_in_busy_cycles for part in parts),
            dram_read_bytes=sum(part.dram_read_bytes for part in parts),
            latency_cycles_out=sum(part.latency_cycles_out for part in parts),
            latency_cycles_in=sum(part.latency_cycles_in for part in parts),
            statuses=tuple(status for part in parts for status in part.statuses),
        )


@dataclass(frozen=True, kw_only=True)
class QueueFigures:
    """Figures that the engine counted over all arrays, which cannot be split among them.

    Attributes
    ----------
    buffer_high_water_bytes : int
        Most bytes of the DMA buffer that were reserved at once on the way out.
    stall_cycles : dict
        Stall cycles of both directions, by cause.
    """

    buffer_high_water_bytes: int
    stall_cycles: dict[str, int]

    @classmethod
    def joined(cls, parts: Sequence["QueueFigures"]) -> "QueueFigures":
        """The figures of several queues, one after another."""
        causes = dict.fromkeys(cause for part in parts for cause in part.stall_cycles)
        return cls(
            buffer_high_water_bytes=max((p.buffer_high_water_bytes for p in parts), default=0),
            stall_cycles={c: sum(part.stall_cycles.get(c, 0) for part in parts) for c in causes},
        )


@dataclass(frozen=True, kw_only=True)
class ArrayResult:
    """Result of an array's pieces.

    Attributes
    ----------
    streams, returned : list of uint8 array
        Each piece compressed, and each piece expanded again.
    cycles_out, cycles_in : int
        Cycles that the array added to each way: from the record before its own, or from the first
        command of the queue, to its last record. The sum over all arrays is the whole's time.
    faults : set of str
        Discrepancies of statuses, in words; empty if there is none.
    engine : EngineFigures or None
        None where there is no engine.
    """

    streams: list[ByteArray]
    returned: list[ByteArray]
    cycles_out: int
    cycles_in: int
    faults: set[str]
    engine: EngineFigures | None = None

    @classmethod
    def joined(cls, parts: Sequence["ArrayResult"]) -> "ArrayResult":
        """An array's result from those of its parts, in their order."""
        engines = [part.engine for part in parts if part.engine is not None]
        return cls(
            streams=[stream for part in parts for stream in part.streams],
            returned=[back for part in parts for back in part.returned],
            cycles_out=sum(part.cycles_out for part in parts),
            cycles_in=sum(part.cycles_in for part in parts),
            faults={fault for part in parts for fault in part.faults},
            engine=EngineFigures.joined(engines) if engines else None,
        )


class Backend(Protocol):
    """RTL that arrays go out and come back through."""

    def encoding(self, data: ByteArray, element_bytes: int) -> Encoding:
        """Choose what an array of these bytes is compressed with; nothing is built for it yet.

        Raises
        ------
        golden.CodecError
            There is no RTL for elements of that size.
        """
        ...

    def transfer(self, payloads: Sequence[Payload]) -> Iterator[tuple[int, ArrayResult]]:
        """Take arrays out and back, and yield each one's index and result as it is complete.

        Arrays of one element size complete in their order. A fault of one array is in its result
        and does not keep the others from going on. `cdma.builds.progress` is told of `OUT` and
        `IN`.
        """
        ...

    def queue_figures(self) -> QueueFigures | None:
        """The figures of all transfers so far; None where there is no engine."""
        ...

    def close(self) -> None:
        """Free the simulators and complete the waves."""
        ...


def result_faults(
    block: str, status: str | None, crc32: int, out_size: int, piece: Array, size: int
) -> set[str]:
    """List what is wrong with a transfer's result, in words.

    Parameters
    ----------
    block
        The name of the block whose result it is.
    status
        The status's name if it is an error; None otherwise.
    crc32, out_size
        The result's figures.
    piece, size
        The uncompressed bytes, and how many should have left.
    """
    faults = set()
    if status is not None:
        faults.add(f"the {block}'s status is {status}")
    if crc32 != golden.crc32(piece):
        faults.add(f"the {block}'s CRC-32 is not that of the data")
    if out_size != size:
        faults.add(f"the {block}'s status tells a wrong size")
    return faults


def comparison_faults(
    result: ArrayResult, pieces: Sequence[ByteArray], encoding: Encoding
) -> set[str]:
    """List how an array's result differs from the golden model's, and from what should return."""
    faults = set()
    for piece, stream, back in zip(pieces, result.streams, result.returned, strict=True):
        if not np.array_equal(stream, encoding.stream(piece)):
            faults.add("the stream is not the golden model's")
        if not np.array_equal(back, encoding.returned(piece)):
            was = "it was" if encoding.model.lossless else "the golden model restores it"
            faults.add(f"the array did not come back as {was}")
    return faults
