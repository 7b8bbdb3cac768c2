"""Reading and writing the user's files: whole or not at all, and with clear errors."""

import errno
import io
import os
import secrets
import stat
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import IO, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from cdma.errors import UserError

FilePath = str | os.PathLike[str]
Array = npt.NDArray[Any]

_MENDS = {
    errno.ENOENT: "check the path; its directory must exist",
    errno.ENOTDIR: "a part of the path is a file: name another path",
    errno.EISDIR: "name a file, not a directory",
    errno.EACCES: "change its permissions or name another path",
    errno.EPERM: "change its permissions or name another path",
    errno.EROFS: "name a path on a writable file system",
    errno.ENOSPC: "free some space or name a path on another disk",
    errno.EDQUOT: "free some space or name a path on another disk",
    errno.EFBIG: "name a path on a file system that takes files of this size",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ELOOP: "its symbolic links form a circle: name the file itself",
}

# Whatever a damaged header makes of numpy's parser.
_HEADER_ERRORS = (
    ValueError,
    TypeError,
    SyntaxError,
    OverflowError,
    RecursionError,
    tokenize.TokenError,
)


def os_user_error(action: str, path: FilePath, error: OSError) -> UserError:
    """The `UserError` for an operating system's refusal to `action` ("read", "write") `path`."""
    cause = error.strerror or str(error) or type(error).__name__
    mend = _MENDS.get(error.errno or 0, "check the path and the disk")
    return UserError(f"cannot {action} {os.fspath(path)}: {cause}; {mend}")


@overload
def open_atomically(path: FilePath, mode: Literal["w"]) -> AbstractContextManager[IO[str]]: ...
@overload
def open_atomically(
    path: FilePath, mode: Literal["wb"] = "wb"
) -> AbstractContextManager[IO[bytes]]: ...
@contextmanager
def open_atomically(path: FilePath, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file for writing that appears at `path` whole, or not at all.

    The bytes go to a temporary file in the same directory, which replaces `path` when the body
    ends; when the body raises, it is removed and whatever was at `path` stays as it was. Links are
    followed; a pipe or a device (`/dev/stdout`) is written directly. Text is UTF-8.

    Raises
    ------
    UserError
        The operating system refused: no such directory, no permission, disk full.
    """
    target = os.path.realpath(path)
    temporary = None
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            # Nothing can be moved into a directory's, a pipe's or a device's place.
            descriptor = os.open(target, os.O_WRONLY)
        else:
            if os.path.exists(target) and not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            directory, name = os.path.split(target)
            temporary = os.path.join(directory, f".{name[:200]}.{secrets.token_hex(4)}.tmp")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(temporary, flags, 0o666)
    except OSError as error:
        raise os_user_error("write", path, error) from error
    try:
        with open(descriptor, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            if temporary is not None:
                # Without it, a crash soon after may leave an empty file in the good one's place.
                os.fsync(file.fileno())
        if temporary is not None:
            if os.path.exists(target):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        # An error that names another file is the body's, not ours.
        if isinstance(error, OSError) and error.filename in (None, temporary):
            raise os_user_error("write", path, error) from error
        raise


def make_folder(path: FilePath) -> None:
    """Create a folder, and those above it, where there is none; `UserError` when refused."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise os_user_error("write", path, error) from error


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


def save_npy(path: FilePath, array: Array) -> None:
    """Write an array to an .npy file, atomically; `UserError` when it cannot be written."""
    fortran_order = array.flags.f_contiguous and not array.flags.c_contiguous
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": fortran_order,
        "shape": array.shape,
    }
    rows = np.ascontiguousarray(array.T if fortran_order else array)
    with open_atomically(path) as file:
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
