"""The decoding of ZVC streams, whole or damaged, one or a million.

Finds the same first error as the hardware decompressor, at the same offset and with the same bytes
before it. The only serial part is the walk from mask to mask; all else is done on whole arrays.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import (
    Array,
    IntArray,
    as_bytes,
    check_element_bytes,
    element_dtype,
)
from cdma.golden.formats.stream import (
    LINE_BYTES,
    ByteArray,
    Decoded,
    DecodedMany,
    StreamStatus,
)

_CHUNK_LINES = 4096
"""Lines that are expanded at once: bounds scratch memory and keeps it in the cache."""
_MAX_MASK_BYTES = 16
_GROUP_BYTES = 32 << 20
"""Streams that `decode_many` works on at once, in bytes of stream: bounds its scratch memory."""


def decode(stream: Array, nbytes: int, element_bytes: int, crc: int | None = None) -> Decoded:
    """Decode one stream whatever it holds, as the hardware decompressor does.

    Memory and time are bounded by the stream's length, not by `nbytes`.

    Parameters
    ----------
    stream : array
        The stream's bytes.
    nbytes : int
        True length of the uncompressed data in bytes.
    element_bytes : int
        4, 2 or 1.
    crc : int, optional
        The expected CRC-32 of the uncompressed bytes; not checked when absent.

    Returns
    -------
    Decoded
        The first error in stream order, and the bytes before it. Within an element the order is:
        missing bytes, zero, non-zero fill; after the last line: trailing bytes, CRC.
    """
    flat = as_bytes(stream)
    crcs = None if crc is None else np.array([crc], np.uint64)
    decoded = decode_many(
        flat, np.array([0, flat.size]), np.array([nbytes], np.int64), element_bytes, crcs
    )
    return Decoded(
        status=StreamStatus(int(decoded.status[0])),
        offset=int(decoded.offset[0]),
        valid_bytes=int(decoded.valid_bytes[0]),
        data=decoded.data,
    )


def decode_many(
    streams_flat: Array,
    offsets: npt.ArrayLike,
    nbytes: npt.ArrayLike,
    element_bytes: int,
    crcs: npt.ArrayLike | None = None,
) -> DecodedMany:
    """Decode n streams, each as `decode` does; fast for many short ones and for few long ones.

    Parameters
    ----------
    streams_flat : array
        The bytes of all streams.
    offsets : int array (n + 1,)
        Stream i is `streams_flat[offsets[i] : offsets[i + 1]]`.
    nbytes : int array (n,)
        True lengths of the uncompressed data in bytes.
    element_bytes : int
        4, 2 or 1.
    crcs : int array (n,), optional
        The expected CRC-32 values of the uncompressed bytes; not checked when absent.

    Raises
    ------
    ValueError
        The arguments do not fit together, whatever the streams hold.
    """
    check_element_bytes(element_bytes)
    flat = as_bytes(streams_flat)
    bounds = np.asarray(offsets, np.int64)
    lengths = np.asarray(nbytes, np.int64)
    if bounds.shape != (lengths.size + 1,) or lengths.ndim != 1:
        raise ValueError(f"{lengths.size} lengths need {lengths.size + 1} offsets")
    if (np.diff(bounds) < 0).any() or bounds[0] < 0 or bounds[-1] > flat.size:
        raise ValueError("offsets must ascend and lie inside the streams")
    if (lengths < 0).any():
        raise ValueError("lengths must not be negative")
    groups = [
        _decode_group(
            flat[bounds[first] : bounds[last]],
            bounds[first : last + 1] - bounds[first],
            lengths[first:last],
            element_bytes,
            None if crcs is None else np.asarray(crcs)[first:last],
        )
        for first, last in _groups(bounds)
    ]
    valid = _concatenate([group.valid_bytes for group in groups], np.int64)
    return DecodedMany(
        status=_concatenate([group.status for group in groups], np.uint8),
        offset=_concatenate([group.offset for group in groups], np.int64),
        valid_bytes=valid,
        data=_concatenate([group.data for group in groups], np.uint8),
        data_offsets=_running_sum(valid),
    )


def _groups(bounds: IntArray) -> Iterator[tuple[int, int]]:
    """Ranges of streams of about `_GROUP_BYTES` each, at least one stream in each."""
    first, count = 0, len(bounds) - 1
    while first < count:
        limit = bounds[first] + _GROUP_BYTES
        last = int(np.searchsorted(bounds, limit, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last


def _decode_group(
    flat: ByteArray,
    bounds: IntArray,
    lengths: IntArray,
    element_bytes: int,
    crcs: Array | None,
) -> DecodedMany:
    line_counts = -(-lengths // LINE_BYTES)
    # Room behind the end lets masks and elements be read there, before it is known that they
    # should not have been.
    padded = np.zeros(flat.size + _MAX_MASK_BYTES, np.uint8)
    padded[: flat.size] = flat
    starts, found, stops = _find_lines(padded, bounds, line_counts, element_bytes)
    first_lines = _running_sum(found)
    walked = _Walk(
        stream=np.repeat(np.arange(len(found)), found),
        number=np.arange(starts.size) - np.repeat(first_lines[:-1], found),
        start=starts,
        end=np.repeat(bounds[1:], found),
        nbytes=np.repeat(lengths, found),
    )
    rows, errors = _expand(padded, walked, element_bytes)

    status = np.zeros(lengths.size, np.uint8)
    offset = np.zeros(lengths.size, np.int64)
    valid = lengths.copy()
    missing = found < line_counts
    status[missing] = StreamStatus.MASK_TRUNCATED
    offset[missing] = stops[missing]
    valid[missing] = found[missing] * LINE_BYTES
    trailing = ~missing & (stops < bounds[1:])
    status[trailing] = StreamStatus.TRAILING_BYTES
    offset[trailing] = stops[trailing]
    # An error inside a line precedes what is wrong behind the lines. Of several in one stream, the
    # last assignment would win; the first must.
    _, first_errors = np.unique(errors.stream, return_index=True)
    where = errors.stream[first_errors]
    status[where] = errors.status[first_errors]
    offset[where] = errors.offset[first_errors]
    valid[where] = errors.valid_bytes[first_errors]
    offset[status != StreamStatus.OK] -= bounds[:-1][status != StreamStatus.OK]

    if lengths.size == 1:
        data = rows.reshape(-1)[: valid[0]]
    else:
        kept = np.clip(valid[walked.stream] - walked.number * LINE_BYTES, 0, LINE_BYTES)
        data = rows[np.arange(LINE_BYTES) < kept[:, None]]
    data_offsets = _running_sum(valid)
    if crcs is not None:
        for index in np.flatnonzero(status == StreamStatus.OK):
            held = data[data_offsets[index] : data_offsets[index + 1]]
            if zlib.crc32(held.data) != crcs[index]:
                status[index] = StreamStatus.CRC_MISMATCH
                offset[index] = bounds[index + 1] - bounds[index]
    return DecodedMany(
        status=status, offset=offset, valid_bytes=valid, data=data, data_offsets=data_offsets
    )


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """The lines whose masks are there: int64 arrays (lines,), in stream order."""

    stream: IntArray
    number: IntArray
    start: IntArray
    end: IntArray
    nbytes: IntArray

    def part(self, first: int, last: int) -> "_Walk":
        return _Walk(
            stream=self.stream[first:last],
            number=self.number[first:last],
            start=self.start[first:last],
            end=self.end[first:last],
            nbytes=self.nbytes[first:last],
        )


@dataclass(frozen=True, kw_only=True)
class _ElementErrors:
    """Errors at elements, in stream order: int64 arrays (errors,)."""

    stream: IntArray
    status: IntArray
    offset: IntArray
    valid_bytes: IntArray


def _find_lines(
    padded: ByteArray, bounds: IntArray, line_counts: IntArray, element_bytes: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Find where lines start: the one serial part of decoding, as each mask tells where the next
    is.

    Returns the starts of all lines, and per stream how many were found and where the walk ended.
    """
    mask_bytes = LINE_BYTES // element_bytes // 8
    # The size that a line would have if its mask started here, for every byte of the stream; the
    # population counts of 4, 8 or 16 bytes by doubling.
    sizes = np.bitwise_count(padded)
    width = 1
    while width < mask_bytes:
        sizes[:-width] += sizes[width:]
        width *= 2
    sizes *= np.uint8(element_bytes)
    sizes += np.uint8(mask_bytes)
    size_at = sizes.tobytes()
    starts: list[int] = []
    found: list[int] = []
    stops: list[int] = []
    append = starts.append
    for position, end, lines in zip(
        bounds[:-1].tolist(), bounds[1:].tolist(), line_counts.tolist(), strict=True
    ):
        before = len(starts)
        last_mask = end - mask_bytes
        remaining = lines
        while remaining and position <= last_mask:
            append(position)
            position += size_at[position]
            remaining -= 1
        found.append(len(starts) - before)
        stops.append(position)
    return np.array(starts, np.int64), np.array(found, np.int64), np.array(stops, np.int64)


def _expand(padded: ByteArray, walk: _Walk, element_bytes: int) -> tuple[ByteArray, _ElementErrors]:
    """The lines' bytes, uint8 (lines, 128), and every error at an element.

    Lines with errors, and those behind them, hold unspecified bytes from the first error on.
    """
    line_elements = LINE_BYTES // element_bytes
    mask_bytes = line_elements // 8
    dtype = element_dtype(element_bytes)
    # The element that starts at each byte: streams need not lie at multiples of an element.
    element_at: npt.NDArray[Any] = np.ndarray(
        padded.size - element_bytes + 1, dtype, padded.data, strides=(1,)
    )
    rows = np.zeros((walk.start.size, line_elements), dtype)
    chunks: list[tuple[IntArray, ...]] = []
    for first in range(0, walk.start.size, _CHUNK_LINES):
        part = walk.part(first, first + _CHUNK_LINES)
        masks = padded[part.start[:, None] + np.arange(mask_bytes)]
        counts = np.bitwise_count(masks).sum(axis=1, dtype=np.int64)
        elements = np.flatnonzero(np.unpackbits(masks, axis=None, bitorder="little"))
        # Element k of the chunk, in a line that the chunk's element j is the first of, lies
        # k − j elements behind the line's mask.
        bases = part.start + mask_bytes - element_bytes * _running_sum(counts)[:-1]
        addresses = np.arange(elements.size) * element_bytes + np.repeat(bases, counts)
        last_address = padded.size - element_bytes
        values = element_at[np.minimum(addresses, last_address) if addresses.size else addresses]
        rows[first : first + len(masks)].reshape(-1)[elements] = values
        bad = _element_errors(part, counts, elements, addresses, values, element_bytes)
        if bad is not None:
            chunks.append(bad)
    columns = [_concatenate(list(column), np.int64) for column in zip(*chunks, strict=True)]
    empty = np.empty(0, np.int64)
    stream, status, offset, valid = columns or (empty, empty, empty, empty)
    errors = _ElementErrors(stream=stream, status=status, offset=offset, valid_bytes=valid)
    return rows.view(np.uint8), errors


def _element_errors(
    part: _Walk,
    counts: IntArray,
    elements: IntArray,
    addresses: IntArray,
    values: Array,
    element_bytes: int,
) -> tuple[IntArray, ...] | None:
    """The errors among the announced elements of a chunk: stream, status, offset, valid bytes."""
    line_ends = part.start + LINE_BYTES // element_bytes // 8 + counts * element_bytes
    truncated = bool((line_ends > part.end).any())
    tail = part.nbytes - part.number * LINE_BYTES < LINE_BYTES
    if not truncated and values.all() and not tail.any():
        return None
    lines = np.repeat(np.arange(counts.size), counts)
    missing = addresses + element_bytes > part.end[lines]
    position = part.number[lines] * LINE_BYTES
    position += elements % (LINE_BYTES // element_bytes) * element_bytes
    # How many of the element's bytes lie inside the transfer; the others must be zero.
    inside = np.clip(part.nbytes[lines] - position, 0, element_bytes)
    bits = 8 * inside.astype(np.uint64)
    tail_pad = (values.astype(np.uint64) >> bits) != 0
    kinds = np.where(tail_pad, int(StreamStatus.NONZERO_FILL), int(StreamStatus.OK))
    kinds[values == 0] = StreamStatus.ZERO_ELEMENT
    kinds[missing] = StreamStatus.PAYLOAD_TRUNCATED
    bad = np.flatnonzero(kinds)
    where = lines[bad]
    return (
        part.stream[where],
        kinds[bad],
        addresses[bad],
        np.minimum(position[bad], part.nbytes[where]),
    )


def _running_sum(counts: IntArray) -> IntArray:
    """Sums of the first 0, 1, …, n counts, int64 (n + 1,)."""
    sums = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def _concatenate(parts: list[Any], dtype: npt.DTypeLike) -> Any:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)
