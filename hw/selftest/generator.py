"""Data for a self-test: the same each time from the same plan."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat
from cdma.hw.selftest.plan import FULL_DENSITY, RoundPlan, lane_seed, xorshift


class SectorGenerator(wiring.Component):
    """Makes the sectors of a round.

    Each lane has random numbers of its own (`xorshift`), one per sector. Whether the element is
    zero is told by the low four bits of the number, those 16 above them xored in; its value is the
    number itself, cut to the element's size, or 1 where that is zero; or the bit alone that bits 8
    and up give the number of.

    Latency: the first sector is there in the cycle after `start`. Throughput: a sector per cycle.

    Parameters
    ----------
    config : CodecConfig
    lines
        Lines of a round.

    Members
    -------
    start : `In(1)`
        Begin the round that `plan` describes.
    plan : `In(RoundPlan())`
        Stays as it is during the round.
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        Whole beats.
    """

    def __init__(self, config: CodecConfig, lines: int) -> None:
        self.config = config
        self.lines = lines
        super().__init__(
            {
                "start": In(1),
                "plan": In(RoundPlan()),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, plan = self.config, self.plan
        element_bits = 8 * config.element_bytes
        index_bits = (element_bits - 1).bit_length()

        running = Signal()
        left = Signal(range(self.lines * config.sectors))
        sector = Signal(range(config.sectors))
        density = Signal(range(FULL_DENSITY + 1), reset_less=True)
        o_fire = Signal()
        ends_line = Signal()
        m.d.comb += [
            o_fire.eq(self.o.valid & self.o.ready),
            ends_line.eq(sector == config.sectors - 1),
            self.o.valid.eq(running),
            self.o.payload.size.eq(config.sector_bytes),
            self.o.payload.last.eq(left == 0),
        ]
        with m.If(self.start):
            m.d.sync += [
                running.eq(1),
                left.eq(self.lines * config.sectors - 1),
                sector.eq(0),
                density.eq(plan.density),
            ]
        with m.Elif(o_fire):
            m.d.sync += [
                running.eq(left != 0),
                left.eq(left - 1),
                sector.eq(Mux(ends_line, 0, sector + 1)),
            ]
            with m.If(ends_line & plan.ramp):
                m.d.sync += density.eq(Mux(density == FULL_DENSITY, 0, density + 1))

        for k in range(config.lanes):
            state = Signal(32, name=f"state_{k}", reset_less=True)
            following = xorshift(m, state, f"next_{k}")
            with m.If(self.start):
                m.d.sync += state.eq(lane_seed(plan.seed, k))
            with m.Elif(o_fire):
                m.d.sync += state.eq(following)

            present = Signal(name=f"present_{k}")
            number = Signal(element_bits, name=f"number_{k}")
            value = Signal(element_bits, name=f"value_{k}")
            m.d.comb += [
                present.eq((state[:4] ^ state[16:20]) < density),
                number.eq(Mux(state[:element_bits] == 0, 1, state)),
                value.eq(Mux(plan.one_hot, 1 << state[8 : 8 + index_bits], number)),
                self.o.payload.data.word_select(k, element_bits).eq(Mux(present, value, 0)),
            ]
        return m
