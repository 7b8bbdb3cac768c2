"""The DMA buffer: compressed lines are queued until the drain selects their unit."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat
from cdma.hw.config import EngineConfig
from cdma.hw.dma.data_queue import data_queue, ecc_members, report_errors


class UnitBuffer(wiring.Component):
    """A unit's part of the buffer.

    A unit's lines come in order, so a queue is enough; the drain selects the units round-robin.
    `freed` counts the beats that became free: those that left, and those that a line did not need
    of the worst case that was reserved for it. It is a cycle late, so that the drain's *ready* ends
    here.

    Latency: 2 cycles, 3 with ECC. Throughput: a beat per cycle in and out.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    i : `In(stream.Signature(LineBeat(config.codec)))`
        Always ready: space has been reserved.
    o : `Out(stream.Signature(LineBeat(config.codec)))`
    freed : `Out(...)`
        Beats that became free in the cycle before.
    corrected, uncorrectable : `Out(1)`
        Only with ECC: of a beat that came from memory in the cycle before.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config.codec))),
                "o": Out(stream.Signature(LineBeat(config.codec))),
                "freed": Out(range(config.codec.sectors + 2)),
                **ecc_members(config),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sectors = self.config.codec.sectors
        beat, beats = LineBeat(self.config.codec), self.config.unit_beats
        # The drain counts lines by their ends.
        m.submodules.queue = queue = data_queue(self.config, beat, beats, framing=("sol", "eol"))
        report_errors(m, self.config, self, [queue])
        # The queue need not be asked, which would take time all the way to memory.
        m.d.comb += [
            self.i.ready.eq(1),
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(self.i.payload),
        ]
        wiring.connect(m, queue.o, wiring.flipped(self.o))

        i_fire = Signal()
        o_fire = Signal()
        beats_before = Signal(range(sectors))
        unused = Signal(range(sectors))
        m.d.comb += [
            i_fire.eq(self.i.valid),
            o_fire.eq(self.o.valid & self.o.ready),
            unused.eq(Mux(i_fire & self.i.payload.eol, sectors - 1 - beats_before, 0)),
        ]
        m.d.sync += self.freed.eq(unused + o_fire)
        with m.If(i_fire):
            m.d.sync += beats_before.eq(Mux(self.i.payload.eol, 0, beats_before + 1))
        with m.If(self.i.valid):
            m.d.sync += Assert(queue.i.ready)
        return m
