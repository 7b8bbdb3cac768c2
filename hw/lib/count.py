"""Sums of many small numbers, as trees, and what comes next of numbers that go around."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Mux, Value


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


def run_length(run: Value) -> Value:
    """The number of ones that bits begin with, if none are behind: where they end tells it."""
    ends = [run[i] & ~run[i + 1] for i in range(len(run) - 1)] + [run[-1]]
    width = len(run).bit_length()
    return Cat(
        Cat(end for i, end in enumerate(ends) if (i + 1) >> k & 1).any() for k in range(width)
    )


def following(number: Value, count: int) -> Value:
    """The number behind one of `count`, of which the last is before the first."""
    return Mux(number == count - 1, 0, number + 1)
