"""A model of what an engine and its driver must do to two memories, in numpy and golden formats."""

from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from cdma import golden
from cdma.golden import LINE_BYTES, StreamStatus
from cdma.golden.formats.stream import ByteArray, Decoded, crc32
from cdma.golden.formats.xc.decoder import decode as decode_xc
from cdma.golden.formats.xc.elements import ElementFormat
from cdma.golden.formats.zvc import decode as decode_zvc
from cdma.hw.dma.control.descriptor import Status
from tests.hw.codec.xc.lines import bf16_lines, elements_of
from tests.hw.codec.xc.lines import golden as xc_model

DEVICE, HOST = "device", "host"

TRUNCATED = (StreamStatus.MASK_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED)


@dataclass(frozen=True)
class Format:
    """A codec with its parameters. `codec` is None for plain copies.

    Attributes
    ----------
    codec : str or None
    element_bytes : int
    parameters : tuple of (str, int)
    """

    codec: str | None
    element_bytes: int
    parameters: tuple[tuple[str, int], ...] = ()

    def compress(self, data: ByteArray) -> tuple[ByteArray, list[int]]:
        """The stream, and where it ends behind each line, the first of them behind none."""
        model = self._model()
        stream = model.compress(data)
        ends = np.minimum(np.cumsum(model.line_sizes(data)), stream.size)
        return stream, [0, *ends.tolist()]

    def decode(self, stream: ByteArray, length: int) -> Decoded:
        """The golden decoder's answer to a stream, right or wrong."""
        if self.elements is not None:
            return decode_xc(stream, length, self._model().coding)
        return decode_zvc(stream, length, self.element_bytes)

    @property
    def elements(self) -> ElementFormat | None:
        """XC's element format; None with other codecs."""
        return elements_of(self.codec)

    def _model(self):  # type: ignore[no-untyped-def]
        if self.elements is not None:
            return xc_model(**dict(self.parameters), elements=self.elements)
        return golden.codec(self.codec or "raw", self.element_bytes)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The record of a transfer that nothing disturbs, and the bytes at its destination.

    Attributes
    ----------
    status, detail, src_done, out_size, fault_address, crc32
        As in a record.
    least_src_done : int, optional
        The least `src_done` of a transfer of which as much is read as happens; `src_done` if
        absent.
    data : uint8 array
        What belongs at the destination, at least `out_size` bytes.
    """

    status: Status
    detail: int = 0
    src_done: int
    least_src_done: int | None = None
    out_size: int
    fault_address: int = 0
    crc32: int
    data: ByteArray


NOTHING = np.empty(0, np.uint8)


def refused(status: Status, detail: int = 0) -> Outcome:
    """The outcome of a descriptor that moves nothing."""
    return Outcome(status=status, detail=detail, src_done=0, out_size=0, crc32=0, data=NOTHING)


def copied(data: ByteArray) -> Outcome:
    """The outcome of a plain copy."""
    return Outcome(
        status=Status.OK, src_done=data.size, out_size=data.size, crc32=crc32(data), data=data
    )


def compressed(data: ByteArray, capacity: int, form: Format) -> Outcome:
    """The outcome of a compression into so many bytes."""
    stream, ends = form.compress(data)
    if stream.size <= capacity:
        return Outcome(
            status=Status.OK if stream.size <= data.size else Status.OK_EXPANDED,
            src_done=data.size,
            out_size=stream.size,
            crc32=crc32(data),
            data=stream,
        )
    lines = sum(end <= capacity for end in ends) - 1
    return Outcome(
        status=Status.DESTINATION_OVERFLOW,
        src_done=min(lines * LINE_BYTES, data.size),
        out_size=capacity,
        fault_address=ends[lines],
        crc32=0,
        data=stream,
    )


def expanded(stream: ByteArray, length: int, crc: int | None, form: Format, worst: int) -> Outcome:
    """The outcome of an expansion; `worst` is the size of the longest line in any stream."""
    decoded = form.decode(stream, length)
    # More than the longest stream is not read.
    read = min(stream.size, -(-length // LINE_BYTES) * worst + form.element_bytes)
    if decoded.status != StreamStatus.OK:
        kind = Status.STREAM_TRUNCATED if decoded.status in TRUNCATED else Status.STREAM_CORRUPT
        return Outcome(
            status=kind,
            detail=decoded.status,
            src_done=read,
            least_src_done=min(decoded.offset, read),
            out_size=decoded.valid_bytes,
            fault_address=decoded.offset,
            crc32=0,
            data=decoded.data,
        )
    found = crc32(decoded.data)
    return Outcome(
        status=Status.OK if crc in (None, found) else Status.CRC_MISMATCH,
        src_done=read,
        out_size=length,
        crc32=found,
        data=decoded.data,
    )


class MemoryModel:
    """A memory as it must be, but for bytes of which nobody can tell.

    Parameters
    ----------
    content : uint8 array
        Now.
    base : int
        The address of its first byte.
    """

    def __init__(self, content: ByteArray, base: int) -> None:
        self.bytes = content.copy()
        self.base = base
        self.unknown: npt.NDArray[np.bool_] = np.zeros(content.size, np.bool_)

    def place(self, address: int, nbytes: int) -> slice:
        return slice(address - self.base, address - self.base + nbytes)

    def read(self, address: int, nbytes: int) -> ByteArray | None:
        """A copy of these bytes; None if some of them are unknown."""
        where = self.place(address, nbytes)
        return None if self.unknown[where].any() else self.bytes[where].copy()

    def write(self, address: int, data: ByteArray) -> None:
        where = self.place(address, data.size)
        self.bytes[where] = data
        self.unknown[where] = False

    def forget(self, address: int, nbytes: int) -> None:
        """Anything may be in these bytes from now on."""
        self.unknown[self.place(address, nbytes)] = True

    def adopt(self, actual: ByteArray) -> None:
        """Take unknown bytes as they are, at a time when nobody writes."""
        self.bytes[self.unknown] = actual[self.unknown]
        self.unknown[:] = False


def draw_data(rng: Random, nbytes: int, element_bytes: int) -> ByteArray:
    """Content with any share of zeros, some of it such that XC compresses it."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    if rng.random() < 0.3:
        lines = bf16_lines(numbers, -(-nbytes // LINE_BYTES))
        return lines.reshape(-1)[:nbytes].copy()
    elements = numbers.integers(0, 256, (-(-nbytes // element_bytes), element_bytes), np.uint8)
    density = rng.choice((0.0, 0.05, 0.3, 0.6, 1.0))
    elements[numbers.random(len(elements)) >= density] = 0
    return elements.reshape(-1)[:nbytes].copy()


def draw_damage(rng: Random, stream: ByteArray) -> ByteArray:
    """The stream with some damage."""
    kind = rng.choice(("flip", "cut", "more", "garbage"))
    if kind == "cut":
        return stream[: rng.randint(1, stream.size)]
    if kind == "more":
        extra = np.full(rng.choice((1, 3, 4, 33, 300)), rng.randrange(256), np.uint8)
        return np.concatenate([stream, extra])
    damaged = stream.copy()
    if kind == "garbage":
        start = rng.randrange(stream.size)
        end = min(stream.size, start + 4)
        damaged[start:end] = [rng.randrange(256) for _ in range(end - start)]
        return damaged
    for _ in range(rng.randint(1, 3)):
        damaged[rng.randrange(stream.size)] ^= 1 << rng.randrange(8)
    return damaged
