"""A pytest plugin that lists what was proven: each test, its modes with their depths, its verdict.

The list is of the run, not kept by hand: `build/proofs.md` has it after each run of pytest with a
proof in it, and on CI it is printed as well. With `--ledger`, as `make proofs` gives, verdicts are
written to the ledger in the repository, too.
"""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.lib import ledger
from tests.lib.ledger import FAILED, PASSED, UNDECIDED, Proof, Verdict
from tests.lib.verdicts import UNDECIDED as UNDECIDED_SKIP
from tests.lib.verdicts import Verdicts

MODES = {
    "prove": "for all time, k",
    "bmc": "cycles from reset",
    "cover": "covers within",
    "equivalent": "modules",
    "power_up": "registers and memories without a reset",
}

WRITTEN_EVERY_S = 5
"""Between two writes of the ledger during a run, which may be broken off at any time."""


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--ledger") and not config.getoption("--verdicts"):
        raise pytest.UsageError("--ledger keeps verdicts: give --verdicts, too")
    if config.getoption("--ledger") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(
            LedgerWriter(ledger.ledger_file(config.rootpath)), "writer-of-the-ledger"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    # Proofs are asked for by tests that have imported this; the plugin itself need not. After the
    # teardown, for a test may have put something else in the place of the solver and of the list.
    smtbmc = sys.modules.get("tests.formal.smtbmc")
    if smtbmc is not None and call.when == "teardown":
        item.user_properties += [("proof", asdict(result)) for result in smtbmc.PROOF_RESULTS]
        smtbmc.PROOF_RESULTS.clear()
    verdicts = _verdicts(item)
    if verdicts and call.when == "teardown" and ledger.has(item.nodeid):
        item.user_properties.append(("sources", verdicts.keys.sources(item)))
    return (yield)


def pytest_runtest_call(item: pytest.Item) -> None:
    """Give a test the proofs of the ledger, unless it is run to find its own again."""
    smtbmc = sys.modules.get("tests.formal.smtbmc")
    verdicts = _verdicts(item)
    if smtbmc is None or verdicts is None:
        return
    if verdicts.is_kept(item):
        smtbmc.KEPT_PROOFS.clear()
    elif not smtbmc.KEPT_PROOFS:
        for key, proof in ledger.proofs_of(verdicts.ledger).items():
            smtbmc.KEPT_PROOFS[key] = smtbmc.ProofResult(
                dict(proof.depths), True, 0.0, key, proof.tools
            )


def _verdicts(item: pytest.Item) -> Verdicts | None:
    found = item.config.pluginmanager.get_plugin("verdicts-of-this-run")
    return found if isinstance(found, Verdicts) else None


class LedgerWriter:
    """Writes what tests of a run have come to, beside what the ledger has of others."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.verdicts = ledger.read(file)
        self.outcomes: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.written = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        if not ledger.has(name):
            return
        if report.failed:
            self.outcomes[name] = FAILED
        elif report.skipped and UNDECIDED_SKIP in str(report.longrepr):
            self.outcomes[name] = UNDECIDED
        elif report.when == "call" and report.passed:
            self.outcomes[name] = PASSED
        if report.when == "call":
            self.seconds[name] = round(report.duration, 1)
        if report.when == "teardown" and name in self.outcomes:
            self._note(report)
        if time.monotonic() > self.written + WRITTEN_EVERY_S:
            self._write()

    def _note(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        properties = report.user_properties
        sources = next(str(value) for key, value in properties if key == "sources")
        results = [value for key, value in properties if key == "proof" and isinstance(value, dict)]
        proofs = {
            result["key"]: Proof(result["depths"], result["tools"])
            for result in results
            if result["key"]
        }
        seconds = self.seconds.get(name, 0.0)
        before = self.verdicts.get(name)
        if before and before.proofs and before.proofs.keys() == proofs.keys():
            seconds = max(seconds, before.seconds)
        self.verdicts[name] = Verdict(self.outcomes[name], sources, seconds, proofs)

    def _write(self) -> None:
        ledger.write(self.file, self.verdicts)
        self.written = time.monotonic()

    def pytest_sessionfinish(self) -> None:
        self._write()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    proofs = [
        (report.nodeid, properties)
        for report in terminalreporter.stats.get("", [])
        if isinstance(report, pytest.TestReport)
        for name, properties in report.user_properties
        if name == "proof"
    ]
    if not proofs:
        return
    lines = table(proofs)
    target = config.rootpath / "build" / "proofs.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join([*lines, ""]))
    known = sum(properties["known"] for _, properties in proofs)
    terminalreporter.section("proofs")
    if os.environ.get("CI"):
        for line in lines:
            terminalreporter.write_line(line)
    terminalreporter.write_line(
        f"{len(proofs)} proofs hold, {known} of them known for the same RTL, properties and tools; "
        "listed in build/proofs.md"
    )


def table(proofs: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """The proofs as a table in Markdown, in the order of their names."""
    lines = [f"| proof | {' | '.join(MODES.values())} | verdict |", "|---" * (len(MODES) + 2) + "|"]
    for name, properties in sorted(proofs, key=lambda proof: proof[0]):
        depths = [str(properties["depths"].get(mode, "")) for mode in MODES]
        result = "known" if properties["known"] else f"{properties['seconds']:.0f} s"
        lines.append(f"| {name} | " + " | ".join(depths) + f" | {result} |")
    return lines
