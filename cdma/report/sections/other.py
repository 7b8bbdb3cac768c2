"""Sections of objects that have no module of their own: every figure, as facts and tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdma.report.content import Facts, Part, Section, Table
from cdma.report.documents import Document
from cdma.report.tables import facts_of, table_of

CONFIGURATION = "configuration"
"""The key of the tables that `--config` takes."""

_FOLDED_ROWS = 60
"""Longer tables are folded."""


def section(document: Document, documents: Sequence[Document]) -> Section:
    """The section of any JSON object."""
    return Section(title=document.name, parts=tuple(all_parts(document.content)))


def configuration_of(content: Mapping[str, Any]) -> Iterator[Facts]:
    """The configuration that a command was run with, folded; nothing if it has none."""
    found = content.get(CONFIGURATION)
    if isinstance(found, Mapping) and found:
        yield facts_of("Configuration", found, folded=True)


def all_parts(content: Mapping[str, Any], title: str = "") -> Iterator[Part]:
    """Values as facts, and each list of objects as a table."""
    rest = {key: value for key, value in content.items() if key != CONFIGURATION}
    tables = {key: value for key, value in rest.items() if _is_rows(value)}
    facts = facts_of(title or "Figures", {k: v for k, v in rest.items() if k not in tables})
    if facts.rows:
        yield facts
    for key, rows in tables.items():
        yield from _table(f"{title}: {key}" if title else key.replace("_", " "), rows)
    yield from configuration_of(content)


def _table(title: str, rows: list[Mapping[str, Any]]) -> Iterator[Table]:
    yield table_of(title, rows, folded=len(rows) > _FOLDED_ROWS)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)
