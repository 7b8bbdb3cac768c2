"""BPC's code table: the codes of a base and of a plane.

Codes are written in the order of sending: bit 0 of a value is sent first. What the table has with
its most significant bit first is therefore reversed.
"""

from amaranth.hdl import C, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.bpc.bit_planes import DELTAS, PLANES
from cdma.hw.codec.bpc.planes import PlaneSymbol

BASE_CODE_BITS = 33
PLANE_CODE_BITS = 1 + DELTAS


class BaseCoder(wiring.Component):
    """Makes the code of a base.

    Latency: 0 cycles.

    Members
    -------
    base : `In(32)`
    code : `Out(33)`
        Zeros behind it.
    length : `Out(range(34))`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "base": In(32),
                "code": Out(BASE_CODE_BITS),
                "length": Out(range(BASE_CODE_BITS + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += [
            self.code.eq(Cat(C(1, 1), self.base[::-1])),
            self.length.eq(BASE_CODE_BITS),
        ]
        with m.If(~self.base.any()):
            m.d.comb += [self.code.eq(0), self.length.eq(3)]
        for prefix, bits in ((0b001, 4), (0b010, 8), (0b011, 16)):
            # All bits above the number are its sign.
            above = self.base[bits - 1 :]
            with m.Elif(above.all() | ~above.any()):
                m.d.comb += [
                    self.code.eq(Cat(C(prefix, 3)[::-1], self.base[:bits][::-1])),
                    self.length.eq(3 + bits),
                ]
        return m


class PlaneCoder(wiring.Component):
    """Makes the code of a plane. A run's code is that of its last plane; the others have none.

    Latency: 0 cycles.

    Members
    -------
    number : `In(range(34))`
        Of the code, as in `RunFinder`.
    symbol : `In(PlaneSymbol())`
    run_ends : `In(1)`
        The plane below is not zero, or there is none.
    last : `In(range(33))`
        The last code before the run, as in `RunFinder`.
    code : `Out(32)`
        Zeros behind it.
    length : `Out(range(33))`
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "number": In(range(PLANES + 1)),
                "symbol": In(PlaneSymbol()),
                "run_ends": In(1),
                "last": In(range(PLANES)),
                "code": Out(PLANE_CODE_BITS),
                "length": Out(range(PLANE_CODE_BITS + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        symbol = self.symbol
        # Minus 1 for a run of one.
        beyond_two = Signal(6)
        m.d.comb += beyond_two.eq(self.number - 2 - self.last)
        with m.If(symbol.zero):
            with m.If(self.run_ends & beyond_two[-1]):
                m.d.comb += [self.code.eq(C(0b001, 3)[::-1]), self.length.eq(3)]
            with m.Elif(self.run_ends):
                m.d.comb += [
                    self.code.eq(Cat(C(0b01, 2)[::-1], beyond_two[:5][::-1])),
                    self.length.eq(7),
                ]
        with m.Elif(symbol.plane_zero):
            m.d.comb += [self.code.eq(C(0b00001, 5)[::-1]), self.length.eq(5)]
        with m.Elif(symbol.ones):
            m.d.comb += self.length.eq(5)
        with m.Elif(symbol.one | symbol.two):
            m.d.comb += [
                self.code.eq(Cat(C(0b0001, 4)[::-1], symbol.one, symbol.place[::-1])),
                self.length.eq(10),
            ]
        with m.Else():
            m.d.comb += [
                self.code.eq(Cat(C(1, 1), symbol.dbx[::-1])),
                self.length.eq(PLANE_CODE_BITS),
            ]
        return m
