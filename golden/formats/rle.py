"""RLE, run-length encoding of zeros (cDMA, §V-A): A0000000 becomes A70 (CSWAP+, §5.2.1).

The data is cut into windows of 4 KiB, the last one zero-filled to a whole 128 B line; no run
crosses from one window to the next. A window is a sequence of tokens, each of which starts with a
control byte:

    bit 7       1: a run of zeros; nothing follows
                0: a run of non-zeros; its elements follow, E bytes each
    bits 6…0    length of the run − 1, in elements: 1 to 128

    bytes A 0 0 0 0 0 0 0 (E = 1):  00 A | 86

Runs are as long as they can be: a run of more than 128 elements is cut into tokens of 128 and a
rest. So streams are canonical, and a decoder accepts no other. There is no header.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.interface import (
    Array,
    IntArray,
    as_bytes,
    check_element_bytes,
    element_dtype,
    whole,
    zero_filled,
)
from cdma.golden.formats.stream import LINE_BYTES, ByteArray, StreamError, StreamStatus
from cdma.golden.formats.windows.window import WINDOW_BYTES

MAX_RUN = 128
"""Elements per token."""
_ZERO_RUN = 0x80
_CHUNK_BYTES = 128 * WINDOW_BYTES
"""Data that is worked on at once: whole windows, few enough to stay in the cache."""


class Rle:
    """Runs of zero and of non-zero elements of 4, 2 or 1 bytes; see `golden.Codec`.

    `line_sizes` are exact: a control byte belongs to the line in which its run starts, an element
    to its own line.
    """

    name = "rle"
    lossless = True

    def __init__(self, element_bytes: int = 4) -> None:
        self.element_bytes = check_element_bytes(element_bytes)
        self._dtype = element_dtype(self.element_bytes)
        self._window_elements = WINDOW_BYTES // self.element_bytes

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of an array of any shape and any plain dtype."""
        elements = zero_filled(as_bytes(array), LINE_BYTES).view(self._dtype)
        step = _CHUNK_BYTES // self.element_bytes
        pieces = [
            self._compress_windows(elements[start : start + step])
            for start in range(0, elements.size, step)
        ]
        return np.concatenate(pieces) if pieces else np.empty(0, np.uint8)

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes that were compressed.

        Raises
        ------
        StreamError
            BAD_TOKEN: a run that leaves its window, or that should have been one with the run
            before; offset: its control byte.
            PAYLOAD_TRUNCATED: a token or an element is missing; offset: where it should start.
            ZERO_ELEMENT, NONZERO_FILL: as in ZVC; offset: the element.
            TRAILING_BYTES: bytes follow the last run; offset: the first of them.
        """
        return whole(self.decompress_prefix(stream, nbytes), stream, nbytes)

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The first `nbytes` bytes, and how many bytes of the stream they take."""
        source = as_bytes(stream)
        # Elements may be read beyond the end before it is known that they are missing.
        padded = np.zeros(source.size + self.element_bytes, np.uint8)
        padded[: source.size] = source
        total = -(-nbytes // LINE_BYTES) * LINE_BYTES // self.element_bytes
        step = _CHUNK_BYTES // self.element_bytes
        pieces: list[Array] = []
        position = 0
        for start in range(0, total, step):
            count = min(step, total - start)
            values, position = self._decompress_windows(
                source, padded, position, start, count, nbytes
            )
            pieces.append(values)
        data = np.concatenate(pieces) if pieces else np.empty(0, self._dtype)
        return data.view(np.uint8)[:nbytes], position

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""
        elements = zero_filled(as_bytes(array), LINE_BYTES).view(self._dtype)
        line_elements = LINE_BYTES // self.element_bytes
        sizes = np.empty(elements.size // line_elements, np.int64)
        step = _CHUNK_BYTES // self.element_bytes
        for start in range(0, elements.size, step):
            part = elements[start : start + step]
            nonzero = part != 0
            controls = np.zeros(part.size, np.bool_)
            controls[self._token_starts(nonzero)] = True
            line = start // line_elements
            part_sizes = np.count_nonzero(nonzero.reshape(-1, line_elements), axis=1)
            part_sizes *= self.element_bytes
            part_sizes += np.count_nonzero(controls.reshape(-1, line_elements), axis=1)
            sizes[line : line + part_sizes.size] = part_sizes
        return sizes

    def _token_starts(self, nonzero: npt.NDArray[np.bool_]) -> IntArray:
        """Find the elements that tokens start at, of windows that start at the first element."""
        changes = np.empty(nonzero.size, np.bool_)
        np.not_equal(nonzero[1:], nonzero[:-1], out=changes[1:])
        changes[:: self._window_elements] = True
        starts = np.flatnonzero(changes)
        lengths = np.diff(starts, append=nonzero.size)
        tokens = -(-lengths // MAX_RUN)
        if tokens.size == tokens.sum():
            return starts
        # The k-th token of a run starts k × 128 elements into it.
        first_tokens = np.cumsum(tokens) - tokens
        k = np.arange(tokens.sum()) - np.repeat(first_tokens, tokens)
        return np.repeat(starts, tokens) + k * MAX_RUN

    def _compress_windows(self, elements: Array) -> ByteArray:
        nonzero = elements != 0
        starts = self._token_starts(nonzero)
        lengths = np.diff(starts, append=elements.size)
        literal = nonzero[starts]
        sizes = 1 + self.element_bytes * np.where(literal, lengths, 0)
        ends = np.cumsum(sizes)
        stream = np.empty(ends[-1], np.uint8)
        stream[ends - sizes] = np.where(literal, 0, _ZERO_RUN) + lengths - 1
        runs = lengths[literal]
        data_positions = _consecutive(
            ends[literal] - runs * self.element_bytes, runs, self.element_bytes
        )
        if data_positions.size:
            _elements_at_bytes(stream, self._dtype)[data_positions] = elements[nonzero]
        return stream

    def _decompress_windows(
        self,
        source: ByteArray,
        padded: ByteArray,
        position: int,
        start: int,
        count: int,
        nbytes: int,
    ) -> tuple[Array, int]:
        """Decode elements `start` to `start + count`; also return where the next token is in the
        stream.
        """
        positions, stop = self._find_tokens(source, position, count)
        controls = source[positions].astype(np.int64)
        literal = controls < _ZERO_RUN
        lengths = controls % _ZERO_RUN + 1
        ends = np.cumsum(lengths)
        starts = ends - lengths
        in_window = starts % self._window_elements
        crosses = in_window + lengths > self._window_elements
        crosses |= ends > count
        # A run goes on from the token before only when that one was full.
        split = np.zeros(positions.size, np.bool_)
        split[1:] = (literal[1:] == literal[:-1]) & (lengths[:-1] < MAX_RUN) & (in_window[1:] > 0)
        wrong = np.flatnonzero(crosses | split)
        good = int(wrong[0]) if wrong.size else positions.size

        runs = lengths[:good][literal[:good]]
        data_positions = _consecutive(starts[:good][literal[:good]], runs, 1)
        addresses = _consecutive(positions[:good][literal[:good]] + 1, runs, self.element_bytes)
        last_address = padded.size - self.element_bytes
        read = _elements_at_bytes(padded, self._dtype)[np.minimum(addresses, last_address)]
        self._check_elements(read, start + data_positions, addresses, source.size, nbytes)
        if wrong.size:
            before = (start + int(starts[good])) * self.element_bytes
            raise StreamError(StreamStatus.BAD_TOKEN, int(positions[good]), min(before, nbytes))
        found = int(ends[-1]) if ends.size else 0
        if found < count:
            before = (start + found) * self.element_bytes
            raise StreamError(StreamStatus.PAYLOAD_TRUNCATED, stop, min(before, nbytes))
        values = np.zeros(count, self._dtype)
        values[data_positions] = read
        return values, stop

    def _find_tokens(self, source: ByteArray, position: int, count: int) -> tuple[IntArray, int]:
        """Find where tokens start until they make `count` elements or the stream ends, and the end.

        The one serial part of decoding, as each token tells where the next is.
        """
        lengths = [control % _ZERO_RUN + 1 for control in range(256)]
        sizes = [
            1 + (lengths[control] * self.element_bytes if control < _ZERO_RUN else 0)
            for control in range(256)
        ]
        # Tokens of `count` elements take no more than this.
        window = source[position : position + count * (self.element_bytes + 1)].tobytes()
        positions: list[int] = []
        append = positions.append
        place, held = 0, len(window)
        while count > 0 and place < held:
            append(place)
            control = window[place]
            place += sizes[control]
            count -= lengths[control]
        return np.array(positions, np.int64) + position, position + place

    def _check_elements(
        self, values: Array, data_positions: IntArray, addresses: IntArray, end: int, nbytes: int
    ) -> None:
        """Raise the first error among elements, which are in stream order."""
        before = data_positions * self.element_bytes
        inside = np.clip(nbytes - before, 0, self.element_bytes)
        tail_pad = (values.astype(np.uint64) >> (8 * inside.astype(np.uint64))) != 0
        missing = addresses + self.element_bytes > end
        bad = np.flatnonzero(missing | (values == 0) | tail_pad)
        if not bad.size:
            return
        first = int(bad[0])
        if missing[first]:
            status = StreamStatus.PAYLOAD_TRUNCATED
        elif values[first] == 0:
            status = StreamStatus.ZERO_ELEMENT
        else:
            status = StreamStatus.NONZERO_FILL
        raise StreamError(status, int(addresses[first]), min(int(before[first]), nbytes))


def _consecutive(starts: IntArray, counts: IntArray, step: int) -> IntArray:
    """For each run, `count` numbers from its start at distances of `step`, one after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before * step, counts) + np.arange(counts.sum()) * step


def _elements_at_bytes(data: ByteArray, dtype: np.dtype[Any]) -> Array:
    """The element that starts at each byte: in a stream, they lie at any address."""
    shape = data.size - dtype.itemsize + 1
    return np.ndarray(shape, dtype, data.data, strides=(1,))
