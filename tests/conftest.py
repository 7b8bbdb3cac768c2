"""Settings and fixtures that all tests share."""

import os

import pytest

pytest_plugins = [
    "tests.lib.garbage",
    "tests.lib.interruption",
    "tests.lib.verdicts",
    "tests.lib.proofs",
]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Give all tests a terminal of the same width.

    Otherwise it is that of the window in which pytest runs, which xdist hands on to its workers.
    """
    os.environ["COLUMNS"] = "80"
