"""Arrays out through the RTL compressor and back through the RTL decompressor, and compared."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import golden
from golden.interface import as_bytes, element_dtype, zero_filled
from sim.machine import Batch, Pipeline

Array = npt.NDArray[Any]

BASELINES = ("rle", "csr", "lz4", "deflate")
"""Golden codecs whose ratios stand beside the RTL's (cDMA, §V-A)."""

TRANSFER_BYTES = 4 << 20
"""An array goes in transfers of at most this size; whole lines, so that the stream is the same."""


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
        From the first command to the last status, of the compressor and of the decompressor.
    crc32 : int
        Of the array's bytes.
    faults : tuple of str
        What was not as it should be; empty if everything is bit-exact.
    baseline_bytes : dict
        Compressed sizes by golden codec.
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

    @property
    def bit_exact(self) -> bool:
        """The array came back as it was, and its stream is the golden model's."""
        return not self.faults


class Swapper:
    """A compressor and a decompressor for each element size that comes up.

    Parameters
    ----------
    sector_bytes : int
        Width of both: 32, 64 or 128.
    stalls : float
        Probability of a stall per cycle, on every handshake.
    seed : int
        Of the stalls.
    waves : path, optional
        Write the waves of both there, `-compressor` and `-decompressor` added to the name. Only
        with arrays of one element size.

    Raises
    ------
    sim.machine.MachineError
        If the simulator cannot be built; later, if the RTL hangs or breaks a rule.
    """

    def __init__(
        self,
        *,
        sector_bytes: int = 32,
        stalls: float = 0.0,
        seed: int = 0,
        waves: Path | None = None,
    ) -> None:
        self.sector_bytes = sector_bytes
        self.stalls = stalls
        self.seed = seed
        self.waves = waves
        self._pipelines: dict[tuple[str, int], Pipeline] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for pipeline in self._pipelines.values():
            pipeline.close()

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
        faults: set[str] = set()
        compressed_bytes = cycles_out = cycles_in = 0
        for chunk in _chunks(data):
            out = self._pipeline("zvc-compressor", size).run(
                [chunk], stalls=self.stalls, seed=self.seed
            )
            stream = out.packet(0)
            faults |= _faults("compressor", out, chunk, stream.size)
            if not np.array_equal(stream, codec.compress(chunk)):
                faults.add("the stream is not the golden model's")
            progress(chunk.size)
            back = self._pipeline("zvc-decompressor", size).run(
                [stream],
                lengths=[chunk.size],
                crc32=[int(out.records["crc32"][0])],
                stalls=self.stalls,
                seed=self.seed + 1,
            )
            faults |= _faults("decompressor", back, chunk, chunk.size)
            if not np.array_equal(back.packet(0), chunk):
                faults.add("the array did not come back as it was")
            progress(chunk.size)
            compressed_bytes += stream.size
            cycles_out += out.cycles
            cycles_in += back.cycles
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
            compressed_bytes=compressed_bytes,
            cycles_out=cycles_out,
            cycles_in=cycles_in,
            crc32=golden.crc32(data),
            faults=tuple(sorted(faults)),
            baseline_bytes=baseline_bytes,
        )

    def _pipeline(self, component: str, element_bytes: int) -> Pipeline:
        key = (component, element_bytes)
        if key not in self._pipelines:
            waves = None
            if self.waves is not None:
                suffix = component.removeprefix("zvc-")
                waves = self.waves.with_name(f"{self.waves.stem}-{suffix}{self.waves.suffix}")
            self._pipelines[key] = Pipeline(
                component,
                element_bytes=element_bytes,
                sector_bytes=self.sector_bytes,
                waves=waves,
            )
        return self._pipelines[key]


def work_bytes(array: Array, *, baselines: bool = True) -> int:
    """What `Swapper.swap` tells `progress` in sum."""
    return array.nbytes * (2 + (len(BASELINES) if baselines else 0))


def _chunks(data: Array) -> Iterator[Array]:
    # An empty array is a transfer, too.
    for start in range(0, max(1, data.size), TRANSFER_BYTES):
        yield data[start : start + TRANSFER_BYTES]


def _faults(block: str, batch: Batch, chunk: Array, out_size: int) -> set[str]:
    record = batch.records[0]
    faults = set()
    status = golden.StreamStatus(int(record["status"]))
    if status is not golden.StreamStatus.OK:
        faults.add(f"the {block}'s status is {status.name}")
    if int(record["crc32"]) != golden.crc32(chunk):
        faults.add(f"the {block}'s CRC-32 is not that of the data")
    if int(record["out_size"]) != out_size:
        faults.add(f"the {block}'s status tells a wrong size")
    return faults


def _nonzero(data: Array, element_bytes: int) -> int:
    return int(
        np.count_nonzero(zero_filled(data, element_bytes).view(element_dtype(element_bytes)))
    )
