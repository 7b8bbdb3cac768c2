"""The house's rules about imports, files and folders, read from the sources.

Each rule is a function from modules to violations. It finds none in the package, and is shown to
find what is planted.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from importlib.util import find_spec

import pytest

from tests.lib.paths import ROOT

ROOMS = ("golden", "hw", "plan", "sim", "synth", "reproduce")
BUILDS, FRONT = "builds", "cdma"

ARROWS: Mapping[str, frozenset[str]] = {
    BUILDS: frozenset(),
    "golden": frozenset({BUILDS}),
    "hw": frozenset({BUILDS, "golden"}),
    "plan": frozenset({BUILDS, "golden", "hw"}),
    "synth": frozenset({BUILDS, "golden", "hw"}),
    "sim": frozenset({BUILDS, "golden", "hw", "plan"}),
    "reproduce": frozenset({BUILDS, "golden", "hw", "plan", "sim", "synth"}),
    FRONT: frozenset({BUILDS, *ROOMS}),
}
"""What each room may import; the front is all of `cdma` that is no room."""

PLAN_MAY_READ = ("cdma.hw.config", "cdma.hw.codec.interface", "cdma.hw.codec.registry")
"""Of `hw`, with all that is in them: configurations, and what a planner needs of a codec. Of other
modules of `hw`, `plan` reads constants and enums."""

SPEAK = frozenset(
    {
        "cdma.hw.registers.__main__",
        "cdma.plan.training.__main__",
        "cdma.synth.catalog",
    }
)
"""Modules beside the front that are run by `python -m` and print."""

SPEAKERS = ("argparse", "click", "getopt", "optparse", "rich", "typer")
"""Packages that print for people or parse arguments."""

MOST_MODULES = 16
"""In a folder, beside its `__init__`."""


@dataclass(frozen=True)
class Import:
    """An import of something of the project.

    Attributes
    ----------
    module : str
        The module or package that is imported, or from which something is.
    name : str
        What is imported from it; empty if that is a module.
    at_import : bool
        Whether it happens when the importing module is imported: not in a function, and not only
        for type checkers.
    """

    module: str
    name: str
    at_import: bool


@dataclass(frozen=True)
class Module:
    """A source file.

    Attributes
    ----------
    name : str
        Full; a package's is that of its folder.
    is_package : bool
    tree : ast.Module
    """

    name: str
    is_package: bool
    tree: ast.Module

    @property
    def room(self) -> str:
        """The room that it is in, `builds`, or the front."""
        part = self.name.split(".")[1] if "." in self.name else ""
        return part if part in ARROWS else FRONT


Modules = Mapping[str, Module]


@cache
def package() -> Modules:
    """All modules of `cdma`."""
    found = {}
    for folder in ("cdma", *ROOMS):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT).with_suffix("").parts
            parts = inside if folder == "cdma" else ("cdma", *inside)
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            # A room's link in the package is the room.
            if name not in found:
                found[name] = Module(name, is_package, ast.parse(path.read_text()))
    return found


def planted(name: str, source: str, *, is_package: bool = False) -> Modules:
    """The package with one module more, or another one in its place."""
    return {**package(), name: Module(name, is_package, ast.parse(source))}


def nodes(tree: ast.AST, at_import: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes, each with whether it is met when the module is imported."""
    yield tree, at_import
    inside = at_import and not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        for child in tree.body:
            yield from nodes(child, at_import=False)
        for child in tree.orelse:
            yield from nodes(child, inside)
        return
    for child in ast.iter_child_nodes(tree):
        yield from nodes(child, inside)


@cache
def written(module: Module) -> tuple[tuple[str, str, bool], ...]:
    """Imports as they are written: from what, what, and whether at import time."""
    found = []
    for node, at_import in nodes(module.tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, "", at_import) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.name.split(".")
                above = above[: len(above) - node.level + module.is_package]
                base = ".".join([*above, *([base] if base else [])])
            found += [(base, alias.name, at_import) for alias in node.names]
    return tuple(one for one in found if one[0] == "cdma" or one[0].startswith("cdma."))


def imports(module: Module, modules: Modules) -> list[Import]:
    """Imports of the project's modules by a module."""
    found = []
    for base, name, at_import in written(module):
        whole = f"{base}.{name}"
        found.append(
            Import(whole, "", at_import) if whole in modules else Import(base, name, at_import)
        )
    return found


def room_of(module: str) -> str:
    return Module(module, False, ast.Module([], [])).room


def against_arrows(modules: Modules) -> list[str]:
    """Imports of rooms that a room must not know."""
    return [
        f"{module.name} imports {one.module}"
        for module in modules.values()
        for one in imports(module, modules)
        if room_of(one.module) not in {module.room, *ARROWS[module.room]}
    ]


def beyond_constants(modules: Modules) -> list[str]:
    """Imports of `plan` from `hw` that are neither configuration nor a constant or an enum."""
    return [
        f"{module.name} imports {one.name or 'all'} of {one.module}"
        for module in modules.values()
        if module.room == "plan"
        for one in imports(module, modules)
        if room_of(one.module) == "hw"
        and one.module not in PLAN_MAY_READ
        and not _is_constant(one, modules)
    ]


def _is_constant(one: Import, modules: Modules) -> bool:
    if not one.name or one.module not in modules:
        return False
    if re.fullmatch(r"[A-Z][A-Z0-9_]*", one.name):
        return True
    defined = getattr(import_module(one.module), one.name, None)
    return isinstance(defined, type) and hasattr(defined, "__members__")


def circles(modules: Modules) -> list[str]:
    """Modules that import each other while they are imported."""
    needed = {
        module.name: {
            one.module
            for one in imports(module, modules)
            if one.at_import and one.module in modules
        }
        - {module.name}
        for module in modules.values()
    }
    try:
        tuple(TopologicalSorter(needed).static_order())
    except CycleError as error:
        return [" imports ".join(reversed(error.args[1]))]
    return []


def room_circles(modules: Modules) -> list[str]:
    """Rooms that know each other, at whatever time."""
    needed: dict[str, set[str]] = {room: set() for room in ARROWS}
    for module in modules.values():
        needed[module.room] |= {room_of(one.module) for one in imports(module, modules)}
    try:
        tuple(TopologicalSorter({r: known - {r} for r, known in needed.items()}).static_order())
    except CycleError as error:
        return [" imports ".join(reversed(error.args[1]))]
    return []


def speakers(modules: Modules) -> list[str]:
    """Modules outside of the front that print or parse arguments."""
    return [
        f"{module.name}: {spoken}"
        for module in modules.values()
        if module.room != FRONT and module.name not in SPEAK
        for spoken in speech(module)
    ]


@cache
def speech(module: Module) -> tuple[str, ...]:
    """Calls in a module that print or parse arguments."""
    return tuple(ast.unparse(node) for node, _ in nodes(module.tree) if _speaks(node))


def _speaks(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("print", "input")
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) in ("sys.argv", "sys.stdin", "sys.stdout", "sys.stderr")
    if isinstance(node, ast.ImportFrom):
        if node.module == "sys" and {alias.name for alias in node.names} & {"argv", "stdout"}:
            return True
        return (node.module or "").split(".")[0] in SPEAKERS
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in SPEAKERS for alias in node.names)
    return False


def bare_imports(sources: Mapping[str, str]) -> list[str]:
    """Files that import a room by its folder's name, which works in a checkout only."""
    found = []
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                named = [node.module or ""]
            else:
                continue
            found += [f"{path} imports {one}" for one in named if one.split(".")[0] in ROOMS]
    return found


def full_folders(modules: Modules) -> list[str]:
    """Folders with more modules in them than a reader takes in."""
    inside = Counter(
        name.rpartition(".")[0] for name, module in modules.items() if not module.is_package
    )
    return [f"{name} has {count}" for name, count in inside.items() if count > MOST_MODULES]


def silent_packages(modules: Modules) -> list[str]:
    """Packages whose `__init__` does not say in a sentence what they are for."""
    return [
        module.name
        for module in modules.values()
        if module.is_package and not _tells(ast.get_docstring(module.tree) or "")
    ]


def _tells(docstring: str) -> bool:
    first = docstring.partition("\n\n")[0].strip()
    return len(first.split()) >= 4 and first[-1] in ".:"


def missing_packages() -> list[str]:
    """Folders with modules that are no packages, and so in no wheel."""
    return [
        str(folder.relative_to(ROOT))
        for room in ROOMS
        for folder in {path.parent for path in (ROOT / room).rglob("*.py")}
        if not (folder / "__init__.py").exists()
    ]


def test_all_modules_are_read():
    names = set(package())
    assert {"cdma", "cdma.cli", "cdma.builds.cache", "cdma.commands.swap.command"} <= names
    assert {f"cdma.{room}" for room in ROOMS} <= names
    assert not {name for name in names if name.startswith("cdma.cdma")}
    assert {module.room for module in package().values()} == set(ARROWS)


def test_imports_follow_the_arrows():
    assert against_arrows(package()) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("cdma.golden.planted", "from cdma.hw.config import preset"),
        ("cdma.hw.planted", "import cdma.sim.driver"),
        ("cdma.hw.planted", "def late():\n    from cdma.plan import workload"),
        ("cdma.plan.planted", "from cdma.sim.machine import Machine"),
        ("cdma.plan.planted", "from typing import *\nif TYPE_CHECKING:\n    import cdma.sim"),
        ("cdma.sim.planted", "from cdma import synth"),
        ("cdma.sim.planted", "from ..reproduce import claim"),
        ("cdma.synth.planted", "from cdma.plan.platform.link import LINKS"),
        ("cdma.reproduce.planted", "from cdma.terminal.console import terminal"),
        ("cdma.builds.planted", "from cdma.golden import codec"),
        ("cdma.builds.planted", "from cdma.errors import UserError"),
        ("cdma.sim.planted", "import cdma"),
    ],
)
def test_an_import_against_the_arrows_is_found(name, source):
    (found,) = against_arrows(planted(name, source))
    assert found.startswith(name)


def test_plan_reads_configuration_and_constants_of_the_hardware():
    assert beyond_constants(package()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from cdma.hw.dma.engine import DmaEngine", True),
        ("import cdma.hw.dma.engine", True),
        ("from cdma.hw.dma import engine", True),
        ("from cdma.hw.config import EngineConfig, preset", False),
        ("from cdma.hw.dma.engine import SLEEPERS", False),
        ("from cdma.hw.dma.control.descriptor import Status", False),
    ],
)
def test_more_than_constants_is_found(source, found):
    assert bool(beyond_constants(planted("cdma.plan.planted", source))) == found


def test_no_modules_import_each_other():
    assert circles(package()) == []


def test_a_circle_of_modules_is_found():
    one = planted("cdma.hw.one", "from cdma.hw.two import x")
    two = planted("cdma.hw.two", "import cdma.hw.one")
    (found,) = circles({**one, **two})
    assert "cdma.hw.one" in found
    assert "cdma.hw.two" in found
    late = planted("cdma.hw.two", "def later():\n    import cdma.hw.one")
    assert circles({**one, **late}) == []
    typed = planted("cdma.hw.two", "if TYPE_CHECKING:\n    import cdma.hw.one")
    assert circles({**one, **typed}) == []


def test_no_rooms_know_each_other():
    assert room_circles(package()) == []


def test_a_circle_of_rooms_is_found():
    (found,) = room_circles(planted("cdma.hw.planted", "def later():\n    import cdma.plan"))
    assert {"hw", "plan"} <= set(found.split(" imports "))


def test_only_the_front_prints_and_parses_arguments():
    assert speakers(package()) == []
    # Those that may be run do print.
    assert set(package()) >= SPEAK
    for name in SPEAK:
        assert speech(package()[name]), name


@pytest.mark.parametrize(
    "source",
    [
        "print(1)",
        "def f():\n    print(1)",
        "import sys\nsys.stdout.write('1')",
        "import sys\narguments = sys.argv[1:]",
        "from sys import argv",
        "import argparse",
        "from rich.console import Console",
        "def f():\n    import typer",
        "name = input()",
    ],
)
def test_a_module_that_prints_is_found(source):
    (found,) = speakers(planted("cdma.sim.planted", source))
    assert found.startswith("cdma.sim.planted: ")
    assert speakers(planted("cdma.commands.planted", source)) == []


def all_sources() -> dict[str, str]:
    """The package's files and the tests', by their paths."""
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in ("cdma", *ROOMS, "examples", "tests")
        for path in (ROOT / folder).rglob("*.py")
    }


def test_rooms_are_imported_as_parts_of_the_package():
    found = all_sources()
    assert len(found) > len(package())
    assert bare_imports(found) == []


@pytest.mark.parametrize("source", ["import hw", "import sim.driver", "from golden import codec"])
def test_a_bare_import_is_found(source):
    assert len(bare_imports({"planted.py": source})) == 1
    assert bare_imports({"planted.py": f"from . import {source.split()[1].split('.')[0]}"}) == []


def test_folders_are_small():
    assert full_folders(package()) == []


def test_a_full_folder_is_found():
    most: dict[str, Module] = {}
    for i in range(MOST_MODULES):
        most |= planted(f"cdma.hw.planted.module{i}", "")
    assert full_folders(most) == []
    assert full_folders({**most, **planted("cdma.hw.planted.one", "")}) == [
        f"cdma.hw.planted has {MOST_MODULES + 1}"
    ]


def test_packages_say_what_they_are_for():
    assert silent_packages(package()) == []
    assert missing_packages() == []


@pytest.mark.parametrize("source", ["", "x = 1", '"""Planted."""', '"""No end to this sentence"""'])
def test_a_silent_package_is_found(source):
    found = silent_packages(planted("cdma.hw.planted", source, is_package=True))
    assert found == ["cdma.hw.planted"]


def missing_names(sources: Mapping[str, str]) -> list[str]:
    """What sources import from the project's own modules that is not there.

    Imports in functions are read too: what only a slow test or a benchmark runs breaks unseen.
    """
    found = []
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
                continue
            if node.module.split(".")[0] not in ("cdma", "tests"):
                continue
            try:
                module = import_module(node.module)
            except ModuleNotFoundError as error:
                # Twins of networks need PyTorch, which `make test` does not.
                if error.name != "torch":
                    raise
                continue
            for name in (alias.name for alias in node.names):
                is_module = hasattr(module, "__path__") and find_spec(f"{node.module}.{name}")
                if not (hasattr(module, name) or is_module):
                    found.append(f"{path}:{node.lineno} {node.module}.{name}")
    return found


def test_tests_import_what_there_is():
    sources = {path: text for path, text in all_sources().items() if path.startswith("tests/")}
    assert "tests/bench/planning.py" in sources
    assert missing_names(sources) == []


def test_an_import_of_a_former_name_is_found():
    source = "def run():\n    from cdma.hw.codec.stream.unpack import Unpacker, Former"
    assert missing_names({"planted.py": source}) == [
        "planted.py:2 cdma.hw.codec.stream.unpack.Former"
    ]
