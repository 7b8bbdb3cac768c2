"""A cache of what takes long to make: a folder per result, named by a hash of what it comes from.

It is shared by all checkouts and processes of a user: `$CDMA_CACHE`, else `$XDG_CACHE_HOME/cdma`,
else `~/.cache/cdma`. It can be deleted at any time.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cdma.builds.errors import CacheError
from cdma.builds.progress import Tally


def cache_directory() -> Path:
    """The directory that cached results are kept in."""
    if chosen := os.environ.get("CDMA_CACHE"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "cdma"
    return Path.home() / ".cache" / "cdma"


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, which appears there once it is complete.

    Parameters
    ----------
    name : str
        Ends in a `digest` of everything that the content depends on.
    build : callable
        Fills the folder that it is given, if there is none of that name. Of several processes one
        builds, and the others wait for it.

    Raises
    ------
    CacheError
        The cache cannot be written.
    """
    cache = cache_directory()
    final = cache / name
    if final.is_dir():
        return final
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{name}.lock"):
            if not final.is_dir():
                partial = cache / f"{name}.{secrets.token_hex(4)}.partial"
                partial.mkdir()
                try:
                    build(partial)
                    partial.rename(final)
                finally:
                    # Also those of interrupted builds: under the lock nobody uses them. A compiler
                    # that outlived its build may still write there, so their names are not reused.
                    for left in cache.glob(f"{name}.*.partial"):
                        shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise CacheError(
            f"simulators cannot be built in {cache}: {error.strerror}; "
            "set CDMA_CACHE to a directory that can be written to"
        ) from error
    return final


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The lock file stays: removing it would let two processes lock different files of one name.
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress = Tally("wait for another process", 1)
            fcntl.flock(file, fcntl.LOCK_EX)
            progress.step()
        yield


def digest(*parts: str) -> str:
    """Compute a short hash of some texts, for a name in the cache."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
