"""HTML of results and configurations in notebooks, for their `_repr_html_`.

A notebook asks an object that ends a cell for it, and shows it instead of the text of `repr`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

from cdma.builds.pictures import svg_address


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, all of them escaped; the first column names the rows."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def facts(caption: str, content: Mapping[str, str]) -> str:
    """A table of names and texts."""
    return table(caption, ("", ""), content.items())


def fields_of(value: Any) -> str:
    """The fields of a dataclass, those of dataclasses in it by their paths."""
    return facts(type(value).__name__, dict(_fields(value)))


def _fields(value: Any, prefix: str = "") -> Iterable[tuple[str, str]]:
    for field in fields(value):
        each = getattr(value, field.name)
        if is_dataclass(each):
            yield from _fields(each, f"{prefix}{field.name}.")
        elif isinstance(each, int) and not isinstance(each, bool):
            yield f"{prefix}{field.name}", f"{each:,}"
        elif isinstance(each, tuple):
            yield f"{prefix}{field.name}", ", ".join(map(str, each))
        else:
            yield f"{prefix}{field.name}", str(each)


def picture(svg: bytes, text: str) -> str:
    """A picture with the same in words."""
    return f'<img src="{svg_address(svg)}" alt="{escape(text)}">'
