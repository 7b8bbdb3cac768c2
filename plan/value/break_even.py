"""The break-even line: how fast a link may be until the engine gains too little."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cdma.plan.value.point import Point, Value


@dataclass(frozen=True, kw_only=True)
class Row:
    """One step behind several links.

    Attributes
    ----------
    values : tuple of Value
        By link, the slowest first; alike in all else.
    """

    values: tuple[Value, ...]

    @property
    def point(self) -> Point:
        """A point of the row, for what all of them have in common."""
        return self.values[0].point

    def value(self, link: str) -> Value | None:
        """The value behind a link."""
        return next((value for value in self.values if value.point.link == link), None)

    def break_even_bytes_per_s(self, gain: float) -> float | None:
        """The link's payload bandwidth beyond which the engine gains less than so much.

        Between two links the gain is taken to be linear in the logarithm of the bandwidth.

        Parameters
        ----------
        gain : float
            As a part of the step's time.

        Returns
        -------
        float or None
            Infinity if it gains as much behind the fastest link; None if it does behind no link.
        """
        enough = [value.gain >= gain for value in self.values]
        if not any(enough):
            return None
        if enough[-1]:
            return math.inf
        last = len(enough) - 1 - enough[::-1].index(True)
        above, below = self.values[last], self.values[last + 1]
        part = (above.gain - gain) / (above.gain - below.gain)
        ratio = below.link_bytes_per_s / above.link_bytes_per_s
        return float(above.link_bytes_per_s * ratio**part)


def rows(values: Sequence[Value]) -> Iterator[Row]:
    """Values by their steps, in the order in which those come first."""
    groups: dict[tuple[object, ...], list[Value]] = {}
    for value in values:
        point = value.point
        key = (point.network, point.dataset, point.batch, point.precision, point.device)
        groups.setdefault((*key, point.room, point.codec), []).append(value)
    for group in groups.values():
        yield Row(values=tuple(sorted(group, key=lambda value: value.link_bytes_per_s)))


def links(values: Sequence[Value]) -> list[str]:
    """Names of all links, the slowest first."""
    rates = {value.point.link: value.link_bytes_per_s for value in values}
    return sorted(rates, key=lambda name: rates[name])


def crossings(row: Row, gain: float) -> int:
    """How often the gain falls below so much from one link to the next; 1 at most for a clear
    break-even."""
    return sum(a.gain >= gain > b.gain for a, b in pairwise(row.values))
