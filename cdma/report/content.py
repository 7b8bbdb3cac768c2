"""Contents of a page, as its template takes them: sections of facts, tables, pictures, timelines.

Nothing here is escaped: the template does that to everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cdma.builds.pictures import svg_address


@dataclass(frozen=True)
class Cell:
    """A value of a JSON object, and its text for people.

    Attributes
    ----------
    value : object
        The JSON value, exactly; None where there is none.
    text : str
        Rounded, in the unit of its column.
    """

    value: Any
    text: str


@dataclass(frozen=True)
class Heading:
    """A column's name and unit.

    Attributes
    ----------
    key : str
        The path of the value in a row's JSON object, with dots.
    title, unit : str
    numeric : bool
    """

    key: str
    title: str
    unit: str = ""
    numeric: bool = False


Row = tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that the page sorts by any column.

    Attributes
    ----------
    title : str
    headings : sequence of Heading
    rows : sequence of Row
    total : Row or None
        Stays below when rows are sorted.
    note : str
        A sentence below.
    folded : bool
        Whether only the title is to be seen at first.
    """

    kind: ClassVar[str] = "table"

    title: str
    headings: Sequence[Heading]
    rows: Sequence[Row]
    total: Row | None = None
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names with values, as a configuration's; `rows` are a name and a `Cell` each."""

    kind: ClassVar[str] = "facts"

    title: str
    rows: Sequence[tuple[str, Cell]]
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture in SVG.

    Attributes
    ----------
    title : str
    svg : bytes
    text : str
        The same in words, for those who cannot see it.
    """

    kind: ClassVar[str] = "picture"

    title: str
    svg: bytes
    text: str

    @property
    def address(self) -> str:
        """The picture as an address of its own content."""
        return svg_address(self.svg)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Events that the page's script draws; `cdma.report.timeline` describes the data."""

    kind: ClassVar[str] = "timeline"

    title: str
    data: dict[str, Any]


Part = Table | Facts | Picture | Timeline


@dataclass(frozen=True, kw_only=True)
class Section:
    """The content of a document, or of several that belong together.

    Attributes
    ----------
    title : str
    sentences : sequence of str
        What came out, in words.
    parts : sequence of Part
    """

    title: str
    sentences: Sequence[str] = ()
    parts: Sequence[Part] = field(default_factory=tuple)
