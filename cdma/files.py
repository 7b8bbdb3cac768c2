"""The user's .npy files, and reading files with clear errors."""

import io
import tokenize
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from cdma.errors import FilePath, UserError, os_user_error
from cdma.outputs import open_atomically

Array = npt.NDArray[Any]

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
    content = read_bytes(path)
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        kind = "is an .npz archive" if content.startswith(b"PK") else "is not an .npy file"
        raise UserError(f"{path} {kind}; save one array with numpy.save")
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        with warnings.catch_warnings():
            # About headers that Python 2 wrote, and about damaged ones that look as if it had.
            warnings.simplefilter("ignore")
            shape, fortran_order, dtype = read_header(file)
    except _HEADER_ERRORS as error:
        raise UserError(f"{path} has a damaged .npy header; save it again") from error
    _check_dtype(path, dtype)
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    held = len(content) - file.tell()
    if held != nbytes:
        raise UserError(
            f"{path} is damaged: its header announces {nbytes} bytes of data, but it holds "
            f"{held}; save it again"
        )
    array = np.frombuffer(content, dtype, offset=file.tell())
    try:
        return array.reshape(shape, order="F" if fortran_order else "C")
    except (ValueError, OverflowError) as error:
        # Extents below zero, or too large beside one that is zero.
        raise UserError(f"{path} has a damaged .npy header; save it again") from error


def save_npy(path: FilePath, array: Array, *, force: bool) -> None:
    """Write an array to an .npy file, atomically, over another one only with `force`.

    Raises
    ------
    UserError
        It cannot be written.
    """
    fortran_order = array.flags.f_contiguous and not array.flags.c_contiguous
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": fortran_order,
        "shape": array.shape,
    }
    rows = np.ascontiguousarray(array.T if fortran_order else array)
    with open_atomically(path, force=force) as file:
        np.lib.format.write_array_header_1_0(file, header)
        # Not `numpy.save`, whose OSError does not tell a full disk from a broken one.
        file.write(rows.reshape(-1).view(np.uint8).data)


def _check_dtype(path: FilePath, dtype: np.dtype[Any]) -> None:
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
