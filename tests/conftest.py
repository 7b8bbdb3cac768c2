"""Settings and fixtures that all tests share."""

import gc
import os

import pytest

pytest_plugins = ["tests.lib.proofs", "tests.lib.verdicts"]

# What collecting imports stays; looking for cycles in it takes a fifth of that time.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector rest, and give all tests a terminal of the same width.

    Elaborating a design makes millions of objects and next to no cycles. With Python's thresholds,
    much of that time goes into scanning them; what the imports left need not be scanned at all.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)
    # Otherwise it is that of the window in which pytest runs, which xdist hands on to its workers.
    os.environ["COLUMNS"] = "80"
