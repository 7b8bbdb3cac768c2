"""Rows of JSON as tables: a column per key, in the unit that the key's name says."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cdma.report.content import Cell, Facts, Heading, Row, Table
from cdma.report.units import is_number, quantity

Json = Mapping[str, Any]


def flat(row: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a JSON object with their paths; lists of objects are left out."""
    for key, value in row.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}.")
        elif not _has_objects(value):
            yield path, value


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, (Mapping, list)) for each in value)


def table_of(
    title: str,
    rows: Sequence[Json],
    *,
    first: Sequence[str] = (),
    without: Collection[str] = (),
    total: Json | None = None,
    note: str = "",
    folded: bool = False,
) -> Table:
    """A table with a column for every path in any row, but for those that are null in all.

    Parameters
    ----------
    title : str
    rows : sequence of mapping
        JSON objects.
    first : sequence of str
        Paths of the columns that come first, where they are there.
    without : collection of str
        Keys of the rows that get no column, nor does what is below them.
    total : mapping, optional
        A row that stays at the end; its paths are those of the others.
    note : str
    folded : bool
    """
    flats = [dict(flat({k: v for k, v in row.items() if k not in without})) for row in rows]
    paths = list(dict.fromkeys(p for row in flats for p, value in row.items() if value is not None))
    paths = [*(p for p in first if p in paths), *(p for p in paths if p not in first)]
    sums = {} if total is None else dict(flat(total))
    quantities = {path: quantity(path, [row.get(path) for row in flats]) for path in paths}

    def line(row: Mapping[str, Any]) -> Row:
        return tuple(Cell(row.get(p), quantities[p].text(row.get(p))) for p in paths)

    def is_numeric(path: str) -> bool:
        found = [row[path] for row in flats if row.get(path) is not None]
        return bool(found) and all(map(is_number, found))

    last = None
    if total is not None and paths:
        named = {paths[0]: "total"} if paths[0] not in sums else {}
        last = line({**sums, **named})
    return Table(
        title=title,
        headings=[
            Heading(path, quantities[path].title, quantities[path].unit, is_numeric(path))
            for path in paths
        ],
        rows=[line(row) for row in flats],
        total=last,
        note=note,
        folded=folded,
    )


def facts_of(
    title: str, content: Json, *, without: Collection[str] = (), folded: bool = False
) -> Facts:
    """Values of a JSON object by their paths, each in its own unit."""
    rows = []
    for path, value in flat({k: v for k, v in content.items() if k not in without}):
        found = quantity(path, value if isinstance(value, list) else [value])
        text = found.text(value)
        unit = f" {found.unit}" if found.unit and value is not None else ""
        rows.append((found.title, Cell(value, f"{text}{unit}")))
    return Facts(title=title, rows=rows, folded=folded)
