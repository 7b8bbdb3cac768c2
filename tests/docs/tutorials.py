"""A tutorial carried out: its files are written, its commands run, its output compared.

A block with a title is a file. In a block without a language, a line that begins with `$` is a
command, and the lines below it are its output, where `…` stands for anything: alone on a line for
any number of lines, at the end of one for its rest.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import DOCS, blocks

TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))

WIDTH = 140
"""Columns of the terminal in which commands run; tables depend on it."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True)
class CommandStep:
    """A command with its output, as the page shows it."""

    command: str
    output: tuple[str, ...]


def steps(text: str) -> list[WrittenFile | CommandStep]:
    """The steps of a page, in order."""
    found: list[WrittenFile | CommandStep] = []
    for block in blocks(text):
        if block.title:
            found.append(WrittenFile(block.title, block.text))
        elif not block.language and block.text.startswith("$ "):
            for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
                command, *output = part.splitlines()
                found.append(CommandStep(command, tuple(output)))
    return found


def differs(shown: Sequence[str], actual: Sequence[str]) -> str | None:
    """The line of a page's output that a command did not print; None if all of them fit.

    Spaces at the end of a line, and empty lines at the end of the output, do not count.
    """
    text = "\n".join(one.rstrip() for one in actual).rstrip("\n") + "\n" if any(actual) else ""
    pattern = ""
    for line in shown:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        elif line.endswith("…"):
            pattern += re.escape(line.removesuffix("…").rstrip()) + r".*\n"
        else:
            pattern += re.escape(line.rstrip()) + r"\n"
        if not re.match(pattern, text):
            return line
    return None if re.fullmatch(pattern, text) else "the end"


def carry_out(page: Path, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Carry all steps of a page out in a folder.

    Parameters
    ----------
    page : Path
    folder : Path
        Empty.
    environment : mapping
        Variables that commands see; `PATH` decides which `cdma` and `python` they are.

    Returns
    -------
    list of str
        What was not as the page shows it: the command, the line that is not there, and what was
        printed. Steps behind one that failed are not carried out.
    """
    wrong = []
    for step in steps(page.read_text("utf-8")):
        if isinstance(step, WrittenFile):
            (folder / step.name).write_text(step.text, "utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env={**environment, "COLUMNS": str(WIDTH)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return [*wrong, f"$ {step.command}\nexit status {done.returncode}\n{done.stderr}"]
        line = differs(step.output, done.stdout.splitlines())
        if line is not None:
            wrong.append(f"$ {step.command}\nnot there: {line}\n{done.stdout}")
    return wrong
