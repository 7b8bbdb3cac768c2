"""XC, the exponent-class codec for dense floating-point data.

A line of 128 B is n elements of N bits: a sign, E exponent and M mantissa bits. What an exponent's
distance from the transfer's `centre` is becomes a class of two bits, a few extra bits, and for the
rare exponent far away an escape; sign and mantissa are kept as they are. All-zeros elements, and
no others, are dropped. A compressed line is

    header   1 B     bits 7…6, the kind: 0 zeros, 1 dense, 2 sparse, 3 raw; bits 5…0: bytes of
                     extras and escapes together
             1 B     fp32 only: how many trailing mantissa bits are zero in all elements, dropped
    mask     n/8 B   sparse lines only, as in ZVC: bit i is 1 where element i is not zero
    classes          2 bits for each of the k elements that are not zero
    rest             M + 1 bits each: mantissa, then sign
    extras           for each element, as many bits as its class has
    escapes          E bits each: the exponents that have no code

Every field has its numbers in the elements' order, least significant bit first, and is padded with
zero bits to a byte. All places follow from the header, the mask's population count, the classes and
the extras: no element waits on another. A line of zeros is its header, 00, alone. A line whose
extras and escapes would take more than 63 bytes, or that would take more than 128 in all, is raw:
header C0, then the 128 bytes. fp32's second byte is 00 in both.

    bf16, centre 127, pattern 0; a line of 1.0, −0.75 and zeros. The classes are 0 (d = 0) and 2
    (d = 1, index 0), which has two extra bits:

    81 | 03 00 00 00 00 00 00 00 | 08 | 00 C0 | 00

Streams are canonical: there is exactly one for each input and coding, and a decoder accepts no
other. The true length is not in the stream; the last line is zero-filled.
"""

import numpy as np

from cdma.golden.formats.interface import (
    Array,
    IntArray,
    as_bytes,
    check_element_bytes,
    decoded_prefix,
    element_dtype,
    whole,
    zero_filled,
)
from cdma.golden.formats.stream import LINE_BYTES, ByteArray
from cdma.golden.formats.xc.decoder import decode
from cdma.golden.formats.xc.elements import element_format_of
from cdma.golden.formats.xc.lines import CHUNK_LINES, Coding, Lanes, encoded, forms_of
from cdma.golden.formats.xc.patterns import best_parameters


class Xc:
    """The exponent-class codec; see `golden.Codec`.

    `line_sizes` are exact: their sum is the stream's length, at most 129 B per line (fp32 130).

    Parameters
    ----------
    element_bytes : int
        4, 2 or 1.
    exponent_bits : int, optional
        8 with 4 bytes (fp32); 8 (bf16, if not given) or 5 (fp16) with 2 bytes; 4 (e4m3, if not
        given) or 5 (e5m2) with 1 byte.
    centre : int
        0…255, the exponent around which codes are short. If not given, an exponent a little below
        that of 1.0.
    pattern : int
        0…3: how fast codes grow with the distance from the centre.

    Raises
    ------
    CodecError
        There is no such element format, centre or pattern.
    """

    name = "xc"
    lossless = True

    def __init__(
        self,
        element_bytes: int = 4,
        *,
        exponent_bits: int | None = None,
        centre: int | None = None,
        pattern: int = 0,
    ) -> None:
        self.element_bytes = check_element_bytes(element_bytes)
        self.elements = element_format_of(self.element_bytes, exponent_bits)
        self.exponent_bits = self.elements.exponent_bits
        if centre is None:
            centre = 2 ** (self.exponent_bits - 1) - 2
        self.coding = Coding(self.elements, centre, pattern)
        self.centre, self.pattern = self.coding.centre, self.coding.pattern

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of an array of any shape and any plain dtype."""
        pieces = [encoded(lines, self.coding) for lines in self._chunks(array)]
        return np.concatenate([np.empty(0, np.uint8), *pieces])

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes that were compressed; `StreamError` when the stream is damaged."""
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        decoded = decode(stream, nbytes, self.coding)
        return decoded_prefix(decoded, as_bytes(stream).size)

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""
        sizes = [forms_of(lines, self.coding).sizes for lines in self._chunks(array)]
        return np.concatenate([np.empty(0, np.int64), *sizes])

    def histogram(self, array: Array) -> IntArray:
        """Count the elements that are not zero by exponent, int64 (2^E,)."""
        counts = np.zeros(2**self.exponent_bits, np.int64)
        for lines in self._chunks(array):
            exponents = self.coding.exponents_of(lines)
            counts += np.bincount(exponents[lines != 0], minlength=counts.size)
        return counts

    def fitted(self, array: Array) -> "Xc":
        """The codec with the centre and the pattern that are best for an array."""
        return self.fitted_to(self.histogram(array))

    def fitted_to(self, histogram: IntArray) -> "Xc":
        """The codec that is best for arrays of this histogram, which may be a sum of several."""
        centre, pattern = best_parameters(histogram, self.elements)
        return Xc(
            self.element_bytes, exponent_bits=self.exponent_bits, centre=centre, pattern=pattern
        )

    def _chunks(self, array: Array) -> list[Lanes]:
        """An array's lines of elements, unsigned (n, elements) each, the last zero-filled."""
        words = zero_filled(as_bytes(array), LINE_BYTES).view(element_dtype(self.element_bytes))
        lines = words.reshape(-1, self.elements.line_elements)
        return [lines[at : at + CHUNK_LINES] for at in range(0, len(lines), CHUNK_LINES)]
