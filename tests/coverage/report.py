"""The results of a run, against the waivers and the list of what is known to be open."""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.coverage.totals import KINDS, Point, Totals, groups, ranges

WAIVERS = Path(__file__).parent / "waivers.toml"
OPEN = Path(__file__).parent / "open.toml"


@dataclass(frozen=True)
class Waiver:
    """Points that need not be covered, and why.

    Attributes
    ----------
    component, kind, point : str
        What a point's component, kind and rest have to be; in the first and the last, `*` stands
        for anything. The rest of a port is its bit's name; of lines and branches, the branch and
        the source's text.
    reason : str
    """

    component: str
    kind: str
    point: str
    reason: str

    def applies(self, point: Point) -> bool:
        """True if the point need not be covered."""
        rest = point.what if point.kind == "port" else point.group.split(" ", 2)[2]
        return (
            self.kind == point.kind
            and fnmatchcase(point.component, self.component)
            and any(fnmatchcase(rest, pattern) for pattern in self._patterns())
        )

    def _patterns(self) -> list[str]:
        """Patterns for each bit of a range, in which brackets stand for themselves."""
        spans = re.fullmatch(r"(.*)\[(\d+):(\d+)\]", self.point)
        names = [self.point]
        if spans:
            bits = range(int(spans[3]), int(spans[2]) + 1)
            names = [f"{spans[1]}[{bit}]" for bit in bits]
        return [name.replace("[", "[[]") for name in names]


def read_waivers(path: Path = WAIVERS) -> list[Waiver]:
    """The waivers of a file; `ValueError` of one without a reason."""
    waivers = [Waiver(**entry) for entry in tomllib.loads(path.read_text("utf-8"))["waiver"]]
    for waiver in waivers:
        if not waiver.reason.strip() or waiver.kind not in KINDS:
            raise ValueError(f"a waiver needs a reason and a kind of {', '.join(KINDS)}: {waiver}")
    return waivers


def read_open(path: Path = OPEN) -> dict[str, int]:
    """Read how many points of each name are known to be open."""
    known: dict[str, int] = tomllib.loads(path.read_text("utf-8"))
    return known


def write_open(points: Iterable[Point], path: Path = OPEN) -> None:
    """List these as known to be open."""
    lines = [
        "# Points that no bench covers yet, by names without line numbers, and how many there are.",
        "# Written by `make coverage WRITE=1`.",
        "",
        *(f"{_quoted(name)} = {count}" for name, count in sorted(groups(points).items())),
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Report:
    """The fate of each point.

    Attributes
    ----------
    totals : Totals
    waived : dict of Point to Waiver
    open : list of Point
        Neither covered nor waived.
    stale : list of Waiver
        They apply to nothing that is uncovered.
    new : list of Point
        Open, and of a name with more open points than are known.
    shorter : list of str
        Known names with fewer open points than that.
    """

    totals: Totals
    waived: dict[Point, Waiver]
    open: list[Point]
    stale: list[Waiver]
    new: list[Point]
    shorter: list[str]

    @classmethod
    def of(cls, totals: Totals, waivers: Sequence[Waiver], known: Mapping[str, int]) -> "Report":
        uncovered = totals.uncovered()
        waived = {
            point: waiver
            for point in uncovered
            for waiver in reversed(waivers)
            if waiver.applies(point)
        }
        used = {waiver for waiver in waivers for point in waived if waiver.applies(point)}
        left = [point for point in uncovered if point not in waived]
        counts = groups(left)
        return cls(
            totals,
            waived,
            left,
            [waiver for waiver in waivers if waiver not in used],
            [point for point in left if counts[point.group] > known.get(point.group, 0)],
            [name for name, count in known.items() if counts[name] < count],
        )

    @property
    def failures(self) -> list[str]:
        """A line for each reason to fail."""
        return [
            *(f"not covered: {line}" for line in ranges(self.new)),
            *(f"a waiver that no longer applies: {waiver}" for waiver in self.stale),
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each component, each folder of them and all: covered of all, kind by kind."""
        waived = Counter(point.component for point in self.waived)
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for name in self.totals.components:
            own = Counter(constant=self.totals.constant[name], waived=waived[name])
            for row in (name, f"{_folder(name)}.*", "all"):
                counts[row].update(own)
        for point, is_covered in self.totals.points.items():
            for row in (point.component, f"{_folder(point.component)}.*", "all"):
                counts[row][point.kind] += 1
                counts[row][f"{point.kind} covered"] += is_covered
        folders = sorted({f"{_folder(name)}.*" for name in self.totals.components})
        return [_row(name, counts[name]) for name in (*self.totals.components, *folders, "all")]


def _row(name: str, counts: Counter[str]) -> tuple[str, ...]:
    fractions = [f"{counts[f'{kind} covered']}/{counts[kind]}" for kind in KINDS]
    return name, *fractions, str(counts["constant"]), str(counts["waived"])


def _folder(component: str) -> str:
    return ".".join(component.split(".")[:2])
