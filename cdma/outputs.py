"""Writing the user's files: whole or not at all, never onto an input, and over nothing unasked.

Every command that writes first asks `require_outputs`, `require_folder` or `claim_folder`, before
any work that takes long. It then writes by `open_atomically` or `write_all`, which look again: a
file may have come since.
"""

import errno
import io
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, Literal, overload

import typer

from cdma.errors import STANDARD, FilePath, UserError, os_user_error

Force = Annotated[
    bool, typer.Option("--force", help="Overwrite files that exist, but never an input.")
]

_DESCRIPTOR = re.compile(r"/dev/(stdout|stderr)|/(?:dev|proc/self)/fd/(\d+)", re.ASCII)
_STANDARD = {"stdout": 1, "stderr": 2}

_COPY_BYTES = 1 << 20

_MARK = ".made-by-cdma"
_MARK_TEXT = "cdma made this folder for its tools, and writes over what they left here.\n"


def require_outputs(
    outputs: Iterable[FilePath],
    *,
    inputs: Iterable[FilePath] = (),
    force: bool,
    makes_folders: bool = False,
) -> None:
    """Refuse files that cannot be written, or must not be. Nothing is written or created.

    Parameters
    ----------
    outputs
        Files that the command will write.
    inputs
        Files that it reads. Paths at which there is no file are ignored.
    force
        Files may exist; inputs are inputs all the same.
    makes_folders
        Folders may be missing: the command makes them.

    Raises
    ------
    UserError
        An output is an input, or another output, whatever links lead there; it exists; or the
        operating system would refuse it.
    """
    read = {
        identity: path
        for path in inputs
        if (identity := _identity(_stat(path, standard=0))) is not None
    }
    written: dict[object, FilePath] = {}
    for path in outputs:
        try:
            found = os.fstat(1) if os.fspath(path) == STANDARD else os.stat(path)
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise os_user_error("write", path, error) from error
        identity = _identity(found)
        if identity in read:
            raise UserError(
                f"cannot write {os.fspath(path)}: it is the input {os.fspath(read[identity])}; "
                "name another file"
            )
        # Of a pipe or a device any number may write: what comes out has an order all the same.
        place = identity or (os.path.realpath(path) if found is None else None)
        if place in written:
            raise UserError(
                f"cannot write {os.fspath(path)}: {os.fspath(written[place])} is the same file; "
                "name another one"
            )
        if place is not None:
            written[place] = path
        _require_absent(path, force)
        _require_writable(path, makes_folders)


def require_folder(folder: FilePath) -> None:
    """Refuse a folder that cannot be written to, or be made; it is not made yet."""
    if Path(folder).parts[:1] == (STANDARD,):
        raise UserError("files of a folder cannot go to the standard output; name a folder")
    place = os.path.abspath(folder)
    while not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    try:
        if not stat.S_ISDIR(os.stat(place).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        _require_access(place, os.W_OK | os.X_OK)
    except OSError as error:
        raise os_user_error("write", folder, error) from error


def claim_folder(folder: Path, *, inputs: Iterable[FilePath] = (), force: bool) -> None:
    """Make a folder for tools to work in, who name their files as they like.

    A folder that was claimed before may be so again. One that has anything else in it is refused
    without `force`, and one with an input in it always.
    """
    require_folder(folder)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    if names and _MARK not in names and not force:
        raise UserError(
            f"{folder} has files in it that cdma did not make, as {min(names)}; name another "
            "folder, or overwrite them with --force"
        )
    inside = {_identity(_stat(folder / name)): folder / name for name in names}
    for path in inputs:
        identity = _identity(_stat(path))
        if identity is not None and identity in inside:
            raise UserError(
                f"cannot write {inside[identity]}: it is the input {os.fspath(path)}; name another "
                "folder"
            )
    make_folder(folder)
    with open_atomically(folder / _MARK, "w", force=True) as file:
        file.write(_MARK_TEXT)


@overload
def open_atomically(
    path: FilePath, mode: Literal["w"], *, force: bool
) -> AbstractContextManager[IO[str]]: ...
@overload
def open_atomically(
    path: FilePath, mode: Literal["wb"] = "wb", *, force: bool
) -> AbstractContextManager[IO[bytes]]: ...
@contextmanager
def open_atomically(path: FilePath, mode: str = "wb", *, force: bool) -> Iterator[IO[Any]]:
    """Open a file for writing that appears at `path` whole, or not at all.

    The bytes go to a temporary file in the same directory, which replaces `path` when the body
    ends; when the body raises, it is removed and whatever was at `path` stays as it was. Links are
    followed. What goes to the standard output (`-`), a pipe or a device is kept in a temporary file
    as well, and written there when the body ends. So the file can be sought in. Text is UTF-8.

    Raises
    ------
    UserError
        There is a file, and `force` is false; or the operating system refused: no such directory,
        no permission, disk full; or bytes would go to a terminal.
    """
    target = os.path.realpath(path)
    temporary = None
    try:
        _require_absent(path, force)
        inherited = _inherited(path)
        if inherited is not None or (os.path.exists(target) and not os.path.isfile(target)):
            # Nothing can be moved into a directory's, a pipe's or a device's place.
            descriptor = os.open(target, os.O_WRONLY) if inherited is None else os.dup(inherited)
            with open(descriptor, "wb") as device, tempfile.TemporaryFile() as kept:
                if "b" in mode:
                    if device.isatty():
                        raise UserError(
                            "cannot write bytes to a terminal; redirect the standard output"
                        )
                    yield kept
                else:
                    text = io.TextIOWrapper(kept, encoding="utf-8")
                    yield text
                    text.flush()
                kept.seek(0)
                sys.stdout.flush()
                shutil.copyfileobj(kept, device, _COPY_BYTES)
        else:
            _require_access(target, os.W_OK)
            directory, name = os.path.split(target)
            # Named before it is made, as a signal may come between.
            temporary = os.path.join(directory, f".{name[:200]}.{secrets.token_hex(4)}.tmp")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(temporary, flags, 0o666)
            with open(descriptor, mode, encoding=None if "b" in mode else "utf-8") as file:
                yield file
                file.flush()
                # Without it, a crash soon after may leave an empty file in the good one's place.
                os.fsync(file.fileno())
            # Somebody may have made one since.
            _require_absent(path, force)
            if os.path.exists(target):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        if isinstance(error, BrokenPipeError):
            # The reader has seen enough.
            raise
        # An error that names another file is the body's, not ours.
        if isinstance(error, OSError) and error.filename in (None, temporary, target):
            raise os_user_error("write", path, error) from error
        raise


def write_all(folder: Path, contents: Mapping[str, str | bytes], *, force: bool) -> list[Path]:
    """Write files into a folder, which is made if there is none; their paths, in order.

    Files that are there already, with the same content, are left alone: nothing is lost by them.
    If there is another one, no file is written at all without `force`.
    """
    encoded = {
        folder / name: text.encode() if isinstance(text, str) else text
        for name, text in contents.items()
    }
    changed = {path: content for path, content in encoded.items() if not _holds(path, content)}
    require_outputs(changed, force=force, makes_folders=True)
    for path, content in changed.items():
        make_folder(path.parent)
        with open_atomically(path, force=force) as file:
            file.write(content)
    return list(encoded)


def shown_output(path: FilePath) -> str:
    """An output's name in messages."""
    return "the standard output" if os.fspath(path) == STANDARD else os.fspath(path)


def make_folder(path: FilePath) -> None:
    """Create a folder, and those above it, where there is none; `UserError` when refused."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise os_user_error("write", path, error) from error


def _stat(path: FilePath, *, standard: int | None = None) -> os.stat_result | None:
    try:
        if standard is not None and os.fspath(path) == STANDARD:
            return os.fstat(standard)
        return os.stat(path)
    except OSError:
        return None


def _identity(found: os.stat_result | None) -> tuple[int, int] | None:
    """Identify a file whatever links lead to it; None for a pipe or a terminal."""
    if found is None or not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino


def _inherited(path: FilePath) -> int | None:
    """The descriptor that `-`, or a path like `/dev/stdout`, means.

    Whoever started us has opened it, perhaps to append to a file: that is no file to replace.
    """
    if os.fspath(path) == STANDARD:
        return 1
    found = _DESCRIPTOR.fullmatch(os.path.abspath(path))
    if found is None:
        return None
    return _STANDARD[found[1]] if found[1] else int(found[2])


def _require_absent(path: FilePath, force: bool) -> None:
    if not force and os.path.isfile(path) and _inherited(path) is None:
        target = os.path.realpath(path)
        where = "" if target == os.path.abspath(path) else f", by a link to {target}"
        raise UserError(
            f"{os.fspath(path)} exists already{where}; name another file, or overwrite it with "
            "--force"
        )


def _require_writable(path: FilePath, makes_folders: bool) -> None:
    """Raise `UserError` for what `open_atomically` could not open, as far as can be told."""
    if _inherited(path) is not None:
        return
    target = os.path.realpath(path)
    try:
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _require_access(target, os.W_OK)
        if os.path.exists(target) and not os.path.isfile(target):
            return
        folder = os.path.dirname(target)
        if makes_folders:
            require_folder(folder)
        elif not os.path.isdir(folder):
            missing = errno.ENOTDIR if os.path.lexists(folder) else errno.ENOENT
            raise OSError(missing, os.strerror(missing))
        _require_access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise os_user_error("write", path, error) from error


def _require_access(place: str, mode: int) -> None:
    """Raise `OSError` for a file or folder that exists and that we have not the right to."""
    if os.path.exists(place) and not os.access(place, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _holds(path: Path, content: bytes) -> bool:
    """Return True if the file's content is the given one."""
    try:
        return path.is_file() and path.read_bytes() == content
    except OSError:
        return False
