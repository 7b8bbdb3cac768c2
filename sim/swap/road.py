"""What arrays are carried through, and what there is to tell of it afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import golden
from golden.stream import ByteArray
from hw.dma.descriptor import Status

Array = npt.NDArray[Any]

TRANSFER_BYTES = 4 << 20
"""An array goes in transfers of at most this size; whole lines, so that the stream is the same."""

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class EngineFigures:
    """What engine and machine counted on an array's way out and back.

    Attributes
    ----------
    link_out_busy_cycles, link_in_busy_cycles : float
        Cycles in which the link moved something to the host on the way out, and from it on the way
        in.
    dram_read_bytes : int
        What was read of device memory on the way out.
    buffer_high_water_bytes : int
        Most bytes of the DMA buffer that were reserved at once.
    stall_cycles : dict
        Both ways, by cause.
    statuses : tuple of Status
        Of all transfers.
    """

    link_out_busy_cycles: float = 0.0
    link_in_busy_cycles: float = 0.0
    dram_read_bytes: int = 0
    buffer_high_water_bytes: int = 0
    stall_cycles: dict[str, int]
    statuses: tuple[Status, ...] = ()

    @property
    def status(self) -> Status | None:
        """The worst of `statuses`; None if there are none."""
        return max(self.statuses, default=None)

    @classmethod
    def joined(cls, parts: Sequence["EngineFigures"]) -> "EngineFigures":
        """Of several ways together."""
        causes = dict.fromkeys(cause for part in parts for cause in part.stall_cycles)
        return cls(
            link_out_busy_cycles=sum(part.link_out_busy_cycles for part in parts),
            link_in_busy_cycles=sum(part.link_in_busy_cycles for part in parts),
            dram_read_bytes=sum(part.dram_read_bytes for part in parts),
            buffer_high_water_bytes=max((p.buffer_high_water_bytes for p in parts), default=0),
            stall_cycles={c: sum(part.stall_cycles.get(c, 0) for part in parts) for c in causes},
            statuses=tuple(status for part in parts for status in part.statuses),
        )


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What came of an array's pieces.

    Attributes
    ----------
    streams, returned : list of uint8 array
        Each piece compressed, and what was made of that again.
    cycles_out, cycles_in : int
        Each way, from the first command to the last status.
    faults : set of str
        What statuses say that is not so, or should not be.
    engine : EngineFigures or None
        None where there is no engine.
    """

    streams: list[ByteArray]
    returned: list[ByteArray]
    cycles_out: int
    cycles_in: int
    faults: set[str]
    engine: EngineFigures | None = None


class Road(Protocol):
    """RTL that arrays go out and come back through."""

    def carry(self, pieces: Sequence[Array], element_bytes: int, progress: Progress) -> Carried:
        """Take an array's pieces out and back.

        Parameters
        ----------
        pieces
            Of bytes, at most `TRANSFER_BYTES` each; whole lines but for the last.
        element_bytes
            What the codec takes as an element.
        progress
            Called with the number of bytes whenever some have come out, and when they are back.
        """
        ...

    def close(self) -> None:
        """Free the simulators and complete the waves."""
        ...


def result_faults(
    block: str, status: str | None, crc32: int, out_size: int, piece: Array, size: int
) -> set[str]:
    """What is wrong with a transfer's result.

    Parameters
    ----------
    block
        Whose result.
    status
        Its name, if it is one that should not be.
    crc32, out_size
        What the result says.
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


def comparison_faults(carried: Carried, pieces: Sequence[Array], codec: golden.Codec) -> set[str]:
    """What differs from the golden model, and from what went out."""
    faults = set()
    for piece, stream, back in zip(pieces, carried.streams, carried.returned, strict=True):
        if not np.array_equal(stream, codec.compress(piece)):
            faults.add("the stream is not the golden model's")
        if not np.array_equal(back, piece):
            faults.add("the array did not come back as it was")
    return faults
