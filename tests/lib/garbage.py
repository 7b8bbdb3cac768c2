"""A pytest plugin: when the garbage collector works during tests.

Elaborating a design makes millions of objects. With Python's thresholds, much of that time goes
into scanning them, so the oldest generation is never scanned while a test runs; what the imports
left need not be scanned at all. But designs refer to themselves, and a worker of `make verify` that
kept them all would need more memory than there is: so they are collected between tests.
"""

import ctypes
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

GROWTH_BYTES = 512 << 20
"""How much a worker may grow before its garbage is collected."""

# What collecting tests imports stays; looking for cycles in it takes a fifth of that time.
gc.disable()


def resident_bytes() -> int:
    """Memory that this process has now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Garbage:
    """Collects it when there may be much.

    Parameters
    ----------
    resident : Callable[[], int]
        Bytes that the process has.
    """

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        self.resident = resident
        self.least = resident()

    def collect(self) -> None:
        """Collect it if the process has grown by `GROWTH_BYTES` since it was smallest."""
        now = self.resident()
        if now <= self.least + GROWTH_BYTES:
            self.least = min(self.least, now)
        else:
            self.collect_all()

    def collect_all(self) -> None:
        """Collect it in any case."""
        # What these objects warn of is an earlier test's, and would fail the next one.
        with warnings.catch_warnings(action="ignore"):
            gc.collect()
        # The C library keeps what is freed between other blocks; not all of them have the call.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        # What is left is in use.
        self.least = self.resident()


_GARBAGE = pytest.StashKey[Garbage]()
_BROKEN_OFF = pytest.StashKey[bool]()
"""Set of a test that has not come to its end."""


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)
    session.config.stash[_GARBAGE] = Garbage()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> None:
    if call.when == "call" and call.excinfo is not None:
        item.stash[_BROKEN_OFF] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    done = yield
    if item.stash.get(_BROKEN_OFF, False):
        # Of what it has begun much has not been used, and warns of that when it is freed.
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            # The frames, for a debugger.
            vars(sys).pop(name, None)
        item.config.stash[_GARBAGE].collect_all()
    return done


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.config.stash[_GARBAGE].collect()
