"""A library's guess of wires before there are any: capacitance by the pins on a net."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class WireLoad:
    """A statistical model of wires, as Liberty's `wire_load` groups have it.

    Attributes
    ----------
    name : str
    ff_per_length : float
    lengths : tuple of (int, float)
        Number of pins that a net drives, and its wire's length; from the fewest up, at least one.
    length_per_pin : float
        What each pin beyond the last of `lengths` adds.
    """

    name: str
    ff_per_length: float
    lengths: tuple[tuple[int, float], ...]
    length_per_pin: float

    def load_ff(self, pins: int) -> float:
        """Capacitance of the wire of a net that drives so many pins.

        Resistances are left out: at 45 nm they take less than a picosecond.
        """
        return self.ff_per_length * self._length(pins)

    def _length(self, pins: int) -> float:
        first, first_length = self.lengths[0]
        if pins <= first:
            return first_length
        for (before, shorter), (after, longer) in pairwise(self.lengths):
            if pins <= after:
                return shorter + (longer - shorter) * (pins - before) / (after - before)
        last, last_length = self.lengths[-1]
        return last_length + self.length_per_pin * (pins - last)
