"""The decoding of BPC codes, whole or damaged, many entries at once.

Finds the first error in the order of the code. Nothing but the table is known here: raw entries,
and where codes lie, are their keepers' concern (`cdma.golden.formats.bpc.bpc`,
`cdma.golden.buddy.entry`).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES, WORDS, Words, from_planes, signs_of
from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamStatus

_ALL_ONES = np.uint32(2**DELTAS - 1)
_WINDOW_BYTES = 8
"""Bytes that are looked at at once: a code has at most 33 bits and starts anywhere in a byte."""
_CHUNK_ENTRIES = 1024

# What a plane's code is, by its first 7 bits.
_PLANE_ZERO, _TWO, _ZERO, _RAW = 1, 2, 4, 5
_START = np.arange(128)
_KIND = np.select([_START >= 64, _START >= 16], [_RAW, _ZERO], _START >> 2)
_RUN = np.select([_START >= 64, _START >= 32, _START >= 16], [0, (_START & 31) + 2, 1], 0)
_LENGTH = np.select(
    [_START >= 64, _START >= 32, _START >= 16, _START >= 4 * _TWO], [32, 7, 3, 10], 5
)
_POSITIONS = np.array([32, 32, DELTAS - 1, DELTAS, 32, 32])
"""How many places there are, by kind: all that five bits can tell where they tell nothing."""


@dataclass(frozen=True, kw_only=True)
class DecodedEntries:
    """Outcome of decoding n entries.

    Attributes
    ----------
    status : uint8 array (n,)
        Numbers of `StreamStatus`. PAYLOAD_TRUNCATED: a code goes beyond the bytes that there are.
        BAD_TOKEN: a code that the table does not have there, or planes that no words have.
        NONZERO_FILL: a bit between the code's end and the next byte is not zero.
    offset : int64 array (n,)
        The byte that the bad code, or the bad fill, starts in; 0 for planes that no words have,
        as that is known only at the end, and when OK.
    bits : int64 array (n,)
        Length of the code up to its end or the first error.
    data : uint8 array (n, 128)
        The entries; zeros where there is an error.
    """

    status: npt.NDArray[np.uint8]
    offset: IntArray
    bits: IntArray
    data: ByteArray


def decode_entries(rows: ByteArray, nbytes: IntArray) -> DecodedEntries:
    """Decode n entries, of `nbytes` (n,) bytes each, at the start of rows, uint8 (n, 128)."""
    chunks = [
        _decode_chunk(rows[start : start + _CHUNK_ENTRIES], nbytes[start : start + _CHUNK_ENTRIES])
        for start in range(0, len(rows), _CHUNK_ENTRIES)
    ] or [_decode_chunk(rows, nbytes)]
    return DecodedEntries(
        status=np.concatenate([chunk.status for chunk in chunks]),
        offset=np.concatenate([chunk.offset for chunk in chunks]),
        bits=np.concatenate([chunk.bits for chunk in chunks]),
        data=np.concatenate([chunk.data for chunk in chunks]),
    )


class _Reader:
    """State of decoding n entries: the bit position in each, and how it has ended if it has."""

    def __init__(self, rows: ByteArray, nbytes: IntArray) -> None:
        padded = np.zeros((len(rows), LINE_BYTES + _WINDOW_BYTES), np.uint8)
        padded[:, :LINE_BYTES] = rows
        flat = padded.reshape(-1)
        self._windows: npt.NDArray[np.uint64] = np.ndarray(
            max(flat.size - _WINDOW_BYTES + 1, 0), ">u8", flat.data, strides=(1,)
        )
        self._rows = np.arange(len(rows)) * padded.shape[1]
        self.limit = nbytes.astype(np.int64) * 8
        self.position = np.zeros(len(rows), np.int64)
        self.status = np.zeros(len(rows), np.uint8)

    def look(self) -> npt.NDArray[np.uint64]:
        """At least 57 bits from where each entry's next code starts, the first of them bit 63."""
        # An entry that has ended badly may be anywhere, and is not read any more.
        byte = np.minimum(self.position >> 3, LINE_BYTES)
        window = self._windows[self._rows + byte].astype(np.uint64)
        return window << (self.position & 7).astype(np.uint64)

    def take(
        self, wanted: npt.NDArray[np.bool_], lengths: IntArray, bad: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Go behind the codes of the entries that want one; those that could."""
        wanted = wanted & (self.status == StreamStatus.OK)
        truncated = wanted & (self.position + lengths > self.limit)
        self.status[truncated] = StreamStatus.PAYLOAD_TRUNCATED
        self.status[wanted & bad & ~truncated] = StreamStatus.BAD_TOKEN
        taken = wanted & ~truncated & ~bad
        self.position += np.where(taken, lengths, 0)
        return taken


def _decode_chunk(rows: ByteArray, nbytes: IntArray) -> DecodedEntries:
    reader = _Reader(rows, nbytes)
    base = _read_base(reader)
    planes = _read_planes(reader)
    offset = np.where(reader.status == StreamStatus.OK, 0, reader.position >> 3)

    tail_pad_byte = np.minimum(reader.position >> 3, LINE_BYTES - 1)
    tail_pad = rows[np.arange(len(rows)), tail_pad_byte] & (0xFF >> (reader.position & 7))
    nonzero = (reader.position % 8 != 0) & (tail_pad != 0) & (reader.status == StreamStatus.OK)
    reader.status[nonzero] = StreamStatus.NONZERO_FILL
    offset[nonzero] = tail_pad_byte[nonzero]

    words = from_planes(base, planes)
    no_words = (signs_of(words) != planes[0]) & (
        (reader.status == StreamStatus.OK) | nonzero  # The code is before the fill.
    )
    reader.status[no_words] = StreamStatus.BAD_TOKEN
    offset[no_words] = 0
    words[:, reader.status != StreamStatus.OK] = 0
    data = np.ascontiguousarray(words.T).astype("<u4").view(np.uint8)
    return DecodedEntries(
        status=reader.status,
        offset=offset,
        bits=reader.position,
        data=data.reshape(-1, 4 * WORDS),
    )


def _read_base(reader: _Reader) -> npt.NDArray[np.uint32]:
    window = reader.look()
    prefix = (window >> np.uint64(61)).astype(np.intp)
    payload_bits = np.array([0, 4, 8, 16, 32, 32, 32, 32])[prefix]
    lengths = np.where(prefix < 4, 3, 1) + payload_bits
    payload = (window >> (64 - lengths).astype(np.uint64)).astype(np.int64)
    payload &= (1 << payload_bits) - 1
    sign = np.where(payload_bits > 0, 1 << np.maximum(payload_bits - 1, 0), 0)
    value = (payload ^ sign) - sign
    # The greatest number of bits that would be too few.
    shorter = np.array([0, 0, 4, 8, 16, 16, 16, 16])[prefix]
    fits = np.where(shorter > 0, 1 << np.maximum(shorter - 1, 0), 0)
    bad = (prefix > 0) & ((value == 0) | ((value >= -fits) & (value < fits)))
    reader.take(np.ones(bad.shape, np.bool_), lengths, bad)
    return (value & 0xFFFFFFFF).astype(np.uint32)


def _read_planes(reader: _Reader) -> Words:
    count = reader.status.size
    planes = np.zeros((PLANES, count), np.uint32)
    above = np.zeros(count, np.uint32)
    run_left = np.zeros(count, np.int64)
    after_run = np.zeros(count, np.bool_)
    for row in range(PLANES):
        window = reader.look()
        start = (window >> np.uint64(57)).astype(np.intp)
        place = (window >> np.uint64(54)).astype(np.uint32) & np.uint32(31)
        raw = (window >> np.uint64(32)).astype(np.uint32) & _ALL_ONES
        kind, run = _KIND[start], _RUN[start]
        bit = np.uint32(1) << place
        # In the order of the kinds; a plane of zeros is told by what it does to the one above.
        dbx = np.choose(kind, (_ALL_ONES, above, bit * np.uint32(3), bit, np.zeros_like(bit), raw))
        lowest = dbx & -dbx
        shorter = (dbx == lowest) | (dbx == lowest * np.uint32(3)) | (dbx == _ALL_ONES)
        is_zero = kind == _ZERO
        bad = is_zero & (after_run | (row + run > PLANES))
        bad |= ~is_zero & ((dbx == 0) | ((dbx == above) & (kind != _PLANE_ZERO)))
        bad |= (kind == _RAW) & shorter
        bad |= place >= _POSITIONS[kind]

        taken = reader.take(run_left == 0, _LENGTH[start], bad)
        run_left += np.where(taken, run, 0)
        np.bitwise_xor(above, dbx, out=above, where=taken)
        np.copyto(after_run, is_zero, where=taken)
        np.maximum(run_left - 1, 0, out=run_left)
        planes[row] = above
    return planes
