"""A counter that goes down by one or two, and knows early when it comes to its end."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Countdown(wiring.Component):
    """Counts down by up to two per cycle, with registers that tell whether little is left.

    What depends on the count's end would else begin with a look at all of its bits.

    Latency: 1 cycle. Resources: a counter with two subtractors, and four comparators.

    Parameters
    ----------
    width
        Bits of the count.

    Members
    -------
    load : `In(1)`
        Begin with `value`, whatever else is asked for.
    value : `In(width)`
    one, two : `In(1)`
        One less, two less; not both.
    is_over : `Out(1)`
        It has been counted down beyond 0. The outputs below are meaningless then.
    is_zero, is_one : `Out(1)`
        None is left, one is left.
    count : `Out(width)`
        As many are left.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                "load": In(1),
                "value": In(width),
                "one": In(1),
                "two": In(1),
                "is_over": Out(1),
                "is_zero": Out(1),
                "is_one": Out(1),
                "count": Out(width),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        count = self.count
        with m.If(self.load):
            m.d.sync += [
                count.eq(self.value),
                self.is_over.eq(0),
                self.is_zero.eq(self.value == 0),
                self.is_one.eq(self.value == 1),
            ]
        with m.Elif(self.one | self.two):
            m.d.sync += [
                # As a difference of half as many, or synthesis makes one of the two, and chooses
                # before it subtracts.
                count.eq(Mux(self.two, Cat(count[0], count[1:] - 1), count - 1)),
                self.is_over.eq(self.is_over | self.is_zero | (self.two & self.is_one)),
                self.is_zero.eq(Mux(self.two, count == 2, self.is_one)),
                self.is_one.eq(Mux(self.two, count == 3, count == 2)),
            ]
        return m
