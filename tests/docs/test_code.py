"""Python code on the pages names modules, classes and functions that are there."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import blocks, pages
from tests.lib.paths import ROOT


def python_of(page: Path) -> list[str]:
    return [b.text for b in blocks(page.read_text("utf-8")) if b.language == "python"]


WITH_CODE = [page for page in pages() if python_of(page)]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def found_in(module: str, name: str) -> object | None:
    """The object that `from module import name` imports; None if there is none of that name."""
    try:
        parent = importlib.import_module(module)
    except ModuleNotFoundError:
        return None
    if hasattr(parent, name):
        return getattr(parent, name)
    try:
        return importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return None


def missing_names(codes: list[str]) -> Iterator[str]:
    """Imports from `cdma` that fail, and attributes that an imported module does not have.

    A page's blocks are one program: what one imports, a later one may use.
    """
    modules: dict[str, ModuleType] = {}
    for code in codes:
        try:
            tree = ast.parse(code.replace("…", "..."))
        except SyntaxError:
            # A part of a program, or a call with parameters left out.
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "cdma":
                for alias in node.names:
                    found = found_in(str(node.module), alias.name)
                    if found is None:
                        yield f"from {node.module} import {alias.name}"
                    elif isinstance(found, ModuleType):
                        modules[alias.asname or alias.name] = found
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == "cdma":
                        modules["cdma"] = importlib.import_module("cdma")
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in modules
                and not hasattr(modules[node.value.id], node.attr)
            ):
                yield f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("page", WITH_CODE, ids=named)
def test_code_names_what_is_there(page):
    assert list(missing_names(python_of(page))) == []


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("from cdma.hw.config import preset", []),
        ("from cdma.hw.config import no_such", ["from cdma.hw.config import no_such"]),
        ("from cdma.no_such import preset", ["from cdma.no_such import preset"]),
        ("import cdma\ncdma.simulate", []),
        ("import cdma\ncdma.no_such", ["cdma.no_such"]),
        ("from cdma.plan.workload import density\ndensity.apply", ["density.apply"]),
    ],
)
def test_what_is_missing_is_found(code, missing):
    assert list(missing_names([code])) == missing


def test_pages_with_code_are_looked_at():
    assert {"README.md", "driver.md", "torch-swap.md"} <= {page.name for page in WITH_CODE}
