"""CRC-32 of a transfer: the units compute those of its lines, and the engine combines them.

No raw data needs to pass one place. A line's own CRC is from a state of zero and without
inversion; shifting a state past a line is a constant matrix over GF(2). On the way out, a unit
combines those of its own lines, so that none waits beside each line in the buffer.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import Sector
from cdma.hw.config import CodecConfig
from cdma.hw.lib.codes.gf2 import BACKWARD, FORWARD, ONES, contribution, power, shared_parities


class LineCrc(wiring.Component):
    """Computes the CRC of each line of sectors, from a state of zero and without inversion.

    A line ends early with a sector that is `last`.

    Latency: 2 cycles from a line's last sector. Throughput: a sector per cycle.

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
    o : `Out(stream.Signature(32))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {"i": In(stream.Signature(Sector(config))), "o": Out(stream.Signature(32))}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        index = Signal(range(config.sectors))
        share = Signal(32, reset_less=True)
        share_valid = Signal()
        share_first = Signal(reset_less=True)
        share_last = Signal(reset_less=True)
        state = Signal(32, reset_less=True)
        result = Signal(32, reset_less=True)
        result_valid = Signal()
        steps = Signal()
        i_fire = Signal()
        last = Signal()
        after = Signal(32)
        data = self.i.payload.elements.as_value()
        [contributed] = shared_parities(m, [contribution(config.sector_bytes)], data, name="data")
        [forward] = shared_parities(m, [power(FORWARD, config.sector_bytes)], state, name="forward")
        m.d.comb += [
            last.eq((index == config.sectors - 1) | self.i.payload.last),
            # A line's CRC is registered only when the former one has been accepted.
            steps.eq(~(share_valid & share_last & result_valid & ~self.o.ready)),
            self.i.ready.eq(steps),
            i_fire.eq(self.i.valid & self.i.ready),
            after.eq(Mux(share_first, 0, forward) ^ share),
        ]
        with m.If(i_fire):
            m.d.sync += [
                index.eq(Mux(last, 0, index + 1)),
                share.eq(contributed),
                share_first.eq(index == 0),
                share_last.eq(last),
            ]
        with m.If(self.o.ready):
            m.d.sync += result_valid.eq(0)
        with m.If(steps):
            m.d.sync += share_valid.eq(i_fire)
            with m.If(share_valid):
                m.d.sync += state.eq(after)
                with m.If(share_last):
                    m.d.sync += [result_valid.eq(1), result.eq(after)]
        m.d.comb += [self.o.valid.eq(result_valid), self.o.payload.eq(result)]
        return m


class TransferCrc(wiring.Component):
    """Combines the CRCs of lines in order to that of the transfer.

    The last line's CRC includes its padding of zeros, whose effect is undone at the end, a bit
    of their number per cycle.

    Latency: `settled` is high log2(line_bytes) cycles after `ends`. Throughput: two lines per
    cycle.

    Parameters
    ----------
    config : CodecConfig
    start
        The state before the first line; 0 if that is in the lines' CRCs.

    Members
    -------
    begins : `In(1)`
        A transfer begins; its first lines follow in the next cycle.
    lines : `In(2)`
        The number of lines in this cycle: 0, 1 or 2.
    first, second : `In(32)`
        The lines' CRCs.
    ends : `In(1)`
        The transfer has ended; it may begin another in the same cycle.
    tail_pad : `In(range(config.line_bytes))`
        Bytes of zero at its end that are not part of it.
    settled : `Out(1)`
        `crc32` is that of the transfer that ended last.
    crc32 : `Out(32)`
    """

    def __init__(self, config: CodecConfig, start: int = ONES) -> None:
        self.config = config
        self.start = start
        super().__init__(
            {
                "begins": In(1),
                "lines": In(2),
                "first": In(32),
                "second": In(32),
                "ends": In(1),
                "tail_pad": In(range(config.line_bytes)),
                "settled": Out(1),
                "crc32": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        steps = len(self.tail_pad)
        line_shift = power(FORWARD, self.config.line_bytes)
        state = Signal(32, init=self.start)
        after_one = Signal(32)
        after_two = Signal(32)
        [shifted] = shared_parities(m, [line_shift], state, name="shifted")
        [shifted_one] = shared_parities(m, [line_shift], after_one, name="shifted_one")
        m.d.comb += [
            after_one.eq(shifted ^ self.first),
            after_two.eq(shifted_one ^ self.second),
        ]
        with m.If(self.begins):
            m.d.sync += state.eq(self.start)
        with m.Elif(self.lines != 0):
            m.d.sync += state.eq(Mux(self.lines == 2, after_two, after_one))

        result = Signal(32, reset_less=True)
        undo = Signal(steps, reset_less=True)
        steps_left = Signal(range(steps + 1))
        undoings = [power(BACKWARD, 1 << step) for step in range(steps)]
        undone = shared_parities(m, undoings, result, name="undone")
        m.d.comb += [self.settled.eq(steps_left == 0), self.crc32.eq(~result)]
        with m.If(self.ends):
            m.d.sync += [result.eq(state), undo.eq(self.tail_pad), steps_left.eq(steps)]
        with m.Elif(steps_left != 0):
            m.d.sync += steps_left.eq(steps_left - 1)
            for step in range(steps):
                with m.If((steps_left == steps - step) & undo[step]):
                    m.d.sync += result.eq(undone[step])
        return m
