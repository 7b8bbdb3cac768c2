"""CRC-32 (IEEE 802.3, as zlib's) of a byte stream, a beat per cycle.

A last beat of fewer bytes is processed as if padded with zeros; their effect is then undone, one
bit of their number per cycle.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.beat import Beat
from cdma.hw.lib.codes.gf2 import BACKWARD, FORWARD, ONES, contribution, parities, power
from cdma.hw.lib.pipeline import PipelineRegister


class Crc32(wiring.Component):
    """Lets beats through, and computes the CRC of each packet's bytes on the way.

    Latency: a beat passes in `beat_latency` = 1 cycle; a packet's CRC is valid `result_latency` =
    3 + log2(data_bytes) cycles after its last beat was accepted. Throughput: a beat per cycle; the
    last beat of a packet waits for the former packet's result to be computed and accepted.

    Resources: a beat of registers, 32 parities of up to half the data bits each.

    Parameters
    ----------
    data_bytes
        Width of a beat; a power of two.

    Attributes
    ----------
    beat_latency, result_latency : int

    Members
    -------
    i : `In(stream.Signature(Beat(data_bytes)))`
        Bytes beyond `size` are zero.
    o : `Out(stream.Signature(Beat(data_bytes)))`
        The same beats.
    result : `Out(stream.Signature(32))`
        The CRC of each packet.
    """

    beat_latency = 1

    def __init__(self, data_bytes: int) -> None:
        self.data_bytes = data_bytes
        self.result_latency = 3 + (data_bytes - 1).bit_length()
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

        undo_matrices = [power(BACKWARD, 1 << step) for step in range(size_bits)]

        # A beat passes through a register. A packet's last beat is stalled until the result of the
        # former packet has been accepted.
        m.submodules.beats = beats = PipelineRegister(Beat(self.data_bytes))
        wiring.connect(m, beats.o, wiring.flipped(self.o))
        held = beats.o.payload
        came = Signal()
        closing = Signal()
        finishing = Signal()
        ending = Signal()
        stalled = Signal()
        i_fire = Signal()
        m.d.comb += [
            closing.eq(came & held.last),
            stalled.eq(self.i.payload.last & (closing | ending | finishing)),
            self.i.ready.eq(beats.i.ready & ~stalled),
            beats.i.valid.eq(self.i.valid & ~stalled),
            i_fire.eq(beats.i.valid & beats.i.ready),
            beats.i.payload.eq(self.i.payload),
        ]

        # The data's share, from the beat that came in the cycle before: its parities behind the
        # path that brings it here would be too long. Registered again before it meets the state.
        share = Signal(32, reset_less=True)
        share_valid = Signal()
        zero_bytes = Signal(size_bits, reset_less=True)
        m.d.sync += [
            came.eq(i_fire),
            share_valid.eq(came & (held.size != 0)),
            ending.eq(closing),
        ]
        with m.If(came):
            m.d.sync += [
                share.eq(Cat(parities(contribution(self.data_bytes), held.data))),
                zero_bytes.eq(self.data_bytes - held.size),
            ]

        state = Signal(32, init=ONES)
        after = Signal(32)
        m.d.comb += after.eq(
            Mux(share_valid, Cat(parities(power(FORWARD, self.data_bytes), state)) ^ share, state)
        )
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
                    m.d.sync += result.eq(Cat(parities(matrix, result)))
        with m.Elif(self.result.ready):
            m.d.sync += finishing.eq(0)
        m.d.comb += [
            self.result.valid.eq(finishing & (steps_left == 0)),
            self.result.payload.eq(~result),
        ]
        return m
