"""The algebra of CRC-32 (IEEE 802.3, as zlib's): matrices over GF(2).

The CRC is linear: bytes change the 32-bit state by a constant matrix, and add a constant linear
function of themselves. Zero bytes only do the former, and their matrix has an inverse.
"""

from functools import cache

from amaranth.hdl import Cat, Value

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


def parities(matrix: Matrix, vector: Value) -> list[Value]:
    """The 32 bits of a constant matrix times a vector in hardware."""
    return [
        # Only the bits that count: simulators go through all that are named.
        Cat(vector[k] for k, column in enumerate(matrix) if column >> bit & 1).xor()
        for bit in range(32)
    ]
