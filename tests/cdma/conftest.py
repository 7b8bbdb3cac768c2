"""Fixtures that all tests of commands need."""

import pytest


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep stderr the same however fast the machine is; test_progress.py shows progress again."""
    monkeypatch.setattr("cdma.terminal.progress.SHOWN_AFTER_S", 1e6)
