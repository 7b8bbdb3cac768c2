"""Pages of the commands: each command has one, with its help and an example's real output."""

import re

import pytest

from cdma.app import COMMANDS
from cdma.pages.commands import (
    FOLDER,
    Outputs,
    commands,
    document,
    file_name,
    index,
    outputs_of,
)
from cdma.pages.examples import EXAMPLES
from tests.docs.pages import blocks
from tests.docs.tutorials import CommandStep, steps
from tests.lib.paths import ROOT

KNOWN = commands()
LONG = ("board",)
"""Commands whose examples take minutes, for place and route."""

WRITE = f".venv/bin/python -m cdma.pages.commands {FOLDER}"


def page(name: str) -> str:
    return (ROOT / FOLDER / file_name(name)).read_text("utf-8")


def shown(name: str) -> dict[str, list[str]]:
    """The output of the example's commands as a page has it."""
    text = page(name)
    found = {one.command: list(one.output) for one in steps(text) if isinstance(one, CommandStep)}
    return found


def test_every_command_has_a_page_and_an_example():
    assert {name.partition(" ")[0] for name in KNOWN} == set(COMMANDS)
    assert set(KNOWN) == set(EXAMPLES)
    assert all(example.commands for example in EXAMPLES.values())
    files = {path.name for path in (ROOT / FOLDER).iterdir()}
    assert files == {"index.md", *map(file_name, KNOWN)}


@pytest.mark.parametrize("name", KNOWN)
def test_page_has_the_command_s_help(name):
    assert page(name) == document(name, KNOWN[name], shown(name)), f"write it again: {WRITE}"
    # Click's own formatting, asked for in another way, word for word.
    *_, told = (one.text for one in blocks(page(name)) if one.language == "text")
    for option in (one for parameter in KNOWN[name].params for one in parameter.opts):
        if option.startswith("--"):
            assert re.search(rf"{re.escape(option)}\b", told)


def test_index_is_what_its_generator_writes():
    assert (ROOT / FOLDER / "index.md").read_text("utf-8") == index(KNOWN), (
        f"write it again: {WRITE}"
    )


def lasting(name: str, outputs: Outputs) -> dict[str, list[str]]:
    """The output without what another machine prints otherwise, and without the width of that."""
    pattern = "|".join(EXAMPLES[name].varies)
    sometimes = EXAMPLES[name].sometimes
    return {
        command: [
            " ".join(re.sub(r"[─-]+", "-", re.sub(pattern, "…", line)).split()) if pattern else line
            for line in lines
            if not any(re.match(each, line) for each in sometimes)
        ]
        for command, lines in outputs.items()
    }


def compare(name: str) -> None:
    """Compare what a page shows with what its example prints now."""
    file = file_name(name).removesuffix(".md")
    assert lasting(name, shown(name)) == lasting(name, outputs_of(name)), (
        f"write it again: {WRITE} {file}"
    )


@pytest.mark.parametrize(
    "name", [name for name, one in EXAMPLES.items() if name not in LONG and not one.has_torch]
)
def test_example_prints_what_its_page_shows(name):
    compare(name)


@pytest.mark.verify
@pytest.mark.parametrize("name", LONG)
def test_long_example_prints_what_its_page_shows(name):
    compare(name)


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name, one in EXAMPLES.items() if one.has_torch])
def test_example_with_pytorch_prints_what_its_page_shows(name):
    compare(name)
