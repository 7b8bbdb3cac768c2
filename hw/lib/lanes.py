"""Moving elements between lanes: the gather and scatter networks of the line codecs.

Lanes are a ring. To gather a sector, its non-zero elements, in order, go to the lanes from a start
on; the other elements, which are zero, go to what lanes are left. The start is where the line ends
so far, so that gathering and turning are one network. Run backwards, the same routes scatter the
elements that stand in a row from the start on.

The network is a butterfly: level k pairs lanes whose numbers differ in bit k alone, and swaps the
two of a pair or does not. Seen from the scattered side, blocks of 2^k lanes are joined two by two.
Within a block of w lanes the elements stand in a row, and since the row has a place modulo w, each
stands in the lane of that place. When two blocks are joined, the upper block's row begins where
the lower block's row ends: at place p modulo 2w, p being the start and the elements before the
upper block. Its elements then stand in lanes p to p + w - 1, modulo 2w, of the joined block: of
each pair, this tells which lane is theirs, and the lower block's element gets the other one. So
level k needs no more than p modulo 2^(k+1) for each upper block, and a network of n lanes costs
log2(n) two-way multiplexers per bit and lane.

The multiplexers and the prefix sum stand for those of cDMA, §V-B and Fig 10.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from cdma.hw.lib.count import total


def selected(chosen: Value, values: Sequence[Value]) -> Value:
    """The value whose bit is set, which takes no decoding; 0 if none is.

    Parameters
    ----------
    chosen
        A bit for each value, of which at most one is set.
    """
    gated = [value & chosen[i].replicate(len(value)) for i, value in enumerate(values)]
    return reduce(or_, gated)


def lanes_from(place: Value, lanes: int) -> Value:
    """Bit j: lane j is at a place or behind it. The place is one of those lanes."""
    return Cat(*(j >= place for j in range(lanes - 1)), C(1, 1))


def ones_before(m: Module, present: Value, *, name: str) -> tuple[list[Value], Signal]:
    """Count, for each lane, the present lanes below it.

    Parameters
    ----------
    present
        One bit per lane; their number is a power of two.

    Returns
    -------
    list of Value
        For lane i, how many of lanes 0 … i-1 are present, modulo twice the highest power of two
        that divides i: as much of it as `swaps` needs.
    Signal
        How many lanes are present.
    """
    lanes = len(present)
    # Sums of blocks of 1, 2, 4 … lanes, by their first lane.
    sums: list[Value] = [present[i] for i in range(lanes)]
    ones: list[Value] = [C(0, 1)] * lanes
    blocks: dict[int, list[Value]] = {}
    span = 1
    while span < lanes:
        blocks[span] = sums
        wider: list[Value] = []
        for b in range(0, len(sums), 2):
            block = Signal(range(2 * span + 1), name=f"{name}_block_{2 * span}_{b * span}")
            m.d.comb += block.eq(sums[b] + sums[b + 1])
            wider.append(block)
        sums = wider
        span *= 2
    # Lane i's count is that of the lane where the last block before it begins, and that block's.
    for i in range(1, lanes):
        span = i & -i
        before = Signal(range(2 * span), name=f"{name}_ones_{i}")
        m.d.comb += before.eq(ones[i - span] + blocks[span][i // span - 1])
        ones[i] = before
    count = Signal(range(lanes + 1), name=f"{name}_count")
    m.d.comb += count.eq(sums[0])
    return ones, count


class BlockCounts(data.StructLayout):
    """The counts of `ones_before`, each of its own block of lanes only.

    They are half of the way there, so that the other half can be in another cycle.

    Parameters
    ----------
    lanes
        A power of two.

    Members
    -------
    ones
        For each lane, as many bits of the number of present lanes of its block below it as of that
        of all lanes below it.
    counts
        Of each block, how many lanes are present.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        # The square root, or twice that: both halves take about as long.
        self.block = 1 << (lanes.bit_length() // 2)
        ones = {
            str(i): (2 * (i & -i) - 1).bit_length() if i % self.block else 0 for i in range(lanes)
        }
        super().__init__(
            {
                "ones": data.StructLayout(ones),
                "counts": data.ArrayLayout(range(self.block + 1), lanes // self.block),
            }
        )

    def count(self, m: Module, present: Value, *, name: str) -> SimpleNamespace:
        """Count the present lanes in their blocks.

        Returned by the layout's names, but in signals of their own: some counts are made of others,
        which linters take for a loop in a signal that has both.
        """
        counted = SimpleNamespace(ones={}, counts=[])
        for b in range(self.lanes // self.block):
            first = b * self.block
            ones, count = ones_before(
                m, present[first : first + self.block], name=f"{name}_{first}"
            )
            counted.counts.append(count)
            counted.ones |= {str(i): before for i, before in enumerate(ones[1:], first + 1)}
        return counted

    def store(self, stored: Any, counted: SimpleNamespace) -> list[Any]:
        """Assign what `count` returned to a signal with this layout."""
        return [
            *(stored.ones[lane].eq(before) for lane, before in counted.ones.items()),
            *(stored.counts[b].eq(count) for b, count in enumerate(counted.counts)),
        ]

    def join(self, m: Module, counted: Any, *, name: str) -> tuple[list[Value], Signal]:
        """Add to each lane's count those of the blocks before; returned as by `ones_before`."""
        counts = [counted.counts[b] for b in range(self.lanes // self.block)]
        ones: list[Value] = []
        for b in range(len(counts)):
            # Of those of the blocks before, the block's first lane needs the most bits.
            first = b * self.block
            base = Signal(range(2 * (first & -first) or 2), name=f"{name}_before_{first}")
            if b:
                m.d.comb += base.eq(total(counts[:b]))
            ones.append(base)
            for i in range(first + 1, first + self.block):
                before = Signal(range(2 * (i & -i)), name=f"{name}_ones_{i}")
                m.d.comb += before.eq(base + counted.ones[str(i)])
                ones.append(before)
        count = Signal(range(self.lanes + 1), name=f"{name}_count")
        m.d.comb += count.eq(total(counts))
        return ones, count


def swaps(
    m: Module, ones: Sequence[Value], start: Value | None = None, *, name: str
) -> list[Signal]:
    """Tell which pairs swap at each level of the network.

    Parameters
    ----------
    ones
        The counts of `ones_before`.
    start
        The lane in which the row begins; 0 if it is left out.

    Returns
    -------
    list of Signal
        Level k, bit b·2^k + j: lanes j and j + 2^k of the b-th block of 2^(k+1) lanes swap.
    """
    lanes = len(ones)
    levels = []
    for k in range((lanes - 1).bit_length()):
        span = 1 << k
        swap = Signal(lanes // 2, name=f"{name}_{span}")
        for b in range(lanes // (2 * span)):
            upper = 2 * span * b + span
            place: Value = ones[upper]
            if start is not None:
                place = Signal(k + 1, name=f"{name}_place_{upper}")
                m.d.comb += place.eq(ones[upper] + start[: k + 1])
            theirs = Cat(bit ^ place[k] for bit in lanes_from(place[:k], span))
            m.d.comb += swap[span * b : span * (b + 1)].eq(theirs)
        levels.append(swap)
    return levels


def gather(
    m: Module,
    elements: Sequence[Value],
    levels: Sequence[Value],
    *,
    from_first: bool = False,
    name: str,
) -> list[Value]:
    """Move the present elements, in order, to the lanes from the start on.

    Parameters
    ----------
    elements
        Those that are absent are zero.
    levels
        Of `swaps`.
    from_first
        The start is always lane 0: some multiplexers fewer.

    Returns
    -------
    list of Value
        The lanes; those that are left are zero.
    """
    lanes = list(elements)
    for k, swap in enumerate(levels):
        moved = list(lanes)
        for lower, upper, swaps_here in _pairs(len(lanes), k, swap):
            # What would go up from the first block is zero.
            down = 0 if from_first and lower < 1 << k else lanes[lower]
            for i, swapped, own in (
                (lower, lanes[upper], lanes[lower]),
                (upper, down, lanes[upper]),
            ):
                lane = Signal(len(own), name=f"{name}_{1 << k}_{i}")
                m.d.comb += lane.eq(Mux(swaps_here, swapped, own))
                moved[i] = lane
        lanes = moved
    return lanes


def scatter(
    m: Module,
    elements: Sequence[Value],
    levels: Sequence[Value],
    *,
    from_first: bool = False,
    name: str,
) -> list[Value]:
    """Move the elements that stand in a row from the start on, in order, to the present lanes.

    What the absent lanes get is left over. `levels` and `from_first` are those of `gather`.
    """
    lanes = list(elements)
    for k, swap in reversed(list(enumerate(levels))):
        moved = list(lanes)
        for lower, upper, swaps_here in _pairs(len(lanes), k, swap):
            for i, other in ((lower, upper), (upper, lower)):
                if from_first and i < 1 << k:
                    # A row from lane 0 is the first block's, and stays.
                    continue
                lane = Signal(len(lanes[i]), name=f"{name}_{1 << k}_{i}")
                m.d.comb += lane.eq(Mux(swaps_here, lanes[other], lanes[i]))
                moved[i] = lane
        lanes = moved
    return lanes


def _pairs(lanes: int, k: int, swap: Value) -> list[tuple[int, int, Value]]:
    """The pairs of level k: lower lane, upper lane, and whether they swap."""
    span = 1 << k
    return [
        (2 * span * b + j, 2 * span * b + j + span, swap[span * b + j])
        for b in range(lanes // (2 * span))
        for j in range(span)
    ]
