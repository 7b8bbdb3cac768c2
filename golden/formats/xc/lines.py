"""The encoding of XC's lines, a chunk of them at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import LINE_BYTES, ByteArray
from cdma.golden.formats.xc.bits import (
    Lanes,
    WidthTree,
    byte_view,
    pack_even,
    scatter,
    scatter_bits,
)
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.patterns import (
    CLASS_BITS,
    ESCAPE_CLASS,
    ESCAPE_INDEX,
    EXTRA_BITS,
    check_parameters,
    code_table,
    distance_table,
)

ZERO, DENSE, SPARSE, RAW = range(4)
"""Bits 7…6 of the header: the kind of a line."""
RAW_HEADER = RAW << 6
MAX_BEHIND_BYTES = 63
"""Extras and escapes of a line, together: bits 5…0 of the header."""
ESCAPED = ESCAPE_CLASS + 4 * ESCAPE_INDEX

CHUNK_LINES = 512
"""Lines that are worked on at once: few enough for a chunk's arrays to stay in the cache."""
_ROW_BYTES = 3 * LINE_BYTES
"""Room for a line, and for what fields write behind their end."""
_STREAM_WORDS = -(-(2 + LINE_BYTES) // 8)

Bools = npt.NDArray[np.bool_]


class Coding:
    """An element format with a centre and a pattern, and the tables that follow from them.

    Attributes
    ----------
    elements : ElementFormat
    centre, pattern : int
    codes : bytes (256,)
        Class + 4 · index of each exponent.
    extra_bits : bytes (256,)
        How many extra bits each code has.
    exponents : bytes (256,)
        The exponent of each code; 0 for the escape.

    Raises
    ------
    CodecError
        There is no such centre or pattern.
    """

    def __init__(self, elements: ElementFormat, centre: int, pattern: int) -> None:
        self.elements = elements
        self.centre, self.pattern = check_parameters(centre, pattern)
        numbers = np.arange(256)
        self.codes = code_table(self.pattern)[(self.centre - numbers) % 256].tobytes()
        extra_bits = np.array(EXTRA_BITS[self.pattern], np.uint8)
        self.extra_bits = extra_bits[numbers % 4].tobytes()
        distances = distance_table(self.pattern)[numbers % 64]
        exponents = (self.centre - distances.astype(np.int64)) % 256
        exponents[ESCAPED] = 0
        self.exponents = exponents.astype(np.uint8).tobytes()

    def exponents_of(self, words: Lanes) -> ByteArray:
        """The exponents of elements' bit patterns, uint8, of the same shape."""
        shifted = words >> words.dtype.type(self.elements.mantissa_bits)
        exponents = shifted.astype(np.uint8)
        if self.elements.exponent_bits < 8:
            exponents &= np.uint8(2**self.elements.exponent_bits - 1)
        return exponents


def looked_up(table: bytes, numbers: ByteArray) -> ByteArray:
    """Entries of a table of 256 bytes at each number, uint8 of the same shape."""
    found = np.frombuffer(numbers.tobytes().translate(table), np.uint8)
    return found.reshape(numbers.shape)


@dataclass(frozen=True, kw_only=True)
class Forms:
    """Forms in which n lines are kept.

    Attributes
    ----------
    kept : int64 array (n,)
        Elements that are not zero.
    exponents, codes : uint8 arrays (n, elements)
        Of each element. Zeros have class 0, index 0.
    widths : uint8 array (n, elements)
        Extra bits of each element; none for zeros.
    escaped : bool array (n, elements)
    dropped : int64 array (n,)
        Common trailing zero bits of the mantissas: 0 but for fp32.
    extra_bytes, behind_bytes : int64 arrays (n,)
        Bytes of the extras; of extras and escapes together.
    raw : bool array (n,)
        Which lines stay as they are.
    sizes : int64 array (n,)
        Bytes of each line, with its header.
    """

    kept: IntArray
    exponents: ByteArray
    codes: ByteArray
    widths: ByteArray
    escaped: Bools
    dropped: IntArray
    extra_bytes: IntArray
    behind_bytes: IntArray
    raw: Bools
    sizes: IntArray


def forms_of(words: Lanes, coding: Coding) -> Forms:
    """The forms of lines of elements' bit patterns, unsigned (n, elements)."""
    elements = coding.elements
    present = words != 0
    kept = sums(present.view(np.uint8))
    exponents = coding.exponents_of(words)
    codes = looked_up(coding.codes, exponents) * present.view(np.uint8)
    widths = looked_up(coding.extra_bits, codes) * present.view(np.uint8)
    escaped = codes == ESCAPED
    dropped = np.zeros(kept.size, np.int64)
    if elements.trims:
        dropped = trailing_zeros(np.bitwise_or.reduce(words, axis=1), elements.mantissa_bits)
    extra_bytes = whole_bytes(sums(widths))
    behind = extra_bytes + whole_bytes(elements.exponent_bits * sums(escaped.view(np.uint8)))
    sizes = elements.header_bytes + fields_bytes(elements, kept, dropped) + behind
    raw = (behind > MAX_BEHIND_BYTES) | (sizes > LINE_BYTES)
    sizes[raw] = elements.worst_line_bytes
    sizes[kept == 0] = elements.header_bytes
    dropped[raw | (kept == 0)] = 0
    return Forms(
        kept=kept,
        exponents=exponents,
        codes=codes,
        widths=widths,
        escaped=escaped,
        dropped=dropped,
        extra_bytes=extra_bytes,
        behind_bytes=behind,
        raw=raw,
        sizes=sizes,
    )


def fields_bytes(elements: ElementFormat, kept: IntArray, dropped: IntArray) -> IntArray:
    """Bytes of mask, classes and rest of lines with so many elements that are not zero."""
    mask = elements.mask_bytes * (kept < elements.line_elements)
    rest_bits = elements.mantissa_bits + 1 - dropped
    total: IntArray = mask + whole_bytes(CLASS_BITS * kept) + whole_bytes(rest_bits * kept)
    return total


def encoded(words: Lanes, coding: Coding) -> ByteArray:
    """The stream of lines of elements' bit patterns, unsigned (n, elements)."""
    elements = coding.elements
    present = words != 0
    dense = bool(present.all())
    packed = words if dense else _to_the_front(words, present)
    forms = forms_of(packed, coding)
    # A row has room for all that a line could be; fields overwrite what those before them left
    # behind their end, and raw lines what fields they would have had.
    rows = np.empty((len(words), _ROW_BYTES), np.uint8)
    head = elements.header_bytes
    rows[:, 0] = DENSE << 6 | forms.behind_bytes
    if elements.trims:
        rows[:, 1] = forms.dropped
    at = np.arange(len(words)) * _ROW_BYTES + head
    if not dense:
        rows[forms.kept < elements.line_elements, 0] ^= (DENSE ^ SPARSE) << 6
        rows[forms.kept == 0, 0] = ZERO
        sparse = np.flatnonzero(forms.kept < elements.line_elements)
        masks = np.packbits(present[sparse], axis=1, bitorder="little")
        rows[sparse, head : head + elements.mask_bytes] = masks
        at[sparse] += elements.mask_bytes
    _write_fields(rows, at, packed, forms, coding)
    raw = np.flatnonzero(forms.raw)
    if raw.size:
        rows[raw, :head] = 0
        rows[raw, 0] = RAW_HEADER
        rows[raw, head : head + LINE_BYTES] = words[raw].view(np.uint8)
    ends = np.cumsum(forms.sizes)
    stream = np.empty(ends[-1] + 8 * _STREAM_WORDS, np.uint8)
    scatter(byte_view(stream), ends - forms.sizes, rows.view("<u8")[:, :_STREAM_WORDS])
    return stream[: ends[-1]]


def sums(numbers: ByteArray) -> IntArray:
    """The sums of rows of numbers (n, m), none above 8, int64 (n,)."""
    # Eight sums side by side, of at most 16 numbers each; then four, two, one.
    lanes = np.add.reduce(numbers.view("<u8"), axis=1, dtype=np.uint64)
    evens = np.uint64(0x00FF00FF00FF00FF)
    lanes = (lanes & evens) + ((lanes >> np.uint64(8)) & evens)
    lanes *= np.uint64(0x0001000100010001)
    return (lanes >> np.uint64(48)).astype(np.int64)


def trailing_zeros(words: Lanes, most: int) -> IntArray:
    """Count the zero bits below the lowest one of each word, at most `most`."""
    lowest = words & (~words + words.dtype.type(1))
    found = np.bitwise_count(lowest - words.dtype.type(1)).astype(np.int64)
    return np.minimum(found, most)


def _to_the_front(words: Lanes, present: Bools) -> Lanes:
    """The lines with their zeros behind all other elements."""
    packed = np.zeros_like(words)
    front = np.arange(words.shape[1]) < sums(present.view(np.uint8))[:, None]
    packed.reshape(-1)[np.flatnonzero(front)] = words.reshape(-1)[np.flatnonzero(present)]
    return packed


def _write_fields(
    rows: ByteArray, at: IntArray, packed: Lanes, forms: Forms, coding: Coding
) -> None:
    """Classes, rest, extras and escapes of lines, from the bytes `at` of all rows on."""
    elements = coding.elements
    view = byte_view(rows.reshape(-1))
    fours = (forms.codes & np.uint8(3)).view("<u4")
    # Four classes, a byte each, into a byte: their places become 24, 26, 28 and 30.
    classes = (fours * np.uint32(1 << 24 | 1 << 18 | 1 << 12 | 1 << 6)) >> np.uint32(24)
    scatter(view, at, classes.astype(np.uint8).view("<u8"))
    at = at + whole_bytes(CLASS_BITS * forms.kept)
    for dropped in np.unique(forms.dropped).tolist() if elements.trims else [0]:
        rests = _rests(packed, elements, dropped)
        width = elements.mantissa_bits + 1 - dropped
        lines = forms.dropped == dropped
        if lines.all():
            scatter(view, at, pack_even(rests, width))
        else:
            scatter(view, at[lines], pack_even(rests[lines], width))
    at = at + whole_bytes((elements.mantissa_bits + 1 - forms.dropped) * forms.kept)
    tree = WidthTree(forms.widths)
    scatter_bits(view, at, tree.merge(forms.codes >> np.uint8(2)), tree.totals)
    counts = sums(forms.escaped.view(np.uint8))
    lines = np.flatnonzero(counts)
    if lines.size:
        width = elements.exponent_bits
        escaped = forms.escaped[lines]
        columns = np.arange(elements.line_elements)
        escapes = np.zeros(escaped.shape, np.uint8)
        escapes[columns < counts[lines][:, None]] = forms.exponents[lines][escaped]
        at = at + forms.extra_bytes
        scatter(view, at[lines], pack_even(escapes, width))


def _rests(words: Lanes, elements: ElementFormat, dropped: int) -> Lanes:
    """Mantissa, less `dropped` trailing bits, then sign, of elements' bit patterns."""
    kind = words.dtype.type
    mantissas = words & kind(2**elements.mantissa_bits - 1)
    signs = (words >> kind(elements.bits - 1)) << kind(elements.mantissa_bits)
    rests = (mantissas | signs) >> kind(dropped)
    return rests.astype(np.uint8) if elements.mantissa_bits < 8 else rests


def whole_bytes(bits: IntArray) -> IntArray:
    """Bytes that so many bits are padded to."""
    return (bits + 7) >> 3
