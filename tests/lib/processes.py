"""Processes that a test has started or that were started for it."""

import time
from collections.abc import Callable
from pathlib import Path


def until(condition: Callable[[], object], what: str, *, within_s: float = 60.0) -> None:
    """Wait for it; that it comes at all is what is asked for, not when.

    Raises
    ------
    AssertionError
        That says `what`, if it does not come in that time.
    """
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(what)
        time.sleep(0.01)


def is_alive(pid: int | str) -> bool:
    """Return True if a process exists and has not ended.

    One that was killed may be seen running for a moment.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
