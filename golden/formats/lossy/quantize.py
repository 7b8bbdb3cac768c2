"""Error-bounded quantization of fp32 (COMET, §3.4 and §4; dual quantization as in cuSZ).

A value x becomes the whole number q = rint(x / 2b), and comes back as q·2b in fp32, which is no
farther from x than the bound b. Where it would be, as q·2b is rounded and x is about half way
between two, q is the other of them. Zeros come back as zeros, for which COMET needs a filter that
costs twice the bound; −0.0 comes back as 0.0, and so do all values below the bound.

A stream is lines of 128 B, that is 32 values: their numbers q as
`cdma.golden.formats.lossy.fixed_width` keeps them, with or without Lorenzo's prediction, whichever
is shorter. A line is raw, its values as they are, when one of them is NaN or infinite, has |q| ≥
2^22 or a q·2b that fp32 does not hold, or is within the bound with neither q. The last line is
filled with zeros. Streams are canonical: what comes out of one compresses to the same stream, and a
decoder accepts no other. Where b is a power of two, the arithmetic is that of
`cdma.golden.formats.lossy.power_of_two`, which hardware does with shifters.
"""

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import (
    Array,
    CodecError,
    IntArray,
    as_bytes,
    as_floats,
    check_lossy_element_bytes,
    check_whole_floats,
    whole,
)
from cdma.golden.formats.lossy.fixed_width import (
    LINE_NUMBERS,
    NUMBER_LIMIT,
    Numbers,
    find,
    forms_of,
    pack,
    unpack,
)
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamError, StreamStatus

_SMALLEST_BOUND, _LARGEST_BOUND = 2.0**-127, 2.0**126
"""Between them, 2b is a normal number of fp32."""
_CHUNK_LINES = 1024
"""Lines that are worked on at once: few enough for a chunk's arrays to stay in the cache."""

Floats = npt.NDArray[np.float32]


class Quantize:
    """Quantization with an absolute error bound; see `golden.Codec`.

    `line_sizes` are exact: their sum is the stream's length, at most 129/128 of the data's.

    Parameters
    ----------
    element_bytes : int
        4.
    bound : float
        b, the largest error: 2^-127 to 2^126.

    Raises
    ------
    CodecError
        Another element size or bound.
    """

    name = "quantize"
    lossless = False

    def __init__(self, element_bytes: int = 4, *, bound: float) -> None:
        self.element_bytes = check_lossy_element_bytes(self.name, element_bytes)
        number = isinstance(bound, int | float | np.floating)
        if not number or not _SMALLEST_BOUND <= bound <= _LARGEST_BOUND:
            raise CodecError(
                f"the bound must be a number from {_SMALLEST_BOUND:.1e} to {_LARGEST_BOUND:.1e}, "
                f"not {bound!r}; choose the largest error that a value may have"
            )
        self.bound = float(bound)

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of a float32 array of any shape.

        Raises
        ------
        CodecError
            The array is of another type.
        """
        pieces = [np.empty(0, np.uint8)]
        for lines in _chunks(as_floats(self.name, array)):
            pieces.append(pack(forms_of(*self._quantized(lines)), lines.view(np.uint32)))
        return np.concatenate(pieces)

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The values' `nbytes` bytes, uint8 (nbytes,), each value within the bound.

        Raises
        ------
        StreamError
            LENGTH_MISMATCH: `nbytes` is no multiple of 4; offset: 0.
            PAYLOAD_TRUNCATED: the stream ends before or inside a line.
            BAD_TOKEN: a line that the compressor does not write.
            NONZERO_FILL: a value behind the true length is not zero.
            TRAILING_BYTES: bytes follow the last line; offset: the first of them.
            Other offsets: the line. The valid bytes are those of the lines before.
        """
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        source = as_bytes(stream)
        check_whole_floats(nbytes)
        starts, stop, end = find(source, -(-nbytes // LINE_BYTES))
        bounds = np.append(starts, stop)
        pieces = [np.empty(0, np.uint8)]
        for first in range(0, starts.size, _CHUNK_LINES):
            last = min(first + _CHUNK_LINES, starts.size)
            lines, bad = self._decoded(source[: bounds[last]], starts[first:last])
            place = first * LINE_BYTES + 4 * np.arange(lines.size).reshape(lines.shape)
            tail_pad = ((place >= nbytes) & (lines.view(np.uint32) != 0)).any(axis=1)
            for line in np.flatnonzero(bad | tail_pad)[:1].tolist():
                kind = StreamStatus.BAD_TOKEN if bad[line] else StreamStatus.NONZERO_FILL
                raise StreamError(kind, int(starts[first + line]), (first + line) * LINE_BYTES)
            pieces.append(as_bytes(lines))
        if end != StreamStatus.OK:
            raise StreamError(end, stop, starts.size * LINE_BYTES)
        return np.concatenate(pieces)[:nbytes], stop

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""
        pieces = [np.empty(0, np.int64)]
        for lines in _chunks(as_floats(self.name, array)):
            pieces.append(forms_of(*self._quantized(lines)).sizes)
        return np.concatenate(pieces)

    def _quantized(self, lines: Floats) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Quantize lines (n, 32): their q, int32 (32, n), and which lines are raw, (n,)."""
        # Signaling NaNs are invalid wherever they go.
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.ascontiguousarray(lines.T).astype(np.float64)
            exact = np.rint(values / (2 * self.bound))
            kept = np.abs(exact) < NUMBER_LIMIT
            q = np.where(kept, exact, 0).astype(np.int32)
            restored = self._restored(q)
            kept &= np.isfinite(restored)
            missing = values - restored
            beyond = kept & (np.abs(missing) > self.bound)
            if beyond.any():
                q += np.where(beyond, np.sign(missing), 0).astype(np.int32)
                missing = values - self._restored(q)
                kept &= (np.abs(missing) <= self.bound) & (np.abs(q) < NUMBER_LIMIT)
        return q, np.logical_not(kept.all(axis=0))

    def _restored(self, q: Numbers) -> Floats:
        with np.errstate(over="ignore"):
            return (q * (2 * self.bound)).astype(np.float32)

    def _decoded(self, stream: ByteArray, starts: IntArray) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Decode the lines from these starts to the stream's end: (n, 32), and which are wrong,
        (n,).
        """
        q, words, raw, filled = unpack(stream, starts)
        lines = np.ascontiguousarray(self._restored(q).T)
        lines[raw] = words.view(np.float32)[raw]
        # A form that compression would not choose, or would not from these values.
        forms = forms_of(*self._quantized(lines))
        return lines, filled | (forms.headers != stream[starts])


def _chunks(values: Floats) -> list[Floats]:
    """Cut values into chunks of lines, float32 (n, 32) each, the last one filled with zeros."""
    step = _CHUNK_LINES * LINE_NUMBERS
    chunks = [values[start : start + step] for start in range(0, values.size, step)]
    for last in chunks[-1:]:
        filled = np.zeros(-(-last.size // LINE_NUMBERS) * LINE_NUMBERS, np.float32)
        filled[: last.size] = last
        chunks[-1] = filled
    return [chunk.reshape(-1, LINE_NUMBERS) for chunk in chunks]
