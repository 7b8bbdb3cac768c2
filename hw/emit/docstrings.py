"""Docstrings of components, for the artefacts that are generated from them."""

import inspect
import re


def summary(obj: object) -> str:
    """A docstring without its sections: what the thing promises, and its cost."""
    text = inspect.getdoc(obj) or ""
    return re.split(r"\n\n?\w[\w ]*\n-{3,}\n", text, maxsplit=1)[0].strip()


def members(obj: object) -> dict[str, str]:
    """Names and descriptions from the docstring's section "Members", each on one line."""
    text = inspect.getdoc(obj) or ""
    section = re.search(r"^Members\n-+\n(.*?)(?=^\w[\w ]*\n-{3,}\n|\Z)", text, re.M | re.S)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else []:
        if line.strip() and not line.startswith(" "):
            names = [name.strip() for name in line.split(" : ")[0].split(",")]
            found.update(dict.fromkeys(names, ""))
        else:
            for name in names:
                found[name] = f"{found[name]} {line.strip()}".strip()
    return found
