"""The transcriptions, and how they are read from their files."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

PAPERS = ("cdma", "cswap_plus", "comet", "buddy", "home")
"""The names of the papers' texts, and of the files of transcriptions."""

Cell = float | str
"""A number, a unit, or `-` where the table has none."""


@dataclass(frozen=True)
class Quote:
    """Words of a paper, verbatim.

    Attributes
    ----------
    line : int
        Of the paper's text, from 1.
    text : str
    """

    line: int
    text: str


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """A printed table, whole.

    Attributes
    ----------
    caption : Quote
    columns : tuple of str
        Our names of them.
    rows : mapping of str to tuple of Cell
        By the printed name.
    """

    caption: Quote
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Cell, ...]]

    def column(self, name: str) -> dict[str, Any]:
        """Values of a column by the printed name of the row; rows without a value are left out."""
        place = self.columns.index(name)
        return {row: cells[place] for row, cells in self.rows.items() if cells[place] != "-"}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A paper's printed figures about one subject.

    Attributes
    ----------
    shown : str
        As our tables show it. All numbers in it are printed.
    quotes : tuple of Quote
        Where.
    tables : tuple of str
        The paper's tables that it is from.
    values : mapping
        The numbers that are calculated with, by name.
    """

    shown: str
    quotes: tuple[Quote, ...] = ()
    tables: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True, kw_only=True)
class Printed:
    """All transcribed figures and tables of a paper."""

    tables: Mapping[str, PrintedTable]
    figures: Mapping[str, Figure]

    def __getitem__(self, name: str) -> Figure:
        return self.figures[name]


@cache
def printed(paper: str) -> Printed:
    """The transcriptions of one of `PAPERS`."""
    data = tomllib.loads((files(__package__) / f"{paper}.toml").read_text("utf-8"))
    return Printed(
        tables={name: _table(table) for name, table in data["tables"].items()},
        figures={name: _figure(figure) for name, figure in data["figures"].items()},
    )


def _table(data: Mapping[str, Any]) -> PrintedTable:
    columns = tuple(data["columns"])
    rows = {name: tuple(cells) for name, cells in data["rows"].items()}
    for name, cells in rows.items():
        if len(cells) != len(columns):
            raise ValueError(f"row {name!r} has {len(cells)} cells, not {len(columns)}")
    return PrintedTable(caption=Quote(*data["caption"]), columns=columns, rows=rows)


def _figure(data: Mapping[str, Any]) -> Figure:
    return Figure(
        shown=data["shown"],
        quotes=tuple(Quote(*quote) for quote in data.get("quotes", ())),
        tables=tuple(data.get("tables", ())),
        values=data.get("values", {}),
    )
