"""A small design with branches that no input takes, for the tests of the tool."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class Inner(wiring.Component):
    """Counts what it is given, in one of two ways; its port `mode` is the other one's business.

    Attributes
    ----------
    step : In(2)
    mode : In(1)
    count : Out(4)
    """

    step: In(2)
    mode: In(1)
    count: Out(4)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        with m.If(self.mode):
            m.d.sync += self.count.eq(0)
        with m.Elif(self.step == 3):
            m.d.sync += self.count.eq(self.count + 2)
        with m.Elif(self.step[0]):
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Planted(wiring.Component):
    """A counter whose mode is tied, and which is asked what no bench asks.

    Attributes
    ----------
    step : In(2)
    count : Out(4)
    is_high : Out(1)
    """

    step: In(2)
    count: Out(4)
    is_high: Out(1)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.inner = inner = Inner()
        m.d.comb += [inner.step.eq(self.step), inner.mode.eq(0)]
        seen = Signal(4)
        with m.Switch(inner.count):
            with m.Case(15):
                m.d.comb += seen.eq(1)
            with m.Default():
                m.d.comb += seen.eq(inner.count)
        m.d.comb += [self.count.eq(seen), self.is_high.eq(Mux(inner.count > 7, 1, 0))]
        return m


class Remembering(wiring.Component):
    """Words of which the two high bits are always the same.

    Attributes
    ----------
    step : In(2)
    kept : Out(4)
    """

    step: In(2)
    kept: Out(4)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.words = words = memory.Memory(shape=4, depth=4, init=[])
        write, read = words.write_port(), words.read_port()
        m.d.comb += [
            write.en.eq(1),
            write.addr.eq(self.step),
            write.data.eq(self.step),
            read.addr.eq(~self.step),
            self.kept.eq(read.data),
        ]
        return m
