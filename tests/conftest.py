"""What holds for all tests."""

import gc

import pytest

pytest_plugins = ["tests.lib.proofs", "tests.lib.verdicts"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector rest.

    Elaborating a design makes millions of objects and next to no cycles. With Python's thresholds,
    much of that time goes into scanning them; what the imports left need not be scanned at all.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
