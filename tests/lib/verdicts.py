"""A pytest plugin: a test that has passed is not run again for the same sources.

With `--verdicts`, which `make test` and `make verify` give, a test that has passed is known while
all that its outcome can depend on is the same: its module and all that this depends on (see
`tests.lib.closure`), the files that are no Python, but for those of folders of tests that it does
not depend on, the installed packages, the tools on PATH, and the variables that these read. The
summary says how many are known, and `build/verdicts.txt` names them. `make test ALL=1` and CI run
all.

Failures and skips are not kept, and neither are tests marked `always`, which depend on time, on
other processes or on files outside the checkout, nor those for which Hypothesis draws new examples
each time. While a test runs, the files of the checkout that it opens and the modules that it
imports are compared with what its verdict would be kept for: one that uses others is named and has
none.

Of proofs, the ledger in the repository has verdicts, too. These hold for the same sources whatever
packages and tools there are: what has been proven stays proven.

The long tests of `make verify` take longer than a run of CI may. With `--budget-s` no test begins
later than that, and what was not reached is named as open, as is what a solver does not decide in
its time or what does not end in that of a test. Proofs without a verdict and all others take turns,
of each kind those first whose verdict on this machine is oldest, else in an order that is another
one in each run. Proofs of the ledger are among the others: one that is reached is found again, by
the solver.
"""

import os
import platform
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions, version
from itertools import zip_longest
from pathlib import Path

import pytest

from cdma.builds.cache import cache_directory, digest
from tests.lib import ledger
from tests.lib.closure import PACKAGES, PATHS, Checkout

OPEN = "open: not reached within the budget"
KEPT_PROOF = "known: proven before, and not reached to be proven again"
UNDECIDED = "open: not decided in its time"

TOOLS = ("c++", "g++", "gcc", "clang++", "make", "iverilog", "vvp", "git", "chromium")
"""Programs that are no packages of Python. Another one of the same name is another tool."""

HEADERS = ("/usr/include/lz4.h", "/usr/include/zlib.h")

VARIABLES = (
    *("WAVES", "CXX", "CXXFLAGS", "CFLAGS", "LDFLAGS", "MAKEFLAGS", "VERILATOR_ROOT"),
    *("TERM", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "TZ"),
    *("PYTHONPATH", "PYTHONHASHSEED", "PYTHONWARNINGS", "OMP_NUM_THREADS"),
)
"""What the tools, rich and Python read."""

KEPT = 8
"""Verdicts of a test that are kept, so that several checkouts can take turns."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("verdicts")
    group.addoption("--verdicts", action="store_true", help="run no test again that has passed")
    group.addoption("--ledger", action="store_true", help="keep proofs in the repository")
    group.addoption("--budget-s", type=float, help="begin no test later than this many seconds")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--verdicts") or config.getoption("--budget-s"):
        config.pluginmanager.register(Verdicts(config), "verdicts-of-this-run")


class Verdicts:
    """The tests that have passed before, and those that there is time for."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.keep = bool(config.getoption("--verdicts"))
        self.budget_s = config.getoption("--budget-s")
        # Workers start when the run does, and count from its start.
        self.started = float(os.environ.setdefault("CDMA_TESTS_STARTED", str(time.time())))
        self.known: list[str] = []
        self.keys = Keys(config)
        self.passed: set[str] = set()
        self.uses: Uses | None = None
        if self.keep:
            self.uses = Uses(self.keys.checkout)
        self.ledger = ledger.read(ledger.ledger_file(config.rootpath)) if self.keep else {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self.keep:
            return
        # With a budget, there may be time to find them again.
        known = [
            item
            for item in items
            if self._is_known(item) or (not self.budget_s and self.is_kept(item))
        ]
        self.keys.checkout.keep()
        self.known = [item.nodeid for item in known]
        self.config.hook.pytest_deselected(items=known)
        left = set(items) - set(known)
        items[:] = [item for item in items if item in left]
        if self.budget_s:
            # All workers draw the same.
            order = random.Random(self.started)
            places = {item: (age(item.nodeid), order.random()) for item in items}
            items.sort(key=places.__getitem__)
            proofs = [item for item in items if self._outcome(item) == ledger.UNTRIED]
            others = [item for item in items if self._outcome(item) != ledger.UNTRIED]
            turns = zip_longest(proofs, others)
            items[:] = [item for turn in turns for item in turn if item is not None]

    def _outcome(self, item: pytest.Item) -> str:
        """Outcome in the ledger of a test with the same sources; nothing if that is not kept."""
        if not ledger.has(item.nodeid):
            return ""
        verdict = self.ledger.get(item.nodeid)
        is_same = verdict is not None and verdict.sources == self.keys.sources(item)
        return verdict.outcome if verdict and is_same else ledger.UNTRIED

    def is_kept(self, item: pytest.Item) -> bool:
        """Return True if the ledger has that the test passed with the same sources."""
        return self._outcome(item) == ledger.PASSED

    def _is_known(self, item: pytest.Item) -> bool:
        """Return True if the test passed before this run began, so that all workers agree."""
        if runs_always(item) or self.config.getoption("--ledger"):
            return False
        file = verdict_folder(item.nodeid) / self.keys.of(item)
        try:
            return file.stat().st_mtime <= self.started
        except FileNotFoundError:
            return False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.uses is None:
            return (yield)
        with self.uses:
            return (yield)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.budget_s and time.time() - self.started > self.budget_s:
            pytest.skip(KEPT_PROOF if self.is_kept(item) else OPEN)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo
    ) -> Iterator[pytest.TestReport]:
        report = yield
        if not self.keep:
            return report
        if report.when == "call" and call.excinfo and ran_out(call.excinfo.value):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, UNDECIDED)
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.passed.add(item.nodeid)
        if report.when == "teardown" and report.passed and item.nodeid in self.passed:
            self._note(item, report)
        return report

    def _note(self, item: pytest.Item, report: pytest.TestReport) -> None:
        if runs_always(item):
            return
        assert self.uses is not None
        beyond = self.uses.beyond(self.keys.closure(item))
        if beyond:
            report.user_properties.append(("no verdict", beyond))
            return
        folder = verdict_folder(item.nodeid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.keys.of(item)).touch()
        for old in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        skipped = terminalreporter.stats.get("skipped", [])
        left = sorted(report.nodeid for report in skipped if OPEN in str(report.longrepr))
        late = sorted(report.nodeid for report in skipped if UNDECIDED in str(report.longrepr))
        known = list(self.known or terminalreporter.config.stash.get(KNOWN, []))
        known += [report.nodeid for report in skipped if KEPT_PROOF in str(report.longrepr)]
        without = {
            f"{report.nodeid} used {value}"
            for report in terminalreporter.stats.get("", [])
            for name, value in getattr(report, "user_properties", [])
            if name == "no verdict"
        }
        if not (left or late or known or without):
            return
        terminalreporter.section("verdicts")
        for line in sorted(without):
            terminalreporter.write_line(f"no verdict kept, as its key has not what {line}")
        for name in left:
            terminalreporter.write_line(f"OPEN, not reached within {self.budget_s:.0f} s: {name}")
        for name in late:
            terminalreporter.write_line(f"OPEN, not decided in its time: {name}")
        for folder, count in sorted(Counter(map(_room, known)).items()):
            terminalreporter.write_line(f"passed before, for the same sources: {count} in {folder}")
        terminalreporter.write_line(f"{len(known)} passed before, {len(left) + len(late)} open")
        target = terminalreporter.config.rootpath / "build" / "verdicts.txt"
        target.parent.mkdir(exist_ok=True)
        target.write_text("".join(f"{name}\n" for name in known))
        terminalreporter.write_line(f"those that passed before are listed in {target.name}")

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


class Keys:
    """A hash of all that a test's outcome can depend on, for each test."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.checkout = Checkout(config.rootpath)
        self._of_module: dict[Path, tuple[frozenset[str], str, str]] = {}

    def of(self, item: pytest.Item) -> str:
        return digest(item.nodeid, self._module(item)[1])

    def sources(self, item: pytest.Item) -> str:
        """A hash of a test's sources, and of what makes RTL of them.

        Without the project's settings, pytest's plugins and what asks the solvers, as of tools a
        ledger has no part in it.
        """
        return self._module(item)[2]

    def closure(self, item: pytest.Item) -> frozenset[str]:
        """The modules that count for a test."""
        return self._module(item)[0]

    def _module(self, item: pytest.Item) -> tuple[frozenset[str], str, str]:
        path = item.path
        if path not in self._of_module:
            checkout = self.checkout
            around = (folder / "conftest.py" for folder in path.parents)
            start = [path, *(file for file in around if file in checkout.modules.values())]
            names = checkout.closure(map(checkout.name_of, start))
            parts = [checkout.sources(names), checkout.data(names), environment()]
            parts += map(str, self.config.getoption("pythonwarnings") or [])
            if PATHS in names:
                parts.append(checkout.everything)
            own = checkout.closure([checkout.name_of(path)]) - ledger.DECIDING
            data = checkout.data(own, settings=False)
            content = digest(checkout.sources(own), data, version("amaranth"))[:12]
            self._of_module[path] = (names, digest(*parts), content)
        return self._of_module[path]


class Uses:
    """The files of a checkout that are opened, and the modules of it that are first imported.

    A context: what is used within it counts. Other processes are not seen; what these depend on
    is named by the strings that start them.
    """

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.opened: set[str] = set()
        self.before: set[str] = set()
        self.watching = False
        self._prefix = f"{checkout.root}{os.sep}"
        # It cannot be taken away again.
        sys.addaudithook(self._notice)

    def __enter__(self) -> None:
        self.opened.clear()
        self.before = set(sys.modules)
        self.watching = True

    def __exit__(self, *_: object) -> None:
        self.watching = False

    def _notice(self, event: str, arguments: tuple) -> None:
        if event == "open" and self.watching and not isinstance(arguments[0], int):
            # What a test writes, it does not depend on.
            mode = arguments[1]
            if mode is None or "r" in mode:
                self.opened.add(os.path.abspath(os.fsdecode(arguments[0])))

    def beyond(self, closure: frozenset[str]) -> str:
        """Describe what was used since, and is neither in the closure nor counted for all tests."""
        added = {name for name in set(sys.modules) - self.before if name.split(".")[0] in PACKAGES}
        modules = (added & self.checkout.modules.keys()) - closure
        if modules and PATHS not in closure:
            return f"the module {min(modules)}"
        for name in sorted(self.opened):
            inside = name.startswith(self._prefix) and os.path.exists(name)
            if inside and not self.checkout.covers(Path(name), closure):
                return name.removeprefix(self._prefix)
        return ""


def runs_always(item: pytest.Item) -> bool:
    """Return True if the test's outcome depends on more than sources and tools."""
    if item.get_closest_marker("always"):
        return True
    settings = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
    return settings is not None and not settings.derandomize


def ran_out(error: BaseException) -> bool:
    """Return True if a test ended because its time did: a solver's, or pytest's limit."""
    if isinstance(error, pytest.fail.Exception):
        return str(error).startswith("Timeout (>")
    return type(error).__name__ == "UndecidedError"


def verdict_folder(name: str) -> Path:
    """Folder of empty files, each named by what the test has passed with."""
    return cache_directory() / "verdicts" / digest(name)


def age(name: str) -> float:
    """When the test passed last, in seconds; 0 if it never did."""
    folder = verdict_folder(name)
    return folder.stat().st_mtime if folder.exists() else 0.0


@cache
def environment() -> str:
    """A hash of the installed packages, the tools and the variables that they read."""
    installed = sorted(f"{found.name} {found.version}" for found in distributions())
    tools = [_stamp(shutil.which(name)) for name in TOOLS] + [_stamp(name) for name in HEADERS]
    # Under `make`, MAKEFLAGS is there and empty.
    variables = [f"{name}={os.environ.get(name, '')}" for name in VARIABLES]
    python = [sys.version, platform.machine(), str(sys.flags)]
    return digest(*installed, *tools, *variables, *python)


def _stamp(path: str | None) -> str:
    """A file's size and time of change: a package manager sets them with each version."""
    if path is None or not os.path.exists(path):
        return "none"
    found = os.stat(path)
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _room(name: str) -> str:
    """The first two folders that a test is in."""
    return "/".join(name.split("::")[0].split("/")[:-1][:2])
