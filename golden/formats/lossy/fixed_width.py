"""Lines of 32 whole numbers in as few bits as the largest takes: how `quantize` keeps them.

A line is a header of one byte, and what it announces:

    bits 7, 6    kind: 0, numbers as they are; 1, zigzag; 2, zigzag of each less the one before it
                 (1-D Lorenzo; 0 is before the first); 3, a raw line: 32 words of 32 bits
    bit 5        map: 4 bytes, bit i, least significant first, for number i of the kind not being
                 zero; only these follow, each less one
    bits 4…0     width: bits of each number, at most 24

Zigzag is 2n for n ≥ 0 and −2n − 1 for n < 0. Numbers follow one another without gaps, each with its
least significant bit first, into bytes whose bit 0 is the first; bits behind the last are zero. So
a line of zeros is 00, and a raw line is C0 and its 128 bytes.

Of the forms that a line may have it has the shortest, of those the one with the least header, and
no width is more than the largest number takes: there is one form for each line.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamStatus

LINE_NUMBERS = 32
NUMBER_LIMIT = 2**22
"""Numbers are less, either way, so that the zigzag of a difference has 24 bits."""
RAW_HEADER = 0xC0
_MAP = 0x20
_WIDTH = 0x1F
_MAX_WIDTH = 24
_RAW_WIDTH = 32

Numbers = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Forms:
    """The forms of n lines.

    Attributes
    ----------
    headers : uint8 array (n,)
    sizes : int64 array (n,)
        Bytes of each, with its header.
    symbols : int32 array (n, 32)
        The lines' numbers in the kind that was chosen; 0 in raw lines.
    """

    headers: ByteArray
    sizes: IntArray
    symbols: Numbers


def forms_of(numbers: Numbers, raw: Bools) -> Forms:
    """The forms of lines (32, n), a line per column, of which some are to stay raw, (n,)."""
    kinds = (numbers, _zigzag(numbers), _zigzag(np.diff(numbers, axis=0, prepend=np.int32(0))))
    # In the order of their headers, so that the first of the shortest is the right one.
    headers, bits = [], []
    for kind, symbols in enumerate(kinds):
        largest = symbols.max(axis=0)
        plain, mapped = _bit_length(largest), _bit_length(np.maximum(largest - 1, 0))
        count = (symbols != 0).sum(axis=0, dtype=np.uint8)
        headers += [kind << 6 | plain, kind << 6 | _MAP | mapped]
        bits += [LINE_NUMBERS * plain, 32 + count * mapped]
    sizes = 1 + -(-np.array(bits) // 8)
    sizes[:2, numbers.min(axis=0) < 0] = 1 + LINE_BYTES
    best = sizes.argmin(axis=0)
    columns = np.arange(best.size)
    chosen = np.array(headers)[best, columns]
    symbols = np.where(best < 2, kinds[0], kinds[1])
    np.copyto(symbols, kinds[2], where=best >= 4)
    symbols[:, raw] = 0
    return Forms(
        headers=np.where(raw, RAW_HEADER, chosen).astype(np.uint8),
        sizes=np.where(raw, 1 + LINE_BYTES, sizes[best, columns]),
        symbols=np.ascontiguousarray(symbols.T),
    )


def pack(forms: Forms, words: npt.NDArray[np.uint32]) -> ByteArray:
    """The bytes of lines, uint8 (sum of sizes,); `words` (n, 32) are what raw lines hold."""
    mapped = (forms.headers & _MAP) != 0
    present = forms.symbols != 0
    numbers = (forms.symbols - mapped[:, None]).astype("<u4")
    raw = forms.headers == RAW_HEADER
    numbers[raw] = words[raw]
    layout = _BitLayout(forms.headers, present)
    bits = np.zeros(layout.used.shape, np.uint8)
    layout.header(bits)[:] = _bits_of(forms.headers[:, None])[:, 0]
    layout.map(bits)[:] = present
    layout.numbers(bits)[:] = _bits_of(numbers)[:, :, : layout.width]
    return np.packbits(bits[layout.used], bitorder="little")


def unpack(
    stream: ByteArray, starts: IntArray
) -> tuple[Numbers, npt.NDArray[np.uint32], Bools, Bools]:
    """Lines that follow one another to the stream's end, from where `find` says that they start.

    Returns
    -------
    numbers : int32 array (32, n)
        A line per column; of what no compressor wrote, they may be any.
    words : uint32 array (n, 32)
        What raw lines hold.
    raw, filled : bool arrays (n,)
        Which lines are raw; which have a bit behind their last number that is not zero.
    """
    headers = stream[starts]
    mapped = (headers & _MAP) != 0
    maps = stream[np.minimum(starts[:, None] + np.arange(1, 5), stream.size - 1)]
    present = np.unpackbits(maps, axis=1, bitorder="little").view(np.bool_) | ~mapped[:, None]
    layout = _BitLayout(headers, present)
    bits = np.zeros(layout.used.shape, np.uint8)
    bits[layout.used] = np.unpackbits(stream[starts[0] :], bitorder="little")
    wide = np.zeros((*present.shape, _RAW_WIDTH), np.uint8)
    wide[:, :, : layout.width] = layout.numbers(bits)
    words = np.packbits(wide, axis=2, bitorder="little").view("<u4")[:, :, 0]
    symbols = words.view(np.int32) + (mapped[:, None] & present)
    symbols = np.ascontiguousarray(symbols.T)
    kinds = headers >> 6
    signed = (symbols >> 1) ^ -(symbols & 1)
    numbers = np.where(kinds == 0, symbols, signed)
    sums = np.cumsum(signed, axis=0, dtype=np.int32)
    np.copyto(numbers, sums, where=kinds == 2)
    filled: Bools = np.not_equal(layout.tail_pad(bits), 0).any(axis=1)
    return numbers, words, headers == RAW_HEADER, filled


def find(stream: ByteArray, count: int) -> tuple[IntArray, int, StreamStatus]:
    """Find where the first `count` lines start, where the walk over them ended, and why.

    The walk is the one serial part of decoding; the size of a line that would start is found for
    every byte at once.
    """
    starts: list[int] = []
    sizes = _sizes_everywhere(stream).tobytes()
    place = 0
    while len(starts) < count:
        if place >= len(sizes):
            return np.array(starts, np.int64), place, StreamStatus.PAYLOAD_TRUNCATED
        size = sizes[place]
        if not size:
            return np.array(starts, np.int64), place, StreamStatus.BAD_TOKEN
        if place + size > len(sizes):
            return np.array(starts, np.int64), place, StreamStatus.PAYLOAD_TRUNCATED
        starts.append(place)
        place += size
    return np.array(starts, np.int64), place, StreamStatus.OK


class _BitLayout:
    """Layout of lines as rows of bits, each row wide enough for the longest line.

    Attributes
    ----------
    width : int
        The bits per number that a row has space for.
    used : bool array (n, bits)
        The bits that each line has. One behind the other, row by row, they are the stream's.
    """

    _NUMBERS_AT = 8 + LINE_NUMBERS

    def __init__(self, headers: ByteArray, present: Bools) -> None:
        mapped = (headers & _MAP) != 0
        widths = np.where(headers == RAW_HEADER, _RAW_WIDTH, headers & _WIDTH)
        self.width = int(widths.max())
        self._tail_pad_at = self._NUMBERS_AT + LINE_NUMBERS * self.width
        self.used = np.zeros((headers.size, self._tail_pad_at + 7), np.bool_)
        self.header(self.used)[:] = True
        self.map(self.used)[:] = mapped[:, None]
        inside = np.arange(self.width) < widths[:, None]
        sent = present | ~mapped[:, None]
        np.logical_and(inside[:, None, :], sent[:, :, None], out=self.numbers(self.used))
        bits = widths * sent.sum(axis=1)
        self.tail_pad(self.used)[:] = np.arange(7) < (-bits % 8)[:, None]

    def header(self, bits: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return bits[:, :8]

    def map(self, bits: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return bits[:, 8 : self._NUMBERS_AT]

    def numbers(self, bits: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        rows = bits[:, self._NUMBERS_AT : self._tail_pad_at]
        return rows.reshape(len(bits), LINE_NUMBERS, self.width)

    def tail_pad(self, bits: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return bits[:, self._tail_pad_at :]


def _sizes_everywhere(stream: ByteArray) -> ByteArray:
    """Bytes of the line that would start at each byte, uint8; 0 where none has such a header."""
    headers = np.arange(256)
    plain = 1 + 4 * (headers & _WIDTH)
    plain[((headers & _WIDTH) > _MAX_WIDTH) | (headers > RAW_HEADER)] = 0
    plain[RAW_HEADER] = 1 + LINE_BYTES
    sizes = plain.astype(np.uint8)[stream]
    mapped = np.flatnonzero(((stream & _MAP) != 0) & (sizes != 0))
    ones = np.zeros(stream.size + 4, np.uint16)
    np.bitwise_count(stream, out=ones[: stream.size])
    count = ones[mapped + 1] + ones[mapped + 2] + ones[mapped + 3] + ones[mapped + 4]
    sizes[mapped] = 5 + (count * (stream[mapped] & _WIDTH) + 7) // 8
    return sizes


def _bits_of(numbers: npt.NDArray[np.unsignedinteger]) -> ByteArray:
    """The bits of little-endian numbers (n, m), least significant first, uint8 (n, m, bits)."""
    flat = np.unpackbits(np.ascontiguousarray(numbers).view(np.uint8), axis=1, bitorder="little")
    return flat.reshape(*numbers.shape, -1)


def _zigzag(numbers: Numbers) -> Numbers:
    return (numbers << 1) ^ (numbers >> 31)


def _bit_length(numbers: Numbers) -> IntArray:
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
