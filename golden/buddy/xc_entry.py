"""Entries of XC: a line of bf16 in 96 B, without the header byte.

What is kept is the line of `cdma.golden.formats.xc` from its mask or its classes on, and then
zeros. All entries have one size, so that of the header only the kind is missing:

    mask       8 B     sparse entries only
    classes            2 bits for each of the k elements that are not zero
    rest       k B     mantissa, then sign
    extras             as many bits as each class has
    escapes            1 B each
    byte 95, bit 7     the kind: 0 dense (k = 64), 1 sparse (k = 1 … 63)

Fields are padded with zero bits to a byte, but for the last one, whose bits may end right in front
of the kind: an entry fits if its fields need no more than 767 bits. Escapes take whole bytes, so
with any of them that is 95 B. There is one form for each entry and page, and none for zeros.

    centre 127, pattern 0; 64 times −1.0: 16 bytes 00, 64 bytes 80, 16 bytes 00
    the same, but the first element is 0.0: FE FF FF FF FF FF FF FF, 16 bytes 00, 63 bytes 80,
    8 bytes 00, 80
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import IntArray
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamStatus
from cdma.golden.formats.xc.bits import byte_view
from cdma.golden.formats.xc.elements import element_format
from cdma.golden.formats.xc.line_decoder import READ_BEYOND_BYTES, decode_fields
from cdma.golden.formats.xc.lines import (
    CHUNK_LINES,
    Bools,
    Coding,
    Forms,
    Lanes,
    encoded,
    fields_bytes,
    forms_of,
    sums,
)

KEPT_BYTES = 96
KIND_BYTE = KEPT_BYTES - 1
KIND = 0x80
"""The bit of `KIND_BYTE` that is set in sparse entries."""
CODE_BITS = 8 * KEPT_BYTES - 1
"""The most bits of an entry's fields."""
CENTRE_BITS = 8
PATTERN_BITS = 2

ELEMENTS = element_format("bf16")
_STRIDE = KEPT_BYTES + READ_BEYOND_BYTES


def has_xc(parameters: npt.ArrayLike) -> Bools:
    """True for parameters of pages that have entries of XC: all with a centre but 0."""
    centres: Bools = np.asarray(parameters, np.int64) % 2**CENTRE_BITS != 0
    return centres


def fits(entries: ByteArray, parameters: IntArray) -> Bools:
    """Tell which entries, uint8 (n, 128), fit 96 B with their pages' parameters, bool (n,)."""
    found = np.zeros(len(entries), np.bool_)
    for rows, coding in _chunks(parameters):
        words = _words(entries[rows])
        found[rows] = _fits(forms_of(words, coding))
    return found


def encode(entries: ByteArray, parameters: IntArray) -> ByteArray:
    """Encode entries that fit, uint8 (n, 128), to 96 B each with zeros behind them."""
    kept = np.zeros(entries.shape, np.uint8)
    for rows, coding in _chunks(parameters):
        words = _words(entries[rows])
        forms = forms_of(words, coding)
        assert _fits(forms).all(), "an entry does not fit 96 B"
        places = np.arange(LINE_BYTES) + ELEMENTS.header_bytes < forms.sizes[:, None]
        # The lines' bytes without their headers, which are where a line starts.
        stream = encoded(words, coding)
        starts = np.cumsum(forms.sizes) - forms.sizes
        lines = np.zeros(places.shape, np.uint8)
        lines[places] = np.delete(stream, starts)
        lines[forms.kept < ELEMENTS.line_elements, KIND_BYTE] |= KIND
        kept[rows] = lines
    return kept


def decode(kept: ByteArray, parameters: IntArray) -> tuple[ByteArray, IntArray, ByteArray]:
    """Restore entries from what is kept, uint8 (n, 96), or more behind it.

    Returns
    -------
    status : uint8 array (n,)
        OK, or BAD_TOKEN: a mask of no or of all elements, an element of zero, an escape that has a
        code, padding that is not zero, or fields of more than 767 bits.
    used : int64 array (n,)
        Bytes of the fields. What is behind them is not looked at.
    data : uint8 array (n, 128)
        The entries; zeros where there is an error.
    """
    status = np.full(len(kept), StreamStatus.OK, np.uint8)
    used = np.zeros(len(kept), np.int64)
    data = np.zeros((len(kept), LINE_BYTES), np.uint8)
    for rows, coding in _chunks(parameters):
        padded = np.zeros((rows.size, _STRIDE), np.uint8)
        padded[:, :KEPT_BYTES] = kept[rows, :KEPT_BYTES]
        sparse = padded[:, KIND_BYTE] >= KIND
        padded[:, KIND_BYTE] &= KIND - 1
        flat = padded.reshape(-1)
        starts = np.arange(rows.size) * _STRIDE
        fields = decode_fields(flat, byte_view(flat), starts, sparse, starts, coding)
        bad = fields.bad | (fields.end_bits > CODE_BITS)
        bad |= sparse & ((fields.kept == 0) | (fields.kept == ELEMENTS.line_elements))
        status[rows[bad]] = StreamStatus.BAD_TOKEN
        used[rows] = -(-fields.end_bits // 8)
        data[rows] = np.where(bad[:, None], 0, fields.words.view(np.uint8))
    return status, used, data


def _fits(forms: Forms) -> Bools:
    """Tell which lines' fields have room in an entry."""
    fields = fields_bytes(ELEMENTS, forms.kept, forms.dropped)
    escaped = forms.behind_bytes > forms.extra_bytes
    behind = np.where(escaped, 8 * forms.behind_bytes, sums(forms.widths))
    found: Bools = (forms.kept > 0) & (8 * fields + behind <= CODE_BITS)
    return found


def _words(entries: ByteArray) -> Lanes:
    """Entries' elements, uint16 (n, 64)."""
    words: Lanes = np.ascontiguousarray(entries).view("<u2")
    return words


def _chunks(parameters: IntArray) -> Iterator[tuple[IntArray, Coding]]:
    """Numbers of entries with the same parameters, not too many at once."""
    for value in np.unique(parameters).tolist():
        coding = Coding(ELEMENTS, value % 2**CENTRE_BITS, value >> CENTRE_BITS)
        rows = np.flatnonzero(parameters == value)
        for first in range(0, rows.size, CHUNK_LINES):
            yield rows[first : first + CHUNK_LINES], coding
