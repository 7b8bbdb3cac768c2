"""The interface of every codec, and the bytes it works on."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.stream import ByteArray, Decoded, StreamError, StreamStatus

ELEMENT_BYTES = (4, 2, 1)
"""The element sizes: fp32 and int32; fp16 and bf16; fp8 and int8."""

PIECE_UNIT_BYTES = 4096
"""Every format compresses data of this length, and of its multiples, without regard to what comes
before or after, and to whole bytes."""

MOST_STREAM_BYTES = 9
"""Bytes of stream per byte of data that a decoder looks at before it finds an error: the headers of
4 KiB blocks can announce eight times the block."""

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]


class CodecError(ValueError):
    """An unknown codec, or elements or a parameter that it does not take.

    Fit to print: "cause; mend".
    """


class UnfitValueError(CodecError):
    """A value that a codec does not take.

    Attributes
    ----------
    cause, mend : str
    place : int
        The value's number in the array, in the order in which it is compressed.
    value : object
    """

    def __init__(self, cause: str, place: int, value: object, mend: str) -> None:
        self.cause, self.place, self.value, self.mend = cause, place, value, mend
        super().__init__(f"{cause}, and value {place} is {value}; {mend}")

    def moved(self, count: int) -> "UnfitValueError":
        """The same error in an array that has so many values before."""
        return UnfitValueError(self.cause, self.place + count, self.value, self.mend)


class Codec(Protocol):
    """A format. All codecs see an array as its bytes in C order, cut into elements and lines.

    An array's length need be no multiple of an element or a line: the last line is zero-filled,
    and the true length is told to `decompress`. Zero means the all-zeros bit pattern.

    The lossy codecs are for numbers, not for bytes: they take fp32 only, and raise `CodecError` for
    arrays of any other type.
    """

    @property
    def name(self) -> str:
        """The name that `golden.codec` finds it by."""

    @property
    def lossless(self) -> bool:
        """True if `decompress` gives back the bytes that `compress` took."""

    @property
    def element_bytes(self) -> int:
        """4, 2 or 1."""

    def compress(self, array: Array) -> ByteArray:
        """The stream, uint8 (bytes,), of an array of any shape and any plain dtype."""

    def decompress(self, stream: Array, nbytes: int) -> ByteArray:
        """The `nbytes` bytes, uint8 (nbytes,), that were compressed.

        Raises
        ------
        StreamError
            The stream is damaged, or holds another number of bytes.
        """

    def decompress_prefix(self, stream: Array, nbytes: int) -> tuple[ByteArray, int]:
        """The bytes that a stream begins with, and how many bytes of it they take.

        The stream of an array is the streams of its pieces of `PIECE_UNIT_BYTES`, one behind the
        other, so that a long one can be decoded from piece to piece. For `nbytes` bytes no more
        than `MOST_STREAM_BYTES` times as many are looked at.

        Raises
        ------
        StreamError
            As in `decompress`, but that bytes may follow.
        """

    def line_sizes(self, array: Array) -> IntArray:
        """Bytes of stream per 128 B line, int64 (lines,), without building the stream."""


def whole(prefix: tuple[ByteArray, int], stream: Array, nbytes: int) -> ByteArray:
    """The data of `Codec.decompress_prefix`; `StreamError` if bytes follow in the stream."""
    data, used = prefix
    if used < as_bytes(stream).size:
        raise StreamError(StreamStatus.TRAILING_BYTES, used, nbytes)
    return data


def decoded_prefix(decoded: Decoded, stream_bytes: int) -> tuple[ByteArray, int]:
    """What `Codec.decompress_prefix` returns, of the outcome of decoding all of a stream."""
    if decoded.status == StreamStatus.OK:
        return decoded.data, stream_bytes
    if decoded.status == StreamStatus.TRAILING_BYTES:
        return decoded.data, decoded.offset
    raise StreamError(decoded.status, decoded.offset, decoded.valid_bytes)


def check_element_bytes(element_bytes: int) -> int:
    """The element size, if there is such a one; `CodecError` otherwise."""
    if element_bytes not in ELEMENT_BYTES:
        raise CodecError(
            f"no codec has elements of {element_bytes!r} bytes; choose from "
            f"{', '.join(map(str, ELEMENT_BYTES))}"
        )
    return int(element_bytes)


def check_lossy_element_bytes(name: str, element_bytes: int) -> int:
    """4, if that is the element size; `CodecError` otherwise, as lossy codecs are for fp32."""
    if check_element_bytes(element_bytes) != 4:
        raise CodecError(
            f"{name} is for elements of 4 bytes, fp32, not of {element_bytes}; convert the array, "
            "or choose a lossless codec"
        )
    return 4


def as_bytes(array: npt.ArrayLike) -> ByteArray:
    """An array's bytes in C order, uint8 (nbytes,); a view where the array is contiguous.

    Raises
    ------
    TypeError
        The array holds Python objects, whose bytes mean nothing.
    """
    values = np.ascontiguousarray(array)
    if values.dtype.hasobject:
        raise TypeError(f"cannot take the bytes of an array of {values.dtype}")
    return values.reshape(-1).view(np.uint8)


def as_floats(name: str, array: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """An array's values in C order, little-endian float32 (values,), for the codec `name`.

    Raises
    ------
    CodecError
        The array is not of float32, in either byte order.
    """
    values = np.ascontiguousarray(array)
    if (values.dtype.kind, values.dtype.itemsize) != ("f", 4):
        raise CodecError(
            f"{name} is for float32, not {values.dtype}; convert the array, or choose a lossless "
            "codec"
        )
    return values.reshape(-1).astype("<f4", copy=False)


def check_whole_floats(nbytes: int) -> None:
    """`StreamError` when the announced length is none of whole float32 values."""
    if nbytes % 4:
        raise StreamError(StreamStatus.LENGTH_MISMATCH, 0)


def element_bytes_of(dtype: np.dtype[Any]) -> int:
    """The element size that fits an array's type: its own, and 4 for types of 8 bytes."""
    return min(dtype.itemsize, max(ELEMENT_BYTES))


def zero_filled(data: ByteArray, multiple: int) -> ByteArray:
    """The bytes, with zeros behind them up to the next multiple; the same array if none needed."""
    excess = data.size % multiple
    if not excess:
        return data
    filled = np.zeros(data.size + multiple - excess, np.uint8)
    filled[: data.size] = data
    return filled


def element_dtype(element_bytes: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The unsigned little-endian integer that an element's bit pattern is read as."""
    return np.dtype(f"<u{element_bytes}")
