"""The modules that a module imports, read from its source: what a cached result depends on."""

import ast
from collections.abc import Collection, Set
from functools import cache
from importlib.util import find_spec
from pathlib import Path


def imported(
    modules: Collection[str], *, of: Collection[str], but: Set[str] = frozenset()
) -> set[str]:
    """Follow the imports of modules, directly and indirectly, as far as they lie in some packages.

    Parameters
    ----------
    modules
        Full names.
    of
        Packages, by full name. Imports of others are not followed.
    but
        Modules to leave out, with what only they import.
    """
    found: set[str] = set()
    left = list(modules)
    while left:
        name = left.pop()
        if name not in found and name not in but:
            found.add(name)
            left += [
                other for other in _imports(name) if any(_is_in(other, package) for package in of)
            ]
    return {name for name in found if path_of(name).is_file()}


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def path_of(module: str) -> Path:
    """The source of a module; of a package without one, its folder."""
    spec = find_spec(module)
    if spec is None:
        raise ModuleNotFoundError(f"there is no module {module}")
    if spec.origin is None:
        return Path(next(iter(spec.submodule_search_locations or ["."])))
    return Path(spec.origin)


@cache
def _imports(module: str) -> tuple[str, ...]:
    path = path_of(module)
    if not path.is_file():
        return ()
    named: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # What is imported from a package may be a module of it.
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    packages = {name[:end] for name in named for end in range(len(name)) if name[end] == "."}
    return tuple(sorted(name for name in named | packages if _is_module(name)))


@cache
def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
