"""CRC-32 (IEEE 802.3, as zlib's) of a byte stream, a beat per cycle.

The CRC is linear: taking a beat in multiplies the 32-bit state by a constant matrix over GF(2) and
adds a constant linear function of the data. A last beat of fewer bytes is taken in as if zeros
filled it; their effect, a power of the matrix of one zero byte, is then undone by its inverse, one
bit of the number of zeros per cycle.
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream import Beat

POLYNOMIAL = 0xEDB88320
"""IEEE 802.3's, reflected: bit 0 of a byte is its first."""

ONES = 0xFFFFFFFF
"""The initial state, and what the final one is inverted with."""

Matrix = tuple[int, ...]
"""Over GF(2): column k is what bit k of the argument contributes."""

IDENTITY: Matrix = tuple(1 << k for k in range(32))


def _times(matrix: Matrix, vector: int) -> int:
    product = 0
    for k, column in enumerate(matrix):
        if vector >> k & 1:
            product ^= column
    return product


def _product(left: Matrix, right: Matrix) -> Matrix:
    return tuple(_times(left, column) for column in right)


def _zero_byte(state: int) -> int:
    for _ in range(8):
        state = state >> 1 ^ (POLYNOMIAL if state & 1 else 0)
    return state


def _undo_zero_bit(state: int) -> int:
    # The polynomial's top bit tells whether it was added.
    return ((state ^ POLYNOMIAL) << 1 | 1) if state >> 31 else state << 1


def _undo_zero_byte(state: int) -> int:
    for _ in range(8):
        state = _undo_zero_bit(state) & ONES
    return state


FORWARD: Matrix = tuple(_zero_byte(column) for column in IDENTITY)
BACKWARD: Matrix = tuple(_undo_zero_byte(column) for column in IDENTITY)


def _apply(matrix: Matrix, vector: Value) -> list[Value]:
    """The bits of a constant matrix times a vector, each a parity."""
    rows = []
    for bit in range(32):
        taps = sum((column >> bit & 1) << k for k, column in enumerate(matrix))
        rows.append((vector & C(taps, len(vector))).xor())
    return rows


class Crc32(wiring.Component):
    """Lets beats through, and computes the CRC of each packet's bytes on the way.

    Latency: a beat passes in 1 cycle; a packet's CRC is valid 2 + log2(data_bytes) cycles after its
    last beat was taken. Throughput: a beat per cycle; the last beat of a packet waits for the
    former packet's result to be taken.

    Resources: a beat of registers, 32 parities of up to half the data bits each.

    Parameters
    ----------
    data_bytes
        Width of a beat; a power of two.

    Members
    -------
    i : `In(stream.Signature(Beat(data_bytes)))`
        Bytes beyond `size` are zero.
    o : `Out(stream.Signature(Beat(data_bytes)))`
        The same beats.
    result : `Out(stream.Signature(32))`
        The CRC of each packet.
    """

    def __init__(self, data_bytes: int) -> None:
        self.data_bytes = data_bytes
        super().__init__(
            {
                "i": In(stream.Signature(Beat(data_bytes))),
                "o": Out(stream.Signature(Beat(data_bytes))),
                "result": Out(stream.Signature(32)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        size_bits = (self.data_bytes - 1).bit_length()

        # What each bit of a beat contributes to the state after it.
        contribution: list[int] = []
        beat_matrix = IDENTITY
        for _ in range(self.data_bytes):
            beat_matrix = _product(FORWARD, beat_matrix)
            # Byte by byte from the last one, whose bits meet the state of one zero byte later.
            contribution = [*beat_matrix[:8], *contribution]
        undo_matrices = [BACKWARD]
        for _ in range(size_bits - 1):
            undo_matrices.append(_product(undo_matrices[-1], undo_matrices[-1]))

        # The beat on its way through.
        held = Signal(Beat(self.data_bytes), reset_less=True)
        held_valid = Signal()
        finishing = Signal()
        ending = Signal()
        taken = Signal()
        m.d.comb += [
            self.i.ready.eq(
                (self.o.ready | ~held_valid) & ~(self.i.payload.last & (ending | finishing))
            ),
            taken.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(held_valid),
            self.o.payload.eq(held),
        ]
        with m.If(self.o.ready | ~held_valid):
            m.d.sync += held_valid.eq(taken)
        with m.If(taken):
            m.d.sync += held.eq(self.i.payload)

        # The data's share, registered before it meets the state.
        share = Signal(32, reset_less=True)
        share_valid = Signal()
        zero_bytes = Signal(size_bits, reset_less=True)
        with m.If(taken):
            m.d.sync += [
                share.eq(
                    Cat(
                        (
                            self.i.payload.data
                            & C(
                                sum((c >> bit & 1) << k for k, c in enumerate(contribution)),
                                8 * self.data_bytes,
                            )
                        ).xor()
                        for bit in range(32)
                    )
                ),
                zero_bytes.eq(self.data_bytes - self.i.payload.size),
            ]
        m.d.sync += [
            share_valid.eq(taken & (self.i.payload.size != 0)),
            ending.eq(taken & self.i.payload.last),
        ]

        state = Signal(32, init=ONES)
        after = Signal(32)
        m.d.comb += after.eq(Mux(share_valid, Cat(*_apply(beat_matrix, state)) ^ share, state))
        m.d.sync += state.eq(Mux(ending, ONES, after))

        # The result: the state after the last beat, less the zeros that filled it.
        result = Signal(32, reset_less=True)
        undo = Signal(size_bits, reset_less=True)
        steps_left = Signal(range(size_bits + 1))
        with m.If(ending):
            m.d.sync += [
                finishing.eq(1),
                result.eq(after),
                undo.eq(Mux(share_valid, zero_bytes, 0)),
                steps_left.eq(size_bits),
            ]
        with m.Elif(steps_left != 0):
            m.d.sync += steps_left.eq(steps_left - 1)
            for step, matrix in enumerate(undo_matrices):
                with m.If((steps_left == size_bits - step) & undo[step]):
                    m.d.sync += result.eq(Cat(*_apply(matrix, result)))
        with m.Elif(self.result.ready):
            m.d.sync += finishing.eq(0)
        m.d.comb += [
            self.result.valid.eq(finishing & (steps_left == 0)),
            self.result.payload.eq(~result),
        ]
        return m
