"""The CRC-32 of what one unit reads of a job."""

from amaranth.hdl import C, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.config import CodecConfig
from cdma.hw.dma.outbound.reader import LinePlace
from cdma.hw.lib.codes.gf2 import FORWARD, ONES, power, shared_parities, times


class UnitCrc(wiring.Component):
    """Combines the CRCs of the lines of a job that one of several units reads.

    The lines of the other units are zeros to it; so these results, combined as lines are by
    `TransferCrc`, give the job's. The initial state goes in with the job's first line.

    Latency: 0 cycles. Throughput: a line per cycle.

    Parameters
    ----------
    config : CodecConfig
    units
        The number of units that lines go to in turn.

    Members
    -------
    valid : `In(1)`
        A line ends in this cycle.
    line : `In(32)`
        Its CRC.
    place : `In(LinePlace())`
        Its place in its job.
    crc : `Out(32)`
        That of the unit's lines of the job, up to this one.
    """

    def __init__(self, config: CodecConfig, units: int) -> None:
        self.config = config
        self.units = units
        super().__init__({"valid": In(1), "line": In(32), "place": In(LinePlace()), "crc": Out(32)})

    def elaborate(self, platform) -> Module:
        m = Module()
        line_bytes = self.config.line_bytes
        state = Signal(32, reset_less=True)
        before = Signal(32)
        round_shift = power(FORWARD, self.units * line_bytes)
        [shifted] = shared_parities(m, [round_shift], state, name="shifted")
        with m.If(self.place.begins):
            m.d.comb += before.eq(C(times(power(FORWARD, line_bytes), ONES), 32))
        with m.Elif(~self.place.first):
            m.d.comb += before.eq(shifted)
        m.d.comb += self.crc.eq(before ^ self.line)
        with m.If(self.valid):
            m.d.sync += state.eq(self.crc)
        return m
