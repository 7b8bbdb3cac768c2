"""Selection by one bit for each choice, which takes no decoding."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Value


def selected(chosen: Value, values: Sequence[Value]) -> Value:
    """The value whose bit is set; 0 if none is.

    Parameters
    ----------
    chosen
        A bit for each value, of which at most one is set.
    """
    gated = [value & chosen[i].replicate(len(value)) for i, value in enumerate(values)]
    return reduce(or_, gated)
