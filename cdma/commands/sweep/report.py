"""The table of `cdma sweep`, and its JSON and CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdma.commands.sweep.axes import Axis, AxisValue
from cdma.commands.sweep.fields import Scalar
from cdma.sweep.point import PointOutcome


@dataclass(frozen=True, kw_only=True)
class SweepRow:
    """A point whose result is there.

    Attributes
    ----------
    values : mapping
        By axis.
    fields : mapping
        Chosen ones; None where this point has none of the name.
    file : str
        The file of its whole result.
    """

    values: Mapping[str, AxisValue]
    fields: Mapping[str, Scalar]
    file: str


@dataclass(frozen=True, kw_only=True)
class SweepReport:
    """Everything that the table shows.

    Attributes
    ----------
    command : str
    axes : sequence of Axis
    fields : sequence of str
    points : int
        How many were asked for, by all shards.
    rows : sequence of SweepRow
    failed : sequence of PointOutcome
    clock_hz : float
        The fastest clock of an engine that a point has times of; 0 if none has.
    """

    command: str
    axes: Sequence[Axis]
    fields: Sequence[str]
    points: int
    rows: Sequence[SweepRow]
    failed: Sequence[PointOutcome]
    clock_hz: float = 0.0


def as_dict(report: SweepReport) -> dict[str, Any]:
    """The JSON form; docs/guide/sweep.md describes the keys."""
    return {
        "command": report.command,
        "axes": {axis.name: list(axis.values) for axis in report.axes},
        "points": report.points,
        "computed": len(report.rows),
        "rows": [
            {"axes": dict(row.values), "fields": dict(row.fields), "file": row.file}
            for row in report.rows
        ],
        "failures": [
            {"command_line": outcome.point.name, "error": outcome.error}
            for outcome in report.failed
        ],
    }


def as_csv(report: SweepReport) -> str:
    """A column per axis and per field, a line per point; what is missing is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [axis.name for axis in report.axes]
    writer.writerow([*names, *report.fields])
    for row in report.rows:
        values = [plain(row.values[name]) for name in names]
        writer.writerow([*values, *(row.fields[name] for name in report.fields)])
    return out.getvalue()


def plain(value: AxisValue) -> str | int | float | bool:
    """An axis's value in a cell."""
    return ",".join(map(str, value)) if isinstance(value, list) else value
