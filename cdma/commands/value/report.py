"""The value map of `cdma value`, and its JSON object."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cdma.plan.value.break_even import Row, rows
from cdma.plan.value.point import Value


@dataclass(frozen=True, kw_only=True)
class Map:
    """The points that are there.

    Attributes
    ----------
    values : tuple of Value
    points : int
        How many were asked for; of a shard alone not all are there.
    break_even : float
        The gain that counts as enough, as a part.
    """

    values: Sequence[Value]
    points: int
    break_even: float

    @cached_property
    def rows(self) -> list[Row]:
        """Steps, each with its links."""
        return list(rows(self.values))

    @property
    def title(self) -> str:
        return (
            "gain of the engine over the best plan without it; "
            f"break-even at {100 * self.break_even:g} %"
        )


def as_dict(found: Map) -> dict[str, Any]:
    """The JSON form; docs/guide/plan/value.md describes the keys."""
    return {
        "points": found.points,
        "computed": len(found.values),
        "break_even_gain": found.break_even,
        "values": [{**value.as_dict(), "gain": _gain(value)} for value in found.values],
        "rows": [_row(row, found.break_even) for row in found.rows],
    }


def _gain(value: Value) -> float | None:
    return None if value.engine is None else value.gain


def _row(row: Row, gain: float) -> dict[str, Any]:
    point, worth = row.point, row.worth_between(gain)
    low, high = (None, None) if worth is None else worth
    return {
        "network": point.network,
        "dataset": point.dataset,
        "batch": point.batch,
        "precision": point.precision,
        "device": point.device,
        "room": point.room,
        "codec": point.codec,
        "gains": {value.point.link: _gain(value) for value in row.values},
        "worth_it": worth is not None,
        "from_bytes_per_s": low or None,
        "to_bytes_per_s": None if high is None or math.isinf(high) else high,
    }
