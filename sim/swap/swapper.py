"""Arrays out through RTL and back, compared with what they were and with the golden models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from cdma import golden
from cdma.builds.displays import table
from cdma.builds.progress import Tally
from cdma.golden.formats.interface import as_bytes, as_floats, element_dtype, zero_filled
from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import DEFAULT_CODECS
from cdma.sim.swap.backend import (
    TRANSFER_BYTES,
    Array,
    ArrayResult,
    Backend,
    EngineFigures,
    Payload,
    QueueFigures,
    comparison_faults,
)
from cdma.sim.swap.encoding import Encoding
from cdma.sim.swap.loss import Loss

BASELINES = (DEFAULT_CODECS[0], "rle", "csr", "lz4", "deflate")
"""Golden codecs whose ratios stand beside the RTL's (cDMA, §V-A), the engine's own first."""

GOLDEN = "golden models"
"""The phase, in arrays, that `cdma.builds.progress` is told of while results are compared."""


@dataclass(frozen=True)
class RoundTrip:
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
        Of the array; beside a codec of finer elements, the others work on such, too.
    codec : str
        What it was compressed with.
    parameters : mapping of str to int
        The codec's, by name.
    compressed_bytes : int
        Of the stream that left the RTL.
    cycles_out, cycles_in : int
        What the array added to each way: from the record of the array before, or the doorbell, to
        its own. With the codec alone, from its first command to its last status.
    crc32 : int
        Of the bytes that come back.
    faults : tuple of str
        What was not as it should be; empty if everything is bit-exact.
    baseline_bytes : dict
        Compressed sizes by golden codec.
    engine : EngineFigures or None
        What the engine counted, if there is one.
    loss : Loss or None
        How far the values that came back are from the array's; None of a lossless codec.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    nonzero: int
    element_bytes: int
    codec: str
    parameters: Mapping[str, int]
    compressed_bytes: int
    cycles_out: int
    cycles_in: int
    crc32: int
    faults: tuple[str, ...]
    baseline_bytes: dict[str, int]
    engine: EngineFigures | None
    loss: Loss | None = None

    @property
    def bit_exact(self) -> bool:
        """The stream is the golden model's, and what came back is what that makes of it: the array
        as it was, unless the codec is lossy.
        """
        return not self.faults

    @property
    def verdict(self) -> str:
        """The outcome in a word or two, for tables."""
        if self.faults:
            return "WRONG"
        return "exact" if self.loss is None else f"within {self.loss.bound:g}"


@dataclass(frozen=True)
class SwapRun:
    """Results of arrays that were swapped together.

    Attributes
    ----------
    round_trips : tuple of RoundTrip
        In the order of the arrays.
    queue : QueueFigures or None
        The engine's figures over all of them; None without an engine.
    """

    round_trips: tuple[RoundTrip, ...]
    queue: QueueFigures | None

    def _repr_html_(self) -> str:
        """A table with a row per array, for notebooks."""
        rows = [
            (
                each.name,
                f"{each.nbytes:,}",
                f"{each.compressed_bytes:,}",
                f"{each.nbytes / each.compressed_bytes:.2f}×" if each.compressed_bytes else "–",
                f"{each.cycles_out:,}",
                f"{each.cycles_in:,}",
                each.verdict,
            )
            for each in self.round_trips
        ]
        headings = ("array", "bytes", "compressed", "ratio", "cycles out", "cycles in", "bits")
        return table("Arrays through the RTL and back", headings, rows)


class Swapper:
    """Takes arrays out and back through a backend, and looks at what comes of them.

    Parameters
    ----------
    backend : Backend
        Closed with the swapper.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.backend.close()

    def swap(
        self,
        arrays: Sequence[tuple[str, Array]],
        *,
        element_bytes: int | None = None,
        baselines: bool = True,
    ) -> SwapRun:
        """Take all arrays out and back. An array with faults does not stop the others.

        Parameters
        ----------
        arrays
            Of any shape and type, with their names for the report.
        element_bytes
            4, 2 or 1; each type's own unless given.
        baselines
            Also compress them with the golden codecs.

        Raises
        ------
        golden.CodecError
            There are no elements of that size, or a lossy codec is for other values.
        """
        payloads = [_payload(array, element_bytes, self.backend) for _, array in arrays]
        round_trips: dict[int, RoundTrip] = {}
        progress = None
        for index, result in self.backend.transfer(payloads):
            progress = progress or Tally(GOLDEN, len(arrays))
            name, array = arrays[index]
            round_trips[index] = _round_trip(
                name, array, payloads[index], result, baselines=baselines
            )
            progress.step()
        return SwapRun(
            tuple(round_trips[index] for index in range(len(arrays))), self.backend.queue_figures()
        )


def _payload(array: Array, element_bytes: int | None, backend: Backend) -> Payload:
    size = golden.element_bytes_of(array.dtype) if element_bytes is None else element_bytes
    encoding = backend.encoding(as_bytes(array), size)
    data = _bytes_for(encoding, array)
    return Payload(pieces=_pieces(data), element_bytes=size, encoding=encoding)


def _bytes_for(encoding: Encoding, array: Array) -> ByteArray:
    """The array's bytes; for a lossy codec, which knows numbers, in the byte order of its own."""
    if encoding.model.lossless:
        return as_bytes(array)
    return as_bytes(as_floats(encoding.codec, array))


def _round_trip(
    name: str,
    array: Array,
    payload: Payload,
    result: ArrayResult,
    *,
    baselines: bool,
) -> RoundTrip:
    """Compare an array's result with the golden models."""
    size = payload.element_bytes
    encoding = payload.encoding
    data = _bytes_for(encoding, array)
    faults = result.faults | comparison_faults(result, payload.pieces, encoding)
    loss = encoding.loss(data, np.concatenate(result.returned))
    if loss is not None and not loss.within_bound:
        faults |= {f"a value came back {loss.largest_error:g} off, beyond {loss.bound:g}"}
    return RoundTrip(
        name=name,
        dtype=array.dtype.name,
        shape=array.shape,
        nbytes=data.size,
        nonzero=_nonzero(data, size),
        element_bytes=size,
        codec=encoding.codec,
        parameters=encoding.parameters,
        compressed_bytes=sum(stream.size for stream in result.streams),
        cycles_out=result.cycles_out,
        cycles_in=result.cycles_in,
        crc32=golden.crc32(encoding.returned(data)),
        faults=tuple(sorted(faults)),
        baseline_bytes={
            baseline: int(golden.codec(baseline, size).line_sizes(data).sum())
            for baseline in (BASELINES if baselines else ())
        },
        engine=result.engine,
        loss=loss,
    )


def _pieces(data: Array) -> Sequence[Array]:
    # An empty array has a piece, too.
    starts = range(0, max(1, data.size), TRANSFER_BYTES)
    return [data[start : start + TRANSFER_BYTES] for start in starts]


def _nonzero(data: Array, element_bytes: int) -> int:
    return int(
        np.count_nonzero(zero_filled(data, element_bytes).view(element_dtype(element_bytes)))
    )
