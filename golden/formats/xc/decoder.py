"""The decoding of XC streams, whole or damaged.

Finds the first error in stream order, as `docs/reference/formats.md` puts them. The only serial
part is the walk from line to line; all else is done on whole arrays.
"""

import zlib
from functools import cache

import numpy as np

from cdma.golden.formats.interface import Array, IntArray, as_bytes
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, Decoded, StreamStatus
from cdma.golden.formats.xc.bits import (
    Lanes,
    WidthTree,
    Words,
    byte_view,
    gather,
    unpack_even,
)
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.lines import (
    CHUNK_LINES,
    DENSE,
    ESCAPED,
    MAX_BEHIND_BYTES,
    RAW,
    RAW_HEADER,
    SPARSE,
    Bools,
    Coding,
    fields_bytes,
    forms_of,
    looked_up,
    sums,
    trailing_zeros,
    whole_bytes,
)

_FOUR_CLASSES = (
    (np.arange(256, dtype="<u4")[:, None] >> np.arange(0, 8, 2, dtype="<u4") & 3)
    .astype(np.uint8)
    .view("<u4")[:, 0]
)
"""The four classes in a byte, a byte each."""
_NO_SIZE = 1000
"""More than any line's."""
_PADDING = 2 * LINE_BYTES + 64
"""Zeros behind the stream: what damaged lines may read."""


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
    padded = np.zeros(flat.size + _PADDING, np.uint8)
    padded[: flat.size] = flat
    count = -(-nbytes // LINE_BYTES)
    starts, stop, status = _find_lines(flat.tobytes(), count, coding.elements)
    pieces = [np.empty(0, np.uint8)]
    for first in range(0, starts.size, CHUNK_LINES):
        part = starts[first : first + CHUNK_LINES]
        lines, bad = _expand(padded, part, coding)
        data = as_bytes(lines)
        # Only the last line can have bytes behind the true length.
        beyond = data[max(0, nbytes - first * LINE_BYTES) :]
        found = np.flatnonzero(bad)
        if found.size or beyond.any():
            line = int(found[0]) if found.size else part.size - 1
            status = StreamStatus.BAD_TOKEN if found.size else StreamStatus.NONZERO_FILL
            pieces.append(data[: line * LINE_BYTES])
            stop = int(part[line])
            break
        pieces.append(data)
    data = np.concatenate(pieces)[:nbytes]
    if status == StreamStatus.OK:
        if stop < flat.size:
            status = StreamStatus.TRAILING_BYTES
        elif crc is not None and zlib.crc32(data.data) != crc:
            status, stop = StreamStatus.CRC_MISMATCH, flat.size
        else:
            stop = 0
    return Decoded(status=status, offset=stop, valid_bytes=data.size, data=data)


def _find_lines(
    stream: bytes, count: int, elements: ElementFormat
) -> tuple[IntArray, int, StreamStatus]:
    """Where the first `count` lines start, where the walk from one to the next ended, and why."""
    head, sparse_head = elements.header_bytes, elements.header_bytes + elements.mask_bytes
    trims, number = elements.trims, elements.line_elements
    sizes = _sizes(elements)
    short = {bytes(head): head, bytes([RAW_HEADER, 0][:head]): elements.worst_line_bytes}
    starts: list[int] = []
    place, size = 0, len(stream)
    for _ in range(count):
        end_of_head = place + head
        if end_of_head > size:
            return np.array(starts, np.int64), place, StreamStatus.MASK_TRUNCATED
        header = stream[place]
        dropped = stream[place + 1] if trims else 0
        if header >> 6 == DENSE:
            length = sizes[dropped][-1] + (header & MAX_BEHIND_BYTES)
            longest = LINE_BYTES
        elif header >> 6 == SPARSE:
            mask = stream[end_of_head : place + sparse_head]
            if place + sparse_head > size:
                return np.array(starts, np.int64), place, StreamStatus.MASK_TRUNCATED
            kept = int.from_bytes(mask, "little").bit_count()
            length = sizes[dropped][kept] if kept < number else _NO_SIZE
            length += header & MAX_BEHIND_BYTES
            longest = LINE_BYTES
        else:
            length = short.get(stream[place:end_of_head], _NO_SIZE)
            longest = elements.worst_line_bytes
        if length > longest:
            return np.array(starts, np.int64), place, StreamStatus.BAD_TOKEN
        if place + length > size:
            return np.array(starts, np.int64), place, StreamStatus.PAYLOAD_TRUNCATED
        starts.append(place)
        place += length
    return np.array(starts, np.int64), place, StreamStatus.OK


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


def _expand(padded: ByteArray, starts: IntArray, coding: Coding) -> tuple[Lanes, Bools]:
    """The elements of lines, unsigned (n, elements), and which lines no compressor writes, (n,).

    The walk has seen that the headers and masks are sound.
    """
    elements = coding.elements
    view = byte_view(padded)
    dtype = np.dtype(f"<u{elements.element_bytes}")
    lines = np.zeros((starts.size, elements.line_elements), dtype)
    bad = np.zeros(starts.size, np.bool_)
    kinds = padded[starts] >> 6
    raw = np.flatnonzero(kinds == RAW)
    if raw.size:
        words = gather(view, starts[raw] + elements.header_bytes, LINE_BYTES // 8)
        lines[raw] = words.view(dtype)
        forms = forms_of(lines[raw], coding)
        bad[raw] = ~forms.raw | (forms.kept == 0)
    coded = np.flatnonzero((kinds == DENSE) | (kinds == SPARSE))
    if coded.size:
        lines[coded], bad[coded] = _decode_fields(padded, view, starts[coded], coding)
    return lines, bad


def _decode_fields(
    padded: ByteArray, view: Words, starts: IntArray, coding: Coding
) -> tuple[Lanes, Bools]:
    """Dense and sparse lines as in `_expand`."""
    elements = coding.elements
    number = elements.line_elements
    sparse = (padded[starts] >> 6) == SPARSE
    at = starts + elements.header_bytes
    masks = gather(view, at[sparse], 2).view(np.uint8)[:, : elements.mask_bytes]
    present = np.ones((starts.size, number), np.bool_)
    present[sparse] = np.unpackbits(masks, axis=1, bitorder="little")
    kept = sums(present.view(np.uint8))
    # The elements that are kept are in front, for now.
    front = present
    if sparse.any():
        front = np.arange(number) < kept[:, None]
    at = at + elements.mask_bytes * sparse
    classes = _classes(view, at, front)
    bad = _fill(padded, at, 2 * kept)
    at = at + whole_bytes(2 * kept)
    dropped = np.zeros(starts.size, np.int64)
    if elements.trims:
        dropped = padded[starts + 1].astype(np.int64)
    rests = _rests(view, at, dropped, front, elements)
    rest_bits = (elements.mantissa_bits + 1 - dropped) * kept
    bad |= _fill(padded, at, rest_bits)
    at = at + whole_bytes(rest_bits)
    widths = looked_up(coding.extra_bits, classes) * front.view(np.uint8)
    indices, extra_bits = _extras(view, at, widths)
    codes = classes | indices << np.uint8(2)
    escaped = (codes == ESCAPED) & front
    extra_bytes = whole_bytes(extra_bits)
    escape_bits = elements.exponent_bits * sums(escaped.view(np.uint8))
    behind = padded[starts] & MAX_BEHIND_BYTES
    bad |= behind != extra_bytes + whole_bytes(escape_bits)
    bad |= _fill(padded, at, extra_bits)
    exponents = looked_up(coding.exponents, codes).copy()
    places = at + extra_bytes
    bad |= _fill(padded, places, escape_bits)
    _put_escapes(exponents, padded, places, escaped, coding, bad)
    if elements.exponent_bits < 8:
        bad |= ((exponents >> elements.exponent_bits != 0) & front).any(axis=1)
        exponents &= np.uint8(2**elements.exponent_bits - 1)
    words = _words(rests, exponents, elements)
    bad |= ((words == 0) & front).any(axis=1)
    words *= front
    if elements.trims:
        together = np.bitwise_or.reduce(words, axis=1)
        bad |= trailing_zeros(together, elements.mantissa_bits) != dropped
    if front is not present:
        lines = np.zeros_like(words)
        lines[present] = words[front]
        words = lines
    return words, bad


def _classes(view: Words, at: IntArray, front: Bools) -> ByteArray:
    """The classes of elements, uint8 (n, elements)."""
    number = front.shape[1]
    fields = gather(view, at, -(-number // 32)).view(np.uint8)[:, : number // 4]
    classes = _FOUR_CLASSES[fields].view(np.uint8)
    classes *= front
    return classes


def _rests(
    view: Words, at: IntArray, dropped: IntArray, front: Bools, elements: ElementFormat
) -> Lanes:
    """Mantissa and sign of elements, unsigned (n, elements); the bits dropped are zeros again."""
    number_bytes = max(1, elements.element_bytes // 2) if elements.name == "bf16" else 0
    number_bytes = number_bytes or elements.element_bytes
    rests = np.zeros(front.shape, f"<u{number_bytes}")
    for count in np.unique(dropped).tolist() if elements.trims else [0]:
        lines = np.flatnonzero(dropped == count)
        width = elements.mantissa_bits + 1 - count
        found = unpack_even(view, at[lines], width, front.shape[1], number_bytes)
        rests[lines] = found << found.dtype.type(count)
    return rests


def _extras(view: Words, at: IntArray, widths: ByteArray) -> tuple[ByteArray, IntArray]:
    """The indices of elements in their classes, uint8 (n, elements); and bits of all, (n,)."""
    tree = WidthTree(widths)
    ends = np.cumsum(tree.totals, axis=1)
    places = ends - tree.totals
    lanes = view[at[:, None] + (places >> np.uint64(3)).astype(np.int64)]
    lanes >>= places & np.uint64(7)
    lanes &= (np.uint64(1) << tree.totals) - np.uint64(1)
    return tree.split(lanes), ends[:, -1].astype(np.int64)


def _put_escapes(
    exponents: ByteArray,
    padded: ByteArray,
    at: IntArray,
    escaped: Bools,
    coding: Coding,
    bad: Bools,
) -> None:
    """Put escapes where they belong among exponents (n, elements); note those that have a code."""
    lines, columns = np.nonzero(escaped)
    if not lines.size:
        return
    width = coding.elements.exponent_bits
    order = np.arange(lines.size)
    order -= np.searchsorted(lines, lines)
    bits = order * width
    # Damaged lines may have more escapes than bytes.
    places = np.minimum(at[lines] + (bits >> 3), padded.size - 2)
    pairs = padded[places].astype(np.int64) | padded[places + 1].astype(np.int64) << 8
    found = (pairs >> (bits & 7) & (2**width - 1)).astype(np.uint8)
    exponents[lines, columns] = found
    bad[lines[looked_up(coding.codes, found) != ESCAPED]] = True


def _words(rests: Lanes, exponents: ByteArray, elements: ElementFormat) -> Lanes:
    """Elements' bit patterns, unsigned (n, elements)."""
    dtype = np.dtype(f"<u{elements.element_bytes}")
    kind = dtype.type
    wide = rests.astype(dtype, copy=False)
    signs = wide >> kind(elements.mantissa_bits) << kind(elements.bits - 1)
    mantissas = wide & kind(2**elements.mantissa_bits - 1)
    middle = exponents.astype(dtype) << kind(elements.mantissa_bits)
    words: Lanes = signs | mantissas | middle
    return words


def _fill(padded: ByteArray, at: IntArray, bits: IntArray) -> Bools:
    """Which fields of so many bits, from byte `at` (n,) on, have a padding that is not zero."""
    last = padded[at + (bits >> 3)]
    wrong: Bools = ((bits & 7) != 0) & (last >> (bits & 7) != 0)
    return wrong
