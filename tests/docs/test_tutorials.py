"""The tutorials' form, and that a tutorial which is wrong is found out.

`tests/release` carries the tutorials out, where only the wheel is installed.
"""

import os

import pytest

from tests.docs.pages import blocks
from tests.docs.tutorials import TUTORIALS, CommandStep, WrittenFile, carry_out, differs, steps


def test_there_is_one_for_each_kind_of_user():
    assert [page.stem for page in TUTORIALS] == ["architect", "ml-researcher", "rtl-engineer"]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_block_is_a_file_or_a_command(page):
    text = page.read_text("utf-8")
    assert all(one.title or one.text.startswith("$ ") for one in blocks(text))
    found = steps(text)
    assert sum(isinstance(step, WrittenFile) for step in found) >= 2
    shown = [step for step in found if isinstance(step, CommandStep) and step.output]
    # Output that is all left out would show nothing.
    assert sum(any(line != "…" for line in step.output) for step in shown) >= 4


def test_steps_are_those_of_the_page():
    text = '```toml title="a.toml"\nb = 1\n```\n```\n$ one\n$ two\nx\n```\n```\nno command\n```\n'
    assert steps(text) == [
        WrittenFile("a.toml", "b = 1\n"),
        CommandStep("one", ()),
        CommandStep("two", ("x",)),
    ]


@pytest.mark.parametrize(
    ("shown", "actual", "wrong"),
    [
        (["a", "b"], ["a  ", "b"], None),
        (["a", "…", "d"], ["a", "b", "c", "d"], None),
        (["…", "d"], ["d"], None),
        (["a", "…"], ["a", "b"], None),
        (["a 1…"], ["a 12 and more"], None),
        ([], [], None),
        (["a"], ["a", "  ", ""], None),
        (["a"], ["b"], "a"),
        (["a", "…", "d"], ["a", "b"], "d"),
        (["a"], ["a", "b"], "the end"),
        ([], ["a"], "the end"),
        (["a.c"], ["abc"], "a.c"),
    ],
)
def test_output_that_differs_is_found(shown, actual, wrong):
    assert differs(shown, actual) == wrong


def test_files_are_written_commands_run_and_the_first_error_ends(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '```text title="a.txt"\nhello\n```\n```\n$ cat a.txt\nhello\n$ cat a.txt\nbye\n'
        "$ cat no.txt\n$ touch reached\n```\n"
    )
    wrong = carry_out(page, tmp_path, os.environ)
    assert [text.splitlines()[:2] for text in wrong] == [
        ["$ cat a.txt", "not there: bye"],
        ["$ cat no.txt", "exit status 1"],
    ]
    assert not (tmp_path / "reached").exists()
