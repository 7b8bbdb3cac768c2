"""Sources that a test's outcome depends on, read from the checkout without importing anything.

A module depends on the modules that it imports, at its top or in a function, on those that its
strings name (a program for another process, a bench that a simulator loads, the target of a
monkeypatch, `import_module`), and on all that these depend on. A string that ends in a package's
name and a dot, as of an f-string, names all modules of the package. Docstrings name nothing.
"""

import ast
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from cdma.builds.cache import cache_directory, digest

PACKAGES = ("cdma", "tests")
OUTPUTS = "build"
"""The folder at the top that commands write to."""

PATHS = ".".join(("tests", "lib", "paths"))
"""Who imports this module can read, and run, all that the checkout has: code on pages, too.

Put together, as every test depends on this file, and would on all that its strings name.
"""

_NAMED = re.compile(rf"(?<![\w./])(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+\.?")


class Checkout:
    """The files of a checkout, with their hashes and what its modules depend on.

    Every file is read at most once, so an edit during a run is seen by the next.

    Parameters
    ----------
    root : Path
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[Path, str] = {}
        self._nexts: dict[tuple[str, bool], list[tuple[str, bool]]] = {}

    @cached_property
    def files(self) -> list[Path]:
        """All files, in order, but for those that tools leave behind."""
        found = []
        # The packages' rooms are links to the folders at the top.
        for folder, folders, names in os.walk(self.root, followlinks=True):
            folders[:] = [name for name in folders if not self._is_left_behind(Path(folder, name))]
            found += [Path(folder, name) for name in names if not name.endswith(".pyc")]
        return sorted(found)

    @cached_property
    def modules(self) -> dict[str, Path]:
        """The packages' modules by full name; a package is its `__init__`."""
        found = {}
        for path in self.files:
            parts = path.relative_to(self.root).with_suffix("").parts
            if path.suffix == ".py" and parts[0] in PACKAGES:
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    @cached_property
    def module_files(self) -> frozenset[Path]:
        """The packages' modules by their files."""
        return frozenset(self.modules.values())

    @cached_property
    def folders(self) -> set[str]:
        """The packages, with or without an `__init__`, by full name."""
        return {name[:end] for name in self.modules for end in _dots(name)}

    def name_of(self, path: Path) -> str:
        """The full name of the module in that file."""
        return ".".join(path.relative_to(self.root).with_suffix("").parts)

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """The modules with those that they depend on, those that these depend on, and so on."""
        found: set[tuple[str, bool]] = set()
        left = [(name, True) for name in names]
        while left:
            name, named = left.pop()
            # A package that is only around what is named runs its top, and no function.
            if (name, named) not in found and (name, True) not in found:
                found.add((name, named))
                left += self._next(name, named)
        return frozenset(name for name, _ in found)

    def sources(self, names: Iterable[str]) -> str:
        """A hash of the sources of some modules."""
        parts = (part for name in sorted(names) for part in (name, self.hash(self.modules[name])))
        return digest(*parts)

    def data(self, names: frozenset[str], *, settings: bool = True) -> str:
        """A hash of the files that are no Python and count for a closure.

        Those are the project's settings, if these are wanted, all of the package's files, and those
        in folders of `tests` that the closure has a module of.
        """
        rooms = _rooms(names)
        return self._hash_all(
            path
            for path, room in self._data_files.items()
            if room in rooms and (settings or path != self._settings)
        )

    @cached_property
    def _data_files(self) -> dict[Path, str]:
        """The files that are no Python, in order, each with the room that it is in."""
        inner = {path: path.relative_to(self.root) for path in self.files if path.suffix != ".py"}
        found = {path: _room(name) for path, name in inner.items() if name.parts[0] in PACKAGES}
        return found | ({self._settings: ""} if self._settings in inner else {})

    @property
    def _settings(self) -> Path:
        return self.root / "pyproject.toml"

    @cached_property
    def everything(self) -> str:
        """A hash of all files of the checkout."""
        return self._hash_all(self.files)

    def hash(self, path: Path) -> str:
        if path not in self._hashes:
            self._hashes[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self._hashes[path]

    def covers(self, path: Path, names: frozenset[str]) -> bool:
        """Return True if the hashes that go with a closure match a file of the checkout."""
        if PATHS in names or self._is_left_behind(path) or path.is_dir():
            return True
        real = path.resolve()
        if path.suffix == ".py":
            return not self._modules_of.get(real, frozenset()).isdisjoint(names)
        return self._real_data_files.get(real) in _rooms(names)

    # The packages' rooms are links: a file may be several modules, and has one real path.

    @cached_property
    def _modules_of(self) -> dict[Path, set[str]]:
        found: dict[Path, set[str]] = {}
        for name, path in self.modules.items():
            found.setdefault(path.resolve(), set()).add(name)
        return found

    @cached_property
    def _real_data_files(self) -> dict[Path, str]:
        return {path.resolve(): room for path, room in self._data_files.items()}

    def _is_left_behind(self, path: Path) -> bool:
        """Return True for files that tools have written: no test's outcome depends on them."""
        parts = path.relative_to(self.root).parts
        return parts[0] == OUTPUTS or any(
            part.startswith(".") or part == "__pycache__" or part.endswith(".egg-info")
            for part in parts
        )

    def _hash_all(self, paths: Iterable[Path]) -> str:
        return digest(
            *(
                part
                for path in paths
                for part in (str(path.relative_to(self.root)), self.hash(path))
            )
        )

    def _next(self, name: str, named: bool) -> list[tuple[str, bool]]:
        """The modules that a module names, or that its top does, and the packages around them."""
        if (name, named) not in self._nexts:
            direct: set[str] = set()
            for reference in self._references(name, named):
                direct |= self._resolved(reference)
            around = {outer[:end] for outer in (*direct, name) for end in _dots(outer)}
            self._nexts[name, named] = [
                *((other, True) for other in direct),
                *((other, False) for other in around & self.modules.keys()),
            ]
        return self._nexts[name, named]

    def _resolved(self, reference: str) -> set[str]:
        """The module that a dotted name begins with; below a package and a dot, all of them."""
        origin, _, imported = reference.partition(":")
        if imported:
            # What is imported from a package may be a module of it, and then names no other.
            inner = f"{origin}.{imported}"
            is_module = inner in self.modules or inner in self.folders
            reference = inner if is_module else origin
        if reference.endswith(".") and reference[:-1] in self.folders:
            return {name for name in self.modules if name.startswith(reference)}
        name = reference.rstrip(".")
        while name and name not in self.modules and name not in self.folders:
            name = name.rpartition(".")[0]
        return {name} & self.modules.keys()

    def _references(self, name: str, named: bool) -> list[str]:
        path = self.modules[name]
        key = f"{self.hash(path)} {name}" if named else f"{self.hash(path)} {name} top"
        if key not in self._parsed:
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            self._parsed[key] = sorted(references(path.read_text("utf-8"), package, named))
            self._new = True
        return self._parsed[key]

    # Parsing all sources takes seconds, reading what was found in them none.
    _new = False

    @cached_property
    def _parsed(self) -> dict[str, list[str]]:
        try:
            return json.loads(self._kept.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    @cached_property
    def _kept(self) -> Path:
        return cache_directory() / "verdicts" / f"names-{digest(Path(__file__).read_text())}.json"

    def keep(self) -> None:
        """Note for the next run what the sources name, of those that are there."""
        if self._new:
            there = {
                f"{self.hash(path)} {name}{top}"
                for name, path in self.modules.items()
                for top in ("", " top")
            }
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            partial = self._kept.with_suffix(f".{secrets.token_hex(4)}")
            partial.write_text(
                json.dumps({key: names for key, names in self._parsed.items() if key in there})
            )
            partial.replace(self._kept)


def references(source: str, package: str, named: bool = True) -> set[str]:
    """Dotted names of the project in a module of a package: of its imports and of its strings.

    What is imported from a module is behind a colon.
    Of a module that is not named itself, without what only functions and type checkers use.
    """
    tree = ast.parse(source)
    if not named:
        tree.body = [node for node in tree.body if not _is_only_defined(node)]
    found: set[str] = set()
    docstrings = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                docstrings.add(text)
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                origin = ".".join([*base, *([module] if module else [])])
                found |= {f"{origin}:{alias.name}" for alias in names}
            case ast.Constant(value=str() as text) if node not in docstrings:
                for name in _NAMED.findall(text):
                    # `python -m` runs a package's `__main__`.
                    found |= {name} if name.endswith(".") else {name, f"{name}.__main__"}
    return {name for name in found if re.split("[.:]", name)[0] in PACKAGES}


def _is_only_defined(node: ast.stmt) -> bool:
    """Return True for a statement that runs nothing of its own, such as a function's definition."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef)


def _rooms(names: Iterable[str]) -> frozenset[str]:
    """The rooms of tests that some modules are in, and those that count for all."""
    tests = (name.split(".") for name in names if name.startswith("tests."))
    return frozenset({"", "cdma", "tests", *(f"tests.{parts[1]}" for parts in tests)})


def _room(path: Path) -> str:
    """The package of a file, and below `tests` the folder."""
    return ".".join(path.parts[: 2 if path.parts[0] == "tests" else 1][: len(path.parts) - 1])


def _dots(name: str) -> list[int]:
    return [end for end, letter in enumerate(name) if letter == "."]
