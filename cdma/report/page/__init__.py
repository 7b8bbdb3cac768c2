"""The page: its template, its style and its scripts, all written into one file.

The page's policy lets nothing be loaded and runs the two scripts of this folder only, by their
hash: what a document contains stays text, even if the template failed to escape it.
"""

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cdma.report.content import Section

FOLDER = Path(__file__).parent
SCRIPTS = ("tables.js", "timeline.js")
STYLE = "page.css"


def render(
    *,
    title: str,
    sections: Sequence[Section],
    data: Mapping[str, Any],
    command: str | None,
    versions: Mapping[str, str],
    made: str,
) -> str:
    """The HTML of a page.

    Parameters
    ----------
    title : str
    sections : sequence of Section
    data : mapping
        JSON objects by the name of their file; the page has them whole.
    command : str or None
        The command that made the page.
    versions : mapping of str to str
    made : str
        Date and time.
    """
    scripts = [_asset(name) for name in SCRIPTS]
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            sections=sections,
            data=data,
            command=command,
            versions=versions,
            made=made,
            style=Markup(_asset(STYLE)),
            scripts=[Markup(script) for script in scripts],
            policy=_policy(scripts),
        )
    )


def embedded_json(value: Any) -> Markup:
    """JSON that ends no script element and begins no comment in one, whatever its texts are."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=True, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _policy(scripts: Sequence[str]) -> str:
    """The content security policy, in which a script is known by its hash."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embedded_json"] = embedded_json
    environment.filters["exact"] = _exact
    return environment


def _exact(value: Any) -> str:
    """A value as JSON has it, for scripts that sort and for who wants all digits; what JSON has no
    number for, as infinity, as a text."""
    if isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    return json.dumps(value, ensure_ascii=False)


@cache
def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
