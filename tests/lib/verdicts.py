"""A pytest plugin for `make verify`: every long test gets a verdict, or is named as open.

The long tests take longer than a run of CI may. With `--verdicts` a test that has passed is not run
again while its sources are the same: its module, all that this imports of the project, the files
that are no Python, the installed packages. Those whose verdict is oldest come first. What a solver
does not decide in its time, or what does not end in that of a test, is named as open. With
`--budget-s` no test begins later than that; what was not reached is named as open as well.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

from cdma.builds.cache import cache_directory, digest
from cdma.builds.imports import imported, path_of

PACKAGES = ("cdma", "golden", "hw", "plan", "reproduce", "sim", "synth", "tests")
OPEN = "open: not reached within the budget"
UNDECIDED = "open: not decided in its time"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("verdicts")
    group.addoption("--verdicts", action="store_true", help="run no test again that has passed")
    group.addoption("--budget-s", type=float, help="begin no test later than this many seconds")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--verdicts") or config.getoption("--budget-s"):
        config.pluginmanager.register(Verdicts(config), "verdicts-of-this-run")


class Verdicts:
    """What has passed before, and what there is time for."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.keep = bool(config.getoption("--verdicts"))
        self.budget_s = config.getoption("--budget-s")
        # Workers start when the run does, and count from its start.
        self.started = float(os.environ.setdefault("CDMA_TESTS_STARTED", str(time.time())))
        self.known: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self.keep:
            return
        ages = {item.nodeid: age(item.nodeid) for item in items}
        known = [item for item in items if is_known(item)]
        self.known = [item.nodeid for item in known]
        self.config.hook.pytest_deselected(items=known)
        items[:] = sorted(
            set(items) - set(known), key=lambda item: (ages[item.nodeid], item.nodeid)
        )

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.budget_s and time.time() - self.started > self.budget_s:
            pytest.skip(OPEN)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo
    ) -> Iterator[pytest.TestReport]:
        report = yield
        if self.keep and report.when == "call" and call.excinfo and ran_out(call.excinfo.value):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, UNDECIDED)
        if self.keep and report.when == "call" and report.passed:
            file = verdict_file(item.nodeid)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(key_of(item))
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        skipped = terminalreporter.stats.get("skipped", [])
        left = sorted(report.nodeid for report in skipped if OPEN in str(report.longrepr))
        late = sorted(report.nodeid for report in skipped if UNDECIDED in str(report.longrepr))
        known = self.known or terminalreporter.config.stash.get(KNOWN, [])
        if not (left or late or known):
            return
        terminalreporter.section("verdicts")
        for name in known:
            terminalreporter.write_line(f"passed before, for the same sources: {name}")
        for name in left:
            terminalreporter.write_line(f"OPEN, not reached within {self.budget_s:.0f} s: {name}")
        for name in late:
            terminalreporter.write_line(f"OPEN, not decided in its time: {name}")
        terminalreporter.write_line(f"{len(known)} passed before, {len(left) + len(late)} open")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # A worker tells the controller, which collects nothing itself.
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["known"] = self.known
        known = self.known or self.config.stash.get(KNOWN, [])
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and known:
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        self.config.stash[KNOWN] = getattr(node, "workeroutput", {}).get("known", [])


KNOWN = pytest.StashKey[list[str]]()


def ran_out(error: BaseException) -> bool:
    """Whether a test ended because its time did: a solver's, or pytest's limit for a test."""
    if isinstance(error, pytest.fail.Exception):
        return str(error).startswith("Timeout (>")
    return type(error).__name__ == "UndecidedError"


def verdict_file(name: str) -> Path:
    """Where the sources are noted with which that test passed last."""
    return cache_directory() / "verdicts" / digest(name)


def age(name: str) -> float:
    """When the test passed last, in seconds; 0 if it never did."""
    file = verdict_file(name)
    return file.stat().st_mtime if file.exists() else 0.0


def is_known(item: pytest.Item) -> bool:
    file = verdict_file(item.nodeid)
    return file.exists() and file.read_text() == key_of(item)


def key_of(item: pytest.Item) -> str:
    """A hash of all that the test's outcome can depend on."""
    root = item.config.rootpath
    module = ".".join(item.path.relative_to(root).with_suffix("").parts)
    folders = [path.parent for path in item.path.relative_to(root).parents]
    conftests = [
        ".".join((*folder.parts, "conftest"))
        for folder in {*folders, *item.path.relative_to(root).parents}
        if (root / folder / "conftest.py").exists()
    ]
    return digest(item.nodeid, _sources((module, *sorted(conftests))), _data(root), _installed())


@cache
def _sources(modules: tuple[str, ...]) -> str:
    names = sorted(imported(modules, of=("cdma", "tests")))
    return digest(*(text for name in names for text in (name, path_of(name).read_text())))


@cache
def _data(root: Path) -> str:
    """All files of the packages that are no Python: shims, registers, captures, libraries."""
    texts = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                texts += [str(path.relative_to(root)), content]
    return digest(*texts)


@cache
def _installed() -> str:
    return digest(*sorted(f"{found.name} {found.version}" for found in distributions()))
