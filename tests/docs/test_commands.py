"""README's commands and code run, and all pages tell of commands and options that there are."""

import re
import shlex
from pathlib import Path

import pytest

from cdma.app import root
from cdma.cli import main
from cdma.commands.sweep.swept import FIELDS
from tests.docs.pages import blocks, command_lines, pages
from tests.lib.paths import ROOT

README = ROOT / "README.md"
TOLD = [page for page in pages() if page.name != "CHANGELOG.md"]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cdma.terminal.progress.SHOWN_AFTER_S", 1e6)


def lines_of_the_readme():
    """Those that generate whole engines, as `make run` does, take half a minute."""
    return [
        pytest.param(line, marks=pytest.mark.verify if line.startswith("generate engine") else ())
        for line in command_lines(README.read_text("utf-8"))
    ]


@pytest.mark.parametrize("line", lines_of_the_readme())
def test_readme_s_commands_run(line):
    assert main(shlex.split(line)) == 0


def test_readme_has_commands_and_code():
    text = README.read_text("utf-8")
    assert {line.split()[0] for line in command_lines(text)} >= {"generate", "schedule"}
    assert [block.language for block in blocks(text)].count("python") == 1


@pytest.mark.verify
def test_readme_s_code_runs(capsys):
    (code,) = (b.text for b in blocks(README.read_text("utf-8")) if b.language == "python")
    exec(compile(code, str(README), "exec"), {})
    assert capsys.readouterr().out.startswith("802,816 B left as ")


def command_of(words: list[str]) -> tuple[str, object]:
    """The command that a line names, through groups, and its name."""
    group = root()
    command: object = group
    path = []
    for word in words:
        if not hasattr(command, "commands") or word not in command.commands:
            break
        path.append(word)
        command = command.commands[word]
        if hasattr(command, "load"):
            command = command.load()
    return " ".join(path), command


def unknown_words(line: str) -> list[str]:
    """Commands and options in a line that `cdma` does not have."""
    words = line.split()
    if words[0].startswith("-"):
        return []
    path, command = command_of(words)
    if not path:
        return [words[0]]
    commands = [command]
    if path == "sweep":
        # Behind a command's name its own options are axes.
        commands += [command_of([word])[1] for word in words if word in FIELDS]
    known = {
        option
        for one in commands
        for parameter in one.params
        for option in (*parameter.opts, *parameter.secondary_opts, "--help")
    }
    return [option for option in re.findall(r"--[a-z][a-z-]*", line) if option not in known]


@pytest.mark.parametrize("page", TOLD, ids=named)
def test_commands_and_options_of_pages_are_there(page):
    text = page.read_text("utf-8")
    lines = [line for line in command_lines(text) if not line.startswith("COMMAND")]
    assert [(line, unknown) for line in lines if (unknown := unknown_words(line))] == []


def test_unknown_words_are_found():
    assert unknown_words("swap a.npy --codec zvc --json") == []
    assert unknown_words("buddy profile x --heat-map m.png") == []
    assert unknown_words("sweep --json estimate --network nin --link pcie3x16") == []
    assert unknown_words("sweep --json estimate --no-such 1") == ["--no-such"]
    assert unknown_words("sweep --network nin") == ["--network"]
    assert unknown_words("swop a.npy") == ["swop"]
    assert unknown_words("swap a.npy --no-such") == ["--no-such"]


def test_pages_with_commands_are_looked_at():
    assert sum(len(command_lines(page.read_text("utf-8"))) for page in TOLD) > 40
