"""The decoding of XC streams, whole or damaged.

Finds the first error in stream order, as `docs/reference/formats.md` puts them. The only serial
part is the walk from line to line; all else is done on whole arrays.
"""

import zlib
from functools import cache

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import Array, IntArray, as_bytes
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, Decoded, DecodedMany, StreamStatus
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.line_decoder import READ_BEYOND_BYTES, expanded
from cdma.golden.formats.xc.lines import (
    CHUNK_LINES,
    DENSE,
    MAX_BEHIND_BYTES,
    RAW_HEADER,
    SPARSE,
    Coding,
    fields_bytes,
)

_NO_SIZE = 1000
"""More than any line's."""


def decode(stream: Array, nbytes: int, coding: Coding, crc: int | None = None) -> Decoded:
    """Decode one stream whatever it holds, as the hardware decompressor does.

    Memory and time are bounded by the stream's length, not by `nbytes`.

    Parameters
    ----------
    stream : array
        The stream's bytes.
    nbytes : int
        True length of the uncompressed data in bytes.
    coding : Coding
        Element format, centre and pattern.
    crc : int, optional
        The expected CRC-32 of the uncompressed bytes; not checked when absent.

    Returns
    -------
    Decoded
        The first error in stream order, and the bytes of the lines before it. Errors in lines have
        the line's offset.
    """
    flat = as_bytes(stream)
    crcs = None if crc is None else np.array([crc], np.uint64)
    decoded = decode_many(flat, [0, flat.size], [nbytes], coding, crcs)
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
    coding: Coding,
    crcs: npt.ArrayLike | None = None,
) -> DecodedMany:
    """Decode n streams of one coding, each as `decode` does.

    Parameters
    ----------
    streams_flat : array
        The bytes of all streams.
    offsets : int array (n + 1,)
        Stream i is `streams_flat[offsets[i] : offsets[i + 1]]`; they ascend.
    nbytes : int array (n,)
        True lengths of the uncompressed data in bytes.
    coding : Coding
        Element format, centre and pattern.
    crcs : int array (n,), optional
        The expected CRC-32 values of the uncompressed bytes; not checked when absent.
    """
    flat = as_bytes(streams_flat)
    bounds, lengths = np.asarray(offsets, np.int64), np.asarray(nbytes, np.int64)
    padded = np.zeros(flat.size + READ_BEYOND_BYTES, np.uint8)
    padded[: flat.size] = flat
    starts: list[int] = []
    counts, stops, ends = [], [], []
    stream = flat.tobytes()
    for place, end, length in zip(
        bounds[:-1].tolist(), bounds[1:].tolist(), lengths.tolist(), strict=True
    ):
        before = len(starts)
        stop, found = _find_lines(
            stream, place, end, -(-length // LINE_BYTES), coding.elements, starts
        )
        counts.append(len(starts) - before)
        stops.append(stop)
        ends.append(found)
    first_lines = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    places = np.array(starts, np.int64)
    owners = np.repeat(np.arange(lengths.size), counts)
    line_bytes = np.minimum(
        lengths[owners] - LINE_BYTES * (np.arange(places.size) - first_lines[owners]), LINE_BYTES
    )
    lines = np.empty((places.size, LINE_BYTES), np.uint8)
    kinds = np.zeros(places.size, np.uint8)
    for first in range(0, places.size, CHUNK_LINES):
        part = slice(first, first + CHUNK_LINES)
        words, bad = expanded(padded, places[part], coding)
        lines[part] = words.view(np.uint8)
        short = first + np.flatnonzero(line_bytes[part] < LINE_BYTES)
        beyond = np.arange(LINE_BYTES) >= line_bytes[short][:, None]
        kinds[short[(beyond & (lines[short] != 0)).any(axis=1)]] = StreamStatus.NONZERO_FILL
        kinds[first + np.flatnonzero(bad)] = StreamStatus.BAD_TOKEN

    status, offset = np.array(ends, np.uint8), np.array(stops, np.int64)
    behind = status == StreamStatus.OK
    status[behind & (offset < bounds[1:])] = StreamStatus.TRAILING_BYTES
    valid = np.where(behind, lengths, LINE_BYTES * np.array(counts, np.int64))
    wrong = np.flatnonzero(kinds)
    hit, first_wrong = np.unique(owners[wrong], return_index=True)
    line = wrong[first_wrong]
    status[hit], offset[hit] = kinds[line], places[line]
    valid[hit] = LINE_BYTES * (line - first_lines[hit])
    offset -= bounds[:-1]
    offset[status == StreamStatus.OK] = 0
    data = _valid_data(lines, owners, first_lines, valid)
    data_offsets = np.concatenate([[0], np.cumsum(valid)])
    if crcs is not None:
        told = np.asarray(crcs)
        for index in np.flatnonzero(status == StreamStatus.OK):
            held = data[data_offsets[index] : data_offsets[index + 1]]
            if zlib.crc32(held.data) != told[index]:
                status[index] = StreamStatus.CRC_MISMATCH
                offset[index] = bounds[index + 1] - bounds[index]
    return DecodedMany(
        status=status, offset=offset, valid_bytes=valid, data=data, data_offsets=data_offsets
    )


def _valid_data(
    lines: ByteArray, owners: IntArray, first_lines: IntArray, valid: IntArray
) -> ByteArray:
    """The first `valid` (streams,) bytes of each stream's lines (lines, 128)."""
    if valid.size == 1:
        return lines.reshape(-1)[: valid[0]]
    kept = valid[owners] - LINE_BYTES * (np.arange(owners.size) - first_lines[owners])
    return lines[np.arange(LINE_BYTES) < kept[:, None]]


def _find_lines(
    stream: bytes, place: int, size: int, count: int, elements: ElementFormat, starts: list[int]
) -> tuple[int, StreamStatus]:
    """Append where the first `count` lines start in what is from `place` to `size`.

    Returns where the walk from one to the next ended, and why.
    """
    head, sparse_head = elements.header_bytes, elements.header_bytes + elements.mask_bytes
    trims, number = elements.trims, elements.line_elements
    sizes = _sizes(elements)
    short = {bytes(head): head, bytes([RAW_HEADER, 0][:head]): elements.worst_line_bytes}
    for _ in range(count):
        if place + head > size:
            return place, StreamStatus.MASK_TRUNCATED
        header = stream[place]
        dropped = stream[place + 1] if trims else 0
        longest = LINE_BYTES
        if header >> 6 == DENSE:
            length = sizes[dropped][number] + (header & MAX_BEHIND_BYTES)
        elif header >> 6 == SPARSE:
            if place + sparse_head > size:
                return place, StreamStatus.MASK_TRUNCATED
            mask = stream[place + head : place + sparse_head]
            kept = int.from_bytes(mask, "little").bit_count()
            length = sizes[dropped][kept] if kept < number else _NO_SIZE
            length += header & MAX_BEHIND_BYTES
        else:
            length = short.get(stream[place : place + head], _NO_SIZE)
            longest = elements.worst_line_bytes
        if length > longest:
            return place, StreamStatus.BAD_TOKEN
        if place + length > size:
            return place, StreamStatus.PAYLOAD_TRUNCATED
        starts.append(place)
        place += length
    return place, StreamStatus.OK


@cache
def _sizes(elements: ElementFormat) -> list[list[int]]:
    """Bytes of lines without extras and escapes, by second header byte and elements kept.

    Those without any element, or with a second byte that there is not, are too long for a line.
    """
    counts = np.arange(elements.line_elements + 1)
    sizes = []
    for dropped in range(256 if elements.trims else 1):
        fields = fields_bytes(elements, counts, np.full_like(counts, dropped))
        fields += elements.header_bytes
        fields[0] = _NO_SIZE
        sound = dropped <= elements.mantissa_bits
        sizes.append((fields if sound else np.full_like(fields, _NO_SIZE)).tolist())
    return sizes
