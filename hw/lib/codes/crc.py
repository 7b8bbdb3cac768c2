"""CRC-32 (IEEE 802.3, as zlib's) of a byte stream, a beat per cycle.

A last beat of fewer bytes is processed as if padded with zeros; their effect is then undone, some
of them per cycle.
"""

from itertools import takewhile

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.beat import Beat
from cdma.hw.lib.codes.gf2 import BACKWARD, FORWARD, ONES, contribution, power, shared_parities


class Crc32(wiring.Component):
    """Computes the CRC of the bytes of each packet that passes by.

    Latency: a packet's CRC is valid 2 cycles after its last beat has passed if that is full, and
    `result_latency` at the latest: 6 more for 32 bytes, 3 more if what the beat lacks is a multiple
    of 4. Throughput: a beat per cycle; the last beat of a packet waits for the former packet's
    result to be computed and accepted.

    Resources: 32 parities of up to half the data bits each, which share their sums, and as many of
    32 bits for each of `strides`. Beats should come straight from registers.

    Parameters
    ----------
    data_bytes
        Width of a beat; a power of two.

    Attributes
    ----------
    strides : tuple of int
        Zero bytes that can be undone in a cycle, from the most down.
    result_latency : int

    Members
    -------
    beat : `In(Beat(data_bytes))`
        A beat that may pass. Bytes beyond `size` are zero.
    fires : `In(1)`
        The beat passes in this cycle, unless it is stalled.
    stalls : `Out(1)`
        The beat must not pass. Follows from it, not from `fires`.
    result : `Out(stream.Signature(32))`
        The CRC of each packet.
    """

    def __init__(self, data_bytes: int) -> None:
        self.data_bytes = data_bytes
        # Most elements have 4 bytes, so that most last beats lack groups of 4.
        wider = takewhile(lambda stride: stride < data_bytes, (4 * 3**k for k in range(4)))
        self.strides = (*reversed(list(wider)), 1)
        self.result_latency = 2 + max(map(self._undo_cycles, range(data_bytes)))
        super().__init__(
            {
                "beat": In(Beat(data_bytes)),
                "fires": In(1),
                "stalls": Out(1),
                "result": Out(stream.Signature(32)),
            }
        )

    def _undo_cycles(self, zero_bytes: int) -> int:
        cycles = 0
        for stride in self.strides:
            cycles += zero_bytes // stride
            zero_bytes %= stride
        return cycles

    def watch(
        self,
        m: Module,
        source: stream.Interface,
        sink: stream.Interface,
        *,
        data: Value,
    ) -> None:
        """Connect a source of beats to a sink, and see the beats that pass.

        Parameters
        ----------
        data
            The bytes of the source's beat, for the CRC.
        """
        m.d.comb += [
            self.beat.eq(source.payload),
            self.beat.data.eq(data),
            self.fires.eq(source.valid & sink.ready),
            sink.payload.eq(source.payload),
            sink.valid.eq(source.valid & ~self.stalls),
            source.ready.eq(sink.ready & ~self.stalls),
        ]

    def elaborate(self, platform) -> Module:
        m = Module()
        size_bits = (self.data_bytes - 1).bit_length()
        beat = self.beat

        # A packet's last beat is stalled until the result of the former packet has been accepted.
        closing = Signal()
        finishing = Signal()
        passes = Signal()
        m.d.comb += [
            self.stalls.eq(beat.last & (closing | finishing)),
            passes.eq(self.fires & ~self.stalls),
        ]

        # The data's share is registered before it meets the state.
        share = Signal(32, reset_less=True)
        share_valid = Signal()
        [contributed] = shared_parities(
            m, [contribution(self.data_bytes)], beat.data, name="contributed"
        )
        m.d.sync += [
            share.eq(contributed),
            share_valid.eq(passes & (beat.size != 0)),
            closing.eq(passes & beat.last),
        ]
        state = Signal(32, init=ONES)
        after = Signal(32)
        [forward] = shared_parities(m, [power(FORWARD, self.data_bytes)], state, name="forward")
        m.d.comb += after.eq(Mux(share_valid, forward ^ share, state))
        m.d.sync += state.eq(Mux(closing, ONES, after))

        # The result: the state after the last beat, less the zeros that filled it.
        result = Signal(32, reset_less=True)
        zero_bytes = Signal(size_bits)
        undoings = [power(BACKWARD, stride) for stride in self.strides]
        undone = shared_parities(m, undoings, result, name="undone")
        with m.If(passes & beat.last):
            # None of a beat without bytes, which has not changed the state.
            m.d.sync += zero_bytes.eq(-beat.size)
        with m.If(closing):
            m.d.sync += [finishing.eq(1), result.eq(after)]
        with m.Elif(zero_bytes != 0):
            for k, (stride, less) in enumerate(zip(self.strides, undone, strict=True)):
                undoes = zero_bytes >= stride
                with m.Elif(undoes) if k else m.If(undoes):
                    m.d.sync += [zero_bytes.eq(zero_bytes - stride), result.eq(less)]
        with m.Elif(self.result.ready):
            m.d.sync += finishing.eq(0)
        m.d.comb += [
            self.result.valid.eq(finishing & (zero_bytes == 0)),
            self.result.payload.eq(~result),
        ]
        return m
