"""The algebra of CRC-32 (IEEE 802.3, as zlib's): matrices over GF(2).

The CRC is linear: bytes change the 32-bit state by a constant matrix, and add a constant linear
function of themselves. Zero bytes only do the former, and their matrix has an inverse.
"""

from collections.abc import Sequence
from functools import cache
from heapq import heapify, heappop, heappush

from amaranth.hdl import Cat, Module, Signal, Value

POLYNOMIAL = 0xEDB88320
"""IEEE 802.3's, reflected: bit 0 of a byte is its first."""

ONES = 0xFFFFFFFF
"""The initial state, and the mask that inverts the final one."""

Matrix = tuple[int, ...]
"""Column k is the contribution of bit k of the argument."""

IDENTITY: Matrix = tuple(1 << k for k in range(32))


def times(matrix: Matrix, vector: int) -> int:
    """A matrix times a vector."""
    product = 0
    for k, column in enumerate(matrix):
        if vector >> k & 1:
            product ^= column
    return product


def product(left: Matrix, right: Matrix) -> Matrix:
    """A matrix times a matrix."""
    return tuple(times(left, column) for column in right)


def _zero_byte(state: int) -> int:
    for _ in range(8):
        state = state >> 1 ^ (POLYNOMIAL if state & 1 else 0)
    return state


def _undo_zero_byte(state: int) -> int:
    for _ in range(8):
        # The state's top bit tells whether the polynomial was added.
        state = ((state ^ POLYNOMIAL) << 1 | 1) if state >> 31 else state << 1
        state &= ONES
    return state


FORWARD: Matrix = tuple(_zero_byte(column) for column in IDENTITY)
"""The effect of a zero byte on the state."""

BACKWARD: Matrix = tuple(_undo_zero_byte(column) for column in IDENTITY)
"""Its inverse."""


@cache
def power(matrix: Matrix, exponent: int) -> Matrix:
    """Return a matrix to a power: that of so many zero bytes. The same few are needed often."""
    result = IDENTITY
    for _ in range(exponent):
        result = product(matrix, result)
    return result


def contribution(data_bytes: int) -> Matrix:
    """Return the matrix of what bytes, the first in the low bits, add to the state after them."""
    columns: list[int] = []
    matrix = IDENTITY
    for _ in range(data_bytes):
        # From the last byte on: each meets the low bits of the state, and then the bytes behind it.
        matrix = product(FORWARD, matrix)
        columns = [*matrix[:8], *columns]
    return tuple(columns)


@cache
def _shared_sums(columns: Matrix, parities: int) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """Find the sums of two terms that make parities, each once if several parities have it.

    There is a parity for each bit of the columns, of the terms in whose columns it is set.

    Greedy, as of C. Paar (IEEE ISIT 1997): of all pairs of terms, the one that most parities have
    is a sum, which is a term of its own from then on. Of two that as many have, the shallower one.
    What no two parities have in common is summed from the shallowest terms up.

    Returns
    -------
    list of list of (int, int)
        The sums by their depth, each of two terms: the argument's bits are the first ones, the
        sums follow in the order of this list.
    list of int
        The term that is each parity.
    """
    # Of each term the parities that have it, and the depth of its sum.
    terms = list(columns)
    depths = [0] * len(columns)
    pairs: list[tuple[int, int]] = []
    heap: list[tuple[int, int, int, int]] = []

    def add(left: int, right: int) -> int:
        common = terms[left] & terms[right]
        terms[left] &= ~common
        terms[right] &= ~common
        terms.append(common)
        depths.append(max(depths[left], depths[right]) + 1)
        pairs.append((left, right))
        return len(terms) - 1

    def candidates(later: int) -> list[tuple[int, int, int, int]]:
        """The pairs of a term with those before it that at least two parities have."""
        found = []
        for term in range(later):
            common = (terms[term] & terms[later]).bit_count()
            if common > 1:
                found.append((-common, max(depths[term], depths[later]), term, later))
        return found

    for later in range(len(columns)):
        heap += candidates(later)
    heapify(heap)
    while heap:
        negative, depth, left, right = heappop(heap)
        common = (terms[left] & terms[right]).bit_count()
        if common == -negative:
            for candidate in candidates(add(left, right)):
                heappush(heap, candidate)
        elif common > 1:
            # Some have taken one of both into another sum since.
            heappush(heap, (-common, depth, left, right))

    results = []
    for parity in range(parities):
        left_over = [(depths[k], k) for k, term in enumerate(terms) if term >> parity & 1]
        heapify(left_over)
        while len(left_over) > 1:
            total = add(heappop(left_over)[1], heappop(left_over)[1])
            heappush(left_over, (depths[total], total))
        results.append(left_over[0][1])

    order = sorted(range(len(terms)), key=lambda term: depths[term])
    place = {term: k for k, term in enumerate(order)}
    sums: list[list[tuple[int, int]]] = [[] for _ in range(max(depths))]
    for term in order[len(columns) :]:
        left, right = pairs[term - len(columns)]
        sums[depths[term] - 1].append((place[left], place[right]))
    return sums, [place[term] for term in results]


def shared_parities(
    m: Module, matrices: Sequence[Matrix], vector: Value, *, name: str
) -> list[Value]:
    """Compute products of constant matrices and a vector; sums that parities share are made once.

    Of a wide matrix that is less than half of the gates, which synthesis does not find by itself.
    """
    columns = tuple(
        sum(column << 32 * k for k, column in enumerate(stacked))
        for stacked in zip(*matrices, strict=True)
    )
    sums, results = _shared_sums(columns, 32 * len(matrices))
    terms = [vector[k] for k in range(len(columns))]
    # A vector for each depth: one for all sums would be read where it is written, which linters
    # take for a loop.
    for depth, pairs in enumerate(sums, start=1):
        sum_ = Signal(len(pairs), name=f"{name}_sums_{depth}")
        m.d.comb += sum_.eq(
            Cat(terms[left] for left, _ in pairs) ^ Cat(terms[right] for _, right in pairs)
        )
        terms += [sum_[k] for k in range(len(pairs))]
    bits = [terms[k] for k in results]
    return [Cat(bits[first : first + 32]) for first in range(0, len(bits), 32)]
