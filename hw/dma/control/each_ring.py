"""Values that each ring has: plain ones where there is one ring, arrays where there are several."""

from typing import Any

from amaranth.hdl import ShapeLike, Value
from amaranth.lib import data


def each_ring(shape: ShapeLike, rings: int) -> ShapeLike:
    """Return the shape of a value for each of the rings; of the value itself if there is one."""
    return shape if rings == 1 else data.ArrayLayout(shape, rings)


def of_ring(values: Any, ring: Any) -> Any:
    """Return a ring's value out of those that have the shape of `each_ring`.

    Parameters
    ----------
    values
    ring
        The ring's number, known beforehand or not.
    """
    return values[ring] if _is_array(values) else values


def fires_for(fire: Value, ring: Value, number: int) -> Value:
    """Return whether something happens, and to the ring of that number.

    Parameters
    ----------
    fire
        It happens.
    ring
        The ring to which it happens; no bits if there is one.
    number
    """
    return fire & (ring == number) if len(ring) else fire


def _is_array(values: Any) -> bool:
    return isinstance(values, data.View) and isinstance(values.shape(), data.ArrayLayout)
