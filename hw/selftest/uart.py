"""Bytes on a wire, as any serial port reads them."""

from amaranth.hdl import C, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

FRAME_BITS = 10


class UartTransmitter(wiring.Component):
    """Sends bytes: a start bit, 8 data bits from the lowest, a stop bit; no parity (8N1).

    Latency: the start bit begins in the cycle after the byte was accepted. Throughput: a byte in
    10 × `bit_cycles` cycles, without a gap between bytes that are there in time.

    Parameters
    ----------
    bit_cycles
        Cycles per bit, at least 2.

    Members
    -------
    i : `In(stream.Signature(8))`
    tx : `Out(1)`
        High while nothing is sent.
    """

    def __init__(self, bit_cycles: int) -> None:
        if bit_cycles < 2:
            raise ValueError(f"bit_cycles must be at least 2, not {bit_cycles!r}")
        self.bit_cycles = bit_cycles
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        # What is still to be sent, the bit on the wire first; ones follow the stop bit.
        frame = Signal(FRAME_BITS, init=(1 << FRAME_BITS) - 1)
        bits_left = Signal(range(FRAME_BITS))
        cycles_left = Signal(range(self.bit_cycles))
        bit_ends = Signal()
        m.d.comb += [
            self.tx.eq(frame[0]),
            bit_ends.eq(cycles_left == 0),
            self.i.ready.eq(bit_ends & (bits_left == 0)),
        ]
        with m.If(~bit_ends):
            m.d.sync += cycles_left.eq(cycles_left - 1)
        with m.Elif(bits_left != 0):
            m.d.sync += [
                frame.eq(Cat(frame[1:], 1)),
                bits_left.eq(bits_left - 1),
                cycles_left.eq(self.bit_cycles - 1),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += [
                frame.eq(Cat(C(0, 1), self.i.payload, C(1, 1))),
                bits_left.eq(FRAME_BITS - 1),
                cycles_left.eq(self.bit_cycles - 1),
            ]
        return m
