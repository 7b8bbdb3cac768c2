"""A pytest plugin that notes the first test that fails, and where: `-p tests.mutation.witness`."""

import json
import os
from pathlib import Path

import pytest

NOTE = "CDMA_MUTATION_NOTE"
"""The variable that names the file to write to."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if report.failed:
        _note(item.nodeid, call.excinfo)
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        note = Path(os.environ[NOTE])
        if not note.exists():
            note.write_text(json.dumps({"test": report.nodeid, "error": "", "is_check": False}))


def _note(test: str, error: pytest.ExceptionInfo[BaseException] | None) -> None:
    note = Path(os.environ[NOTE])
    if note.exists() or error is None:
        return
    root = Path(__file__).parents[2]
    frames = [Path(str(entry.path)) for entry in error.traceback]
    ours = [path for path in frames if path.is_relative_to(root) and ".venv" not in path.parts]
    # What is raised while a design is built comes out of the design or of Amaranth, not of a test;
    # assertions in a design fail while it runs.
    is_raised_by_test = bool(ours) and ours[-1].is_relative_to(root / "tests")
    is_check = error.errisinstance(AssertionError) or (
        is_raised_by_test and "amaranth" not in frames[-1].parts
    )
    said = f"{error.typename}: {str(error.value).splitlines()[0] if str(error.value) else ''}"
    note.write_text(json.dumps({"test": test, "error": said[:200], "is_check": is_check}))
