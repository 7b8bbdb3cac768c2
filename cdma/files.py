"""The user's .npy files, and reading files with clear errors."""

import math
import os
import sys
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from cdma.errors import STANDARD, FilePath, UserError, os_user_error
from cdma.golden.container import PIECE_BYTES, Layout, memory_order

Array = npt.NDArray[Any]

_MOST_BYTES = 2**63 - 1

# Whatever a damaged header makes of numpy's parser.
_HEADER_ERRORS = (
    ValueError,
    TypeError,
    SyntaxError,
    OverflowError,
    RecursionError,
    tokenize.TokenError,
)


def read_bytes(path: FilePath) -> bytes:
    """A file's bytes; `UserError` when the operating system refuses."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise os_user_error("read", path, error) from error


@contextmanager
def open_input(path: FilePath) -> Iterator[IO[bytes]]:
    """Open a file for reading, or the standard input for `-`.

    Raises
    ------
    UserError
        The operating system refuses, also later while it is read.
    """
    try:
        if os.fspath(path) == STANDARD:
            yield sys.stdin.buffer
        else:
            with open(path, "rb") as file:
                yield file
    except BrokenPipeError:
        # Of an output: its reader has seen enough.
        raise
    except OSError as error:
        # One that names another file is another file's.
        if error.filename in (None, path, os.fspath(path)):
            raise os_user_error("read", path, error) from error
        raise


def path_of_input(name: str) -> str:
    """An input's path, for what opens its files itself; that of the standard input for `-`."""
    return "/dev/stdin" if name == STANDARD else name


def shown_input(path: FilePath) -> str:
    """An input's name in messages."""
    return "the standard input" if os.fspath(path) == STANDARD else os.fspath(path)


def load_npy(path: FilePath) -> Array:
    """Read one array of plain numbers from an .npy file.

    Takes booleans, integers and floats of 1, 2, 4 or 8 bytes, in either byte order, of any shape,
    in C or Fortran order. The array is read-only.

    Raises
    ------
    UserError
        The file is missing or unreadable, is no .npy file, is truncated, has trailing bytes, or
        holds objects (pickles), records, complex numbers, strings or other types.
    """
    with open_input(path) as file:
        layout = read_npy_layout(file, path)
        content = b"".join(npy_pieces(file, path, layout))
    return np.frombuffer(content, layout.dtype).reshape(layout.shape, order=layout.order)


def read_npy_layout(file: IO[bytes], path: FilePath) -> Layout:
    """Read the header of an .npy file; the file is then where its data begins.

    Raises
    ------
    UserError
        As in `load_npy`, of what the header tells.
    """
    name = shown_input(path)
    start = file.read(np.lib.format.MAGIC_LEN)
    if not start.startswith(np.lib.format.MAGIC_PREFIX):
        kind = "is an .npz archive" if start.startswith(b"PK") else "is not an .npy file"
        raise UserError(f"{name} {kind}; save one array with numpy.save")
    damaged = UserError(f"{name} has a damaged .npy header; save it again")
    read_header = (
        np.lib.format.read_array_header_1_0
        if start[len(np.lib.format.MAGIC_PREFIX) :] == b"\x01\x00"
        else np.lib.format.read_array_header_2_0
    )
    try:
        with warnings.catch_warnings():
            # About headers that Python 2 wrote, and about damaged ones that look as if it had.
            warnings.simplefilter("ignore")
            shape, fortran, dtype = read_header(file)
    except _HEADER_ERRORS as error:
        raise damaged from error
    _check_dtype(name, dtype)
    if any(extent < 0 for extent in shape):
        raise damaged
    # numpy takes the product without the zeros.
    nbytes = math.prod(extent for extent in shape if extent) * dtype.itemsize
    if nbytes > _MOST_BYTES:
        if 0 in shape:
            raise damaged
        raise UserError(
            f"{name} is damaged: its header announces {nbytes} bytes of data; save it again"
        )
    return Layout(dtype, shape, memory_order(shape, fortran))


def npy_pieces(file: IO[bytes], path: FilePath, layout: Layout) -> Iterator[bytes]:
    """Read the data behind the header of an .npy file, `PIECE_BYTES` at a time.

    Raises
    ------
    UserError
        There is more or less of it than the header announces.
    """
    held = 0
    while piece := file.read(wanted := min(PIECE_BYTES, layout.nbytes - held)):
        held += len(piece)
        if len(piece) == wanted:
            yield piece
    while more := file.read(PIECE_BYTES):
        held += len(more)
    if held != layout.nbytes:
        raise UserError(
            f"{shown_input(path)} is damaged: its header announces {layout.nbytes} bytes of data, "
            f"but it holds {held}; save it again"
        )


def write_npy_header(file: IO[bytes], layout: Layout) -> None:
    """Write what an .npy file begins with; the array's bytes in memory order follow."""
    header = {
        "descr": np.lib.format.dtype_to_descr(layout.dtype),
        "fortran_order": layout.order == "F",
        "shape": layout.shape,
    }
    np.lib.format.write_array_header_1_0(file, header)


def _check_dtype(path: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind in "biuf" and dtype.itemsize in (1, 2, 4, 8):
        return
    if dtype.hasobject:
        kind = "pickled objects"
    elif dtype.names is not None:
        kind = "records"
    elif dtype.kind == "c":
        kind = "complex numbers"
    else:
        kind = "an unsupported type"
    raise UserError(
        f"{path} has the wrong dtype: {dtype} ({kind}); save booleans, integers or floats of 1, 2, "
        "4 or 8 bytes, and other types as a view of unsigned integers"
    )
