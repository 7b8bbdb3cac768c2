"""Documents about names, settings, many runs, captures, and the papers."""

from typing import Annotated, Any, NotRequired, TypedDict

from cdma.schemas.shapes.common import Configuration, Count


class Config(TypedDict):
    """A configuration with all its keys."""

    configuration: Configuration


class ListedName(TypedDict):
    """A name that an option takes."""

    name: str
    about: str


class ListedKind(TypedDict):
    """A kind of name."""

    name: str
    about: str
    taken_by: Annotated[list[str], "options, and commands whose argument it is"]
    names: list[ListedName]


class Listing(TypedDict):
    """Names that options and arguments take."""

    kinds: list[ListedKind]


class SweepRow(TypedDict):
    """A point whose result is there."""

    axes: dict[str, Any]
    fields: Annotated[dict[str, str | int | float | bool | None], "the chosen ones, by path"]
    file: Annotated[str, "the point, in the folder of results"]


class SweepFailure(TypedDict):
    """A point that failed."""

    command_line: str
    error: str


class Sweep(TypedDict):
    """A command over all combinations of its options' values."""

    command: str
    axes: Annotated[dict[str, list[Any]], "values by option"]
    points: Annotated[int, "that were asked for, by all shards"]
    computed: int
    rows: list[SweepRow]
    failures: list[SweepFailure]


class SweepPoint(TypedDict):
    """A point in the folder of results of a sweep or a value map."""

    point: Annotated[dict[str, Any], "all that the result depends on"]
    result: Annotated[dict[str, Any], "of a sweep the command's document, else the point's times"]
    check: Annotated[str, "a hash of both"]


class CaptureArray(TypedDict):
    """An array of the .npz beside it."""

    name: str
    layer: str
    kind: str
    epoch: int
    layout: str
    dtype: str
    element_format: NotRequired[
        Annotated[str, "of numbers that numpy lacks, whose bits the array has"]
    ]
    shape: list[int]
    nonzero: int
    density: float
    crc32: int
    sha256: str


class Capture(TypedDict):
    """The recipe of captured activations, with what there is in the .npz beside it."""

    name: str
    recipe: Annotated[dict[str, Any], "network, data, optimizer and history"]
    seeds: dict[str, int]
    versions: dict[str, str]
    arrays: list[CaptureArray]


ReproducedClaim = TypedDict(
    "ReproducedClaim",
    {
        "paper": str,
        "name": str,
        "section": str,
        "claim": str,
        "class": str,
        "kind": str,
        "published": str,
        "lines": list[int],
        "ours": str,
        "assumptions": str,
        "verdict": str,
    },
)
"""A claim of a paper, beside what is computed here."""


class Reproduce(TypedDict):
    """The papers' claims."""

    claims: list[ReproducedClaim]
    verdicts: dict[str, Count]
    kinds: dict[str, dict[str, Count]]
    failures: Annotated[list[str], "paper/name"]
