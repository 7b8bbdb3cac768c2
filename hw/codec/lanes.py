"""Moving elements between lanes: the gather and scatter networks of zero-value compression.

To compact a sector, a non-zero element in lane i moves down by the number of zeros before it,
z_i. The move is done bit by bit of z, least significant first: at level k an element moves down by
2^k lanes if bit k of its z is set. No two elements meet, because between two of them z grows by no
more than the distance between their lanes. Run backwards, from the most significant bit, the same
routes expand a packed sector. A network costs log2(lanes) two-way multiplexers per bit, where
selecting each lane from all others would cost lanes - 1.

The multiplexers and the prefix sum are those of cDMA, §V-B and Fig 10.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value


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


def zeros_before(m: Module, present: Value, *, name: str) -> tuple[list[Value], Signal]:
    """Count, for each lane, the absent lanes below it.

    Parameters
    ----------
    present
        One bit per lane; their number is a power of two.

    Returns
    -------
    list of Value
        For lane i, how many of lanes 0 … i-1 are absent.
    Signal
        How many lanes are absent.
    """
    # Sklansky's prefix sum: log2(lanes) adders deep, and each partial sum no wider than it needs.
    sums: list[Value] = [~present[i] for i in range(len(present))]
    span = 1
    while span < len(sums):
        wider = list(sums)
        for i in range(len(sums)):
            if i & span:
                below = (i & ~(2 * span - 1)) + span - 1
                total = Signal(range(i + 2), name=f"{name}_zeros_{below + 1 - span}_{i}")
                m.d.comb += total.eq(sums[below] + sums[i])
                wider[i] = total
        sums = wider
        span *= 2
    total = Signal(range(len(sums) + 1), name=f"{name}_zeros")
    m.d.comb += total.eq(sums[-1])
    return [Value.cast(0), *sums[:-1]], total


def routes(m: Module, present: Value, zeros: Sequence[Value], *, name: str) -> list[Signal]:
    """Tell which lanes move at each level of the network.

    Parameters
    ----------
    present
        One bit per lane.
    zeros
        The counts of `zeros_before`.

    Returns
    -------
    list of Signal
        Level k, bit j: on the way to compaction, what stands in lane j before level k moves down
        by 2^k lanes in it.
    """
    lanes = len(present)
    levels = (lanes - 1).bit_length()
    # What a lane still has to move, in units of the level's distance.
    left: list[Value] = []
    for i in range(lanes):
        own = Signal(levels, name=f"{name}_distance_{i}")
        m.d.comb += own.eq(Mux(present[i], zeros[i], 0))
        left.append(own)

    moves = []
    for k in range(levels):
        move = Signal(lanes, name=f"{name}_move_{1 << k}")
        m.d.comb += move.eq(Cat(distance[0] for distance in left))
        moves.append(move)
        if k == levels - 1:
            break
        after: list[Value] = []
        for j in range(lanes):
            rest = Signal(levels - 1 - k, name=f"{name}_rest_{2 << k}_{j}")
            stays = Mux(move[j], 0, left[j][1:])
            if j + (1 << k) < lanes:
                m.d.comb += rest.eq(Mux(move[j + (1 << k)], left[j + (1 << k)][1:], stays))
            else:
                m.d.comb += rest.eq(stays)
            after.append(rest)
        left = after
    return moves


def compact(
    m: Module, elements: Sequence[Value], moves: Sequence[Signal], *, name: str
) -> list[Value]:
    """Move the present elements to the lowest lanes, in order; what the others hold is left over.

    `moves` comes from `routes`.
    """
    lanes = list(elements)
    for k, move in enumerate(moves):
        distance = 1 << k
        moved: list[Value] = []
        for j, own in enumerate(lanes):
            if j + distance < len(lanes):
                lane = Signal(len(own), name=f"{name}_{distance}_{j}")
                m.d.comb += lane.eq(Mux(move[j + distance], lanes[j + distance], own))
                moved.append(lane)
            else:
                moved.append(own)
        lanes = moved
    return lanes


def expand(
    m: Module, elements: Sequence[Value], moves: Sequence[Signal], *, name: str
) -> list[Value]:
    """Move packed elements up to the present lanes, in order; what absent lanes get is left over.

    `moves` comes from `routes`.
    """
    lanes = list(elements)
    for k, move in reversed(list(enumerate(moves))):
        distance = 1 << k
        moved: list[Value] = []
        for j, own in enumerate(lanes):
            if j >= distance:
                lane = Signal(len(own), name=f"{name}_{distance}_{j}")
                m.d.comb += lane.eq(Mux(move[j], lanes[j - distance], own))
                moved.append(lane)
            else:
                moved.append(own)
        lanes = moved
    return lanes
