"""Lanes and places in a line: landing what a sector has, and picking what a sector needs.

A line is groups of lanes. What lands at a place stands in a ring of lanes, turned so that its first
part is in the lane of its place; from that lane on it lands in the place's group, and what has come
round the end of the ring lands in the next group. Picking is the same, backwards.

    ring      c  .  a  b              place 6 of lanes of 4: lane 2 of group 1
    line      .  .  .  . | .  .  a  b | c  .  .  .
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value

from cdma.hw.lib.lanes import lanes_from


def landed(
    m: Module, ring: Sequence[Value], place: Value, groups: int, *, name: str
) -> list[Value]:
    """Let a ring of lanes land in a line of so many groups, which is zero elsewhere.

    Parameters
    ----------
    ring
        Zero where there is nothing; their number is a power of two.
    place
        Where in the line the first one lands.
    """
    lanes = len(ring)
    bits = (lanes - 1).bit_length()
    upper = Signal(lanes, name=f"{name}_upper")
    group = Signal(groups, name=f"{name}_group")
    m.d.comb += [
        upper.eq(lanes_from(place[:bits], lanes)),
        group.eq(Cat(place[bits:] == g for g in range(groups))),
    ]
    line: list[Value] = []
    for g in range(groups):
        below = group[g - 1] if g else C(0, 1)
        for lane, value in enumerate(ring):
            part = Signal(len(value), name=f"{name}_{g * lanes + lane}")
            lands = (upper[lane] & group[g]) | (~upper[lane] & below)
            m.d.comb += part.eq(value & lands.replicate(len(value)))
            line.append(part)
    return line


def picked(m: Module, line: Sequence[Value], place: Value, lanes: int, *, name: str) -> list[Value]:
    """Pick a ring of lanes of a line, turned as `landed` expects it: lane l is of place l.

    Behind the line's end there are zeros.
    """
    groups = -(-len(line) // lanes)
    bits = (lanes - 1).bit_length()
    upper = Signal(lanes, name=f"{name}_upper")
    group = Signal(groups + 1, name=f"{name}_group")
    m.d.comb += [
        upper.eq(lanes_from(place[:bits], lanes)),
        group.eq(Cat(place[bits:] == g for g in range(groups))),
    ]
    ring: list[Value] = []
    for lane in range(lanes):
        chosen = Signal(len(line[0]), name=f"{name}_{lane}")
        terms = []
        for g in range(groups):
            if g * lanes + lane < len(line):
                below = group[g - 1] if g else C(0, 1)
                here = Signal(name=f"{name}_{lane}_of_{g}")
                m.d.comb += here.eq(Mux(upper[lane], group[g], below))
                terms.append(line[g * lanes + lane] & here.replicate(len(line[0])))
        m.d.comb += chosen.eq(reduce(or_, terms))
        ring.append(chosen)
    return ring


def turned_up(m: Module, ring: Sequence[Value], amount: Value, *, name: str) -> list[Value]:
    """Turn a ring of lanes: what is in lane 0 comes to the lane of that number."""
    for k in range(len(amount)):
        distance = 1 << k
        lanes = [Signal(len(lane), name=f"{name}_{distance}_{i}") for i, lane in enumerate(ring)]
        for i, lane in enumerate(lanes):
            m.d.comb += lane.eq(Mux(amount[k], ring[i - distance], ring[i]))
        ring = list(lanes)
    return list(ring)


def turned_down(m: Module, ring: Sequence[Value], amount: Value, *, name: str) -> list[Value]:
    """Turn a ring of lanes back: what is in the lane of that number comes to lane 0."""
    for k in range(len(amount)):
        distance = 1 << k
        lanes = [Signal(len(lane), name=f"{name}_{distance}_{i}") for i, lane in enumerate(ring)]
        for i, lane in enumerate(lanes):
            m.d.comb += lane.eq(Mux(amount[k], ring[(i + distance) % len(ring)], ring[i]))
        ring = list(lanes)
    return list(ring)
