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

from amaranth.hdl import Module, Mux, Signal, Value

from cdma.hw.codec.xc.classes import INDEX_BITS


def shifted_up(m: Module, value: Value, amount: Value, width: int, *, name: str) -> Signal:
    """Shift up by a number of bits into `width` bits: a two-way multiplexer for each bit of it."""
    for k in range(len(amount)):
        distance = 1 << k
        reached = min(width, len(value) + distance)
        shifted = Signal(reached, name=f"{name}_{distance}")
        m.d.comb += shifted.eq(Mux(amount[k], value << distance, value))
        value = shifted
    result = Signal(width, name=name)
    m.d.comb += result.eq(value)
    return result


def shifted_down(m: Module, value: Value, amount: Value, width: int, *, name: str) -> Signal:
    """Shift down by a number of bits, of which the lowest `width` are left."""
    for k in reversed(range(len(amount))):
        distance = 1 << k
        # No more of it than the smaller distances can still reach.
        needed = min(len(value), width + distance - 1)
        shifted = Signal(needed, name=f"{name}_{distance}")
        m.d.comb += shifted.eq(Mux(amount[k], value[distance:], value))
        value = shifted
    result = Signal(width, name=name)
    m.d.comb += result.eq(value)
    return result


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


def merge_level(
    m: Module, fields: Sequence[Value], sums: Sequence[Value], *, name: str
) -> list[Value]:
    """Join neighboring fields two by two.

    Parameters
    ----------
    fields
        Zero above their lengths.
    sums
        Their lengths in bits: a level of `block_sums`.
    """
    joined: list[Value] = []
    for b in range(0, len(fields), 2):
        width = len(fields[b]) + len(fields[b + 1])
        upper = shifted_up(m, fields[b + 1], sums[b], width, name=f"{name}_up_{b}")
        both = Signal(width, name=f"{name}_{b // 2}")
        m.d.comb += both.eq(fields[b] | upper)
        joined.append(both)
    return joined


def split_level(
    m: Module, fields: Sequence[Value], sums: Sequence[Value], *, name: str
) -> list[Value]:
    """Cut each field in two, which may have anything above their lengths.

    Parameters
    ----------
    fields
    sums
        Lengths in bits of the pieces: a level of `block_sums`, twice as many as there are fields.
    """
    pieces: list[Value] = []
    for b, field in enumerate(fields):
        half = len(field) // 2
        pieces.append(field[:half])
        pieces.append(shifted_down(m, field, sums[2 * b], half, name=f"{name}_{b}"))
    return pieces
