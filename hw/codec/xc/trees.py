"""Merging indices of 0 to 4 bits into one field without gaps, and splitting it again.

Each is a tree of shifters. To merge two neighbors, the upper one is shifted to where the lower one
ends; to split, the field is shifted back by as much. How far is the sum of the widths of the lower
neighbor's indices, which is a block sum of all widths: the same for both trees.

    widths    2    0    4    1        sums of 1: 2 0 4 1, of 2: 2 5
    indices   ba   .  wxyz   q
    merge       ba  |  qwxyz          the upper one of each pair goes up by 2 and by 4
                qwxyzba               and then by 2
    split     the same, backwards

Everything is combinational, a level at a time, so that a pipeline can cut between levels.
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value

from cdma.hw.codec.xc.classes import INDEX_BITS


def block_sums(m: Module, widths: Sequence[Value], *, name: str) -> list[list[Value]]:
    """Sums of 1, 2, 4 … neighboring widths, up to the sum of all, as lists of blocks."""
    levels: list[list[Value]] = [list(widths)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        span = len(widths) // len(below) * 2
        sums: list[Value] = []
        for b in range(0, len(below), 2):
            block = Signal(range(INDEX_BITS * span + 1), name=f"{name}_{span}_{b // 2}")
            m.d.comb += block.eq(below[b] + below[b + 1])
            sums.append(block)
        levels.append(sums)
    return levels
