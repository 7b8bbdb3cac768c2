"""BPC, bit-plane compression (Kim et al., ISCA 2016; Buddy Compression, §2.4).

An entry is a line of 128 B: 32 little-endian words. `cdma.golden.formats.bpc.bit_planes` makes a
base and 33 planes (DBP) of it; DBX_32 = DBP_32, and DBX_p = DBP_p xor DBP_{p+1}. Codes follow one
another without gaps, the base's first and then those of planes 32 to 0, each with its most
significant bit first, into bytes whose bit 7 is the first:

    base: 0, or fits 4, 8, 16 bits, or not     000, 001 + 4, 010 + 8, 011 + 16, 1 + 32
    1, or 2 to 33 planes with DBX = 0          001, 01 + 5 bits: planes − 2
    DBP = 0, and DBX is not                    00001
    DBX is all ones                            00000
    two ones side by side                      00010 + 5 bits: place of the lower one
    a single one                               00011 + 5 bits: its place
    any other DBX                              1 + its 31 bits

What is first in the table goes first. Runs are as long as they can be and a base is as short as it
can be, so there is one code for each entry. It has 10 to 1,089 bits; an entry whose code has more
than 1,024 is *raw*: it stays as it is.

In a stream, each entry is a byte of its own and then its bytes:

    00 … 7F    the code, of this many bytes plus one; the bits behind the code are zero
    80         the entry's 128 bytes as they are
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES, WORDS, Words, to_planes
from cdma.golden.formats.bpc.decoder import DecodedEntries, decode_entries
from cdma.golden.formats.interface import (
    Array,
    IntArray,
    as_bytes,
    check_element_bytes,
    whole,
    zero_filled,
)
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamError, StreamStatus

__all__ = [
    "MAX_CODE_BITS",
    "RAW_BITS",
    "Bpc",
    "DecodedEntries",
    "EncodedEntries",
    "code_bits",
    "decode_entries",
    "encode_entries",
    "entry_bits",
]

RAW_BITS = 8 * LINE_BYTES
"""An entry whose code is longer stays as it is."""
MAX_CODE_BITS = 33 + PLANES * 32
_RAW_HEADER = 0x80
_CHUNK_ENTRIES = 1024
"""Entries that are worked on at once: few enough for a chunk's arrays to stay in the cache."""
_ALL_ONES = np.uint32(2**DELTAS - 1)
_BASE_BITS = (3, 7, 11, 19, 33)


@dataclass(frozen=True, kw_only=True)
class EncodedEntries:
    """n entries as BPC codes.

    Attributes
    ----------
    bits : int64 array (n,)
        Bits of each entry: of its code, or 1,024 if it is raw.
    raw : bool array (n,)
        True if the code would have more than 1,024 bits.
    data : uint8 array (n, 128)
        The codes, with zeros behind them; raw entries as they are.
    """

    bits: IntArray
    raw: npt.NDArray[np.bool_]
    data: ByteArray


class Bpc:
    """Bit-plane compression of 128 B entries; see `golden.Codec`.

    The element size makes no difference to the stream. `line_sizes` are exact.
    """

    name = "bpc"
    lossless = True

    def __init__(self, element_bytes: int = 4) -> None:
        self.element_bytes = check_element_bytes(element_bytes)

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of an array of any shape and any plain dtype."""
        data = zero_filled(as_bytes(array), LINE_BYTES)
        pieces = [np.empty(0, np.uint8)]
        positions = np.arange(1 + LINE_BYTES)
        for start in range(0, data.size, _CHUNK_ENTRIES * LINE_BYTES):
            encoded = encode_entries(data[start : start + _CHUNK_ENTRIES * LINE_BYTES])
            sizes = -(-encoded.bits // 8)
            rows = np.empty((sizes.size, 1 + LINE_BYTES), np.uint8)
            rows[:, 0] = np.where(encoded.raw, _RAW_HEADER, sizes - 1)
            rows[:, 1:] = encoded.data
            pieces.append(rows[positions <= sizes[:, None]])
        return np.concatenate(pieces)

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes that were compressed.

        Raises
        ------
        StreamError
            PAYLOAD_TRUNCATED: the stream ends before or inside an entry; offset: the entry.
            BAD_TOKEN: a first byte that no entry has, or a raw entry whose code fits; offset: the
            entry. Or a code that the table does not have there; offset: the byte that it starts
            in. Or planes that no words have; offset: the code.
            LENGTH_MISMATCH: the code has another length than its first byte says; offset: the
            first byte that is missing or in excess.
            NONZERO_FILL: a bit behind the code is not zero; offset: its byte. Or a byte behind the
            true length is not zero; offset: the entry.
            TRAILING_BYTES: bytes follow the last entry; offset: the first of them.
            The valid bytes are those of the entries before.
        """
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        source = as_bytes(stream)
        starts, sizes, stop, end = _find_entries(source, -(-nbytes // LINE_BYTES))
        pieces = [np.empty(0, np.uint8)]
        for first in range(0, starts.size, _CHUNK_ENTRIES):
            chunk = slice(first, first + _CHUNK_ENTRIES)
            pieces.append(_decode_chunk(source, starts[chunk], sizes[chunk], first, nbytes))
        if end != StreamStatus.OK:
            raise StreamError(end, stop, starts.size * LINE_BYTES)
        return np.concatenate(pieces)[:nbytes], stop

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""
        return 1 + -(-entry_bits(array) // 8)


def entry_bits(array: Array) -> IntArray:
    """Bits of each 128 B entry of an array, int64 (entries,): of its code, or 1,024 if raw."""
    return np.minimum(code_bits(array), RAW_BITS)


def code_bits(array: Array) -> IntArray:
    """Bits of each entry's code, 10 to 1,089, int64 (entries,), even where it is not used."""
    words = zero_filled(as_bytes(array), LINE_BYTES).view("<u4").reshape(-1, WORDS)
    sizes = np.empty(len(words), np.int64)
    for start in range(0, len(words), _CHUNK_ENTRIES):
        part = np.ascontiguousarray(words[start : start + _CHUNK_ENTRIES].T)
        bits = _plane_bits(_Symbols(to_planes(part))).sum(axis=0, dtype=np.int64)
        sizes[start : start + _CHUNK_ENTRIES] = bits + np.array(_BASE_BITS)[_base_kind(part[0])]
    return sizes


def encode_entries(array: Array) -> EncodedEntries:
    """The codes of an array's 128 B entries, the last of them zero-filled."""
    entries = zero_filled(as_bytes(array), LINE_BYTES).reshape(-1, LINE_BYTES)
    chunks = [
        _encode_chunk(entries[start : start + _CHUNK_ENTRIES])
        for start in range(0, len(entries), _CHUNK_ENTRIES)
    ] or [_encode_chunk(entries)]
    return EncodedEntries(
        bits=np.concatenate([chunk.bits for chunk in chunks]),
        raw=np.concatenate([chunk.raw for chunk in chunks]),
        data=np.concatenate([chunk.data for chunk in chunks]),
    )


class _Symbols:
    """Symbols of the planes of entries: boolean arrays (33, n), in the order of sending."""

    def __init__(self, planes: Words) -> None:
        self.dbx = planes.copy()
        self.dbx[1:] ^= planes[:-1]
        self.lowest = self.dbx & -self.dbx
        self.zero = self.dbx == 0
        self.plane_zero = planes == 0
        self.all_ones = self.dbx == _ALL_ONES
        self.one = self.dbx == self.lowest
        # A one at place 30 has no neighbor: three times it has bit 31, and no plane has that.
        self.two = self.dbx == self.lowest * np.uint32(3)
        self.run_start = self.zero.copy()
        self.run_start[1:] &= ~self.zero[:-1]


def _plane_bits(symbols: _Symbols) -> npt.NDArray[np.uint8]:
    """Bits that each plane's code has, (33, n): a run's belong to its first plane."""
    bits = np.full(symbols.dbx.shape, 32, np.uint8)
    bits[symbols.one | symbols.two] = 10
    bits[symbols.all_ones | symbols.plane_zero] = 5
    bits[symbols.zero] = 0
    bits[symbols.run_start] = 3
    longer = symbols.run_start[:-1] & symbols.zero[1:]
    bits[:-1][longer] = 7
    return bits


def _base_kind(base: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Number, 0 to 4, of the code that each base has."""
    signed = base.view(np.int32)
    kind = (signed != 0).astype(np.intp)
    for bits in (4, 8, 16):
        limit = np.int32(1 << (bits - 1))
        kind += (signed < -limit) | (signed >= limit)
    return kind


def _encode_chunk(entries: ByteArray) -> EncodedEntries:
    words = np.ascontiguousarray(entries.view("<u4").T)
    symbols = _Symbols(to_planes(words))
    count = len(entries)
    lengths = np.empty((1 + PLANES, count), np.int64)
    codes = np.empty((1 + PLANES, count), np.uint64)
    lengths[0], codes[0] = _base_codes(words[0])
    lengths[1:] = _plane_bits(symbols)
    codes[1:] = _plane_codes(symbols)
    bits = lengths.sum(axis=0)
    raw = bits > RAW_BITS
    data = _pack(codes, lengths)
    data[raw] = entries[raw]
    return EncodedEntries(bits=np.minimum(bits, RAW_BITS), raw=raw, data=data)


def _base_codes(base: npt.NDArray[np.uint32]) -> tuple[IntArray, npt.NDArray[np.uint64]]:
    kind = _base_kind(base)
    lengths = np.array(_BASE_BITS)[kind]
    payload_bits = np.array([0, 4, 8, 16, 32], np.uint64)[kind]
    prefix = np.array([0b000, 0b001, 0b010, 0b011, 0b1], np.uint64)[kind]
    one = np.uint64(1)
    payload = base.astype(np.uint64) & ((one << payload_bits) - one)
    return lengths, prefix << payload_bits | payload


def _plane_codes(symbols: _Symbols) -> npt.NDArray[np.uint64]:
    place = np.bitwise_count(symbols.lowest - np.uint32(1)).astype(np.uint32)
    runs = np.zeros(symbols.dbx.shape, np.uint32)
    runs[-1] = symbols.zero[-1]
    for row in range(PLANES - 2, -1, -1):
        runs[row] = (runs[row + 1] + np.uint32(1)) * symbols.zero[row]
    # From the last that may be chosen to the first.
    codes = symbols.dbx | np.uint32(1 << 31)
    for chosen, code in (
        (symbols.one, 0b00011 << 5 | place),
        (symbols.two, 0b00010 << 5 | place),
        (symbols.all_ones, np.uint32(0b00000)),
        (symbols.plane_zero, np.uint32(0b00001)),
        (symbols.zero, np.uint32(0)),
        (symbols.run_start, np.where(runs == 1, np.uint32(0b001), 0b01 << 5 | (runs - 2))),
    ):
        np.copyto(codes, code, where=chosen)
    return codes.astype(np.uint64)


def _pack(codes: npt.NDArray[np.uint64], lengths: IntArray) -> ByteArray:
    """The first 128 bytes of each column's codes, one behind the other, uint8 (n, 128)."""
    count = codes.shape[1]
    words = np.zeros((count, -(-MAX_CODE_BITS // 64) + 1), np.uint64)
    rows = np.arange(count)
    starts = np.cumsum(lengths, axis=0) - lengths
    for code, length, start in zip(codes, lengths, starts, strict=True):
        at_top = code << (64 - length).astype(np.uint64)
        inside = (start % 64).astype(np.uint64)
        words[rows, start // 64] |= at_top >> inside
        # In two steps, as 64 places are more than a shift may have.
        words[rows, start // 64 + 1] |= at_top << (np.uint64(63) - inside) << np.uint64(1)
    return words.astype(">u8").view(np.uint8)[:, :LINE_BYTES]


def _find_entries(source: ByteArray, count: int) -> tuple[IntArray, IntArray, int, StreamStatus]:
    """Find where entries start, their bytes without the first, where the walk ended, and why.

    The one serial part of decoding, as each entry tells where the next is.
    """
    starts: list[int] = []
    sizes: list[int] = []
    headers = source.data
    place = 0
    end = StreamStatus.OK
    while len(starts) < count:
        if place >= len(headers):
            end = StreamStatus.PAYLOAD_TRUNCATED
            break
        header = headers[place]
        if header > _RAW_HEADER:
            end = StreamStatus.BAD_TOKEN
            break
        size = LINE_BYTES if header == _RAW_HEADER else header + 1
        if place + size >= len(headers):
            end = StreamStatus.PAYLOAD_TRUNCATED
            break
        starts.append(place)
        sizes.append(size)
        place += 1 + size
    return np.array(starts, np.int64), np.array(sizes, np.int64), place, end


def _decode_chunk(
    source: ByteArray, starts: IntArray, sizes: IntArray, first: int, nbytes: int
) -> ByteArray:
    """The bytes of whole entries, whose places in the data start at entry `first`."""
    positions = np.arange(LINE_BYTES)
    inside = positions < sizes[:, None]
    rows = np.where(inside, source[np.minimum(starts[:, None] + 1 + positions, source.size - 1)], 0)
    rows = rows.astype(np.uint8)
    decoded = decode_entries(rows, sizes)
    status, offset, data = decoded.status, starts + 1 + decoded.offset, decoded.data
    used = -(-decoded.bits // 8)
    short = (status == StreamStatus.OK) & (used < sizes)
    long = status == StreamStatus.PAYLOAD_TRUNCATED
    offset = np.where(short, starts + 1 + used, offset)
    offset = np.where(long, starts + 1 + sizes, offset)
    status[short | long] = StreamStatus.LENGTH_MISMATCH

    raw = source[starts] == _RAW_HEADER
    data[raw] = rows[raw]
    status[raw] = StreamStatus.OK
    needless = raw.copy()
    needless[raw] = code_bits(rows[raw]) <= RAW_BITS
    status[needless] = StreamStatus.BAD_TOKEN
    behind = (first + np.arange(starts.size))[:, None] * LINE_BYTES + positions >= nbytes
    tail_pad = (status == StreamStatus.OK) & (behind & (data != 0)).any(axis=1)
    status[tail_pad] = StreamStatus.NONZERO_FILL
    offset = np.where(needless | tail_pad, starts, offset)
    bad = np.flatnonzero(status)
    if bad.size:
        worst = int(bad[0])
        raise StreamError(
            StreamStatus(int(status[worst])), int(offset[worst]), (first + worst) * LINE_BYTES
        )
    return data.reshape(-1)
