"""Counters that go down by one or two, and know early when they come to their end."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
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


SMALL_BITS = 3
"""Of counts that a `LateCountdown` looks at as a whole: up to two more than 2, and more."""


class LateCountdown(wiring.Component):
    """Counts down by up to two per cycle, where it is known late in the cycle by how many.

    Two flip-flops wait for that, and not a counter and its flags: these follow a cycle later. So
    the outputs come through a few gates, and not straight from registers as a `Countdown`'s do.

    Latency: 1 cycle. Resources: a counter with two subtractors.

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
    is_zero, is_one, is_two : `Out(1)`
        None is left, one is left, two are left.
    count : `Out(width)`
        As many are left. It comes through a subtractor.
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
                "is_two": Out(1),
                "count": Out(width),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        count = self.count
        # The count before what was asked for in the last cycle, whether that is small, and whether
        # it was over.
        before = Signal.like(count)
        is_small = Signal(init=1)
        was_over = Signal()
        one_lately = Signal()
        two_lately = Signal()
        m.d.comb += count.eq(before)
        # As a difference of half as many, or synthesis makes one of the two, and chooses before it
        # subtracts.
        with m.If(two_lately):
            m.d.comb += count.eq(Cat(before[0], before[1:] - 1))
        with m.Elif(one_lately):
            m.d.comb += count.eq(before - 1)

        def was(number: int) -> Value:
            return is_small & (before[:SMALL_BITS] == number)

        m.d.comb += [
            flag.eq(Mux(two_lately, was(left + 2), Mux(one_lately, was(left + 1), was(left))))
            for left, flag in enumerate((self.is_zero, self.is_one, self.is_two))
        ]
        ends = was(0) & (one_lately | two_lately) | was(1) & two_lately
        m.d.comb += self.is_over.eq(was_over | ends)
        following = Mux(self.load, self.value, count)
        m.d.sync += [
            before.eq(following),
            is_small.eq(~following[SMALL_BITS:].any()),
            was_over.eq(self.is_over & ~self.load),
            one_lately.eq(self.one & ~self.load),
            two_lately.eq(self.two & ~self.load),
        ]
        return m
