"""Parities of many overlapping sets of bits, made of sums that they share.

Written as one wide exclusive or each, they become trees of their own: synthesis tools do not look
for what two of them have in common. Here the pair of bits that most parities have in common
becomes a bit of its own, until no two parities have a pair in common (C. Paar, *Optimized
arithmetic for Reed-Solomon encoders*, ISIT 1997). The 32 bits of a CRC of 32 bytes then take 1,509
gates instead of 3,944, and are 9 gates deep instead of 8.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from amaranth.hdl import Cat, Module, Signal, Value

_DEEPEST = 64
"""More than the depth of any sum: of pairs as common the shallowest is taken."""


class SharedSums(NamedTuple):
    """Sums of pairs, and the parities made of them.

    Attributes
    ----------
    pairs : list of (int, int)
        Numbers of bits: those below `bits` are of the vector, the next ones sums of earlier pairs.
    depths : list of int
        Of each sum: how many gates are one behind the other in it.
    parities : list of list of int
        For each parity the bits that it is the sum of.
    """

    bits: int
    pairs: list[tuple[int, int]]
    depths: list[int]
    parities: list[list[int]]

    @property
    def gates(self) -> int:
        """Exclusive ors of two bits, in all."""
        return len(self.pairs) + sum(max(0, len(parity) - 1) for parity in self.parities)


@cache
def shared_sums(columns: tuple[int, ...], rows: int) -> SharedSums:
    """Find what parities have in common, greedily.

    Parameters
    ----------
    columns
        For each bit of the vector the parities that it is in: parity k is bit k.
    rows
        The number of parities, at most 64.
    """
    bits = len(columns)
    used = _Pairs(columns)
    pairs: list[tuple[int, int]] = []
    while (pair := used.most_common()) is not None:
        pairs.append(pair)
        used.replace(pair)
    parities = [
        [k for k, column in enumerate(used.columns.tolist()) if column >> row & 1]
        for row in range(rows)
    ]
    return SharedSums(bits, pairs, used.depths[bits:].tolist(), parities)


class _Pairs:
    """Bits, the parities that each is in, and each bit's most common partner."""

    def __init__(self, columns: Sequence[int]) -> None:
        self.columns = np.array(columns, dtype=np.uint64)
        self.depths = np.zeros(len(columns), dtype=np.int64)
        self.partners = np.zeros(len(columns), dtype=np.int64)
        self.scores = np.zeros(len(columns), dtype=np.int64)
        for bit in range(len(columns)):
            self._find_partner(bit)

    def most_common(self) -> tuple[int, int] | None:
        """The pair that most parities have in common; None if no two have one."""
        bit = int(self.scores.argmax())
        return None if self.scores[bit] < 0 else (bit, int(self.partners[bit]))

    def replace(self, pair: tuple[int, int]) -> None:
        """Put a new bit, the pair's sum, in the place of both in the parities that have both."""
        one, other = pair
        common = self.columns[one] & self.columns[other]
        self.columns[[one, other]] ^= common
        new = len(self.columns)
        self.columns = np.append(self.columns, common)
        self.depths = np.append(self.depths, max(self.depths[one], self.depths[other]) + 1)
        stale = np.flatnonzero((self.partners == one) | (self.partners == other))
        self.partners = np.append(self.partners, 0)
        self.scores = np.append(self.scores, -1)
        for bit in {one, other, new, *stale.tolist()}:
            self._find_partner(bit)
        scores = self._scores(new)
        better = scores > self.scores
        self.scores[better] = scores[better]
        self.partners[better] = new

    def _find_partner(self, bit: int) -> None:
        scores = self._scores(bit)
        self.partners[bit] = scores.argmax()
        self.scores[bit] = scores[self.partners[bit]]

    def _scores(self, bit: int) -> np.ndarray:
        """Of each bit with this one: parities in common first, then depth; -1 if fewer than two."""
        common = np.bitwise_count(self.columns & self.columns[bit]).astype(np.int64)
        scores = common * _DEEPEST - np.maximum(self.depths, self.depths[bit])
        scores[common < 2] = -1
        scores[bit] = -1
        return scores


def shared_parities(
    m: Module, columns: Sequence[int], rows: int, vector: Value, *, name: str
) -> list[Value]:
    """Compute parities of a vector's bits, as exclusive ors of two that they share.

    Parameters
    ----------
    columns, rows
        As for `shared_sums`.
    vector
        Of as many bits as there are columns.
    name
        Of the signals that hold the shared sums, those of a depth in one.

    Returns
    -------
    list of Value
        A bit for each parity.
    """
    sums = shared_sums(tuple(columns), rows)
    bits: dict[int, Value] = {k: vector[k] for k in range(len(vector))}
    for depth in range(1, max(sums.depths, default=0) + 1):
        level = [k for k, each in enumerate(sums.depths) if each == depth]
        shared = Signal(len(level), name=f"{name}_sums_{depth}")
        m.d.comb += shared.eq(
            Cat(bits[one] ^ bits[two] for one, two in map(sums.pairs.__getitem__, level))
        )
        bits |= {sums.bits + k: shared[place] for place, k in enumerate(level)}
    return [Cat(bits[k] for k in parity).xor() for parity in sums.parities]
