"""Arrays out through RTL and back, compared with what they were and with the golden models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

import golden
from golden.interface import as_bytes, element_dtype, zero_filled
from sim.swap.road import TRANSFER_BYTES, Array, EngineFigures, Road, comparison_faults

BASELINES = ("rle", "csr", "lz4", "deflate")
"""Golden codecs whose ratios stand beside the RTL's (cDMA, §V-A)."""


@dataclass(frozen=True)
class Trip:
    """An array's way out and back.

    Attributes
    ----------
    name, dtype, shape
        Of the array.
    nbytes : int
        Uncompressed.
    nonzero : int
        Non-zero elements.
    element_bytes : int
        What the codec took as an element.
    compressed_bytes : int
        Of the stream that left the RTL.
    cycles_out, cycles_in : int
        Each way, from the first command, or doorbell, to the last status, or record.
    crc32 : int
        Of the array's bytes.
    faults : tuple of str
        What was not as it should be; empty if everything is bit-exact.
    baseline_bytes : dict
        Compressed sizes by golden codec.
    engine : EngineFigures or None
        What the engine counted, if there is one.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    nonzero: int
    element_bytes: int
    compressed_bytes: int
    cycles_out: int
    cycles_in: int
    crc32: int
    faults: tuple[str, ...]
    baseline_bytes: dict[str, int]
    engine: EngineFigures | None

    @property
    def bit_exact(self) -> bool:
        """The array came back as it was, and its stream is the golden model's."""
        return not self.faults


class Swapper:
    """Takes arrays out and back through a road, and looks at what comes of them.

    Parameters
    ----------
    road : Road
        Closed with the swapper.
    """

    def __init__(self, road: Road) -> None:
        self.road = road

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.road.close()

    def swap(
        self,
        name: str,
        array: Array,
        *,
        element_bytes: int | None = None,
        baselines: bool = True,
        progress: Callable[[int], None] = lambda nbytes: None,
    ) -> Trip:
        """Take an array out and back.

        Parameters
        ----------
        name
            For the report.
        array
            Of any shape and type.
        element_bytes
            4, 2 or 1; the type's own unless given.
        baselines
            Also compress it with the golden codecs.
        progress
            Called with the number of bytes that one step more of the work has done; the sum of all
            is `work_bytes(array)`.
        """
        size = golden.element_bytes_of(array.dtype) if element_bytes is None else element_bytes
        codec = golden.codec("zvc", size)
        data = as_bytes(array)
        pieces = _pieces(data)
        carried = self.road.carry(pieces, size, progress)
        faults = carried.faults | comparison_faults(carried, pieces, codec)
        baseline_bytes = {}
        for baseline in BASELINES if baselines else ():
            baseline_bytes[baseline] = int(golden.codec(baseline, size).line_sizes(data).sum())
            progress(data.size)
        return Trip(
            name=name,
            dtype=array.dtype.name,
            shape=array.shape,
            nbytes=data.size,
            nonzero=_nonzero(data, size),
            element_bytes=size,
            compressed_bytes=sum(stream.size for stream in carried.streams),
            cycles_out=carried.cycles_out,
            cycles_in=carried.cycles_in,
            crc32=golden.crc32(data),
            faults=tuple(sorted(faults)),
            baseline_bytes=baseline_bytes,
            engine=carried.engine,
        )


def work_bytes(array: Array, *, baselines: bool = True) -> int:
    """What `Swapper.swap` tells `progress` in sum."""
    return array.nbytes * (2 + (len(BASELINES) if baselines else 0))


def _pieces(data: Array) -> Sequence[Array]:
    # An empty array has a piece, too.
    starts = range(0, max(1, data.size), TRANSFER_BYTES)
    return [data[start : start + TRANSFER_BYTES] for start in starts]


def _nonzero(data: Array, element_bytes: int) -> int:
    return int(
        np.count_nonzero(zero_filled(data, element_bytes).view(element_dtype(element_bytes)))
    )
