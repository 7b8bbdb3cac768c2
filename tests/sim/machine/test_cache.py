"""The cache of what takes long to make, without anything that takes long."""

import fcntl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdma.builds.cache import cached
from cdma.builds.progress import observed

PATIENCE_S = 60
"""Only a test that fails waits so long."""


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path))


def build(into: Path) -> None:
    (into / "made").write_text("here")


def test_nothing_is_reported_where_nobody_else_builds() -> None:
    reports = []
    with observed(lambda *what: reports.append(what)):
        assert (cached("thing-1", build) / "made").read_text() == "here"
    assert reports == []


def test_waiting_for_another_process_is_reported(tmp_path: Path) -> None:
    reports = []
    waits = threading.Event()

    def note(phase: str, done: int, total: int) -> None:
        reports.append((phase, done, total))
        waits.set()

    with (
        (tmp_path / "thing-1.lock").open("w") as lock,
        observed(note),
        ThreadPoolExecutor() as pool,
    ):
        # Another process would have the lock in the same way.
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = pool.submit(cached, "thing-1", build)
        assert waits.wait(PATIENCE_S)
        assert reports == [("wait for another process", 0, 1)]
        assert not (tmp_path / "thing-1").exists()
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert (made.result(PATIENCE_S) / "made").read_text() == "here"
    assert reports[1:] == [("wait for another process", 1, 1)]
