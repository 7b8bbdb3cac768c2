"""The .cz file: one compressed array with all that it takes to restore it.

All numbers are unsigned and little-endian.

    0   8   magic: 89 63 7A 0D 0A 1A 0A, and the version of the format, 01
    8   2   length of the header, H
    10  1   element size of the codec in bytes: 4, 2 or 1
    11  1   memory order of the array: 43 ("C", last index fastest) or 46 ("F", first fastest)
    12  1   length of the codec's name, N
    13  1   length of the type's name, T
    14  1   number of dimensions, D
    15  1   number of the codec's parameters, P
    16  8   bytes of the array
    24  8   bytes of the stream, S
    32  4   CRC-32 of the array's bytes
    36  4   CRC-32 of the stream
    40  8D  extents of the dimensions, first to last
        8P  the codec's parameters, numbers of fp64
        N   the codec's name, ASCII
        T   the type's name as in .npy files, ASCII: "<f4"
        4   CRC-32 of all of the header before it
    H   S   the stream

The stream is the codec's, of the array's bytes in memory order. Where it is lossy, the file holds
the array that comes out of it, of the type "<f4": the checksum is of that one.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import IO, Any, Literal

import numpy as np

from cdma.golden.formats.interface import Codec, CodecError
from cdma.golden.formats.registry import codec, codec_names, codec_parameters
from cdma.golden.formats.stream import crc32

MAGIC = b"\x89cz\r\n\x1a\n"
"""The first byte is not ASCII, and the line ends show a transfer that took the file for text."""
VERSION = 1
MAX_DIMENSIONS = 32
_MAX_EXTENT = 2**63 - 1
_CONTRADICTION = "has a header that contradicts itself"
_FIXED = struct.Struct("<7sBHBcBBBBQQII")
_CRC = struct.Struct("<I")
_DTYPES = {np.dtype(bool).str} | {
    order + kind + size
    for kind, sizes in (("i", "1248"), ("u", "1248"), ("f", "248"))
    for size in sizes
    for order in ("|" if size == "1" else "<>")
}


class ContainerError(ValueError):
    """Raised for a file that is no whole .cz file; the message names the cause, after the file's
    name.
    """


@dataclass(frozen=True, kw_only=True)
class Header:
    """The header of a .cz file: properties of its array and its stream.

    Attributes
    ----------
    codec : str
        The codec's name.
    element_bytes : int
        The codec's element size; not the array's.
    parameters : mapping of str to float
        The codec's parameters besides the element size; empty for lossless codecs.
    dtype : numpy.dtype
        The array's type, with its byte order.
    shape : tuple of int
        The array's shape.
    order : "C" or "F"
        The array's memory order.
    nbytes, stream_bytes : int
        Bytes of the array and of the stream.
    crc32, stream_crc32 : int
        CRC-32 of the array's bytes in memory order, and of the stream.
    header_bytes : int
        The file offset of the stream.
    """

    codec: str
    element_bytes: int
    parameters: Mapping[str, float]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    nbytes: int
    stream_bytes: int
    crc32: int
    stream_crc32: int
    header_bytes: int

    def make_codec(self) -> Codec:
        """Make the codec that the stream was compressed with."""
        return codec(self.codec, self.element_bytes, **self.parameters)


def encode_header(
    with_codec: Codec,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    order: Literal["C", "F"],
    *,
    sizes: tuple[int, int],
    checksums: tuple[int, int],
) -> bytes:
    """Compose a header; its length depends on neither sizes nor checksums.

    Parameters
    ----------
    with_codec : Codec
        The stream's.
    dtype, shape, order
        The array's.
    sizes, checksums : tuple of int
        Of the array that the file holds, and of the stream: bytes, and CRC-32.
    """
    codec_name = with_codec.name.encode("ascii")
    dtype_name = (dtype.str if with_codec.lossless else "<f4").encode("ascii")
    parameters = [getattr(with_codec, name) for name in codec_parameters(with_codec.name)]
    numbers = struct.pack(f"<{len(shape)}Q{len(parameters)}d", *shape, *parameters)
    header_bytes = _FIXED.size + len(numbers) + len(codec_name) + len(dtype_name) + _CRC.size
    fixed = _FIXED.pack(
        MAGIC,
        VERSION,
        header_bytes,
        with_codec.element_bytes,
        order.encode("ascii"),
        len(codec_name),
        len(dtype_name),
        len(shape),
        len(parameters),
        *sizes,
        *checksums,
    )
    header = fixed + numbers + codec_name + dtype_name
    return header + _CRC.pack(crc32(np.frombuffer(header, np.uint8)))


def check_array(dtype: np.dtype[Any], dimensions: int) -> None:
    """Raise `TypeError` for an array that no .cz file holds."""
    if dtype.str not in _DTYPES:
        raise TypeError(f"no .cz file holds {dtype}")
    if dimensions > MAX_DIMENSIONS:
        raise TypeError(f"no .cz file holds {dimensions} dimensions")


def read_header(source: IO[bytes]) -> Header:
    """Read a header from where a .cz file begins; the source is then where its stream begins.

    Raises
    ------
    ContainerError
        The header is damaged, truncated, or of another version.
    """
    content = source.read(_FIXED.size)
    if len(content) == _FIXED.size and content.startswith(MAGIC):
        header_bytes = _FIXED.unpack(content)[2]
        content += source.read(max(header_bytes - len(content), 0))
    return _parsed(content)


def _parsed(content: bytes) -> Header:
    if not content:
        raise ContainerError("is empty")
    if not content.startswith(MAGIC[: len(content)]):
        raise ContainerError("is not a .cz file")
    if len(content) > len(MAGIC) and content[len(MAGIC)] != VERSION:
        raise ContainerError(
            f"has version {content[len(MAGIC)]} of the format, and this cdma reads {VERSION}"
        )
    if len(content) < _FIXED.size:
        raise ContainerError("is truncated inside its header")
    (
        _,
        _,
        header_bytes,
        element_bytes,
        order,
        codec_length,
        dtype_length,
        dimensions,
        parameter_count,
        nbytes,
        stream_bytes,
        data_crc,
        stream_crc,
    ) = _FIXED.unpack_from(content)
    parameters_at = _FIXED.size + 8 * dimensions
    names_at = parameters_at + 8 * parameter_count
    crc_at = names_at + codec_length + dtype_length
    if header_bytes != crc_at + _CRC.size:
        raise ContainerError("has a damaged header")
    if len(content) < header_bytes:
        raise ContainerError("is truncated inside its header")
    if _CRC.unpack_from(content, crc_at)[0] != crc32(np.frombuffer(content[:crc_at], np.uint8)):
        raise ContainerError("has a damaged header")
    # From here on, the header is as it was written, but not necessarily by us.
    shape = struct.unpack_from(f"<{dimensions}Q", content, _FIXED.size)
    values = struct.unpack_from(f"<{parameter_count}d", content, parameters_at)
    codec_name = content[names_at : names_at + codec_length].decode("latin-1")
    dtype_name = content[names_at + codec_length : crc_at].decode("latin-1")
    if codec_name not in codec_names():
        raise ContainerError(f"is of the unknown codec {codec_name!r}")
    names = codec_parameters(codec_name)
    sound = (
        order in (b"C", b"F")
        and parameter_count == len(names)
        and dtype_name in _DTYPES
        and dimensions <= MAX_DIMENSIONS
        # numpy takes the product without the zeros.
        and prod(extent for extent in shape if extent) * 8 <= _MAX_EXTENT
        and nbytes == prod(shape) * np.dtype(dtype_name).itemsize
    )
    if not sound:
        raise ContainerError(_CONTRADICTION)
    header = Header(
        codec=codec_name,
        element_bytes=element_bytes,
        parameters=dict(zip(names, values, strict=True)),
        dtype=np.dtype(dtype_name),
        shape=shape,
        order="C" if order == b"C" else "F",
        nbytes=nbytes,
        stream_bytes=stream_bytes,
        crc32=data_crc,
        stream_crc32=stream_crc,
        header_bytes=header_bytes,
    )
    try:
        lossless = header.make_codec().lossless
    except CodecError as error:
        raise ContainerError(_CONTRADICTION) from error
    if not lossless and dtype_name != "<f4":
        raise ContainerError(_CONTRADICTION)
    return header
