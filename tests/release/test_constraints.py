"""The locked versions: they are of all that development needs, and suit `pyproject.toml`."""

import re
import tomllib
from importlib.metadata import requires, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.lib.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FREE = {"pip"}


def locked() -> dict[str, str]:
    """Versions by package."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): number for name, number in pairs}


def wanted(extra: str) -> list[Requirement]:
    """The project's requirements with an extra; those that name its other extras are followed."""
    found = [Requirement(text) for text in PROJECT["dependencies"]]
    names = [extra]
    for name in names:
        for requirement in map(Requirement, PROJECT["optional-dependencies"][name]):
            if requirement.name == PROJECT["name"]:
                names += [other for other in requirement.extras if other not in names]
            else:
                found.append(requirement)
    return found


def closure(start: list[Requirement]) -> dict[str, list[Requirement]]:
    """All that these need, with who asks for what.

    Packages say what they need once they are installed; of one that is here in another version than
    the locked one, that is left out.
    """
    known = locked()
    found: dict[str, list[Requirement]] = {}
    left = list(start)
    done = set()
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        found.setdefault(name, []).append(requirement)
        for extra in ("", *requirement.extras):
            if (name, extra) in done:
                continue
            done.add((name, extra))
            if version(name) != known.get(name):
                continue
            for text in requires(name) or []:
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    left.append(needed)
    return found


def test_each_package_has_one_exact_version():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()[1:]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+", line) for line in lines)
    assert len(locked()) == len(lines)


def test_all_that_development_needs_is_locked():
    needed = closure(wanted("dev"))
    # Playwright needs it; the project names it nowhere.
    assert "greenlet" in needed
    assert set(needed) - FREE <= set(locked())


def test_versions_are_those_that_are_asked_for():
    known = locked()
    for name, requirements in closure(wanted("dev")).items():
        for requirement in requirements:
            assert name in FREE or requirement.specifier.contains(known[name]), requirement
