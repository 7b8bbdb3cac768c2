"""A pytest plugin that lists what was proven: each test, its modes with their depths, its verdict.

The list is of the run, not kept by hand: `build/proofs.md` has it after each run of pytest with a
proof in it, and on CI it is printed as well.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

MODES = {
    "prove": "for all time, k",
    "bmc": "cycles from reset",
    "cover": "covers within",
    "equivalent": "modules",
    "power_up": "registers and memories without a reset",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    # Proofs are asked for by tests that have imported this; the plugin itself need not. After the
    # teardown, for a test may have put something else in the place of the solver and of the list.
    sby = sys.modules.get("tests.formal.sby")
    if sby is not None and call.when == "teardown":
        item.user_properties += [("proof", asdict(result)) for result in sby.PROOF_RESULTS]
        sby.PROOF_RESULTS.clear()
    return (yield)


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
