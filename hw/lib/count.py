"""Sums of many small numbers, as trees, and what comes next of numbers that go around."""

from collections.abc import Sequence

from amaranth.hdl import Mux, Value


def total(values: Sequence[Value]) -> Value:
    """Sum, as a tree of adders."""
    sums = list(values)
    while len(sums) > 1:
        pairs = [a + b for a, b in zip(sums[::2], sums[1::2], strict=False)]
        sums = pairs + sums[2 * len(pairs) :]
    return sums[0]


def count_ones(bits: Sequence[Value] | Value) -> Value:
    """Population count, as a tree of adders."""
    return total([bits[i] for i in range(len(bits))])


def following(number: Value, count: int) -> Value:
    """The number behind one of `count`, of which the last is before the first."""
    return Mux(number == count - 1, 0, number + 1)
