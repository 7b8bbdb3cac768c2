"""Ranges of addresses, of which any number may overlap."""

from bisect import bisect_left, bisect_right, insort


class Ranges:
    """Set of address ranges that finds overlaps in a time that hardly grows with its size.

    Starts and ends are sorted, each for themselves. Of the ranges that begin before a piece's end,
    those that also end before its start are none that meet it; so two counts tell.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add a range; an empty one meets nothing."""
        if start < end:
            insort(self._starts, start)
            insort(self._ends, end)

    def remove(self, start: int, end: int) -> None:
        """Remove a range that was added."""
        if start < end:
            del self._starts[bisect_left(self._starts, start)]
            del self._ends[bisect_left(self._ends, end)]

    def clear(self) -> None:
        """Remove all ranges."""
        self._starts.clear()
        self._ends.clear()

    def meets(self, start: int, end: int) -> bool:
        """Return True if any range has a byte from `start` up to, not including, `end`."""
        if start >= end:
            return False
        return bisect_left(self._starts, end) > bisect_right(self._ends, start)
