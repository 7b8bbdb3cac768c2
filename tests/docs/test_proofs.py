"""The page of proofs: every test of `tests/formal` has a verdict or is named as open."""

import os
import subprocess
import sys

from tests.lib import ledger
from tests.lib.ledger import PASSED
from tests.lib.paths import ROOT

LEDGER = ledger.ledger_file(ROOT)


def parts(name: str) -> tuple[str, str]:
    """The function of a test, as the page has it, and its parameters."""
    function, _, parameters = name.removeprefix(ledger.FOLDER).partition("[")
    return function, parameters.removesuffix("]")


def named_as_open(page: str) -> set[tuple[str, str]]:
    found = set()
    for line in page.partition("## Open")[2].splitlines():
        if line.startswith("- `"):
            function, *parameters = line.removeprefix("- `").removesuffix("`").split("`: `")
            found |= {(function, one) for one in "".join(parameters).split("`, `")}
    return found


def test_page_names_each_that_is_open():
    verdicts = ledger.read(LEDGER)
    is_open = {parts(name) for name, verdict in verdicts.items() if verdict.outcome != PASSED}
    assert named_as_open(LEDGER.with_suffix(".md").read_text("utf-8")) == is_open


def test_ledger_has_all_that_there_are():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", ledger.FOLDER]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line for line in done.stdout.splitlines() if "::" in line}
    assert names == set(ledger.read(LEDGER)), "run python -m tests.formal"
