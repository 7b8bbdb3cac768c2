"""Fields of bits: shifting them by a length that hardware finds, joining two by two, and parting.

A shift is a two-way multiplexer per bit and level. Joining neighbors two by two, level by level, is
a tree that merges many small fields into one without gaps; parting splits it again.
"""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value


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


def merge_level(
    m: Module, fields: Sequence[Value], sums: Sequence[Value], *, name: str
) -> list[Value]:
    """Join neighboring fields two by two.

    Parameters
    ----------
    fields
        Zero above their lengths.
    sums
        Their lengths in bits.
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
        Lengths in bits of the pieces, twice as many as there are fields.
    """
    pieces: list[Value] = []
    for b, field in enumerate(fields):
        half = len(field) // 2
        pieces.append(field[:half])
        pieces.append(shifted_down(m, field, sums[2 * b], half, name=f"{name}_{b}"))
    return pieces
