"""A pytest plugin that notes the first test that fails, and where: `-p tests.mutation.witness`.

Of a run in which none fails it notes the classes of components that were built.

A test that computes for too long fails: a fault may be a loop without end.
"""

import json
import os
import re
import signal
from pathlib import Path
from types import FrameType

import pytest
from amaranth.hdl import Elaboratable, Fragment
from hypothesis import Phase, settings

NOTE = "CDMA_MUTATION_NOTE"
"""The variable that names the file to write to."""

TEST_S = int(os.environ.get("CDMA_MUTATION_TEST_S", "120"))
"""Seconds of the processor, not of the clock, as other work may be going on."""

PARTS = "parts.json"
"""The file beside the note that names what was built."""


class OvertimeError(BaseException):
    """A test computes for too long. It is no `Exception`, as what is tested handles some."""


_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s'\",()/]+/)+")

_built: set[type] = set()


def pytest_configure() -> None:
    # That there is an example is enough; profiles that are made later keep these phases.
    phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    settings.register_profile("mutants", phases=phases, database=None, report_multiple_bugs=False)
    settings.load_profile("mutants")

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise OvertimeError(f"more than {TEST_S} s")

    fragment_of = Fragment.get

    def get(design: Elaboratable | Fragment, platform: object) -> Fragment:
        _built.add(type(design))
        return fragment_of(design, platform)

    # Submodules are looked up here, too, when the module around them is elaborated.
    Fragment.get = staticmethod(get)
    signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, TEST_S)


def pytest_runtest_setup() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, TEST_S)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if report.failed:
        _note(item.nodeid, call.excinfo)
    return report


def pytest_sessionfinish() -> None:
    classes = {each for built in _built for each in built.__mro__}
    names = {f"{each.__module__}:{each.__qualname__}" for each in classes}
    ours = sorted(name for name in names if name.startswith("cdma."))
    Path(os.environ[NOTE]).with_name(PARTS).write_text(json.dumps(ours))


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
    # The ledger is for all machines.
    said = _FOLDERS.sub("", said)
    note.write_text(json.dumps({"test": test, "error": said[:200], "is_check": is_check}))
