"""The break-even line: between which links the engine gains enough.

It gains most in the middle. Behind a fast link a good plan swaps what it likes and waits for
nothing; behind a slow one it computes again instead of swapping, with or without the engine.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

    def worth_between(self, gain: float) -> tuple[float, float] | None:
        """The link's payload bandwidths, in bytes/s, between which the engine gains so much.

        Between two links the gain is taken to be linear in the logarithm of the bandwidth. If there
        are several such ranges, they are taken together with what is between them.

        Parameters
        ----------
        gain : float
            As a part of the step's time.

        Returns
        -------
        tuple of float, or None
            From 0 if it gains as much behind the slowest link, to infinity if it does behind the
            fastest one; None if it does behind no link.
        """
        enough = [i for i, value in enumerate(self.values) if value.gain >= gain]
        if not enough:
            return None
        first, last = enough[0], enough[-1]
        fastest = len(self.values) - 1
        low = self._crossing(first - 1, first, gain) if first else 0.0
        high = self._crossing(last, last + 1, gain) if last < fastest else math.inf
        return low, high

    def _crossing(self, left: int, right: int, gain: float) -> float:
        """The bandwidth between two neighbors where the gain is so much."""
        a, b = self.values[left], self.values[right]
        part = (gain - a.gain) / (b.gain - a.gain)
        return float(a.link_bytes_per_s * (b.link_bytes_per_s / a.link_bytes_per_s) ** part)


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
