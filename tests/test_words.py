"""The field's words, read from the sources: openings of docstrings, and names that are not used.

A docstring names its subject first; one that opens with a question word, "of" or "from" leaves the
reader to guess it. A name that `OLD_NAMES` or `OLD_WORDS` lists has a successor that the field
knows, and `docs/developer/glossary.md` explains it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from tests.lib.paths import ROOT

ROOMS = ("cdma", "examples", "golden", "hw", "plan", "reproduce", "sim", "synth", "tests")

OPENING = re.compile(r"(What|Where|How|Of|From|Which|Whether)\b")

MOST_OPENINGS = 0.01
"""The part of a room's docstrings that may open so."""

OLD_NAMES: Mapping[str, str] = {
    "Carried": "TransferResult",
    "Completer": "RetireUnit",
    "Damage": "truncation, framing error or partial element",
    "EntryAppraiser": "EntryChecker",
    "EntryJudge": "EntryChecker",
    "EntryStorer": "WriteBack",
    "FillBuffer": "MSHR",
    "Finding": "StreamError",
    "LineGather": "LineReportCollector",
    "MapJudge": "MapChecker",
    "Passage": "LineFlow",
    "Place": "Bottleneck",
    "ReadIssuer": "ReadIssue",
    "ReadReturner": "ReadResponse",
    "Road": "Backend",
    "Scene": "Scenario",
    "SectorJudge": "StreamChecker",
    "Settings": "a name that tells whose settings they are",
    "Structure": "ProblemArrays",
    "Told": "RecordInfo",
    "Traffic": "a name that tells what is counted",
    "Trip": "RoundTrip",
    "WriteBacks": "eviction buffer",
    "WriteGatherer": "WriteCollector",
    "trip": "round_trip",
    "trips": "round_trips",
}
"""Whole names, and what stands for them now."""

OLD_WORDS: Mapping[str, str] = {
    "ample": "space_left",
    "placing": "memory_limited",
    "ragged": "partial element",
    "recurrence": "timeline kernel",
    "scenes": "scenarios",
    "stretches": "variable_density",
    "surroundings": "environment",
    "torn": "framing error",
}
"""Words that are no part of any name, and what stands for them now."""

TOLD_APART = ("Damage", "Engine", "Register", "Settings", "Traffic", "Verdict")
"""Names that once stood for several things: a class of the package has each at most once."""

Sources = Mapping[str, str]


@cache
def sources() -> Sources:
    """Text of the package's files and the tests', by path."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
    }


@cache
def parsed(source: str) -> ast.Module:
    """Syntax tree of a file's text."""
    return ast.parse(source)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring of a file."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def openings(files: Sources) -> list[str]:
    """Docstrings without a subject, as `path:line: first line`."""
    return [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path, source in files.items()
        for line, text in docstrings(source)
        if OPENING.match(text)
    ]


def too_many_openings(files: Sources) -> list[str]:
    """Rooms with more openings than allowed, with all of them."""
    found: dict[str, list[str]] = {}
    for opening in openings(files):
        found.setdefault(opening.split("/")[0], []).append(opening)
    totals = Counter(path.split("/")[0] for path, text in files.items() for _ in docstrings(text))
    return [
        f"{room}: {len(those)} of {totals[room]} docstrings\n" + "\n".join(those)
        for room, those in found.items()
        if len(those) > MOST_OPENINGS * totals[room]
    ]


def bound_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of whatever a file binds: classes, functions, arguments, variables, members."""
    for node in ast.walk(parsed(source)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def words(name: str) -> set[str]:
    """Words that a name is made of, in lower case."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def old_names(files: Sources) -> list[str]:
    """Bound names that are out of use, as `path:line: name; use its successor`."""
    found = []
    for path, source in files.items():
        for line, name in bound_names(source):
            bare = name.lstrip("_")
            successors = [OLD_NAMES[bare]] if bare in OLD_NAMES else []
            successors += [OLD_WORDS[word] for word in sorted(words(name) & OLD_WORDS.keys())]
            found += [f"{path}:{line}: {name}; use {successor}" for successor in successors]
    return found


def classes_of_one_name(files: Sources) -> list[str]:
    """Names of `TOLD_APART` that more than one class of the package has."""
    homes: dict[str, list[str]] = {name: [] for name in TOLD_APART}
    for path, source in files.items():
        if not path.startswith("tests/"):
            for node in ast.walk(parsed(source)):
                if isinstance(node, ast.ClassDef) and node.name in homes:
                    homes[node.name].append(path)
    return [f"{name}: {', '.join(those)}" for name, those in homes.items() if len(those) > 1]


def test_all_rooms_are_read():
    found = Counter(path.split("/")[0] for path in sources())
    assert set(found) == set(ROOMS)
    assert min(count for room, count in found.items() if room != "examples") > 10


def test_docstrings_name_their_subject_first():
    found = too_many_openings(sources())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("word", ["What", "Where", "How", "Of", "From", "Which", "Whether"])
@pytest.mark.parametrize(
    "source",
    ['"""{} planted."""', 'class X:\n    """{} planted."""', 'def f():\n    """{} planted."""'],
)
def test_an_opening_is_found(source, word):
    planted = {"plan/planted.py": source.format(word)}
    (found,) = too_many_openings(planted)
    assert found.startswith("plan: 1 of 1 docstrings\nplan/planted.py:")
    assert openings({"plan/planted.py": source.format(f"{word}ever is")}) == []


def test_the_share_of_openings_is_that_of_their_room():
    good = "\n".join(f'def f{i}():\n    """The subject."""' for i in range(99))
    bad = 'def g():\n    """Of a subject."""\n'
    assert too_many_openings({"sim/planted.py": f"{bad}{good}"}) == []
    assert len(too_many_openings({"sim/planted.py": f"{bad}{bad}{good}"})) == 1
    assert len(too_many_openings({"sim/planted.py": good, "plan/planted.py": bad})) == 1


def test_old_names_are_not_bound():
    found = old_names(sources())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "class Road:\n    pass",
        "class _Trip:\n    pass",
        "def trips():\n    pass",
        "def f(surroundings):\n    pass",
        "torn = 1",
        "self.ragged = 1",
        "for one_stretches in x:\n    pass",
        "class PlacingTorch:\n    pass",
    ],
)
def test_an_old_name_is_found(source):
    (found,) = old_names({"sim/planted.py": source})
    assert found.startswith("sim/planted.py:1: ")


def test_other_names_are_not_found():
    source = "def round_trips(structures, sample, placement):\n    return Place.torn"
    assert old_names({"sim/planted.py": source}) == []


def test_one_name_is_one_thing():
    found = classes_of_one_name(sources())
    assert not found, "\n".join(found)


def test_a_second_class_of_a_name_is_found():
    planted = {
        "plan/one.py": "class Traffic:\n    pass",
        "sim/two.py": "class Traffic:\n    pass",
        "tests/three.py": "class Traffic:\n    pass",
    }
    assert classes_of_one_name(planted) == ["Traffic: plan/one.py, sim/two.py"]
