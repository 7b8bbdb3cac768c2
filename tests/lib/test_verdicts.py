"""A test that passed is known while its sources are the same; what was not reached is named."""

import pytest

from tests.lib.inner_pytest import completed, passed_before, run

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
    clock = time.time
    time.time = lambda: clock() + 1000

def test_as_slow():
    clock = time.time
    time.time = lambda: clock() + 1000
"""
LAZY = """
from importlib import import_module

import pytest

NAME = "third"

def test_imports_in_a_function():
    from tests.first import VALUE

def test_starts_a_process():
    source = "from tests.second import VALUE"

def test_names_a_module_of_a_package():
    import_module(f"tests.room.{NAME}")

def test_fails_while_it_is_torn_down(request):
    request.addfinalizer(lambda: 1 / 0)

def test_skips():
    pytest.skip("lacks something")

@pytest.mark.always
def test_looks_at_the_clock():
    pass
"""
BEYOND = """
import os
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent

def test_reads_a_document():
    assert (HERE.parent / "page.md").read_text()

def test_reads_a_source():
    assert (HERE / "helper.py").read_text()

def test_imports_what_it_does_not_name():
    import_module(".".join(["tests", "helper"]))

def test_reads_data():
    assert (HERE / "data.json").read_text()

def test_writes(tmp_path):
    (tmp_path / "page.md").write_text("")
    (HERE.parent / "build").mkdir(exist_ok=True)
"""


@pytest.fixture
def project(tmp_path):
    """A project of two tests' modules, one of which imports a third."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\naddopts = -ra --import-mode=importlib\nmarkers = always: runs\n"
    )
    (folder / "tests" / "helper.py").write_text(HELPER)
    (folder / "tests" / "test_first.py").write_text(FIRST)
    (folder / "tests" / "test_second.py").write_text(SECOND)
    return folder


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_passed_is_known_and_what_failed_is_run_again(project, workers):
    assert "3 passed" in run(project, "--verdicts", "-n", workers)
    again = run(project, "--verdicts", "-n", workers)
    assert "1 failed" in again
    assert "passed before, for the same sources: 3 in tests" in again
    assert "3 passed before, 0 open" in again
    assert "tests/test_first.py::test_passes" in passed_before(project)


def test_without_the_option_all_of_them_run(project):
    run(project, "--verdicts")
    assert "1 failed, 3 passed" in run(project)


def test_an_edit_of_what_a_module_imports_makes_its_tests_run_again(project):
    run(project, "--verdicts")
    (project / "tests" / "helper.py").write_text("VALUE = 2\n")
    again = run(project, "--verdicts")
    assert "1 failed, 1 passed" in again
    assert "2 passed before, 0 open" in again


@pytest.mark.verify
def test_what_was_undone_is_known_again(project):
    helper = project / "tests" / "helper.py"
    run(project, "--verdicts")
    helper.write_text("VALUE = 2\n")
    run(project, "--verdicts")
    helper.write_text(HELPER)
    assert "3 passed before, 0 open" in run(project, "--verdicts")


@pytest.mark.verify
def test_what_is_imported_late_or_named_in_a_string_counts(project):
    folder = project / "tests"
    (folder / "test_lazy.py").write_text(LAZY)
    (folder / "room").mkdir()
    for name in ("first", "second", "room/third"):
        (folder / f"{name}.py").write_text("VALUE = 1\n")
    options = ("--verdicts", "tests/test_lazy.py")
    assert "5 passed, 1 skipped, 1 error" in run(project, *options)
    # What was skipped, failed at its end or is marked has no verdict.
    assert "3 passed before, 0 open" in run(project, *options)
    for name in ("first", "second", "room/third"):
        (folder / f"{name}.py").write_text("VALUE = 2\n")
        assert "5 passed, 1 skipped, 1 error" in run(project, *options), name


@pytest.mark.parametrize("variable", ["WAVES", "LANG"])
def test_another_environment_makes_all_run_again(project, variable):
    run(project, "--verdicts", "tests/test_second.py")
    assert "2 passed" in run(project, "--verdicts", "tests/test_second.py", **{variable: "x"})


@pytest.mark.verify
def test_by_make_and_by_hand_the_verdicts_are_the_same(project, monkeypatch):
    run(project, "--verdicts", "tests/test_second.py", MAKEFLAGS="")
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    assert "2 passed before" in run(project, "--verdicts", "tests/test_second.py")


@pytest.mark.verify
def test_a_conftest_and_the_settings_count(project):
    run(project, "--verdicts", "tests/test_second.py")
    (project / "tests" / "conftest.py").write_text("")
    assert "2 passed" in run(project, "--verdicts", "tests/test_second.py")
    (project / "pyproject.toml").write_text("")
    assert "2 passed" in run(project, "--verdicts", "tests/test_second.py")


@pytest.mark.verify
def test_what_a_key_has_not_is_noticed_and_leaves_no_verdict(project):
    folder = project / "tests"
    (folder / "test_beyond.py").write_text(BEYOND)
    (folder / "data.json").write_text("{}")
    (project / "page.md").write_text("text")
    options = ("--verdicts", "tests/test_beyond.py")
    told = run(project, *options)
    assert "5 passed" in told
    lack = "no verdict kept, as its key has not what tests/test_beyond.py::"
    assert f"{lack}test_reads_a_document used page.md" in told
    assert f"{lack}test_reads_a_source used tests/helper.py" in told
    assert f"{lack}test_imports_what_it_does_not_name used the module tests.helper" in told
    assert "3 passed" in run(project, *options)
    known = {"test_reads_data", "test_writes"}
    assert {name.split("::")[1] for name in passed_before(project)} == known


@pytest.mark.verify
def test_all_files_count_for_those_who_know_where_they_are(project):
    folder = project / "tests"
    (folder / "lib").mkdir()
    (folder / "lib" / "paths.py").write_text(
        "from pathlib import Path\nROOT = Path(__file__).parents[2]\n"
    )
    page = project / "page.md"
    page.write_text("text")
    (folder / "test_page.py").write_text(
        "from tests.lib.paths import ROOT\n"
        "def test_page():\n"
        "    assert (ROOT / 'page.md').read_text() == 'text'\n"
    )
    options = ("--verdicts", "tests/test_page.py", "tests/test_second.py")
    assert "3 passed" in run(project, *options)
    page.write_text("other")
    assert "1 failed, 2 deselected" in run(project, *options)
    page.write_text("text")
    # A page's code may import anything.
    (folder / "helper.py").write_text("VALUE = 2\n")
    assert "1 passed, 2 deselected" in run(project, *options)


@pytest.mark.verify
def test_new_examples_are_drawn_each_time(project):
    (project / "tests" / "test_drawn.py").write_text(
        "from hypothesis import given, settings, strategies\n"
        "@settings(derandomize=False)\n"
        "@given(strategies.integers())\n"
        "def test_drawn(number): pass\n"
        "@settings(derandomize=True)\n"
        "@given(strategies.integers())\n"
        "def test_the_same(number): pass\n"
    )
    run(project, "--verdicts", "tests/test_drawn.py")
    assert "1 passed, 1 deselected" in run(project, "--verdicts", "tests/test_drawn.py")


@pytest.mark.verify
def test_a_file_that_is_no_python_counts_for_all(project):
    run(project, "--verdicts")
    (project / "tests" / "data.json").write_text("{}")
    assert "3 passed" in run(project, "--verdicts")


def test_what_there_is_no_time_for_is_named_and_comes_first_next_time(project):
    first = run(project, "--verdicts", "--budget-s", "500", "tests/test_second.py", "-n", "0")
    assert "1 passed, 1 skipped" in first
    # Which of the two comes first is drawn.
    left = [
        line for line in first.splitlines() if line.startswith("OPEN, not reached within 500 s")
    ]
    assert [name.split("::")[1] in ("test_slow", "test_as_slow") for name in left] == [True]
    assert "0 passed before, 1 open" in first
    second = run(project, "--verdicts", "tests/test_second.py", "-n", "0")
    assert "1 passed, 1 deselected" in second


@pytest.mark.verify
def test_a_run_in_which_everything_is_known_has_not_failed(project):
    run(project, "--verdicts", "tests/test_second.py", "-n", "2")
    again = completed(project, "--verdicts", "tests/test_second.py", "-n", "2")
    assert "2 passed before, 0 open" in again.stdout
    assert again.returncode == 0
    assert completed(project, "-k", "nothing", "-n", "0").returncode == 5


# Time must pass.
@pytest.mark.always
def test_what_an_undecided_test_has_begun_does_not_fail_the_next_one(project):
    (project / "tests" / "test_third.py").write_text(
        "import gc\n"
        "import time\n"
        "import pytest\n"
        "from amaranth.hdl import Elaboratable, Fragment, Module\n"
        "@pytest.mark.timeout(0.2)\n"
        "def test_endless():\n"
        "    Fragment.get(Module(), platform=None)\n"
        "    known_to_themselves = []\n"
        "    known_to_themselves += [known_to_themselves, Elaboratable(), Elaboratable()]\n"
        "    time.sleep(60)\n"
        "def test_quick():\n"
        "    gc.collect()\n"
    )
    told = run(
        project,
        "-p",
        "tests.lib.garbage",
        "--verdicts",
        "tests/test_third.py",
        "-n",
        "0",
        "-W",
        "error",
    )
    assert "1 passed, 1 skipped" in told


# Time must pass.
@pytest.mark.always
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
