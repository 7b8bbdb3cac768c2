"""The one exception that means: the user can mend this."""

import errno
import os

FilePath = str | os.PathLike[str]

STANDARD = "-"
"""In place of a file: the standard input, or the standard output."""

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


class UserError(Exception):
    """A bad input, option or environment, told in one line.

    The message has the form "cause; mend": what is wrong, naming the file or option and the value
    at fault, and what to do about it. `cdma.cli.main` prints it after "cdma: error: " and exits
    with status 2.
    """


def os_user_error(action: str, path: FilePath, error: OSError) -> UserError:
    """The `UserError` for an operating system's refusal to `action` ("read", "write") `path`."""
    cause = error.strerror or str(error) or type(error).__name__
    mend = _MENDS.get(error.errno or 0, "check the path and the disk")
    name = os.fspath(path)
    if name == STANDARD:
        name = f"the standard {'input' if action == 'read' else 'output'}"
    return UserError(f"cannot {action} {name}: {cause}; {mend}")
