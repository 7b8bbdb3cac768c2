"""The decoding of XC's lines, a chunk of them at once, from where they start."""

from dataclasses import dataclass

import numpy as np

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import LINE_BYTES, ByteArray
from cdma.golden.formats.xc.bits import Lanes, WidthTree, Words, byte_view, gather, unpack_even
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.xc.lines import (
    DENSE,
    ESCAPED,
    MAX_BEHIND_BYTES,
    RAW,
    SPARSE,
    Bools,
    Coding,
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
READ_BEYOND_BYTES = 2 * LINE_BYTES + 64
"""Zeros behind the stream: what damaged lines may read."""


def expanded(padded: ByteArray, starts: IntArray, coding: Coding) -> tuple[Lanes, Bools]:
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
    """Dense and sparse lines as in `expanded`."""
    headers = padded[starts]
    fields = decode_fields(
        padded, view, starts + coding.elements.header_bytes, headers >> 6 == SPARSE, starts, coding
    )
    bad = fields.bad | (headers & MAX_BEHIND_BYTES != fields.behind_bytes)
    if coding.elements.trims:
        together = np.bitwise_or.reduce(fields.words, axis=1)
        dropped = padded[starts + 1]
        bad |= trailing_zeros(together, coding.elements.mantissa_bits) != dropped
    return fields.words, bad


@dataclass(frozen=True, kw_only=True)
class DecodedFields:
    """The fields of n lines behind their headers.

    Attributes
    ----------
    words : unsigned array (n, elements)
        The elements' bit patterns.
    kept : int64 array (n,)
        How many of them the fields hold.
    bad : bool array (n,)
        Which lines no compressor writes, as far as the fields tell.
    behind_bytes : int64 array (n,)
        Bytes of extras and escapes.
    end_bits : int64 array (n,)
        Where the last field ends, without its padding, in bits from the first field on.
    """

    words: Lanes
    kept: IntArray
    bad: Bools
    behind_bytes: IntArray
    end_bits: IntArray


def decode_fields(
    padded: ByteArray, view: Words, first: IntArray, sparse: Bools, starts: IntArray, coding: Coding
) -> DecodedFields:
    """Decode lines from the byte `first` (n,) behind their headers on.

    Parameters
    ----------
    padded, view : arrays
        The bytes, with `READ_BEYOND_BYTES` more behind the last line; their `byte_view`.
    first : int64 array (n,)
    sparse : bool array (n,)
        Which lines start with a mask.
    starts : int64 array (n,)
        Where the headers are, of which only fp32's second byte is looked at here.
    coding : Coding
    """
    elements = coding.elements
    number = elements.line_elements
    at = first
    masks = gather(view, at[sparse], 2).view(np.uint8)[:, : elements.mask_bytes]
    present = np.ones((first.size, number), np.bool_)
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
    dropped = np.zeros(first.size, np.int64)
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
    if front is not present:
        lines = np.zeros_like(words)
        lines[present] = words[front]
        words = lines
    last_at, last_bits = (
        np.where(escape_bits > 0, each, other)
        for each, other in ((places, at), (escape_bits, extra_bits))
    )
    return DecodedFields(
        words=words,
        kept=kept,
        bad=bad,
        behind_bytes=extra_bytes + whole_bytes(escape_bits),
        end_bits=8 * (last_at - first) + last_bits,
    )


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
    """Mark the fields of so many bits, from byte `at` (n,) on, whose padding is not zero."""
    last = padded[at + (bits >> 3)]
    wrong: Bools = ((bits & 7) != 0) & (last >> (bits & 7) != 0)
    return wrong
