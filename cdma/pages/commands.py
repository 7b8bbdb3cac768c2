"""Pages of the commands: what `--help` prints, and an example with its real output.

    python -m cdma.pages.commands docs/reference/commands [COMMAND]…

writes them; given commands' names, as buddy-profile, only theirs.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cdma.app import root
from cdma.pages.examples import ARRAY, EXAMPLES, Example

FOLDER = "docs/reference/commands"
WRITE = f"<!-- Generated: .venv/bin/python -m cdma.pages.commands {FOLDER} -->"

WIDTH = 120
"""Columns of the terminal in which examples are carried out."""

_PROGRESS = re.compile(r"cdma: |\S+ \(\d+ of \d+\)$")

Outputs = Mapping[str, Sequence[str]]
"""The lines that each command line of an example printed."""


def commands() -> dict[str, Any]:
    """All commands by their names, those of groups behind the group's."""
    found: dict[str, Any] = {}
    for name, command in root().commands.items():
        loaded = command.load()  # type: ignore[attr-defined]
        if hasattr(loaded, "commands"):
            found |= {f"{name} {inner}": one for inner, one in loaded.commands.items()}
        else:
            found[name] = loaded
    return dict(sorted(found.items()))


def file_name(name: str) -> str:
    """The file of a command's page."""
    return f"{name.replace(' ', '-')}.md"


def help_text(name: str, command: Any) -> str:
    """The text that a command prints with `--help`."""
    context = command.make_context(f"cdma {name}", ["--help"], resilient_parsing=True)
    return str(command.get_help(context)).rstrip()


def about(command: Any) -> str:
    """The first paragraph of a command's help, in one line."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def outputs_of(name: str) -> Outputs:
    """Carry a command's example out, in a folder of its own.

    Raises
    ------
    RuntimeError
        A command fails; the message has what it printed.
    """
    example = EXAMPLES[name]
    found = {}
    with TemporaryDirectory() as folder:
        if _reads_array(example):
            _run([sys.executable, "-c", ARRAY], folder)
        for file, text in example.files.items():
            (Path(folder) / file).write_text(text, "utf-8")
        for line in example.commands:
            call = line.replace("cdma ", f"{sys.executable} -m cdma ", 1)
            printed = [one.rstrip() for one in _run(["bash", "-c", call], folder).splitlines()]
            shown = printed[: example.lines]
            found[line] = [*shown, "…"] if len(shown) < len(printed) else shown
    return found


def _reads_array(example: Example) -> bool:
    return any("relu.npy" in line for line in example.commands)


def _run(command: Sequence[str], folder: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "COLUMNS": str(WIDTH)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{command[-1]} failed: {done.stderr}")
    # What `generate` and others have written is told on stderr, between the lines of progress.
    told = [line for line in done.stderr.splitlines() if not _PROGRESS.match(line)]
    return "\n".join([*done.stdout.splitlines(), *told])


def document(name: str, command: Any, outputs: Outputs) -> str:
    """The page of a command.

    Parameters
    ----------
    name : str
    command : click.Command
    outputs : mapping
        What `outputs_of` found.
    """
    return "\n".join([*_lines(name, command, outputs), ""])


def _lines(name: str, command: Any, outputs: Outputs) -> Iterator[str]:
    example = EXAMPLES[name]
    guide = f"[{Path(example.guide).stem}](../../{example.guide})"
    yield f"# `cdma {name}`"
    yield ""
    yield WRITE
    yield ""
    yield f"{about(command)} What it means, and all that it can: {guide}."
    yield ""
    yield "## Example"
    yield ""
    for file, text in example.files.items():
        language = "python" if file.endswith(".py") else "toml"
        yield f'```{language} title="{file}"'
        yield text.rstrip()
        yield "```"
        yield ""
    if _reads_array(example):
        yield "A few lines of Python [make `relu.npy`](index.md#the-array-of-the-examples)."
        yield ""
    yield "```"
    for line in example.commands:
        yield f"$ {line}"
        yield from outputs[line]
    yield "```"
    yield ""
    yield "## Help"
    yield ""
    yield "```text"
    yield f"$ cdma {name} --help"
    yield help_text(name, command)
    yield "```"


def index(known: Mapping[str, Any]) -> str:
    """The page that leads to all of them."""
    rows = [
        f"| [`cdma {name}`]({file_name(name)}) | {about(command)} |"
        for name, command in known.items()
    ]
    return "\n".join(
        [
            "# Commands",
            "",
            WRITE,
            "",
            "Each page has an example with its output, and what `--help` prints. "
            "[command-line](../command-line.md) has what all of them share.",
            "",
            "| command | what it does |",
            "|---|---|",
            *rows,
            "",
            "## The array of the examples",
            "",
            "Values of a normal distribution behind a ReLU:",
            "",
            "```python",
            ARRAY.rstrip(),
            "```",
            "",
        ]
    )


def main(folder: str, *names: str) -> None:
    """Write the pages of the named commands, of all if none is named, and the index."""
    known = commands()
    files = {file_name(name).removesuffix(".md"): name for name in known}
    for file in names or files:
        name = files[file]
        text = document(name, known[name], outputs_of(name))
        (Path(folder) / f"{file}.md").write_text(text, "utf-8")
    (Path(folder) / "index.md").write_text(index(known), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
