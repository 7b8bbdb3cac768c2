"""A test that passed is known while its sources are the same; what was not reached is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib.paths import ROOT

HELPER = "VALUE = 1\n"
FIRST = """
from tests.helper import VALUE

def test_passes():
    assert VALUE

def test_fails():
    assert not VALUE
"""
SECOND = """
import time

def test_slow():
    time.sleep(0.3)

def test_late():
    time.sleep(0.3)
"""


@pytest.fixture
def project(tmp_path):
    """A project of two tests' modules, one of which imports a third."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\naddopts = -ra --import-mode=importlib\n"
    )
    (folder / "tests" / "helper.py").write_text(HELPER)
    (folder / "tests" / "test_first.py").write_text(FIRST)
    (folder / "tests" / "test_second.py").write_text(SECOND)
    return folder


def run(project: Path, *options: str) -> str:
    done = completed(project, *options)
    return done.stdout + done.stderr


def completed(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "CDMA_CACHE": str(project.parent / "cache"),
        "PYTHONPATH": f"{project}{os.pathsep}{ROOT}",
    }
    environment.pop("CDMA_TESTS_STARTED", None)
    command = [sys.executable, "-m", "pytest", "-p", "tests.lib.verdicts", *options]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_passed_is_known_and_what_failed_is_run_again(project, workers):
    assert "3 passed" in run(project, "--verdicts", "-n", workers)
    again = run(project, "--verdicts", "-n", workers)
    assert "1 failed" in again
    assert "passed before, for the same sources: tests/test_first.py::test_passes" in again
    assert "3 passed before, 0 open" in again


def test_without_the_option_all_of_them_run(project):
    run(project, "--verdicts")
    assert "1 failed, 3 passed" in run(project)


def test_an_edit_of_what_a_module_imports_makes_its_tests_run_again(project):
    run(project, "--verdicts")
    (project / "tests" / "helper.py").write_text("VALUE = 2\n")
    again = run(project, "--verdicts")
    assert "1 failed, 1 passed" in again
    assert "2 passed before, 0 open" in again


def test_a_file_that_is_no_python_counts_for_all(project):
    run(project, "--verdicts")
    (project / "tests" / "data.json").write_text("{}")
    assert "3 passed" in run(project, "--verdicts")


def test_what_there_is_no_time_for_is_named_and_comes_first_next_time(project):
    first = run(project, "--verdicts", "--budget-s", "0.1", "tests/test_second.py", "-n", "0")
    assert "1 passed, 1 skipped" in first
    assert "OPEN, not reached within 0 s: tests/test_second.py::test_slow" in first
    assert "0 passed before, 1 open" in first
    second = run(project, "--verdicts", "tests/test_second.py", "-n", "0")
    assert "1 passed, 1 deselected" in second


def test_a_run_in_which_everything_is_known_has_not_failed(project):
    run(project, "--verdicts", "tests/test_second.py", "-n", "2")
    again = completed(project, "--verdicts", "tests/test_second.py", "-n", "2")
    assert "2 passed before, 0 open" in again.stdout
    assert again.returncode == 0
    assert completed(project, "-k", "nothing", "-n", "0").returncode == 5


def test_what_does_not_end_in_its_time_is_named_as_open_and_nothing_else_is(project):
    (project / "tests" / "test_third.py").write_text(
        "import time\n"
        "import pytest\n"
        "class UndecidedError(AssertionError): pass\n"
        "def test_undecided():\n"
        "    raise UndecidedError\n"
        "@pytest.mark.timeout(0.2)\n"
        "def test_endless():\n"
        "    time.sleep(60)\n"
        "def test_wrong():\n"
        "    assert False\n"
    )
    told = run(project, "--verdicts", "tests/test_third.py", "-n", "0")
    assert "1 failed, 2 skipped" in told
    assert "OPEN, not decided in its time: tests/test_third.py::test_undecided" in told
    assert "OPEN, not decided in its time: tests/test_third.py::test_endless" in told
    assert "0 passed before, 2 open" in told
    # Without the option nothing is forgiven.
    assert "3 failed" in run(project, "tests/test_third.py", "-n", "0")
