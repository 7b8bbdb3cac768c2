"""The .cz file: one compressed array with all that it takes to restore it.

`cdma.golden.container.header` has the format. A file is written and read piece by piece
(`cdma.golden.container.pieces`), so that neither the array nor the stream need fit in memory;
`pack` and `unpack` do so with an array that does.
"""

import io

import numpy as np

from cdma.golden.container.header import ContainerError, Header, check_array, read_header
from cdma.golden.container.pieces import (
    PIECE_BYTES,
    Layout,
    check_file,
    data_pieces,
    memory_order,
    write_file,
)
from cdma.golden.formats.interface import Array, Codec, as_bytes
from cdma.golden.formats.stream import ByteArray

__all__ = [
    "PIECE_BYTES",
    "ContainerError",
    "Header",
    "Layout",
    "check_array",
    "check_file",
    "data_pieces",
    "memory_order",
    "pack",
    "read",
    "read_header",
    "unpack",
    "write_file",
]


def pack(array: Array, with_codec: Codec) -> bytes:
    """Compose the bytes of a .cz file.

    Parameters
    ----------
    array : array
        Booleans, integers or floats of 1, 2, 4 or 8 bytes, in either byte order, of any shape.
        Kept in Fortran order when it is in Fortran order, and otherwise in C order. For a lossy
        codec, floats of 4 bytes, which are kept as little-endian.

    Raises
    ------
    TypeError
        The array is of another type.
    CodecError
        The codec takes no such array.
    """
    check_array(array.dtype, array.ndim)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    data = as_bytes(array.T if fortran else array)
    layout = Layout(array.dtype, array.shape, "F" if fortran else "C")
    pieces = (data[start : start + PIECE_BYTES].data for start in range(0, data.size, PIECE_BYTES))
    file = io.BytesIO()
    write_file(file, layout, pieces, with_codec)
    return file.getvalue()


def unpack(content: bytes) -> Array:
    """Restore the array in a .cz file: type, byte order, shape, memory order and every byte.

    Raises
    ------
    ContainerError
        As in `read`.
    StreamError
        The stream cannot be decoded, or a checksum is wrong.
    """
    source = io.BytesIO(content)
    header = read_header(source)
    data = np.concatenate([np.empty(0, np.uint8), *data_pieces(source, header)])
    return data.view(header.dtype).reshape(header.shape, order=header.order)


def read(content: bytes) -> tuple[Header, ByteArray]:
    """Parse a .cz file into its header and its stream, uint8 (bytes,), which is not decoded.

    Raises
    ------
    ContainerError
        The header is damaged or of another version, or the file is longer or shorter than the
        header says.
    StreamError
        The stream's checksum is wrong.
    """
    source = io.BytesIO(content)
    header = read_header(source)
    check_file(source, header)
    return header, np.frombuffer(content, np.uint8, offset=header.header_bytes)
