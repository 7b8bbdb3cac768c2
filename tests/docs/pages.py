"""The documentation's pages, their headings, links and code blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lib.paths import ROOT

DOCS = ROOT / "docs"
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]

_FENCE = re.compile(
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?[^\n]*\n(?P<text>.*?)^```$', re.M | re.S
)
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    """Every page, those beside `docs/` first."""
    return [*FRONT, *sorted(DOCS.rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes
    ----------
    language : str
        Empty if none is given.
    text : str
    title : str
        The name of the file that the block is; empty if it is none.
    """

    language: str
    text: str
    title: str = ""


def blocks(text: str) -> list[Block]:
    """All fenced blocks, in order."""
    return [
        Block(match["language"], match["text"], match["title"] or "")
        for match in _FENCE.finditer(text)
    ]


def links(text: str) -> list[str]:
    """Targets of all links and pictures; what stands in code is no link."""
    without_code = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))
    return [match[1] for match in _LINK.finditer(without_code)]


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as GitHub and GitLab make them, and those of Python names."""
    found: dict[str, int] = {}
    for title in re.findall(r"^#{1,6} +(.*?)\s*$", _FENCE.sub("", text), re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, 0) + 1
    # Names whose docstrings MkDocs puts there.
    documented = set(re.findall(r"^::: ([\w.]+)$", text, re.M))
    return documented | {
        anchor if number == 0 else f"{anchor}-{number}"
        for anchor, count in found.items()
        for number in range(count)
    }


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Links of a page to files or anchors that are not there; addresses elsewhere are not asked."""
    for target in links(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if path and not file.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(text if file == page else file.read_text("utf-8")):
            yield f"{target}: no such heading"


def command_lines(text: str) -> list[str]:
    """The command lines behind `cdma ` that a page's blocks show, continued lines joined."""
    found = []
    for block in blocks(text):
        if block.language:
            continue
        joined = re.sub(r"\\\n\s*", "", block.text)
        for line in joined.splitlines():
            if match := re.match(r"(?:\$ )?cdma (?=[a-z-])(.*)", line):
                found.append(re.sub(r"\s{2,}#.*", "", match[1]).strip())
    return found
