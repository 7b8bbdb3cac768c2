"""The page about files of a user's own: its files and its hook are right, and its errors are so."""

import sys
from pathlib import Path

import pytest

from cdma.cli import main
from tests.docs.pages import DOCS, blocks

PAGE = (DOCS / "guide" / "config.md").read_text("utf-8")
FILES = [block.text for block in blocks(PAGE) if block.language == "toml"]
(HOOKS,) = (block.text for block in blocks(PAGE) if block.language == "python")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_module", None)


@pytest.mark.parametrize("text", FILES)
def test_files_on_the_page_are_right(text, capsys):
    Path("mine.toml").write_text(text, encoding="utf-8")
    assert main(["config", "check", "mine.toml"]) == 0
    assert capsys.readouterr().out.count(" is right: ") == sum(
        line.startswith("[") and "." not in line for line in text.splitlines()
    )


def test_all_kinds_of_the_page_s_commands_have_a_file():
    tables = {line for text in FILES for line in text.splitlines() if line.startswith("[")}
    assert {"[engine]", "[machine]", "[device]", "[link]", "[network]"} <= tables


def test_hooks_on_the_page_are_found(capsys):
    Path("my_module.py").write_text(HOOKS, encoding="utf-8")
    assert main(["config", "check", "my_module:engine", "--kind", "engine"]) == 0
    assert main(["config", "check", "my_module:network", "--kind", "network"]) == 0
    assert "[network] is right: name network, batch 32, dataset mine" in capsys.readouterr().out


WRONG = {
    "engine.toml: [engine] has no key 'unit'": "[engine]\nunit = 3\n",
    "engine.toml: [engine] units must be 1": "[engine]\nunits = 17\n",
    "engine.toml: [engine.codec] sector_bytes": "[engine.codec]\nsector_bytes = 48\n",
    "engine.toml is not TOML": "[engine]\nunits = three\n",
    "engine.toml: [engine] host_bytes": "[engine]\nhost_bytes = 48\n",
}


@pytest.mark.parametrize("beginning", WRONG)
def test_errors_on_the_page_are_those_that_are_told(beginning, capsys):
    (line,) = [one for one in PAGE.splitlines() if one.startswith(f"cdma: error: {beginning}")]
    Path("engine.toml").write_text(WRONG[beginning], encoding="utf-8")
    assert main(["config", "check", "engine.toml"]) == 2
    assert capsys.readouterr().err.startswith(line.removesuffix("…").rstrip())
