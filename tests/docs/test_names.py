"""Files and names of code that pages tell of are there.

A page outlives a move unnoticed: links are followed, but a path or a class in plain code is not.
"""

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import pages
from tests.lib.paths import ROOT

# They read all sources.
pytestmark = pytest.mark.always

FOLDERS = ("cdma", "docs", "examples", "golden", "hw", "plan", "reproduce", "sim", "synth", "tests")
PAGES = [page for page in pages() if page.name != "CHANGELOG.md"]

MADE_BY_THE_READER = ("xyz", "lenet5", "largest_first")
"""Parts of paths on the pages that walk through adding something: the reader makes them."""

CLAIM = re.compile(r"cdma/[\w-]+")
"""Name of a row of `cdma reproduce`, `paper/name`; a paper is called like the package."""

FORMER = "glossary.md"
"""The page whose last column lists names that are out of use."""

_PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)")
_MODULE = re.compile(r"(?<![\w.])cdma\.(?:golden|hw|plan|reproduce|sim|synth|builds)(?:\.\w+)+")
_CLASS = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b")
_CODE = re.compile(r"`([^`\n]+)`")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def missing_paths(text: str) -> Iterator[str]:
    """Paths from the repository's top that lead nowhere; patterns and placeholders are left out."""
    # Links begin at their page; `test_links` follows them.
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for match in _PATH.finditer(text):
        path = match[1]
        pattern = re.match(r"/?[*{<]", text[match.end() :])
        if pattern or CLAIM.fullmatch(path) or any(m in path for m in MADE_BY_THE_READER):
            continue
        if not (ROOT / path).exists():
            yield path


def missing_modules(text: str) -> Iterator[str]:
    """Dotted names that begin with no module: what follows a module is a name in it."""
    for match in _MODULE.finditer(text):
        parts = match[0].split(".")[1:]
        folder = ROOT / "cdma" if parts[0] == "builds" else ROOT
        while parts and (folder / parts[0]).is_dir():
            folder /= parts.pop(0)
        if not parts or (folder / f"{parts[0]}.py").exists():
            continue
        if parts[0] not in names_of((folder / "__init__.py").read_text("utf-8")):
            yield match[0]


def names_of(source: str) -> set[str]:
    """All names that a source has: defined, imported or used."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                found.add(node.name)
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
            case ast.alias():
                found.add(node.asname or node.name)
    return found


@cache
def names() -> frozenset[str]:
    """All names of the package and its tests."""
    return frozenset(
        name
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for name in names_of(path.read_text("utf-8"))
    )


def missing_classes(text: str, known: Collection[str]) -> set[str]:
    """Names of classes in code that nothing has."""
    without_blocks = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    told = {name for code in _CODE.findall(without_blocks) for name in _CLASS.findall(code)}
    # Of blocks without a language, pictures of blocks that stand in a row.
    for block in re.findall(r"^```\n(.*?)^```$", text, flags=re.M | re.S):
        told |= {
            name
            for line in block.splitlines()
            if re.search(r"[►◄▲▼]", line)
            for name in _CLASS.findall(line)
        }
    return told - set(known)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_and_modules_that_a_page_names_are_there(page):
    text = page.read_text("utf-8")
    assert [*missing_paths(text), *missing_modules(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_classes_that_a_page_names_are_there(page):
    text = page.read_text("utf-8")
    if page.name == FORMER:
        text = re.sub(r"\|[^|\n]*\|$", "", text, flags=re.M)
    assert missing_classes(text, names()) == set()


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`hw/config.py` and [it](hw/no_link.py)", []),
        ("in `hw/dma/former.py`.", ["hw/dma/former.py"]),
        ("Files are in docs/guide/former.md", ["docs/guide/former.md"]),
        ("`tests/formal/`, `tests/hw/cocotb`", []),
        ("`golden/formats/xyz.py`", []),
        ("`hw/former/*.py`", []),
        ("`cdma.hw.config.preset`, `cdma.plan.workload`", []),
        ("`cdma.sim.estimate`", ["cdma.sim.estimate"]),
    ],
)
def test_a_missing_file_is_found(text, missing):
    assert [*missing_paths(text), *missing_modules(text)] == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`StreamChecker` looks", set()),
        ("`SectorCritic` looks", {"SectorCritic"}),
        ("```\n A ► SectorCritic ► B\n```\n", {"SectorCritic"}),
        ("```\nSectorCritic\n```\n", set()),
        ("SectorCritic in plain text", set()),
    ],
)
def test_a_missing_class_is_found(text, missing):
    assert missing_classes(text, {"StreamChecker"}) == missing
